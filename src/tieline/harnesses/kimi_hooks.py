"""The hooks of Kimi Code. It reads what is printed for a prompt and for the end of a turn, and nothing else; a turn
that went on after its end ends a second time without a hook."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from ..ids import new_id
from ..mesh.hook_events import HookKind, HookReply
from .hook_shapes import HookShape, text


class KimiHooks(HookShape):
    kinds: ClassVar[Mapping[str, HookKind]] = {
        "SessionStart": "session_start",
        "UserPromptSubmit": "prompt",
        "PostToolUse": "tool_done",
        "PostToolUseFailure": "tool_done",
        "Stop": "turn_end",
        "StopFailure": "turn_end",
        "Interrupt": "turn_end",
        "SessionEnd": "session_end",
    }
    with_context = frozenset({"UserPromptSubmit", "Stop"})

    def tool_use(self, input: Mapping[str, Any]) -> str:
        # Ends of turns all look the same. It runs one hook once, in whatever files it is: none of them is a repetition.
        return text(input, "tool_call_id") or new_id()

    def write(self, event: str, reply: HookReply) -> str:
        if reply.continue_with:
            refused = {"permissionDecision": "deny", "permissionDecisionReason": reply.continue_with}
            return json.dumps({"hookSpecificOutput": refused})
        return json.dumps({"message": reply.context}) if reply.context else ""
