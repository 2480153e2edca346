"""The hooks of Gemini CLI. All are commands."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ...mesh.framing import NOTICE
from ...mesh.hook_events import HookKind
from ..hook_formats import HookFormat, text


class GeminiHookFormat(HookFormat):
    kinds: ClassVar[Mapping[str, HookKind]] = {
        "SessionStart": "session_start",
        "BeforeAgent": "prompt",
        "AfterTool": "tool_done",
        "AfterAgent": "turn_end",
        "SessionEnd": "session_end",
    }
    with_context = frozenset({"SessionStart", "BeforeAgent", "AfterTool", "AfterAgent"})
    refusal = "deny"

    def kind(self, name: str, input: Mapping[str, Any]) -> HookKind:
        """The end of a turn that goes on comes back as a prompt: it is no prompt of a person."""
        went_on = name == "BeforeAgent" and text(input, "prompt").startswith(NOTICE)
        return "tool_done" if went_on else super().kind(name, input)
