"""The hooks of Kimi Code. It reads what is printed for a prompt and for the end of a turn, and nothing else; a turn
that went on after its end ends a second time without a hook."""

import json
from collections.abc import Mapping
from typing import ClassVar

from ...mesh.hook_events import HookKind, HookReply
from ..hook_formats import HookFormat


class KimiHookFormat(HookFormat):
    kinds: ClassVar[Mapping[str, HookKind]] = {
        **HookFormat.kinds,
        "PostToolUseFailure": "tool_done",
        "StopFailure": "turn_end",
        "Interrupt": "turn_end",
    }
    with_context = frozenset({"UserPromptSubmit", "Stop"})
    fires_once = True
    ends_again = False

    def write(self, event: str, reply: HookReply) -> str:
        if reply.continue_with:
            refused = {"permissionDecision": "deny", "permissionDecisionReason": reply.continue_with}
            return json.dumps({"hookSpecificOutput": refused})
        return json.dumps({"message": reply.context}) if reply.context else ""
