"""The hooks of Mistral Vibe. It has none for the start and the end of a session, nor for a prompt: its tools tell that
it works."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from ...mesh.hook_events import HookKind, HookReply
from ..hook_formats import HookFormat, text


class VibeHookFormat(HookFormat):
    kinds: ClassVar[Mapping[str, HookKind]] = {
        "pre_tool": "tool_done",
        "post_tool": "tool_done",
        "post_agent": "turn_end",
    }
    with_context = frozenset({"post_tool", "post_agent"})
    refusal = "deny"
    fires_once = True

    def session(self, input: Mapping[str, Any]) -> str:
        return text(input, "parent_session_id", "session_id")

    def kind(self, name: str, input: Mapping[str, Any]) -> HookKind:
        # What a subagent does says only that its session is alive: messages are for the agent that started it.
        return "other" if text(input, "parent_session_id") else super().kind(name, input)

    def write(self, event: str, reply: HookReply) -> str:
        if reply.context:
            return json.dumps({"hook_specific_output": {"additional_context": reply.context}})
        return super().write(event, reply)
