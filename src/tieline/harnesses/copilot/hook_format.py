"""The hooks of Copilot CLI: camelCase, and the event's name comes from our command, since the input has none."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from ...mesh.hook_events import HookKind, HookReply
from ..hook_formats import HookFormat, text


class CopilotHookFormat(HookFormat):
    kinds: ClassVar[Mapping[str, HookKind]] = {
        "sessionStart": "session_start",
        "userPromptSubmitted": "prompt",
        "postToolUse": "tool_done",
        "agentStop": "turn_end",
        "sessionEnd": "session_end",
    }
    with_context = frozenset({"sessionStart", "agentStop"})
    permission_event = "permissionRequest"

    def session(self, input: Mapping[str, Any]) -> str:
        return text(input, "sessionId", "session_id")

    def write(self, event: str, reply: HookReply) -> str:
        if reply.context:
            return json.dumps({"additionalContext": reply.context})
        return super().write(event, reply)
