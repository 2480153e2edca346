"""When people are told of messages that an agent does not take."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.mesh.conftest import OWNER, harness

from tieline.bus import open_bus
from tieline.config import Config
from tieline.mesh.mesh import Mesh
from tieline.mesh.unread_notices import UnreadNotice, UnreadNotices
from tieline.relay import Relay

AGENT = harness("s-1")


class RecordingNotifier:
    def __init__(self) -> None:
        self.notices: asyncio.Queue[UnreadNotice] = asyncio.Queue()

    async def __call__(self, notice: UnreadNotice) -> None:
        self.notices.put_nowait(notice)

    async def next(self) -> UnreadNotice:
        return await asyncio.wait_for(self.notices.get(), 30)


@asynccontextmanager
async def mesh_and_relay(folder: Path) -> AsyncGenerator[tuple[Mesh, Relay]]:
    async with (
        open_bus(f"sqlite://{folder / 'bus.db'}") as bus,
        Relay(bus, Config()) as relay,
        Mesh(bus, relay, machine="here") as mesh,
    ):
        yield mesh, relay


@asynccontextmanager
async def watched(folder: Path, notifier: RecordingNotifier, after_s: float = 0.1) -> AsyncGenerator[Mesh]:
    async with (
        mesh_and_relay(folder) as (mesh, relay),
        UnreadNotices(mesh, relay.subscribe, notifier, after_s=after_s),
    ):
        yield mesh


async def test_one_notice_for_all_that_waits_until_it_was_taken(tmp_path: Path) -> None:
    notifier = RecordingNotifier()
    async with mesh_and_relay(tmp_path) as (mesh, relay), AsyncExitStack() as stack:
        me = (await mesh.register_agent(AGENT, name="reviewer")).member
        *_, last = [await mesh.send_message(OWNER, "@reviewer", f"number {number}") for number in range(3)]
        await stack.enter_async_context(UnreadNotices(mesh, relay.subscribe, notifier, after_s=0.1))
        notice = await notifier.next()
        assert (notice.member.id, notice.unread, notice.last, notice.sender) == (me.id, 3, last.id, "owner")
        assert notice.title == "3 messages wait for reviewer"
        await mesh.send_message(OWNER, "@reviewer", "people know already")
        taken = await mesh.offer(me.address)
        await mesh.mailbox.confirm(me.address, [message.id for message in taken.messages])
        assert notifier.notices.empty()
        await mesh.send_message(OWNER, "@reviewer", "a new one")
        assert (await notifier.next()).title == "A message waits for reviewer"


async def test_nobody_is_told_while_it_works_or_waits_for_messages(tmp_path: Path) -> None:
    notifier = RecordingNotifier()
    async with watched(tmp_path, notifier) as mesh:
        me = (await mesh.register_agent(AGENT)).member
        await mesh.heartbeat(AGENT, "working")
        await mesh.send_message(OWNER, me.id, "it works")
        other = (await mesh.register_agent(harness("s-2"))).member
        await mesh.send_message(OWNER, other.id, "it does nothing")
        assert (await notifier.next()).member.id == other.id  # both had the same time
        assert notifier.notices.empty()
        await mesh.heartbeat(AGENT, "idle")
        assert (await notifier.next()).member.id == me.id


async def test_what_came_just_before_a_restart_is_told_after_it(tmp_path: Path) -> None:
    notifier = RecordingNotifier()
    async with watched(tmp_path, notifier, after_s=3600) as mesh:
        me = (await mesh.register_agent(AGENT)).member
        await mesh.send_message(OWNER, me.id, "just before")
        await mesh.end_session(AGENT)
    assert notifier.notices.empty()
    async with watched(tmp_path, notifier) as mesh:
        notice = await notifier.next()
        assert notice.member.id == me.id and notice.member.ended
