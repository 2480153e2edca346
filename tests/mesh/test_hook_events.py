"""What hooks do for a session: the same for every harness."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tieline.bus import open_bus
from tieline.config import Config
from tieline.mesh.hook_events import MAX_CONTINUATIONS, HookEvent, HookEvents, HookKind, HookReply
from tieline.mesh.mesh import Mesh
from tieline.mesh.records import Caller
from tieline.protocol.mesh import MemberView
from tieline.relay import Relay

SESSION = Caller(machine="here", harness="recording", session="s-1", cwd="/")
OWNER = Caller(person="owner")


class Hooks:
    """One harness session whose hooks fire."""

    def __init__(self, mesh: Mesh, relay: Relay) -> None:
        self.mesh = mesh
        self.relay = relay
        self._events = HookEvents(mesh, "Talk to your peers.")

    async def fire(
        self, kind: HookKind, *, arrives: bool = True, continued: bool = False, ends_again: bool = True
    ) -> HookReply:
        """A hook, whose reply reaches the harness or is lost."""
        event = HookEvent(kind=kind, session="s-1", cwd="/", continued=continued, ends_again=ends_again)
        reply = await self._events.handle(SESSION, event)
        if arrives:
            await self.mesh.confirm(SESSION, reply.handed)
        else:
            self.mesh.release(SESSION, reply.handed)
        return reply

    async def send(self, text: str) -> str:
        return (await self.mesh.send_message(OWNER, self.me.id, text)).id

    async def state(self, id: str) -> str:
        return (await self.relay.status(id)).state

    @property
    def me(self) -> MemberView:
        return self.mesh.whoami(SESSION)


@asynccontextmanager
async def hooks(folder: Path) -> AsyncGenerator[Hooks]:
    async with (
        open_bus(f"sqlite://{folder / 'bus.db'}") as bus,
        Relay(bus, Config()) as relay,
        Mesh(bus, relay, machine="here") as mesh,
    ):
        yield Hooks(mesh, relay)


async def test_the_start_of_a_session_registers_it_and_tells_it_the_rules(tmp_path: Path) -> None:
    async with hooks(tmp_path) as session:
        reply = await session.fire("session_start")
        assert "Talk to your peers." in reply.context
        assert f"You are {session.me.name}" in reply.context
        first = session.me
        assert first.activity == "idle"
        await session.send("for later")
        reply = await session.fire("session_start")
        assert "1 unread" in reply.context
        assert session.me.address == first.address


async def test_the_rules_are_told_again_after_compaction(tmp_path: Path) -> None:
    async with hooks(tmp_path) as session:
        assert "Talk to your peers." in (await session.fire("compacted")).context
        assert session.me.activity == "working"


async def test_a_message_gets_into_a_running_turn(tmp_path: Path) -> None:
    async with hooks(tmp_path) as session:
        await session.fire("prompt")
        id = await session.send("look at this")
        reply = await session.fire("tool_done")
        assert "look at this" in reply.context
        assert await session.state(id) == "injected"
        assert (await session.fire("tool_done")).context == ""
        assert await session.state(id) == "seen"


async def test_a_reply_that_is_lost_loses_no_message(tmp_path: Path) -> None:
    async with hooks(tmp_path) as session:
        await session.fire("prompt")
        id = await session.send("important")
        assert (await session.fire("tool_done", arrives=False)).handed == (id,)
        assert await session.state(id) == "stored"
        assert (await session.fire("tool_done")).handed == (id,)


async def test_a_message_keeps_a_turn_going_once(tmp_path: Path) -> None:
    async with hooks(tmp_path) as session:
        await session.fire("prompt")
        await session.send("before you stop")
        assert "before you stop" in (await session.fire("turn_end")).continue_with
        assert session.me.activity == "working"
        assert await session.fire("turn_end", continued=True) == HookReply()
        assert session.me.activity == "idle"


async def test_messages_do_not_keep_a_turn_going_for_ever(tmp_path: Path) -> None:
    async with hooks(tmp_path) as session:
        await session.fire("prompt")
        for number in range(MAX_CONTINUATIONS):
            await session.send(f"again {number}")
            assert (await session.fire("turn_end", continued=number > 0)).continue_with
        id = await session.send("one too many")
        assert await session.fire("turn_end", continued=True) == HookReply()
        assert session.me.activity == "idle"
        assert await session.state(id) == "stored"
        await session.fire("prompt", arrives=False)
        assert (await session.fire("turn_end")).handed == (id,)  # a person began a new turn: it counts anew


async def test_the_end_of_a_session_ends_its_member_and_keeps_its_mail(tmp_path: Path) -> None:
    async with hooks(tmp_path) as session:
        await session.fire("session_start")
        me = session.me
        await session.fire("session_end")
        assert session.mesh.directory.resolve(me.id).ended
        id = await session.send("while you were away")
        await session.fire("session_start")
        assert session.me.id == me.id
        assert (await session.fire("prompt")).handed == (id,)


async def test_an_end_that_is_told_again_changes_nothing(tmp_path: Path) -> None:
    async with hooks(tmp_path) as session:
        await session.fire("session_start")
        await session.fire("session_end")
        before = session.mesh.directory.by_session("here", "recording", "s-1")
        await session.fire("session_end")
        assert session.mesh.directory.by_session("here", "recording", "s-1") == before


async def test_a_driven_session_is_left_to_its_prompts(tmp_path: Path) -> None:
    async with hooks(tmp_path) as session:
        events = HookEvents(session.mesh, "Talk.")
        driven = Caller(driven="01abc", harness="recording", session="s-2")
        assert await events.handle(driven, HookEvent(kind="session_start", session="s-2")) == HookReply()
        assert [view for view in session.mesh.directory.members() if view.kind == "agent"] == []


async def test_nobody_says_that_a_turn_is_over_which_ends_again_without_a_hook(tmp_path: Path) -> None:
    """Kimi Code: what it does is not known then, until its next prompt."""
    async with hooks(tmp_path) as session:
        await session.fire("session_start", ends_again=False)
        kinds: tuple[HookKind, ...] = ("prompt", "tool_done")
        for kind in kinds:
            await session.fire(kind, ends_again=False)
            assert session.me.activity == "working"
        await session.send("more to do")
        assert (await session.fire("turn_end", ends_again=False)).continue_with
        assert session.me.activity == "unknown"
        await session.fire("tool_done", ends_again=False)
        assert session.me.activity == "unknown"
        await session.fire("prompt", ends_again=False)
        assert session.me.activity == "working"
        await session.fire("turn_end", ends_again=False)
        assert session.me.activity == "idle"
