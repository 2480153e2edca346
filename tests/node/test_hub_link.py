"""A node and a hub, joined: everything goes over, whoever vanishes meanwhile."""

import asyncio
import time
from pathlib import Path

import msgspec
import pytest
from tests.client.proxy import Proxy
from tests.hub.conftest import Running
from tests.node.conftest import (
    Node,
    events_of,
    executor_at,
    hub_at,
    joined_to,
    key_of,
    node_at,
    settings,
    until,
    until_done,
)

from tieline.backoff import Backoff
from tieline.bus import Bus
from tieline.errors import BusFull
from tieline.events import Answer
from tieline.hub.hub import Hub
from tieline.hub.nodes.command_queue import COMMANDS
from tieline.node.command_inbox import INBOX, CommandInbox, InboxPosition
from tieline.node.hub_link import HubLink, KeyRefused
from tieline.node.link_connection import LinkConnection, fitting
from tieline.node.node_identity import identify
from tieline.node.result_outbox import ResultOutbox
from tieline.policy import Policy
from tieline.protocol import commands as c
from tieline.protocol.commands import AnyCommand, CommandEnvelope, CommandRefused, Result
from tieline.protocol.node_link import AnyDownFrame, AnyUpFrame, LinkCommands, LinkTaken, LinkWelcome
from tieline.protocol.views import CommandView
from tieline.script import Run, Say
from tieline.sessions.records import AskRecord, PromptRecord, SessionRecord
from tieline.testing.wait_for import eventually

FULL = Policy("allow", "allow", "allow")
LONG = [[Say(f"turn {number}: " + "word " * 20, chunks=8)] for number in range(40)]


async def tell(hub: Hub, node: str, command: AnyCommand, **more: object) -> Result:
    result = await hub.dispatcher.dispatch(node, command, by="me", wait_s=30, **more)  # type: ignore[arg-type]
    assert isinstance(result, Result), result
    assert result.refusal is None, result.refusal
    return result


async def begin(hub: Hub, node: Node, session: str, policy: Policy = FULL) -> None:
    await tell(hub, node.id, c.CreateSession(session=session, agent="scripted", cwd=node.cwd, policy=policy))


async def state_of(hub: Hub, id: str) -> str:
    view = await hub.dispatcher.queue.get(id)
    return view.state if view else ""


async def reached(hub: Hub, id: str, state: str) -> None:
    async def there() -> bool:
        return await state_of(hub, id) == state

    await until(there, f"{id} did not become {state}")


async def same_log(hub: Bus, node: Bus, session: str) -> None:
    """Record by record, each once, in order."""
    theirs = [record.data async for record in node.read(f"events.{session}", follow=False)]
    ours = [record.data async for record in hub.read(f"events.{session}", follow=False)]
    assert ours == theirs


async def records(bus: Bus, session: str) -> SessionRecord:
    entry = await bus.table("sessions").get(session)
    assert entry is not None
    return msgspec.json.decode(entry.value, type=SessionRecord)


async def empty(bus: Bus, subject: str) -> bool:
    return await bus.last(subject) == 0


async def holds(bus: Bus, *keys: str) -> bool:
    """Whether just these results wait to be heard."""
    return await bus.table("outbox").keys() == list(keys)


async def test_a_turn_goes_over(hub: Running, tmp_path: Path) -> None:
    async with joined_to(hub, tmp_path / "node", LONG) as node:
        view = await hub.hub.nodes.get(node.id)
        assert view.online and not view.local and view.limits == ()
        await eventually(lambda: node.id in hub.hub.state.nodes, "the node is not shown", timeout=30)
        await eventually(
            lambda: any(agent.ready for agent in hub.hub.state.nodes[node.id].agents), "no agent is shown", timeout=30
        )
        deltas: list[bytes] = []

        async def hear() -> None:
            async for message in hub.hub.bus.listen("deltas.s"):
                deltas.append(message.data)

        listening = asyncio.create_task(hear())
        await begin(hub.hub, node, "s")
        sent = await tell(hub.hub, node.id, c.SendPrompt(session="s", prompt="p", text="go"), id="send-it")
        assert msgspec.json.decode(sent.value)["id"] == "p"
        await until_done(hub.hub.bus, "s")
        await same_log(hub.hub.bus, node.bus, "s")
        await reached(hub.hub, "send-it", "applied")
        await eventually(lambda: bool(deltas), "no delta came over", timeout=30)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        last = await hub.hub.bus.last("events.s")
        await eventually(
            lambda: hub.hub.state.sessions["s"].seq == last and hub.hub.state.sessions["s"].status == "idle",
            "the session's place is not told in the hub's numbers",
            timeout=30,
        )
        assert (await records(hub.hub.bus, "s")).node == node.id
        entry = await hub.hub.bus.table("prompts").get("s.p")
        assert entry is not None
        assert msgspec.json.decode(entry.value, type=PromptRecord).text == "go"
    await eventually(lambda: not hub.hub.state.nodes[node.id].online, "it is still shown as online", timeout=30)


async def test_an_ask_is_answered_from_the_hub(hub: Running, tmp_path: Path) -> None:
    async with joined_to(hub, tmp_path / "node", [[Run("touch made")], [Say("ok")]]) as node:
        await begin(hub.hub, node, "s", Policy("ask", "ask", "ask"))
        await tell(hub.hub, node.id, c.SendPrompt(session="s", prompt="p", text="go"))
        await eventually(lambda: bool(hub.hub.state.asks), "no ask came over", timeout=30)
        ask = next(iter(hub.hub.state.asks.values()))
        answer = Answer(ask.id, "allow")
        command = c.ApprovePermission(session="s", ask=ask.id, answer=answer, digest=ask.digest)
        result = await tell(hub.hub, node.id, command, id="yes")
        assert msgspec.json.decode(result.value, type=AskRecord).status == "answered"
        await until_done(hub.hub.bus, "s")
        assert Path(node.cwd, "made").exists()
        await reached(hub.hub, "yes", "applied")
        await eventually(lambda: not hub.hub.state.asks, "the ask is still shown", timeout=30)
        with pytest.raises(CommandRefused) as refused:
            await hub.hub.dispatcher.dispatch(node.id, command, by="somebody else", id="late", wait_s=30)
        assert refused.value.code == "AlreadyAnswered"
        await reached(hub.hub, "late", "refused")


async def test_commands_wait_for_a_node_that_is_away(hub: Running, tmp_path: Path) -> None:
    async with joined_to(hub, tmp_path / "node", LONG) as node:
        await begin(hub.hub, node, "s")
        id, key = node.id, node.link._key  # pyright: ignore[reportPrivateUsage]
    await eventually(lambda: not hub.hub.state.nodes[id].online, "it is still shown as online", timeout=30)
    for number in range(3):
        view = await hub.hub.dispatcher.dispatch(
            id, c.SendPrompt(session="s", prompt=f"p{number}", text="go"), by="me", id=f"o{number}"
        )
        assert isinstance(view, CommandView) and view.state == "sent"
    again = await hub.hub.dispatcher.dispatch(id, c.SendPrompt(session="s", prompt="p0", text="go"), by="me", id="o0")
    assert isinstance(again, CommandView)
    short = await hub.hub.dispatcher.dispatch(
        id, c.SendPrompt(session="s", prompt="late", text="go"), by="me", id="late", expires_s=0.001
    )
    assert isinstance(short, CommandView)
    async with node_at(tmp_path / "node", hub.url, key, LONG) as node:
        await until_done(hub.hub.bus, "s", 3)
        for number in range(3):
            await reached(hub.hub, f"o{number}", "applied")
        await reached(hub.hub, "late", "expired")
        started = [event for event in await events_of(node.bus, "s") if event.type == "turn_started"]
        assert len(started) == 3
        await hub.hub.dispatcher.queue.sweep()
        await until(lambda: empty(hub.hub.bus, f"commands.{id}"), "something is left to send")


async def test_what_nobody_fetches_expires_and_is_said_to(hub: Running, tmp_path: Path) -> None:
    async with joined_to(hub, tmp_path / "node") as node:
        id = node.id
    await eventually(lambda: not hub.hub.state.nodes[id].online, "it is still shown as online", timeout=30)
    await hub.hub.dispatcher.dispatch(id, c.AbortSession(session="s"), by="me", id="gone", expires_s=0.001)
    await hub.hub.dispatcher.dispatch(id, c.AbortSession(session="s"), by="me", id="waits")
    await hub.hub.dispatcher.queue.sweep()
    assert await state_of(hub.hub, "gone") == "expired"
    assert await state_of(hub.hub, "waits") == "sent"


@pytest.mark.slow
async def test_the_hub_ends_and_comes_back(tmp_path: Path) -> None:
    """A hub restart is harmless: the node goes on meanwhile, and nothing is lost or doubled."""
    async with hub_at(tmp_path / "hub") as hub:
        port = hub.serving.port
        identity = identify(settings(tmp_path / "node").environ)
        key = await key_of(hub.hub, identity)
        async with Proxy(port) as proxy, node_at(tmp_path / "node", proxy.url, key, LONG) as node:
            await node.joined()
            await begin(hub.hub, node, "s")
            await tell(hub.hub, node.id, c.SendPrompt(session="s", prompt="p0", text="go"))
            await until_done(hub.hub.bus, "s")
            proxy.refuse = True
            proxy.cut()
            await eventually(lambda: node.link.situation.state == "away", "it did not notice", timeout=30)
            for number in range(1, 4):
                await node.manager.prompt("s", "go", id=f"p{number}")
            await until_done(node.bus, "s", 4)
            proxy.refuse = False
            await until_done(hub.hub.bus, "s", 4)
            await same_log(hub.hub.bus, node.bus, "s")
            await eventually(lambda: hub.hub.state.sessions["s"].turns == 4, "the session is behind", timeout=30)
    # Another hub process on the same bus: all is there, and the node is not.
    async with hub_at(tmp_path / "hub") as hub, node_at(tmp_path / "node", hub.url, key, LONG) as node:
        await node.joined()
        await tell(hub.hub, node.id, c.SendPrompt(session="s", prompt="p5", text="go"))
        await until_done(hub.hub.bus, "s", 5)
        await same_log(hub.hub.bus, node.bus, "s")


async def test_another_hub_gets_everything_anew(tmp_path: Path) -> None:
    """A hub that lost its bus: cursors of another log do not count."""
    async with hub_at(tmp_path / "one") as hub, joined_to(hub, tmp_path / "node", LONG) as node:
        await begin(hub.hub, node, "s")
        await tell(hub.hub, node.id, c.SendPrompt(session="s", prompt="p0", text="go"))
        await until_done(hub.hub.bus, "s")
    async with hub_at(tmp_path / "two") as hub, joined_to(hub, tmp_path / "node", LONG) as node:
        await until_done(hub.hub.bus, "s")
        await same_log(hub.hub.bus, node.bus, "s")
        assert (await records(hub.hub.bus, "s")).node == node.id
        await tell(hub.hub, node.id, c.SendPrompt(session="s", prompt="p1", text="go"))
        await until_done(hub.hub.bus, "s", 2)


async def test_results_are_kept_until_they_are_heard(hub: Running, tmp_path: Path) -> None:
    identity = identify(settings(tmp_path / "node").environ)
    key = await key_of(hub.hub, identity)
    async with executor_at(tmp_path / "node", LONG) as (executor, bus):
        envelope = CommandEnvelope(id="o1", command=c.AbortSession(session="none"), by="me")
        await CommandInbox(bus, f"link.{identity.id}").take("hub", [(1, envelope)])
        lost = HubLink(bus, executor, url="http://127.0.0.1:9", key=key, backoff=Backoff(0.05, 0.1))
        task = asyncio.create_task(lost.run())
        await until(lambda: holds(bus, f"{identity.id}.o1"), "there is no result")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    received = CommandView(id="o1", node=identity.id, name="abort_session", state="received")
    await hub.hub.bus.table(COMMANDS).put("o1", msgspec.json.encode(received))
    async with node_at(tmp_path / "node", hub.url, key, LONG) as node:
        await reached(hub.hub, "o1", "refused")
        await until(lambda: holds(node.bus), "the result is still kept")


async def test_a_node_forgets_what_is_old_once_the_hub_has_it(hub: Running, tmp_path: Path) -> None:
    async with joined_to(hub, tmp_path / "node", LONG) as node:
        await begin(hub.hub, node, "s")
        await tell(hub.hub, node.id, c.SendPrompt(session="s", prompt="p0", text="go"))
        await until_done(hub.hub.bus, "s")
        assert await node.link.trim(0.0) == 0  # nothing is that old

        async def forgotten() -> bool:
            await node.link.trim(time.time() + 60)
            return await empty(node.bus, "events.s")

        await until(forgotten, "its events stay")
        await tell(hub.hub, node.id, c.SendPrompt(session="s", prompt="p1", text="go"))
        await until_done(hub.hub.bus, "s", 2)
    async with executor_at(tmp_path / "node") as (executor, bus):
        away = HubLink(bus, executor, url=hub.url, key="")
        assert not await empty(bus, "events.s")
        assert await away.trim(time.time() + 60) == 0  # who knows what the hub has


async def test_a_disk_that_is_full_while_it_joins_ends_no_link(
    hub: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dials again, and joins when there is room."""
    full = asyncio.Event()
    move = CommandInbox.move

    async def no_room(self: CommandInbox, position: InboxPosition) -> None:
        full.set()
        raise BusFull("its disk", "no space left on device")

    monkeypatch.setattr(CommandInbox, "move", no_room)
    key = await key_of(hub.hub, identify(settings(tmp_path / "node").environ))
    async with asyncio.timeout(60), node_at(tmp_path / "node", hub.url, key) as node:
        await full.wait()
        await eventually(lambda: "no space left" in node.link.situation.problem, "nobody is told why")
        monkeypatch.setattr(CommandInbox, "move", move)
        await node.joined()
        assert not node.task.done()


async def test_orders_expire_by_the_hubs_clock(tmp_path: Path) -> None:
    """Clocks differ: a command that is good for a minute is good for a minute where the clock is an hour ahead."""
    async with executor_at(tmp_path / "node") as (executor, bus):
        outbox = ResultOutbox(bus, executor.identity.id)
        await outbox.load()
        inbox = CommandInbox(bus, f"link.{executor.identity.id}")
        behind = time.time() - 3600
        envelope = CommandEnvelope(id="o", command=c.AbortSession(session="s"), expires_at=behind + 60)
        down: list[AnyDownFrame] = [LinkCommands(orders=((1, envelope),))]
        frames: asyncio.Queue[AnyUpFrame] = asyncio.Queue()

        async def receive() -> AnyDownFrame:
            return down.pop() if down else await asyncio.Event().wait()  # type: ignore[return-value]

        welcome = LinkWelcome(protocol=1, epoch="hub", at=behind)
        uplink = asyncio.create_task(
            LinkConnection(bus, executor, inbox, outbox, welcome, frames.put, "hub").run(receive)
        )
        async with asyncio.timeout(30):
            while not isinstance(await frames.get(), LinkTaken):
                pass
        uplink.cancel()
        await asyncio.gather(uplink, return_exceptions=True)
        (kept,) = await bus.table(INBOX).entries()
        expires = msgspec.json.decode(kept.value, type=CommandEnvelope).expires_at
        assert time.time() < expires < time.time() + 120


async def test_a_revoked_node_is_out_at_once(hub: Running, tmp_path: Path) -> None:
    async with joined_to(hub, tmp_path / "node") as node:
        (device,) = [device for device in hub.hub.devices.list() if device.node == node.id]
        await hub.hub.devices.revoke(device.id)
        async with asyncio.timeout(30):
            with pytest.raises(KeyRefused):
                await node.task


async def test_sessions_that_are_cleared_away_at_the_node_go_at_the_hub(hub: Running, tmp_path: Path) -> None:
    identity = identify(settings(tmp_path / "node").environ)
    key = await key_of(hub.hub, identity)
    async with node_at(tmp_path / "node", hub.url, key, LONG) as node:
        await node.joined()
        await begin(hub.hub, node, "s")
        await begin(hub.hub, node, "t")
        await eventually(lambda: {"s", "t"} <= set(hub.hub.state.sessions), "they are not shown", timeout=30)
        await node.bus.table("sessions").delete("s")
    async with node_at(tmp_path / "node", hub.url, key, LONG) as node:
        await eventually(lambda: "s" not in hub.hub.state.sessions, "it is still shown", timeout=30)
        assert "t" in hub.hub.state.sessions


def test_a_large_answer_fits_or_says_so() -> None:
    envelope = CommandEnvelope(id="o", command=c.GetDiff(session="s"))
    diff = "\n".join(f"+line {number} “quoted”" for number in range(400_000))
    whole = Result(id="o", value=msgspec.Raw(msgspec.json.encode(diff)))
    cut = fitting(envelope, whole)
    text = msgspec.json.decode(cut.value, type=str)
    assert len(bytes(cut.value)) < 4 * 1024 * 1024
    assert diff.startswith(text.rpartition("\n… cut")[0].rstrip("\n"))
    assert f"the whole diff has {len(diff)} characters" in text
    refused = fitting(CommandEnvelope(id="o", command=c.GetMessages(session="s")), whole)
    assert refused.refusal is not None and refused.refusal.code == "RecordTooLarge"
    small = Result(id="o", value=msgspec.Raw(b'"x"'))
    assert fitting(envelope, small) is small
