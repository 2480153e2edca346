"""Any hub tells any node: its own by a call, others by commands that whoever has the link sends."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.bus.conftest import NatsServer, nats_server
from tests.hub.conftest import Running
from tests.node.conftest import hub_at, joined_to, until, until_done

from tieline.background_tasks import background
from tieline.bus import open_bus
from tieline.errors import Unsupported, UsageError
from tieline.hub.http.problems import problem_from_error
from tieline.hub.nodes.command_queue import MAX_OUTCOME, MAX_WAITING
from tieline.hub.nodes.dispatcher import REQUIRED_CAPABILITIES
from tieline.hub.nodes.registry import NodeOffline, UnknownNode
from tieline.policy import Policy
from tieline.protocol import commands as c
from tieline.protocol.commands import CommandEnvelope, CommandRefused, Result, decode_envelope
from tieline.protocol.node_link import CAPABILITIES
from tieline.protocol.views import CommandView, NodeView
from tieline.script import Say
from tieline.testing.wait_for import eventually

FULL = Policy("allow", "allow", "allow")
REPLIES = [[Say("hello " * 10, chunks=4)]]

__all__ = ["nats_server"]


@asynccontextmanager
async def on_nats(server: NatsServer, *paths: Path) -> AsyncGenerator[list[Running]]:
    """Hubs on one bus, each with a connection and a node of its own."""
    async with AsyncExitStack() as stack:
        hubs: list[Running] = []
        for path in paths:
            bus = await stack.enter_async_context(open_bus(server.url))
            hubs.append(await stack.enter_async_context(hub_at(path, bus=bus)))
        yield hubs


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncGenerator[Running]:
    async with hub_at(tmp_path / "hub") as started:
        yield started


async def test_its_own_node_is_a_call(hub: Running) -> None:
    dispatcher = hub.hub.dispatcher
    assert (await hub.hub.nodes.get(dispatcher.local)).local
    create = c.CreateSession(session="s", agent="scripted", cwd=hub.cwd, policy=FULL)
    made = await dispatcher.dispatch(dispatcher.local, create, by="me", id="create")
    assert isinstance(made, Result) and made.refusal is None
    await until(lambda: shown(hub, "create", "applied"), "it is not shown as applied")
    with pytest.raises(UsageError) as refused:
        await dispatcher.dispatch(dispatcher.local, c.CloseSession(session="none"), by="me", id="close")
    with pytest.raises(CommandRefused) as again:  # what it was refused for is remembered, the error itself is not
        await dispatcher.dispatch(dispatcher.local, c.CloseSession(session="none"), by="me", id="close")
    assert problem_from_error(again.value) == problem_from_error(refused.value)
    await until(lambda: shown(hub, "close", "refused"), "it is not shown as refused")
    assert await hub.hub.bus.last("commands.>") == 0


async def shown(hub: Running, id: str, state: str) -> bool:
    view = await hub.hub.dispatcher.queue.get(id)
    return view is not None and view.state == state


async def test_refused_before_it_is_sent(hub: Running) -> None:
    dispatcher, nodes = hub.hub.dispatcher, hub.hub.nodes
    with pytest.raises(UnknownNode):
        await dispatcher.dispatch("nobody", c.ListSessions(), by="me")
    await nodes.register(NodeView(id="old", limits=("diff",)))
    with pytest.raises(Unsupported):
        await dispatcher.dispatch("old", c.GetDiff(session="s"), by="me")
    await nodes.change("old", online=False)
    with pytest.raises(NodeOffline):
        await dispatcher.dispatch("old", c.ListSessions(), by="me")
    for id in ("a.b", "a b", "*", "x" * 200):
        with pytest.raises(UsageError):
            await dispatcher.dispatch("old", c.AbortSession(session="s"), by="me", id=id)
    dispatcher.queue._waiting["old"] = MAX_WAITING  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(UsageError, match="wait for the node already"):
        await dispatcher.dispatch("old", c.AbortSession(session="s"), by="me")
    assert set(REQUIRED_CAPABILITIES.values()) <= set(CAPABILITIES)


async def test_nobody_answers_in_time(hub: Running) -> None:
    """A node that is said to be there, but is not: what reads is told, what changes is durable."""
    await hub.hub.nodes.register(NodeView(id="deaf"))
    with pytest.raises(NodeOffline, match="did not answer"):
        await hub.hub.dispatcher.dispatch("deaf", c.ListSessions(), by="me", wait_s=0.05)
    view = await hub.hub.dispatcher.dispatch("deaf", c.AbortSession(session="s"), by="me", wait_s=0.05)
    assert isinstance(view, CommandView) and view.state == "sent"


PUSH = c.PushBranch(session="s")
OUTCOMES = {
    "what it did": (PUSH, {"done": "pushed main to origin", "commit": "c0ffee"}, "pushed main to origin"),
    "what is no outcome": (PUSH, ["another version"], None),
    "one that is too large": (PUSH, {"done": "x" * MAX_OUTCOME}, None),
    "another command's": (c.CloseSession(session="s"), {"done": "closed"}, None),
}


@pytest.mark.parametrize("case", OUTCOMES)
async def test_an_outcome_that_comes_late_is_shown(hub: Running, case: str) -> None:
    command, value, done = OUTCOMES[case]
    presence = await hub.hub.nodes.register(NodeView(id="n1", name="afar"))
    dispatcher = hub.hub.dispatcher
    sent = await dispatcher.dispatch("n1", command, by="me", id="late", wait_s=0.05)
    assert isinstance(sent, CommandView) and (sent.state, sent.outcome) == ("sent", None)
    await dispatcher.handle_result(Result(id="late", value=msgspec.Raw(msgspec.json.encode(value))), "n1")
    view = await dispatcher.queue.get("late")
    assert view is not None and view.state == "applied"
    assert (view.outcome.done if view.outcome else None) == done
    await presence.leave()


async def test_what_another_node_says_about_a_command_is_not_believed(hub: Running) -> None:
    await hub.hub.nodes.register(NodeView(id="n1"))
    view = await hub.hub.dispatcher.dispatch("n1", c.AbortSession(session="s"), by="me", id="mine", wait_s=0)
    assert isinstance(view, CommandView)
    await hub.hub.dispatcher.handle_result(Result(id="mine"), "n2")
    assert await shown(hub, "mine", "sent")
    await hub.hub.dispatcher.handle_result(Result(id="mine"), "n1")
    assert await shown(hub, "mine", "applied")


async def test_a_command_of_another_version_is_refused_and_stops_nobody(hub: Running) -> None:
    """As a newer hub on the same bus would send it."""
    bus, dispatcher = hub.hub.bus, hub.hub.dispatcher
    await dispatcher.queue.send(dispatcher.local, CommandEnvelope(id="new", command=c.Unknown(said="something_newer")))
    strange = b'{"id":"raw","command":{"name":"something_newer","field":[1]},"by":"me"}'
    await bus.publish(f"commands.{dispatcher.local}", strange)
    create = c.CreateSession(session="s", agent="scripted", cwd=hub.cwd, policy=FULL)
    await dispatcher.queue.send(dispatcher.local, CommandEnvelope(id="known", command=create))
    await until(lambda: shown(hub, "known", "applied"), "it hears no more")
    await until(lambda: shown(hub, "new", "refused"), "it is not refused")
    view = await dispatcher.queue.get("new")
    assert view is not None and "something_newer" in view.problem
    read = decode_envelope(strange)
    assert (read.id, read.by, read.command) == ("raw", "me", c.Unknown(said="something_newer"))


async def test_one_that_dies_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ValueError("a mistake")

    with pytest.raises(ValueError, match="a mistake"):
        await background(work(), "the-worker")
    assert "the-worker failed; restart the hub" in caplog.text


@pytest.mark.slow
async def test_any_hub_tells_any_node(nats_server: NatsServer, tmp_path: Path) -> None:
    """Two hubs on one NATS, a node of each in its process, and one that is joined to the first."""
    async with on_nats(nats_server, tmp_path / "one", tmp_path / "two") as (first_hub, second_hub):
        async with joined_to(first_hub, tmp_path / "node", REPLIES) as node:
            first, second = first_hub.hub.dispatcher.local, second_hub.hub.dispatcher.local
            assert first != second
            for number, (target, cwd) in enumerate(
                ((first, first_hub.cwd), (second, second_hub.cwd), (node.id, node.cwd))
            ):
                session = f"s{number}"
                for teller in (first_hub, second_hub):
                    create = c.CreateSession(session=session, agent="scripted", cwd=cwd, policy=FULL)
                    made = await teller.hub.dispatcher.dispatch(target, create, by="me", wait_s=30)
                    assert isinstance(made, Result) and made.refusal is None, made
                    assert msgspec.json.decode(made.value)["node"] == target
                    browsed = await teller.hub.dispatcher.dispatch(target, c.ListSessions(), by="me", wait_s=30)
                    assert isinstance(browsed, Result) and session.encode() in bytes(browsed.value)
                prompt = c.SendPrompt(session=session, prompt="p", text="go")
                sent = await second_hub.hub.dispatcher.dispatch(target, prompt, by="me", wait_s=30)
                assert isinstance(sent, Result) and sent.refusal is None, sent
                ended = await until_done(second_hub.hub.bus, session)
                assert sum(event.type == "turn_started" for event in ended) == 1
            assert {view.id: view.online for view in await second_hub.hub.nodes.all()} == {
                first: True,
                second: True,
                node.id: True,
            }
        await eventually(
            lambda: not second_hub.hub.state.nodes[node.id].online, "it is still shown as online", timeout=30
        )


@pytest.mark.slow
async def test_a_node_moves_to_another_hub(nats_server: NatsServer, tmp_path: Path) -> None:
    """The hub it was at is gone; another one on the bus goes on exactly there."""
    async with (
        on_nats(nats_server, tmp_path / "one") as (old_hub,),
        joined_to(old_hub, tmp_path / "node", REPLIES) as node,
    ):
        create = c.CreateSession(session="s", agent="scripted", cwd=node.cwd, policy=FULL)
        await old_hub.hub.dispatcher.dispatch(node.id, create, by="me", wait_s=30)
        await old_hub.hub.dispatcher.dispatch(
            node.id, c.SendPrompt(session="s", prompt="p0", text="go"), by="me", wait_s=30
        )
        await until_done(old_hub.hub.bus, "s")
        async with on_nats(nats_server, tmp_path / "two") as (new_hub,):
            link = node.link
            link._url = link._url.replace(str(old_hub.serving.port), str(new_hub.serving.port))  # pyright: ignore[reportPrivateUsage]
            taken = await new_hub.hub.nodes.register(
                await new_hub.hub.nodes.get(node.id)
            )  # its old link is told that it is over

            async def moved() -> bool:
                entry = await new_hub.hub.nodes.presence.get(node.id)
                return entry is not None and entry.value != msgspec.json.encode(taken.value)

            await until(moved, "it did not come to the other hub")
            sent = await new_hub.hub.dispatcher.dispatch(
                node.id, c.SendPrompt(session="s", prompt="p1", text="go"), by="me", wait_s=30
            )
            assert isinstance(sent, Result) and sent.refusal is None
            await until_done(new_hub.hub.bus, "s", 2)
            ours = [record.data async for record in new_hub.hub.bus.read("events.s", follow=False)]
            theirs = [record.data async for record in node.bus.read("events.s", follow=False)]
            assert ours == theirs
