"""The hooks of Cursor: camelCase events, a conversation for a session, and outputs of its own."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from ...mesh.hook_events import HookEvent, HookKind, HookReply
from ..hook_formats import HookFormat, text


class CursorHookFormat(HookFormat):
    kinds: ClassVar[Mapping[str, HookKind]] = {
        "sessionStart": "session_start",
        "beforeSubmitPrompt": "prompt",
        "postToolUse": "tool_done",
        "stop": "turn_end",
        "sessionEnd": "session_end",
    }
    with_context = frozenset({"sessionStart", "postToolUse", "stop"})

    def session(self, input: Mapping[str, Any]) -> str:
        return text(input, "conversation_id", "session_id")

    def cwd(self, input: Mapping[str, Any]) -> str:
        match input:
            case {"workspace_roots": [str(root), *_]}:
                return root
            case _:
                return text(input, "cwd")

    def read(self, input: Mapping[str, Any]) -> HookEvent:
        return replace(super().read(input), continued=bool(input.get("loop_count")))

    def write(self, event: str, reply: HookReply) -> str:
        if reply.continue_with:
            return json.dumps({"followup_message": reply.continue_with})
        return json.dumps({"additional_context": reply.context}) if reply.context else ""
