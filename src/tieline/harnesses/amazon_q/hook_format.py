"""The hooks of Amazon Q: what a hook prints is added to the context as it is, and their input names no session."""

from collections.abc import Mapping
from typing import ClassVar

from ...mesh.hook_events import HookKind, HookReply
from ..hook_formats import HookFormat


class AmazonQHookFormat(HookFormat):
    kinds: ClassVar[Mapping[str, HookKind]] = {"agentSpawn": "session_start", "userPromptSubmit": "prompt"}
    with_context = frozenset(kinds)
    session_processes = ("qchat", "q")

    def write(self, event: str, reply: HookReply) -> str:
        return reply.context
