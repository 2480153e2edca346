"""Messages to driven sessions, with the scripted driver: real sessions, real buses, no model."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.relay.conftest import QUICK, over, states, until, within
from tests.relay.conftest import url as url

from tieline.bootstrap.relay import HubSessions
from tieline.bus import Bus, open_bus
from tieline.channels.agent import AgentConfig, AgentProject, create
from tieline.channels.agent.channel import session_of
from tieline.channels.agent.prompt_context import relay_context
from tieline.channels.base import ChannelContext, SessionNodeOffline, SessionRequest
from tieline.config import Config
from tieline.drivers.base import Prompt
from tieline.drivers.scripted import Scripted
from tieline.envelopes import AttachmentRef, Budget, Envelope, Limits, Payload, Refused, Unanswered
from tieline.errors import BusUnavailable, UsageError
from tieline.events import Read, Text, ToolResult, ToolUse
from tieline.policy import PRESETS
from tieline.relay import Relay
from tieline.script import Fail, Reply, Run, Say, Stall
from tieline.sessions.manager import SessionManager
from tieline.sessions.records import PromptRecord
from tieline.sessions.turn_follower import CallCounter
from tieline.testing.channel_contract import FakeDeliveryContext, FakeOutlet
from tieline.testing.in_process_hub import hub_around
from tieline.testing.wait_for import at_work_in, eventually

ME = "relay.user.me"
BOB = "relay.agent.shop.bob"
PROGRAMS = {
    "gone": {"type": "shell", "command": ["/no-such-program"], "output": "text"},
    "sleeper": {"type": "shell", "command": ["/bin/sh", "-c", "touch at-work; exec sleep 300"], "output": "text"},
}
"""Agents beside the scripted one."""


class Setting:
    def __init__(
        self,
        bus: Bus,
        relay: Relay,
        manager: SessionManager,
        sessions: HubSessions,
        inputs: list[str],
        stalled: asyncio.Event,
    ) -> None:
        self.bus = bus
        self.relay = relay
        self.manager = manager
        self.sessions = sessions
        self.inputs = inputs
        self.stalled = stalled


@asynccontextmanager
async def setting(
    url: str,
    folder: Path,
    *replies: Reply,
    sessions: type[HubSessions] = HubSessions,
    node: type[SessionManager] = SessionManager,
    agent: str = "scripted",
    **channel: Any,
) -> AsyncGenerator[Setting, None]:
    """A hub whose node has the scripted agent, and a relay with the agent channel, on one bus."""
    inputs: list[str] = []
    stalled = asyncio.Event()
    driver = Scripted(replies, on_model_input=inputs.append, on_stall=stalled.set)
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TIELINE_HOME": str(folder.parent / "state")}
    config = Config(default_agent="scripted", environ=env, agents={agent: PROGRAMS[agent]} if agent in PROGRAMS else {})
    async with (
        open_bus(url) as bus,
        node(bus, config, drivers={"scripted": driver}) as manager,
        hub_around(manager, bus, config) as hub,
        Relay(bus, config, settings=QUICK) as relaying,
    ):
        project = AgentProject(cwd=str(folder), policy="full", agent=agent, accept_unenforced=True)
        own = AgentConfig(projects={"shop": project, "Bank": project}, **channel)
        reached = sessions(hub)
        await relaying.register(create("agents", own, ChannelContext(sessions=reached)))
        yield Setting(bus, relaying, manager, reached, inputs, stalled)


@pytest.mark.parametrize("subject", ["relay.program2.shop.bob", "relay.agents.shop.bob", "relay.webhook.shop.bob"])
async def test_it_takes_addresses_of_agents_only(subject: str, tmp_path: Path) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Say("the answer")]) as here:
        with pytest.raises(Refused) as refused:
            await here.relay.send(subject, "the question", sender=ME)
        assert refused.value.reason == "no_endpoint"
        read = await here.relay.send("relay.user.shop.bob", "the question", sender=ME)
        assert states(await here.relay.status(read.id)) == ["accepted", "stored"], "it waits in a person's inbox"
        assert (await within(here.relay.ask(BOB, "the question", sender=ME, timeout=60))).payload.text == "the answer"
        assert len(here.inputs) == 1


async def test_a_message_is_a_prompt_and_its_turn_the_answer(url: str, tmp_path: Path) -> None:
    async with setting(url, tmp_path, [Say("the answer")], [Say("once more")]) as here:
        answer = await within(here.relay.ask(BOB, "the question", sender=ME, timeout=60))
        assert (answer.payload.text, answer.sender) == ("the answer", BOB)
        receipt = await over(here.relay, answer.in_reply_to)
        assert states(receipt) == ["accepted", "stored", "offered", "injected", "seen", "answered"]
        session = here.manager.get(receipt.session)
        assert (session.id, session.title, session.cwd) == (session_of("shop", "bob"), "shop.bob", str(tmp_path))
        (prompt,) = [p async for p in prompts(here.manager, session.id)]
        assert prompt == "the question", "the content alone"
        context = here.inputs[0]
        for line in (
            f"From: {ME} (human)",
            f"To: {BOB}",
            f"Message-ID: {receipt.id}",
            "Hops: 1 of 8",
            "Calls left: 32",
        ):
            assert line in context
        assert context.count("<relay_context>") == 1
        assert re.search(r"^Sent: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", context, re.MULTILINE)
        assert re.search(r"^Time left: \d+ s$", context, re.MULTILINE)
        assert "say what is done and what is not, and stop" in context
        assert session.policy == PRESETS["full"]
        assert f"Reply: your last words of this turn are sent to relay.ask.{receipt.id}" in context
        answer = await within(here.relay.ask(f"relay.agent.{session.id.upper()}", "again", sender=ME, timeout=60))
        assert answer.payload.text == "once more", "the same session, by its id"
        assert here.manager.get(session.id).turns == 2


async def prompts(manager: SessionManager, session: str) -> AsyncGenerator[str, None]:
    async for entry in manager.events(session, follow=False):
        if entry.event.type == "turn_started":
            yield entry.event.prompt  # type: ignore[union-attr]


async def test_without_reply_to_nothing_is_answered(tmp_path: Path) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Say("to nobody")]) as here:
        sent = await here.relay.send(BOB, "hi", sender=ME)
        receipt = await over(here.relay, sent.id)
        assert (receipt.state, receipt.answer, len(await here.relay.trace(sent.id))) == ("seen", "", 1)
        assert "Reply: no answer is awaited." in here.inputs[0]


async def test_names_make_sessions_once(tmp_path: Path) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, *[[Say("x")]] * 6) as here:
        for subject in (BOB, "relay.agent.shop.ann", BOB, "RELAY.agent.BANK.bob"):
            await within(here.relay.ask(subject, "hi", sender=ME, timeout=60))
        assert {s.id for s in here.manager.sessions()} == {
            session_of(*names) for names in (("shop", "bob"), ("shop", "ann"), ("bank", "bob"))
        }


async def test_an_empty_message_is_dead_at_once(tmp_path: Path) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path) as here:
        sent = await here.relay.send(BOB, "  ", sender=ME)
        receipt = await over(here.relay, sent.id)
        assert (receipt.state, receipt.reason, receipt.attempts) == ("dead", "empty", 1)


@pytest.mark.parametrize(
    ("subject", "problem", "nearest"),
    [
        ("relay.agent.nosuch", "no session 'nosuch'", ""),
        ("relay.agent.shp.bob", "no project 'shp' is configured", "Did you mean relay.agent.shop.bob? "),
        ("relay.agent.x.bob", "no project 'x' is", "Did you mean relay.agent.bank.bob or relay.agent.shop.bob? "),
        ("relay.agent.shop", "shop is a project", "Did you mean relay.agent.shop.NAME? "),
        ("relay.agent.shop.bob.too.long", "is the project and one name", "Did you mean relay.agent.shop.bob? "),
    ],
)
async def test_an_address_that_nobody_has_is_refused_and_the_nearest_are_named(
    tmp_path: Path, subject: str, problem: str, nearest: str
) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path) as here:
        with pytest.raises(Refused) as refused:
            await here.relay.send(subject, "hi", sender=ME)
        assert refused.value.reason == "no_endpoint"
        assert problem in refused.value.message
        assert refused.value.hint.startswith(nearest or "`tieline members`")
        assert await here.relay.dead_letters.list() == [], "its sender saw it"


async def test_a_test_of_the_channel_is_delivered_and_told_what_is_missing(tmp_path: Path) -> None:
    """It goes to the channel's own prefix, where the page shows what became of it."""
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path) as here:
        sent = await here.relay.send("relay.agent", "a test", sender=ME)
        assert (await over(here.relay, sent.id)).state == "dead"


async def test_a_part_of_a_sessions_id_is_no_address_but_names_it(tmp_path: Path) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Say("x")]) as here:
        await within(here.relay.ask(BOB, "hi", sender=ME, timeout=60))
        session = session_of("shop", "bob")
        with pytest.raises(Refused) as refused:
            await here.relay.send(f"relay.agent.{session[-6:]}", "hi", sender=ME)
        assert refused.value.hint.startswith(f"Did you mean relay.agent.{session}? ")


async def test_an_answer_to_an_address_that_nobody_has_any_longer_is_a_dead_letter(tmp_path: Path) -> None:
    """Its text would be lost otherwise."""
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Say("the answer")]) as here:
        sent = await here.relay.send(BOB, "hi", sender=ME, reply_to="relay.agent.gone")
        answer = (await over(here.relay, sent.id)).answer
        await over(here.relay, answer)
        (letter,) = await here.relay.dead_letters.list()
        assert (letter.envelope.payload.text, letter.reason) == ("the answer", "no_session")


async def test_a_refusal_of_the_session_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    async with setting(f"sqlite://{tmp_path}/bus.db", folder) as here:
        with pytest.raises(Unanswered) as caught:
            await within(here.relay.ask(BOB, "hi", sender=ME, timeout=60))
        assert caught.value.reason == "refused_by_session"
        (letter,) = await here.relay.dead_letters.list()
        assert "there is no directory" in letter.detail


async def test_so_many_sessions_at_a_time(tmp_path: Path) -> None:
    """The default is three; the fourth waits in its inbox up to its time, and only then is a dead letter."""
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Stall()]) as here:
        sent = [await here.relay.send(f"relay.agent.shop.{n}", "work", sender=ME) for n in "abc"]
        for receipt in sent:
            await until(here.relay, receipt.id, lambda r: r.state == "seen")
        late = await here.relay.send("relay.agent.shop.d", "hi", sender=ME, limits=Limits(ttl_s=0.2))
        patient = await here.relay.send("relay.agent.shop.e", "hi", sender=ME)
        receipt = await over(here.relay, late.id)
        assert (receipt.state, receipt.reason) == ("dead", "max_concurrent_exceeded")
        assert session_of("shop", "d") not in {session.id for session in here.manager.sessions()}, "nothing was begun"
        waiting = await here.relay.status(patient.id)
        assert (waiting.state, waiting.waiting) == ("stored", "max_concurrent_exceeded")
        await here.manager.abort(session_of("shop", "a"))
        assert (await over(here.relay, sent[0].id)).reason == "interrupted"
        await until(here.relay, patient.id, lambda r: r.state == "seen")


async def test_the_configuration_says_how_many_sessions_at_a_time(tmp_path: Path) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Stall()], max_concurrent=1) as here:
        first = await here.relay.send("relay.agent.shop.a", "work", sender=ME)
        await until(here.relay, first.id, lambda r: r.state == "seen")
        second = await here.relay.send("relay.agent.shop.b", "work", sender=ME)
        await until(here.relay, second.id, lambda r: r.waiting == "max_concurrent_exceeded")
        await here.manager.abort(session_of("shop", "a"))
        await until(here.relay, second.id, lambda r: r.state == "seen")


@pytest.mark.slow
async def test_time_left_is_the_turns_time(tmp_path: Path) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Stall()], [Say("next")]) as here:
        with pytest.raises(Unanswered) as caught:
            await here.relay.ask(BOB, "work", sender=ME, timeout=30, limits=Limits(ttl_s=3))
        assert caught.value.reason == "timeout"
        receipt = await over(here.relay, caught.value.receipt.id)
        assert states(receipt)[-2:] == ["seen", "dead"]
        answer = await within(here.relay.ask(BOB, "again", sender=ME, timeout=60))
        assert answer.payload.text == "next", "the session goes on"


async def test_calls_left_are_the_turns_calls(tmp_path: Path) -> None:
    replies: list[Reply] = [[Run(f"echo {n}")] for n in range(3)]
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, *replies, [Stall()], [Say("next")]) as here:
        with pytest.raises(Unanswered) as caught:
            await within(here.relay.ask(BOB, "work", sender=ME, timeout=60, limits=Limits(calls=2)))
        assert caught.value.reason == "calls_exceeded"
        (letter,) = await here.relay.dead_letters.list()
        assert letter.reason == "calls_exceeded"
        done = [e.event async for e in here.manager.events(session_of("shop", "bob"), follow=False)][-1]
        assert (done.type, getattr(done, "status", "")) == ("done", "interrupted")


async def test_silence_and_failure_are_told_apart(tmp_path: Path) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Run("true")], [], [Fail(500)]) as here:
        with pytest.raises(Unanswered, match="went idle") as caught:
            await within(here.relay.ask(BOB, "1", sender=ME, timeout=60))
        assert caught.value.reason == "idle_without_answer"
        with pytest.raises(Unanswered, match="failed without answering") as caught:
            await within(here.relay.ask(BOB, "2", sender=ME, timeout=60))
        assert caught.value.reason == "died_without_answer"
        (letter,) = await here.relay.dead_letters.list()
        assert letter.envelope.payload.text == "2", "it can be sent again; silence cannot be helped"


async def test_an_agent_that_cannot_be_started(tmp_path: Path) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, agent="gone") as here:
        with pytest.raises(Unanswered) as caught:
            await within(here.relay.ask(BOB, "hi", sender=ME, timeout=60))
        assert caught.value.reason in ("died_without_answer", "refused_by_session")
        (letter,) = await here.relay.dead_letters.list()
        assert letter.detail.startswith(f"{BOB}: "), "whom it was for"
        assert "no-such-program" in letter.detail


@pytest.mark.slow
async def test_an_agent_that_outlives_its_time_has_no_process_left(tmp_path: Path) -> None:
    folder = tmp_path / "place"
    folder.mkdir()
    limits = Limits(ttl_s=5)
    async with setting(f"sqlite://{tmp_path}/bus.db", folder, agent="sleeper") as here:
        sent = await here.relay.send(BOB, "work", sender=ME, limits=limits)
        await eventually((folder / "at-work").exists, "it was not started", timeout=60)
        receipt = await over(here.relay, sent.id)
        assert (receipt.state, receipt.reason) == ("dead", "timeout")
        await eventually(lambda: not at_work_in(folder), "its process works on", timeout=60)


async def test_a_time_limit_of_the_channels_own(tmp_path: Path) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Stall()], timeout_s=0.3) as here:
        with pytest.raises(Unanswered) as caught:
            await within(here.relay.ask(BOB, "work", sender=ME, timeout=60))
        assert caught.value.reason == "timeout"


async def test_projects_that_are_not_named_have_a_default(tmp_path: Path) -> None:
    default = AgentProject(cwd=str(tmp_path), policy="full")
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Say("hello")], default=default) as here:
        answer = await within(here.relay.ask("relay.agent.elsewhere.bob", "hi", sender=ME, timeout=60))
        assert answer.payload.text == "hello"
        assert here.manager.get(session_of("elsewhere", "bob")).cwd == str(tmp_path)


async def test_a_prompt_that_a_person_takes_back(tmp_path: Path) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Stall()]) as here:
        session = await here.manager.create(cwd=str(tmp_path), id="s1")
        await here.manager.prompt(session.id, "a person's own", id="own")
        await within(here.stalled.wait())
        sent = await here.relay.send("relay.agent.s1", "behind it", sender=ME)
        await until(here.relay, sent.id, lambda r: r.state == "injected")
        await here.manager.prompts.cancel("s1", sent.id)
        receipt = await over(here.relay, sent.id)
        assert (receipt.state, receipt.reason) == ("dead", "interrupted")


@pytest.mark.slow
async def test_a_message_that_waits_behind_others_in_its_session(tmp_path: Path) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Stall()]) as here:
        await here.manager.create(cwd=str(tmp_path), id="s1")
        await here.manager.prompt("s1", "a person's own", id="own")
        await within(here.stalled.wait())
        sent = await here.relay.send("relay.agent.s1", "behind it", sender=ME, limits=Limits(ttl_s=3))
        await until(here.relay, sent.id, lambda r: r.state == "injected")
        receipt = await over(here.relay, sent.id)
        assert (receipt.state, receipt.reason) == ("expired", "ttl_expired")
        assert (await here.manager.prompts.get("s1", sent.id)).status == "cancelled", "it will not run later"
        running = here.manager.prompts.running("s1")
        assert running is not None
        assert running.id == "own", "what a person asked for goes on"


async def test_what_a_session_sends_while_it_works_inherits(tmp_path: Path) -> None:
    """As through the CLI or an MCP tool: only who it is need be known, not what it works on."""
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Stall()]) as here:
        sent = await here.relay.send(BOB, "work", sender=ME)
        await until(here.relay, sent.id, lambda r: r.state == "seen")
        for address in (f"relay.agent.{session_of('shop', 'bob')}", BOB):
            inside = await here.relay.sender(address).send("relay.user.me", "a word in between")
            message = await here.relay.inbox(ME).read(inside.id)
            assert message.envelope is not None
            assert (message.envelope.caused_by, message.envelope.budget.hops) == (sent.id, 2)
            assert set(message.envelope.budget.ancestors) >= {ME, BOB, address}


async def test_a_session_that_answers_by_itself_answers_once(tmp_path: Path) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Stall()]) as here:
        sent = await here.relay.send(BOB, "work", sender=ME, reply_to=ME)
        await until(here.relay, sent.id, lambda r: r.state == "seen")
        own = await here.relay.sender(BOB).send(ME, "by a tool", in_reply_to=sent.id)
        await here.manager.abort(session_of("shop", "bob"))
        receipt = await over(here.relay, sent.id)
        assert receipt.answer == own.id
        assert [r.id for r in here.relay.inbox(ME).unread()] == [own.id]


@pytest.mark.slow
async def test_a_node_that_is_offline(tmp_path: Path) -> None:
    class Away(HubSessions):
        online = False

        async def create(self, session: str, wanted: SessionRequest) -> None:
            if not Away.online:
                raise SessionNodeOffline("laptop")
            await super().create(session, wanted)

    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Say("back")], sessions=Away) as here:
        sent = await here.relay.send(BOB, "hi", sender=ME, reply_to=ME)
        await until(here.relay, sent.id, lambda r: r.waiting == "node_offline")
        brief = await here.relay.send("relay.agent.shop.ann", "hi", sender=ME, limits=Limits(ttl_s=3))
        receipt = await over(here.relay, brief.id)
        assert (receipt.state, receipt.reason) == ("expired", "node_offline")
        Away.online = True
        assert (await over(here.relay, sent.id)).state == "answered"


class Unsure(SessionManager):
    """A node that keeps a prompt and cannot say so: what its bus does not acknowledge may be stored."""

    answers = 0

    async def prompt(self, session: str, prompt: str | Prompt, **more: Any) -> PromptRecord:
        kept = await super().prompt(session, prompt, **more)
        if not self.answers:
            self.answers += 1
            raise BusUnavailable("no acknowledgement came")
        return kept


async def test_a_prompt_that_the_node_did_not_confirm(tmp_path: Path) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Say("heard")], [Say("twice")], node=Unsure) as here:
        sent = await here.relay.send(BOB, "hi", sender=ME, reply_to=ME)
        receipt = await over(here.relay, sent.id)
        assert (receipt.state, receipt.attempts) == ("answered", 2), receipt
        assert here.manager.get(session_of("shop", "bob")).turns == 1, "the same prompt again"
        assert await here.relay.dead_letters.list() == []


class Broken(SessionManager):
    async def prompt(self, session: str, prompt: str | Prompt, **more: Any) -> PromptRecord:
        raise Unforeseen


class Unforeseen(Exception):
    pass


async def test_what_a_node_did_not_foresee_is_tried_again_up_to_the_end(tmp_path: Path) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, node=Broken) as here:
        sent = await here.relay.send(BOB, "hi", sender=ME)
        receipt = await over(here.relay, sent.id)
        assert (receipt.state, receipt.reason, receipt.attempts) == ("dead", "delivery_failed", QUICK.attempts)


async def test_attachments_are_named_and_never_opened(tmp_path: Path) -> None:
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, [Say("ok")]) as here:
        secret = tmp_path / "secret.txt"
        secret.write_text("nobody asked for this")
        payload = Payload("look", attachments=(AttachmentRef(url=secret.as_uri(), name="notes.txt"),))
        await within(here.relay.ask(BOB, payload, sender=ME, timeout=60))
        assert f"Attachment: notes.txt (application/octet-stream) {secret.as_uri()}" in here.inputs[0]
        assert "nobody asked" not in here.inputs[0]


def test_calls_are_counted_by_what_is_seen() -> None:
    calls = CallCounter()
    use, result = ToolUse("1", "read", Read("x")), ToolResult("1", "ok")
    events: Sequence[Any] = (Text("a"), use, result, result, Text("b"), Text("c"), use, result, use, result, Text("d"))
    assert [calls.count(event) for event in events].count(True) == 4
    inner = (Text("x", parent="1"), ToolResult("2", "ok", parent="1"))
    assert not any(calls.count(event) for event in inner), "a subagent's calls are its own"


@pytest.mark.parametrize(
    ("sender", "kind"),
    [
        ("relay.user.me", "human"),
        ("relay.agent.shop.ann", "agent"),
        ("relay.system.clock", "system"),
        ("relay.program.ci", "program"),
        ("relay.telegram.phone.4711", "outside"),
        ("relay.userland.x", "outside"),
    ],
)
def test_who_the_sender_is(sender: str, kind: str) -> None:
    envelope = msgspec.structs.replace(contract_envelope(BOB, "m1"), sender=sender)
    assert f"From: {sender} ({kind})\n" in relay_context(envelope, time.time())


def test_config_is_checked() -> None:
    with pytest.raises(UsageError, match="no sessions"):
        create("agents", AgentConfig(), ChannelContext())
    with pytest.raises(ValueError, match="at least 1"):
        AgentConfig(max_concurrent=0)


async def test_a_delivery_that_is_cut_off_anywhere_is_taken_up_again(tmp_path: Path) -> None:
    """A channel may be replaced at any moment: the same message again runs its prompt once."""
    async with setting(f"sqlite://{tmp_path}/bus.db", tmp_path, *[[Say("x")]] * 60) as here:
        channel = create(
            "other",
            AgentConfig(
                subject_prefix="relay.agents2", projects={"shop": AgentProject(cwd=str(tmp_path), policy="full")}
            ),
            ChannelContext(sessions=here.sessions),
        )
        await channel.start(FakeOutlet(here.relay, "relay.agents2"))
        for rounds in range(30):
            envelope = contract_envelope("relay.agents2.shop.bob", f"m{rounds}")
            task = asyncio.create_task(channel.deliver(envelope.subject, envelope, FakeDeliveryContext()))
            for _ in range(rounds):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            result = await within(channel.deliver(envelope.subject, envelope, FakeDeliveryContext()))
            assert (result.status, result.response_text) == ("delivered", "x"), rounds
            assert result.session_id == session_of("shop", "bob")
        assert here.manager.get(session_of("shop", "bob")).turns == 30
        await channel.stop()


def contract_envelope(subject: str, id: str) -> Envelope:
    budget = Budget(expires_at=time.time() + 60)
    return Envelope(
        id=id, subject=subject, sender=ME, payload=Payload("work"), budget=budget, created_at=time.time(), thread=id
    )
