"""The hooks of Codex: an option, where its daemon is not used."""

from collections.abc import Mapping
from typing import ClassVar

from ..mesh.hook_events import HookKind
from .hook_shapes import HookShape


class CodexHooks(HookShape):
    kinds: ClassVar[Mapping[str, HookKind]] = {
        "SessionStart": "session_start",
        "UserPromptSubmit": "prompt",
        "PostToolUse": "tool_done",
        "PostCompact": "other",
        "Stop": "turn_end",
    }
    with_context = frozenset({"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"})
