"""The hooks of Gemini CLI. All are commands."""

from collections.abc import Mapping
from typing import ClassVar

from ..mesh.hook_events import HookKind
from .hook_shapes import HookShape


class GeminiHooks(HookShape):
    kinds: ClassVar[Mapping[str, HookKind]] = {
        "SessionStart": "session_start",
        "BeforeAgent": "prompt",
        "AfterTool": "tool_done",
        "AfterAgent": "turn_end",
        "SessionEnd": "session_end",
    }
    with_context = frozenset({"SessionStart", "BeforeAgent", "AfterTool", "AfterAgent"})
    refusal = "deny"
