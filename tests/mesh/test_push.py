"""Pushing messages to harness sessions. The ways into harnesses here record what they are given, and fail on demand;
the real ones are in tests/harnesses."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.mesh.standin_terminals import terminal
from tests.relay.conftest import until

from tieline.backoff import Backoff
from tieline.bus import open_bus
from tieline.config import Config
from tieline.mesh.mesh import Mesh
from tieline.mesh.push import (
    MAX_UNANSWERED,
    MAX_WAKES,
    HarnessSession,
    Pusher,
    PushUnanswered,
    Rung,
    SessionObserver,
    Unreachable,
)
from tieline.mesh.records import Caller
from tieline.mesh.unread_notices import UnreadNotice, UnreadNotices
from tieline.processes.process_table import process_key
from tieline.relay import Relay
from tieline.sessions.attacher import Attacher
from tieline.testing.wait_for import eventually

ALICE = HarnessSession(harness="recording", session="s-1", cwd="/", activity="idle")
OWNER = Caller(person="owner")


class RecordingConnector:
    """A way in that keeps what it was given."""

    harness = "recording"

    attacher: Attacher | None = None

    def __init__(self, *rungs: Rung) -> None:
        self.rungs = frozenset(rungs)
        self.in_memory: frozenset[Rung] = frozenset()
        self.pushed: list[tuple[str, str]] = []
        self.history: set[str] = set()
        self.failures = 0
        self.fault: Exception = Unreachable("its socket is closed")
        self.entered = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.observer: SessionObserver | None = None

    @asynccontextmanager
    async def open(self, observer: SessionObserver) -> AsyncGenerator[None]:
        self.observer = observer
        yield

    async def taken(self, session: HarnessSession, ids: set[str]) -> set[str]:
        return ids & self.history

    async def push(self, session: HarnessSession, text: str, sender: str) -> None:
        self.entered.set()
        await self.go_on.wait()
        if self.failures:
            self.failures -= 1
            raise self.fault
        self.pushed.append((session.session, text))


class Stage:
    """A mesh with one harness and its pusher."""

    def __init__(self, mesh: Mesh, relay: Relay, connector: RecordingConnector, pusher: Pusher) -> None:
        self.mesh = mesh
        self.relay = relay
        self.connector = connector
        self.pusher = pusher
        self.notices: list[UnreadNotice] = []

    async def notify(self, notice: UnreadNotice) -> None:
        self.notices.append(notice)

    async def send(self, text: str) -> str:
        member = self.mesh.directory.by_session("here", ALICE.harness, ALICE.session)
        assert member is not None
        return (await self.mesh.send_message(OWNER, member.id, text)).id

    async def state(self, id: str) -> str:
        return (await self.relay.status(id)).state

    async def reaches(self, id: str, state: str) -> None:
        await until(self.relay, id, lambda receipt: any(step.state == state for step in receipt.steps))


@asynccontextmanager
async def stage(folder: Path, *rungs: Rung, settle_s: float = 0.02, installed: bool = True) -> AsyncGenerator[Stage]:
    connector = RecordingConnector(*rungs)
    async with (
        open_bus(f"sqlite://{folder / 'bus.db'}") as bus,
        Relay(bus, Config()) as relay,
        Mesh(bus, relay, machine="here") as mesh,
    ):
        stage: Stage

        async def notify(notice: UnreadNotice) -> None:
            await stage.notify(notice)

        pusher = Pusher(
            mesh,
            [connector],
            relay.subscribe,
            installed=lambda harness, cwd: installed,
            backoff=Backoff(0.01, 0.02),
            settle_s=settle_s,
        )
        async with pusher, UnreadNotices(mesh, relay.subscribe, notify, after_s=0.05):
            stage = Stage(mesh, relay, connector, pusher)
            yield stage


def pushes() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("push-")]


async def test_a_session_that_appears_is_a_member_with_its_presence(tmp_path: Path) -> None:
    async with stage(tmp_path, "idle_wake") as at:
        await at.pusher.changed(replace(ALICE, activity="working"))
        (member,) = [view for view in at.mesh.directory.members() if view.kind == "agent"]
        assert (member.harness, member.session, member.activity) == ("recording", "s-1", "working")
        await at.pusher.changed(ALICE)
        assert at.mesh.directory.resolve(member.id).activity == "idle"
        await at.pusher.ended(ALICE)
        assert at.mesh.directory.resolve(member.id).ended
        await at.pusher.changed(ALICE)
        again = at.mesh.directory.resolve(member.id)
        assert not again.ended
        assert again.address == member.address


async def test_nobody_is_registered_without_the_integration(tmp_path: Path) -> None:
    async with stage(tmp_path, "idle_wake", installed=False) as at:
        await at.pusher.changed(ALICE)
        assert [view for view in at.mesh.directory.members() if view.kind == "agent"] == []


async def test_an_idle_session_is_woken(tmp_path: Path) -> None:
    async with stage(tmp_path, "idle_wake") as at:
        await at.pusher.changed(ALICE)
        id = await at.send("wake up")
        await at.reaches(id, "injected")
        ((session, text),) = at.connector.pushed
        assert session == "s-1"
        assert "wake up" in text
        await at.pusher.changed(replace(ALICE, activity="working"))
        await at.reaches(id, "seen")


async def test_a_working_session_is_left_alone_until_it_is_idle(tmp_path: Path) -> None:
    async with stage(tmp_path, "idle_wake") as at:
        await at.pusher.changed(replace(ALICE, activity="working"))
        id = await at.send("later")
        await at.pusher.changed(replace(ALICE, activity="working"))
        assert at.connector.pushed == []
        assert await at.state(id) == "stored"
        await at.pusher.changed(ALICE)
        await at.reaches(id, "injected")


async def test_a_running_turn_is_joined_where_the_harness_allows_it(tmp_path: Path) -> None:
    async with stage(tmp_path, "idle_wake", "mid_turn") as at:
        await at.pusher.changed(replace(ALICE, activity="working"))
        id = await at.send("now")
        await at.reaches(id, "injected")


@pytest.mark.parametrize("call", ["ask_agent", "wait_for_messages"])
async def test_what_a_call_of_the_agent_waits_for_is_left_to_it(tmp_path: Path, call: str) -> None:
    """Pushed, it would come only after the call, which would go on waiting. What comes besides is pushed after it."""
    caller = Caller(machine="here", harness=ALICE.harness, session=ALICE.session)
    bob = Caller(machine="here", harness="other", session="s-2")
    async with stage(tmp_path, "idle_wake", "mid_turn") as at:
        await at.pusher.changed(replace(ALICE, activity="working"))
        await at.mesh.register_agent(bob, name="bob")
        member = at.mesh.directory.by_session("here", ALICE.harness, ALICE.session)
        assert member is not None
        if call == "ask_agent":
            waiting = asyncio.create_task(at.mesh.ask_agent(caller, "bob", "How many?", timeout_s=60))
            (question,) = (await at.mesh.wait_for_messages(bob, timeout_s=60)).messages
            besides = await at.send("besides")
            await at.mesh.reply(bob, question.id, "three")
            answer = (await waiting).answer
            assert answer is not None and answer.text == "three"
            await at.reaches(besides, "injected")
            assert [text for _, text in at.connector.pushed if "three" in text] == []
        else:
            waiting = asyncio.create_task(at.mesh.wait_for_messages(caller, timeout_s=60))
            await eventually(lambda: at.mesh.mailbox.is_awaited(member.address), "it does not wait")
            await at.send("for the call")
            assert [message.text for message in (await waiting).messages] == ["for the call"]
            assert at.connector.pushed == []


async def test_one_wake_brings_all_that_wait(tmp_path: Path) -> None:
    async with stage(tmp_path, "idle_wake") as at:
        await at.pusher.changed(replace(ALICE, activity="working"))
        ids = [await at.send(f"message {number}") for number in range(5)]
        await at.pusher.changed(ALICE)
        for id in ids:
            await at.reaches(id, "injected")
        ((_, text),) = at.connector.pushed
        assert [f"message {number}" in text for number in range(5)] == [True] * 5


async def test_what_was_fetched_meanwhile_wakes_nobody(tmp_path: Path) -> None:
    async with stage(tmp_path, "idle_wake") as at:
        await at.pusher.changed(replace(ALICE, activity="working"))
        await at.send("fetched")
        caller = Caller(machine="here", harness=ALICE.harness, session=ALICE.session)
        fetched = await at.mesh.fetch_messages(caller)
        await at.mesh.confirm(caller, [message.id for message in fetched.messages])
        await at.pusher.changed(ALICE)
        await at.pusher.changed(ALICE)
        assert at.connector.pushed == []


@pytest.mark.parametrize("fault", [Unreachable("its socket is closed"), ValueError("another version's shape")], ids=str)
async def test_a_push_that_fails_is_made_again_and_loses_nothing(tmp_path: Path, fault: Exception) -> None:
    async with stage(tmp_path, "idle_wake") as at:
        at.connector.failures, at.connector.fault = 3, fault
        await at.pusher.changed(ALICE)
        id = await at.send("three times in vain")
        await at.reaches(id, "injected")
        assert len(at.connector.pushed) == 1


async def test_what_another_way_could_not_hand_over_is_pushed(tmp_path: Path) -> None:
    async with stage(tmp_path, "idle_wake") as at:
        await at.pusher.changed(replace(ALICE, activity="working"))
        id = await at.send("lent out")
        caller = Caller(machine="here", harness=ALICE.harness, session=ALICE.session)
        lent = await at.mesh.fetch_messages(caller)
        await at.pusher.changed(ALICE)
        await eventually(lambda: not pushes(), "it waits for what is lent out")
        assert at.connector.pushed == []
        at.mesh.release(caller, [message.id for message in lent.messages])  # and no other sign
        await at.reaches(id, "injected")


async def test_a_harness_that_does_not_answer_is_not_given_a_message_for_ever(tmp_path: Path) -> None:
    """It may have it."""
    async with stage(tmp_path, "idle_wake") as at:
        at.connector.failures, at.connector.fault = MAX_UNANSWERED, PushUnanswered("no answer in time")
        await at.pusher.changed(ALICE)
        id = await at.send("perhaps")
        await eventually(lambda: not at.connector.failures and not pushes(), "it is tried once more")
        assert await at.state(id) == "stored"
        await at.pusher.changed(ALICE)
        await at.reaches(id, "injected")


async def test_people_are_notified_of_a_session_that_cannot_be_reached(tmp_path: Path) -> None:
    async with stage(tmp_path, "idle_wake") as at:
        at.connector.failures = 1000
        await at.pusher.changed(ALICE)
        id = await at.send("unreachable")
        await eventually(lambda: bool(at.notices), "nobody was notified")
        assert at.notices[0].unread == 1
        assert await at.state(id) == "stored"
        at.connector.failures = 0
        await at.reaches(id, "injected")  # without a sign of it


async def test_what_arrives_during_a_push_follows_it(tmp_path: Path) -> None:
    async with stage(tmp_path, "idle_wake") as at:
        at.connector.go_on.clear()
        await at.pusher.changed(ALICE)
        first = await at.send("first")
        await at.connector.entered.wait()
        second = await at.send("second")
        at.connector.go_on.set()
        await at.reaches(first, "injected")
        await at.reaches(second, "injected")
        assert ["second" in text for _, text in at.connector.pushed] == [False, True]


async def test_a_session_that_was_just_woken_is_not_woken_again(tmp_path: Path) -> None:
    async with stage(tmp_path, "idle_wake", settle_s=30.0) as at:
        await at.pusher.changed(ALICE)
        first = await at.send("first")
        await at.reaches(first, "injected")
        second = await at.send("second")
        await at.pusher.changed(replace(ALICE, activity="working"))
        await at.reaches(first, "seen")
        assert await at.state(second) == "stored"
        await at.pusher.changed(ALICE)
        await at.reaches(second, "injected")
        assert len(at.connector.pushed) == 2


async def test_agents_that_wake_each_other_for_ever_are_stopped(tmp_path: Path) -> None:
    async with stage(tmp_path, "idle_wake") as at:
        await at.pusher.changed(ALICE)
        for number in range(MAX_WAKES):
            await at.reaches(await at.send(f"wake {number}"), "injected")
        id = await at.send("one too many")
        await eventually(lambda: bool(at.notices), "nobody was notified")
        assert await at.state(id) == "stored"
        assert len(at.connector.pushed) == MAX_WAKES


async def test_what_a_harness_had_only_in_memory_when_its_session_ended_is_unread_again(tmp_path: Path) -> None:
    working = replace(ALICE, activity="working")
    async with stage(tmp_path, "idle_wake", "mid_turn") as at:
        at.connector.in_memory = frozenset({"mid_turn"})
        await at.pusher.changed(working)
        seen = await at.send("seen before the end")
        await at.reaches(seen, "injected")
        await at.pusher.changed(ALICE)
        await at.reaches(seen, "seen")
        await at.pusher.changed(working)
        lost = await at.send("lost with the turn")
        await at.reaches(lost, "injected")
        await at.pusher.changed(working)  # it is alive, and the turn goes on
        assert await at.state(lost) == "injected"
        await at.pusher.ended(working)
        assert (await at.state(seen), await at.state(lost)) == ("seen", "stored")
        await eventually(lambda: bool(at.notices), "nobody was notified")
    async with stage(tmp_path, "idle_wake", "mid_turn") as at:
        await at.pusher.changed(ALICE)
        await at.reaches(lost, "injected")
        ((_, text),) = at.connector.pushed
        assert "lost with the turn" in text and "seen before" not in text


async def test_what_met_a_turn_that_had_just_begun_is_unread_again_when_the_session_ended(tmp_path: Path) -> None:
    """The session looked idle, its person began a turn, and the harness kept the text for later."""
    working = replace(ALICE, activity="working")
    async with stage(tmp_path, "idle_wake", "mid_turn") as at:
        at.connector.in_memory = frozenset({"mid_turn"})
        at.connector.go_on.clear()
        await at.pusher.changed(ALICE)
        id = await at.send("never lost")
        await at.connector.entered.wait()
        await at.pusher.changed(working)
        at.connector.go_on.set()
        await at.reaches(id, "injected")
        await at.pusher.ended(working)
        assert await at.state(id) == "stored"
        await at.pusher.changed(ALICE)
        await at.reaches(id, "injected")
        assert ["never lost" in text for _, text in at.connector.pushed] == [True, True]


@pytest.mark.parametrize(
    ("in_history", "state", "after_its_end"), [(True, "seen", "seen"), (False, "injected", "stored")]
)
async def test_what_a_turn_took_up_before_the_push_was_over_is_seen(
    tmp_path: Path, in_history: bool, state: str, after_its_end: str
) -> None:
    """The turn ended meanwhile, and no other sign follows: the session's history tells."""
    working = replace(ALICE, activity="working")
    async with stage(tmp_path, "idle_wake", "mid_turn") as at:
        at.connector.in_memory = frozenset({"mid_turn"})
        at.connector.go_on.clear()
        await at.pusher.changed(working)
        id = await at.send("taken up")
        await at.connector.entered.wait()
        at.connector.history = {id} if in_history else set()
        await at.pusher.changed(ALICE)
        at.connector.go_on.set()
        await at.reaches(id, state)
        await at.pusher.ended(ALICE)
        assert await at.state(id) == after_its_end


async def test_what_a_harness_had_written_down_before_it_was_killed_is_not_told_twice(tmp_path: Path) -> None:
    working = replace(ALICE, activity="working")
    async with stage(tmp_path, "idle_wake", "mid_turn") as at:
        at.connector.in_memory = frozenset({"mid_turn"})
        await at.pusher.changed(working)
        kept, lost = await at.send("written down"), await at.send("lost with it")
        await at.reaches(kept, "injected")
        await at.reaches(lost, "injected")
        await at.pusher.ended(working)
        at.connector.history = {kept}
        at.connector.pushed.clear()
        await at.pusher.changed(ALICE)
        await at.reaches(kept, "injected")
        await at.reaches(lost, "injected")
        text = "".join(text for _, text in at.connector.pushed)
        assert "written down" not in text and text.count("lost with it") == 1
        assert f"given these messages above: {kept}. Go on" in text


async def test_a_push_without_an_answer_that_arrived_is_not_told_twice(tmp_path: Path) -> None:
    async with stage(tmp_path, "idle_wake", "mid_turn") as at:
        at.connector.failures, at.connector.fault = 1, PushUnanswered("no answer in time")
        at.connector.go_on.clear()
        await at.pusher.changed(replace(ALICE, activity="working"))
        id = await at.send("it has come")
        await at.connector.entered.wait()
        at.connector.history = {id}
        at.connector.go_on.set()
        await at.reaches(id, "injected")
        assert not at.connector.pushed


async def test_what_was_woken_with_is_not_pushed_again_after_its_session_ended(tmp_path: Path) -> None:
    async with stage(tmp_path, "idle_wake", "mid_turn") as at:
        at.connector.in_memory = frozenset({"mid_turn"})
        await at.pusher.changed(ALICE)
        id = await at.send("wake up")
        await at.reaches(id, "injected")
        await at.pusher.ended(ALICE)
        await at.pusher.changed(ALICE)
        assert await at.state(id) == "injected"  # nobody saw it take the message up
        await at.reaches(await at.send("the next"), "injected")
        assert ["wake up" in text for _, text in at.connector.pushed] == [True, False]


async def test_what_was_handed_over_before_a_restart_is_seen_after_it(tmp_path: Path) -> None:
    working = replace(ALICE, activity="working")
    async with stage(tmp_path, "idle_wake", "mid_turn") as at:
        await at.pusher.changed(working)
        id = await at.send("handed over")
        await at.reaches(id, "injected")
    async with stage(tmp_path, "idle_wake", "mid_turn") as at:
        await at.pusher.changed(working)
        assert await at.state(id) == "injected"
        await at.pusher.changed(ALICE)
        await at.reaches(id, "seen")
        assert at.connector.pushed == []


@pytest.mark.parametrize("activity", ["idle", "working"])
async def test_the_end_leaves_no_push_behind(tmp_path: Path, activity: str) -> None:
    async with stage(tmp_path, "idle_wake", "mid_turn") as at:
        at.connector.go_on.clear()
        await at.pusher.changed(replace(ALICE, activity=activity))
        await at.send("held")
        await at.connector.entered.wait()
    assert not pushes()


async def test_each_receiver_is_pushed_to_through_its_own_harness(tmp_path: Path) -> None:
    """A broadcast, too; and nobody else's way is tried for a harness that has none."""
    first, second = RecordingConnector("idle_wake"), RecordingConnector("idle_wake")
    second.harness = "another"
    async with (
        open_bus(f"sqlite://{tmp_path / 'bus.db'}") as bus,
        Relay(bus, Config()) as relay,
        Mesh(bus, relay, machine="here") as mesh,
        Pusher(mesh, [first, second], relay.subscribe, settle_s=0.02) as pusher,
    ):
        await pusher.changed(ALICE)
        await pusher.changed(HarnessSession(harness="another", session="s-2", cwd="/", activity="idle"))
        without = (await mesh.register_agent(Caller(machine="here", harness="unreached", session="s-3"))).member
        sent = (await mesh.broadcast_message(OWNER, "to all")).results
        assert len(sent) == 3
        for result in sent:
            if result.message and result.to != without.name:
                await until(
                    relay, result.message.id, lambda receipt: any(step.state == "injected" for step in receipt.steps)
                )
        assert [[session for session, _ in connector.pushed] for connector in (first, second)] == [["s-1"], ["s-2"]]
        assert mesh.mailbox.unread(without.address) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="processes are told apart by /proc")
async def test_another_process_that_tells_of_a_session_changes_nothing_while_its_own_runs(tmp_path: Path) -> None:
    async with stage(tmp_path, "idle_wake") as at:
        forged = replace(ALICE, process=os.getpid(), cwd="/elsewhere", activity="working")
        async with terminal("") as own:
            await at.pusher.changed(replace(ALICE, process=own.pid))
            await at.pusher.changed(forged)
            await at.pusher.ended(forged)
            member = at.mesh.directory.by_session("here", ALICE.harness, ALICE.session)
            assert member is not None and (member.activity, member.ended) == ("idle", False)
            assert member.process == process_key(own.pid)
        await at.pusher.changed(forged)
        member = at.mesh.directory.by_session("here", ALICE.harness, ALICE.session)
        assert member is not None and member.process == process_key(os.getpid())
