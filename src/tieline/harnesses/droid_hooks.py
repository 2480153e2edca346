"""The hooks of Droid. All are commands, of Claude Code's form."""

from collections.abc import Mapping
from typing import ClassVar

from ..mesh.hook_events import HookKind
from .hook_shapes import HookShape


class DroidHooks(HookShape):
    kinds: ClassVar[Mapping[str, HookKind]] = {
        "SessionStart": "session_start",
        "UserPromptSubmit": "prompt",
        "PostToolUse": "tool_done",
        "Stop": "turn_end",
        "SessionEnd": "session_end",
    }
    with_context = frozenset({"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"})
