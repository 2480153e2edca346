"""What an agent sends by the command line, in the middle of its turn: a real hub, and the real `tieline`."""

import os
import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.hub.conftest import Running, running
from tests.relay.conftest import over

from tieline.bootstrap.process_lock import running_file
from tieline.bootstrap.relay import HubSessions, open_relay
from tieline.channels.agent import AgentConfig, AgentProject, create
from tieline.channels.agent.channel import session_of
from tieline.channels.base import ChannelContext
from tieline.client.hub_address import RunningHub as Found
from tieline.errors import UsageError
from tieline.relay import Relay
from tieline.relay.delivery.attribution import ActiveDeliveries
from tieline.script import Run, Say
from tieline.sessions.caller_session import caller
from tieline.testing.wait_for import eventually

TIELINE = Path(sys.executable).parent / "tieline"
ME = "relay.user.me"


@asynccontextmanager
async def agents(path: Path) -> AsyncGenerator[tuple[Running, Relay], None]:
    """A hub whose relay delivers to the sessions of the project `shop`."""
    async with running(path) as hub, open_relay(hub.hub, watch=False) as relay:
        config = AgentConfig(projects={"shop": AgentProject(cwd=hub.cwd, agent="scripted", policy="full")})
        for channel in relay.channels():  # the one that every hub has, which knows no projects
            await relay.unregister(channel.id)
        await relay.register(create("agents", config, ChannelContext(sessions=HubSessions(hub.hub))))
        with running_file(hub.env, Found(hub.url, os.getpid(), socket=hub.serving.socket)):
            yield hub, relay


def tieline(hub: Running, *words: str) -> Run:
    """The agent runs this with its shell tool. It says nothing about who it is or what it works on."""
    env = f"TIELINE_HOME={shlex.quote(hub.env['TIELINE_HOME'])}"
    return Run(f"{env} {TIELINE} {shlex.join(words)} >out 2>&1")


def _none(_: ActiveDeliveries, address: str) -> None:
    """It does not know what the address works on."""


@pytest.mark.slow
@pytest.mark.parametrize("noticed", [True, False], ids=["noticed", "before the relay notices the turn"])
async def test_it_is_the_sessions_and_inherits(tmp_path: Path, noticed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not noticed:
        monkeypatch.setattr(ActiveDeliveries, "for_address", _none)
    async with agents(tmp_path) as (hub, relay):
        hub.play([tieline(hub, "message", "send", "relay.user.boss", "a word in between")], [Say("done")])
        sent = await relay.send("relay.agent.shop.bob", "work", sender=ME)
        receipt = await over(relay, sent.id)
        output = Path(hub.cwd, "out").read_text()
        inbox = relay.inbox("relay.user.boss")
        await eventually(lambda: bool(inbox.unread()), f"nothing came: {output}")
        message = await inbox.read(inbox.unread()[0].id)
        assert message.envelope is not None
        assert message.envelope.sender == f"relay.agent.{session_of('shop', 'bob')}", "stamped, not claimed"
        assert (message.envelope.caused_by, message.envelope.thread) == (sent.id, sent.thread)
        assert message.envelope.budget.hops == 2
        assert message.envelope.budget.ancestors[:2] == (ME, "relay.agent.shop.bob")
        assert receipt.session == session_of("shop", "bob")


@pytest.mark.slow
async def test_a_loop_through_it_ends_with_a_dead_letter(tmp_path: Path) -> None:
    """An agent that passes on what it gets to itself, by a command: the command is refused, and says why."""
    async with agents(tmp_path) as (hub, relay):
        hub.play([tieline(hub, "message", "send", "relay.agent.shop.a", "your turn")], [Say("passed on")])
        sent = await relay.send("relay.agent.shop.a", "begin", sender=ME)
        assert (await over(relay, sent.id)).state == "seen"
        (letter,) = await relay.dead_letters.list()
        assert (letter.reason, letter.state) == ("cycle", "refused")
        assert letter.envelope.thread == sent.thread
        assert "it already passed through relay.agent.shop.a" in Path(hub.cwd, "out").read_text()


async def test_who_it_is_is_never_guessed(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        with pytest.raises(UsageError, match="does not come from an agent"):
            caller(hub.manager, "0123456789abcdef", str(tmp_path))
        reply = await hub.client.post("/api/v1/messages", json={"to": ME, "text": "x", "mark": "0123456789abcdef"})
        assert reply.status_code >= 400
