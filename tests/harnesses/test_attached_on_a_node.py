"""Terminals of a joined machine, shown, answered, taken over and found at the hub of another: the real harnesses in
real terminals, a hub and a node as processes, each in a home of its own."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.harnesses.at_the_terminal import asking, asks_for_commands, choose_mode, inquiring
from tests.harnesses.desk import BINARIES, BOUND, tieline
from tests.harnesses.person import SeenFromTheHub, put_on_path
from tests.node.processes import Daemon

from tieline import paths
from tieline.bootstrap.process_lock import StartOptions
from tieline.client import Client, connect
from tieline.events import Answer, Done, ToolResult, TurnStarted
from tieline.node.node_identity import identify
from tieline.protocol.request_bodies import Claim, Decision, Pairing
from tieline.script import Say
from tieline.testing.harness_terminals import HOMES, HarnessHome

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


class Machines(SeenFromTheHub):
    """The hub's, by the key of a person's device; and the one with the terminal."""

    def __init__(self, home: HarnessHome, node: Daemon, client: Client) -> None:
        super().__init__(client)
        self.home = home
        self.node = node


@asynccontextmanager
async def machines(harness: str, root: Path) -> AsyncGenerator[Machines, None]:
    async with AsyncExitStack() as stack:
        home = await stack.enter_async_context(HOMES[harness](root, BINARIES))
        put_on_path(home, root)
        hub, node = Daemon(root / "hub", StartOptions(port=0)), Daemon(root / "node", StartOptions(what="node"))
        node.env = {**home.env, **{name: node.env[name] for name in ("TIELINE_HOME", "TIELINE_CONFIG")}}
        home.env = node.env
        stack.push_async_callback(hub.kill)
        stack.push_async_callback(node.kill)
        await hub.start()
        owner = await stack.enter_async_context(connect(hub.env))
        offer = await owner.pairing(Pairing(kind="client"))
        key = (await owner.pair(Claim(secret=offer.secret, name="phone"))).key
        await node.join(owner, hub.url, "desk")
        await tieline(node.env, root, "install", harness, "--attach", "--yes")
        await node.start()
        yield Machines(home, node, await stack.enter_async_context(Client(hub.url, key)))


@pytest.mark.parametrize("harness", ["codex", "claude-code", "opencode"])
async def test_a_terminal_on_a_joined_machine_is_shown_answered_and_taken_over_at_the_hub(
    harness: str, tmp_path: Path
) -> None:
    async with machines(harness, tmp_path) as at:
        play, project = at.home.rig.play, at.home.project
        asks_for_commands(harness, at.home)
        async with at.home.terminal() as terminal:
            play([asking(harness, "touch one")], [Say("It was allowed.")])
            await terminal.submit("touch a file")
            ask = await at.ask()
            session = await at.session("attached", "waiting", 0)
            assert (session.kind, session.agent, session.node) == ("attached", harness, identify(at.node.env).id)
            await at.client.answer(ask.id, Decision(decision="allow", digest=ask.digest))
            await terminal.shows("It was allowed.")
            assert (project / "one").exists()
            await at.session("attached", "idle", 1)

            play([Say("Hello, phone.")])
            await at.client.prompt(session.id, "a prompt from the phone")
            await terminal.shows("Hello, phone.")
            await at.session("attached", "idle", 2)
            events = [entry.event for entry in (await at.client.events(session.id, after=0, limit=500)).events]
            assert len([event for event in events if isinstance(event, TurnStarted)]) == 2
            assert [event.status for event in events if isinstance(event, ToolResult)] == ["ok"]
            (answer,) = (event for event in events if isinstance(event, Answer))
            assert answer.by.startswith("phone ")
            assert [event.status for event in events if isinstance(event, Done)] == ["success", "success"]
            assert paths.socket_file(at.node.env).is_socket()

            if harness == "codex":  # whose model asks questions in its plan mode only
                await choose_mode(harness, terminal)
            play(inquiring(harness, "Which colour?", ("red", "blue")), [Say("Blue it is.")])
            await terminal.submit("ask me")
            ask = await at.ask()
            assert ask.ask.kind == "question"
            answers = {ask.ask.questions[0].id: ("blue",)}
            await at.client.answer(ask.id, Decision(decision="allow", digest=ask.digest, answers=answers))
            await terminal.shows("Blue it is.")
            await at.session("attached", "idle", 3)

            play([asking(harness, "touch two")], [Say("It was denied.")])
            await terminal.submit("touch another")
            ask = await at.ask()
            await at.client.answer(ask.id, Decision(decision="deny", digest=ask.digest, reason="not on a Friday"))
            await terminal.shows("It was denied.")
            assert "not on a Friday" in at.home.rig.heard()
            await at.session("attached", "idle", 4)
            await terminal.hang_up()
            await at.session("attached", "closed", 4)

            # What is left of it goes on there, from the phone.
            await at.client.adopt(session.id)
            play([Say("Here I am again.")])
            await at.client.prompt(session.id, "go on")
            assert (await at.session("driven", "idle", 5)).node == identify(at.node.env).id
            given = msgspec.json.encode(at.home.rig.model.requests[-1]).decode()
            assert all(prompt in given for prompt in ("touch a file", "a prompt from the phone", "ask me", "go on"))

            # All of it is found.
            async with asyncio.timeout(BOUND):
                for words in ('"It was allowed"', '"a prompt from the phone"', '"touch one"', '"Here I am again"'):
                    while session.id not in [hit.session for hit in (await at.client.search(words)).hits]:  # noqa: ASYNC110
                        await asyncio.sleep(0.1)
