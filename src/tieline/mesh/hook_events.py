"""What the hooks of a harness do for its session: it registers at its start, is shown as working or idle, and is handed
its messages in the middle of a turn and at its end.

An integration reads its harness's own input into a `HookEvent` and writes a `HookReply` as its harness wants it; this
module names no harness.
"""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

from ..protocol.mesh import MAX_FETCH, MemberView
from .framing import frame_all
from .mesh import Mesh
from .records import Caller, Member

HookKind = Literal["session_start", "prompt", "tool_done", "turn_end", "compacted", "session_end", "other"]

MAX_CONTINUATIONS = 8
"""A turn is kept going by messages so often in a row; then it ends, and the next message may wake it."""


class HookEvent(Struct, frozen=True, kw_only=True):
    kind: HookKind
    session: str
    cwd: str = ""
    continued: bool = False  # turn_end: this turn went on after an earlier end
    ends_again: bool = True  # whether there is a hook for the end of a turn that went on after its end
    takes_context: bool = True  # whether the harness reads a reply to this hook


class HookReply(Struct, frozen=True, kw_only=True):
    """`context` is added for the model; `continue_with` keeps the turn going with these words. `handed` are the ids of
    the messages in them: whoever brings the reply to the harness confirms them, or releases them."""

    context: str = ""
    continue_with: str = ""
    handed: tuple[str, ...] = ()


class NativeReply(Struct, frozen=True, kw_only=True):
    """What a hook prints for its harness; empty when there is nothing to say. `handed` as in HookReply."""

    caller: Caller  # the session that it is for
    text: str = ""
    handed: tuple[str, ...] = ()


class NativeHooks(Protocol):
    """Hooks in the words of their harness."""

    async def handle(self, caller: Caller, harness: str, input: Mapping[str, Any]) -> NativeReply: ...


class HookEvents:
    def __init__(self, mesh: Mesh, instructions: str) -> None:
        self._mesh = mesh
        self._instructions = instructions
        self._continuations: dict[str, int] = {}  # member id → ends in a row at which its turn went on

    def check(self, caller: Caller) -> None:
        """Raises NotYours: the session that it names is in another terminal."""
        self._mesh.harness_member(caller)

    async def handle(self, caller: Caller, event: HookEvent) -> HookReply:
        """`caller` is the session that the hook belongs to."""
        if caller.driven:  # its messages come to it as prompts
            return HookReply()
        known = self._mesh.harness_member(caller)
        if event.kind == "session_end" and (known is None or known.ended):  # some say it several times
            return HookReply()
        me = await self._member(caller, known)
        match event.kind:
            case "session_end":
                self._continuations.pop(me.id, None)
                await self._mesh.end_session(caller)
                return HookReply()
            case "session_start" | "compacted":
                await self._mesh.heartbeat(caller, "idle" if event.kind == "session_start" else "working")
                return HookReply(context=self._welcome(me.name, me.unread)) if event.takes_context else HookReply()
            case "turn_end":
                return await self._at_turn_end(caller, event, me.id, me.address)
            case "prompt" | "tool_done":
                if event.kind == "prompt":
                    self._continuations.pop(me.id, None)
                ends_unseen = me.id in self._continuations and not event.ends_again
                await self._mesh.heartbeat(caller, "unknown" if ends_unseen else "working")  # unknown: as it was
                if not event.takes_context:
                    return HookReply()
                text, ids = await self._take(me.address)
                return HookReply(context=text, handed=ids)
            case "other":
                await self._mesh.heartbeat(caller)
                return HookReply()

    async def _member(self, caller: Caller, known: Member | None) -> MemberView:
        """A session that is known is not registered again: a new token would make the agent's own one invalid."""
        if known is None or known.ended:
            return (await self._mesh.register_agent(caller)).member
        return self._mesh.directory.view(known)

    async def _at_turn_end(self, caller: Caller, event: HookEvent, id: str, address: str) -> HookReply:
        await self._mesh.heartbeat(caller)  # it went on with what it was handed
        count = self._continuations.get(id, 0) + 1 if event.continued else 1
        if event.takes_context and count <= MAX_CONTINUATIONS:
            text, ids = await self._take(address)
            if ids:
                self._continuations[id] = count
                if not event.ends_again:
                    await self._mesh.directory.heartbeat(id, "unknown")
                return HookReply(continue_with=text, handed=ids)
        self._continuations.pop(id, None)
        await self._mesh.heartbeat(caller, "idle")
        return HookReply()

    async def _take(self, address: str) -> tuple[str, tuple[str, ...]]:
        offered = await self._mesh.offer(address, MAX_FETCH)
        return frame_all(offered.messages), tuple(message.id for message in offered.messages)

    def _welcome(self, name: str, unread: int) -> str:
        waiting = f" {unread} unread messages wait for you: call fetch_messages." if unread else ""
        return f"You are {name} in the Tieline mesh.{waiting}\n\n{self._instructions}"
