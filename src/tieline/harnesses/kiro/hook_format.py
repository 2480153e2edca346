"""The hooks of Kiro: what a hook prints is added to the context as it is."""

from collections.abc import Mapping
from typing import ClassVar

from ...mesh.hook_events import HookKind, HookReply
from ..hook_formats import HookFormat


class KiroHookFormat(HookFormat):
    kinds: ClassVar[Mapping[str, HookKind]] = {
        "SessionStart": "session_start",
        "agentSpawn": "session_start",
        "UserPromptSubmit": "prompt",
        "userPromptSubmit": "prompt",
        "Stop": "turn_end",
        "stop": "turn_end",
    }
    with_context = frozenset({"SessionStart", "agentSpawn", "UserPromptSubmit", "userPromptSubmit"})

    def write(self, event: str, reply: HookReply) -> str:
        return reply.context
