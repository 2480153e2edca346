"""Agents are started at their times: once, whoever keeps the time and whoever is killed."""

import asyncio
import subprocess
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.bus.conftest import address
from tests.schedules.conftest import BOUND, HOUR, MONDAY, SetClock, hub_on, scheduling

from tieline.bootstrap.relay import HubSessions
from tieline.bus import open_bus
from tieline.bus.active_lease import ActiveLease
from tieline.channels.base import SessionNodeOffline, SessionRequest
from tieline.config import Config
from tieline.drivers.base import Prompt
from tieline.errors import UsageError
from tieline.hub.hub import Hub
from tieline.policy import Policy
from tieline.protocol.schedules import NewSchedule, ScheduleChange
from tieline.schedules import records
from tieline.schedules import scheduler as scheduler_module
from tieline.schedules.clock import Clock
from tieline.schedules.manager import ScheduleManager
from tieline.schedules.records import ScheduleStore, new_run
from tieline.schedules.scheduler import GIVE_UP_S, LATE_S, MAX_WAITING, Scheduler
from tieline.script import Run, Say, Stall, Write
from tieline.testing.wait_for import eventually

STALL = ((Stall(),),)
GIT = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"} | {
    f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "T"), ("EMAIL", "t@x"))
}


class Broken(HubSessions):
    """Sessions that are never answered: whoever starts something is killed there. `after` says how far it comes."""

    def __init__(self, hub: Hub, after: str) -> None:
        super().__init__(hub)
        self.reached = asyncio.Event()
        self._after = after

    async def create(self, session: str, wanted: SessionRequest) -> None:
        if self._after != "claim":
            await super().create(session, wanted)
        if self._after != "prompt":
            await self._hang()

    async def prompt(self, session: str, prompt: str, text: str, **options: Any) -> None:
        await super().prompt(session, prompt, text, **options)
        await self._hang()

    async def _hang(self) -> None:
        self.reached.set()
        await asyncio.Event().wait()


class Away(HubSessions):
    """A machine that is offline for some tries."""

    def __init__(self, hub: Hub, tries: int) -> None:
        super().__init__(hub)
        self.tries = tries

    async def create(self, session: str, wanted: SessionRequest) -> None:
        if self.tries:
            self.tries -= 1
            raise SessionNodeOffline("laptop")
        await super().create(session, wanted)


async def test_it_starts_at_its_times_and_tells_what_became_of_it(url: str, tmp_path: Path) -> None:
    async with hub_on(url, tmp_path / "a", SetClock()) as here, scheduling(here):
        made = await here.add(name="morning", zone="Europe/Berlin")
        assert made.next == (MONDAY + 24 * HOUR, *(MONDAY + day * 24 * HOUR for day in range(2, 6)))
        assert made.runs == () and not here.heard
        here.clock.move(24 * HOUR)
        (run,) = await here.until_states(made.id, "success")
        assert (run.text, run.due_at, run.by) == ("All is well.", MONDAY + 24 * HOUR, "")
        session = here.sessions.get(run.session)
        assert (session.title, session.agent, session.cwd) == ("morning", "bot", str(here.folder))
        prompt = await here.sessions.prompts.get(run.session, run.prompt)
        assert prompt.by == "relay.system.schedule.morning"
        here.clock.move(24 * HOUR)
        later, _ = await here.until_states(made.id, "success", "success")
        assert later.session != run.session, "each time has a session of its own"
        assert here.heard == ["look around"] * 2


async def test_by_the_clock_of_the_machine(sqlite: str, tmp_path: Path) -> None:
    """The real clock, but for the minute: the next one is a second away."""

    class Late(Clock):
        more = 59.0 - time.time() % 60

        def now(self) -> float:
            return time.time() + self.more

    clock = Late()
    async with (
        hub_on(sqlite, tmp_path / "a", SetClock()) as here,
        Scheduler(here.bus, HubSessions(here.hub), clock=clock),
    ):
        here.manager = ScheduleManager(here.bus, clock=clock)
        made = await here.add("* * * * *")
        runs = await here.until(made.id, lambda runs: any(run.outcome == "success" for run in runs))
        assert runs[-1].due_at % 60 == 0


# --- once only ---


async def test_two_hubs_that_both_keep_the_time_start_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if each of them believes that it alone holds the lease."""

    async def acquired(self: ActiveLease) -> bool:
        return True

    async def held(self: ActiveLease) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(ActiveLease, "acquire", acquired)
    monkeypatch.setattr(ActiveLease, "renew", held)
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TIELINE_HOME": str(tmp_path / "other")}
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(address("nats", tmp_path / "bus"))
        clock = SetClock()
        here = await stack.enter_async_context(hub_on(url, tmp_path / "a", clock))
        other_bus = await stack.enter_async_context(open_bus(url))
        other = await stack.enter_async_context(Hub(other_bus, Config(environ=env), env=env))
        for bus, sessions in ((here.bus, HubSessions(here.hub)), (other_bus, HubSessions(other))):
            await stack.enter_async_context(Scheduler(bus, sessions, clock=clock))
        made = [await here.add("*/10 * * * *", name=f"every-{number}") for number in range(3)]
        for count in range(1, 4):
            clock.move(600)
            for each in made:
                await here.until_states(each.id, *["success"] * count)
        assert len(here.heard) == 9
        sessions = await here.bus.table("sessions").keys()
        assert len(sessions) == len(set(sessions)) == 9


async def test_a_time_is_claimed_once(url: str) -> None:
    async with open_bus(url) as bus:
        store = ScheduleStore(bus)
        claims = await asyncio.gather(*[store.claim(new_run("s", 60.0)) for _ in range(10)])
        assert sorted(claims) == [False] * 9 + [True]
        assert new_run("s", 60.0) == new_run("s", 60.0), "whoever starts it starts the same session and prompt"
        assert len({new_run(*which).session for which in (("s", 60.0), ("s", 120.0), ("t", 60.0))}) == 3


@pytest.mark.parametrize("after", ["claim", "session", "prompt"])
async def test_killed_while_it_starts_it_is_started_once_by_the_next(after: str, sqlite: str, tmp_path: Path) -> None:
    async with hub_on(sqlite, tmp_path / "a", SetClock()) as here:
        broken = Broken(here.hub, after)
        async with scheduling(here, broken):
            made = await here.add()
            here.clock.move(HOUR)
            await asyncio.wait_for(broken.reached.wait(), BOUND)
            (run,) = (await here.manager.view(made.id)).runs
            assert run.state == "starting", "nobody knows how far it came"
        async with scheduling(here):
            await here.until_states(made.id, "success")
            here.clock.move(24 * HOUR)
            await here.until_states(made.id, "success", "success")
        assert here.heard == ["look around"] * 2


async def test_killed_while_it_runs_its_end_is_told_by_the_next(sqlite: str, tmp_path: Path) -> None:
    async with hub_on(sqlite, tmp_path / "a", SetClock(), STALL) as here:
        async with scheduling(here):
            made = await here.add()
            here.clock.move(HOUR)
            (run,) = await here.until_states(made.id, "running")
        await eventually(lambda: bool(here.heard), "the turn does not begin")
        await here.sessions.abort(run.session)
        async with scheduling(here):
            await here.until_states(made.id, "interrupted")


# --- overlap ---


async def test_while_the_run_before_goes_on_a_time_is_skipped(sqlite: str, tmp_path: Path) -> None:
    async with hub_on(sqlite, tmp_path / "a", SetClock(), STALL) as here, scheduling(here):
        made = await here.add("0 * * * *")
        here.clock.move(HOUR)
        (first,) = await here.until_states(made.id, "running")
        here.clock.move(HOUR)
        skipped, _ = await here.until_states(made.id, "skipped", "running")
        assert skipped.problem == "the run before has not ended"
        await eventually(lambda: bool(here.heard), "the turn does not begin")
        await here.sessions.abort(first.session)
        await here.until_states(made.id, "skipped", "interrupted")
        here.clock.move(HOUR)
        await here.until_states(made.id, "running", "skipped", "interrupted")


async def test_or_waits_for_it(sqlite: str, tmp_path: Path) -> None:
    async with hub_on(sqlite, tmp_path / "a", SetClock(), STALL) as here, scheduling(here):
        made = await here.add("0 * * * *", overlap="queue")
        for states in (("running",), ("waiting", "running"), ("waiting", "waiting", "running")):
            here.clock.move(HOUR)
            runs = await here.until_states(made.id, *states)
        for count in (1, 2):
            await eventually(lambda count=count: len(here.heard) == count, "the turn does not begin")
            await here.sessions.abort(runs[-count].session)
            await here.until(made.id, lambda runs, count=count: runs[-count - 1].state == "running")
        for _ in range(MAX_WAITING):
            here.clock.move(HOUR)
            await here.looked(made.id)
        newest = (await here.manager.view(made.id)).runs[:2]
        assert [run.state for run in newest] == ["waiting", "waiting"]
        here.clock.move(HOUR)
        await here.looked(made.id)
        assert (await here.manager.view(made.id)).runs[0].problem == f"{MAX_WAITING + 1} runs have not ended"


# --- missed times ---


async def test_one_run_makes_up_for_all_that_were_missed(sqlite: str, tmp_path: Path) -> None:
    async with hub_on(sqlite, tmp_path / "a", SetClock()) as here:
        made = await here.add("0 * * * *")
        here.clock.move(5 * HOUR + 1800)
        async with scheduling(here):
            (run,) = await here.until_states(made.id, "success")
            assert run.due_at == MONDAY + 5 * HOUR
            await here.looked(made.id)
        assert len(here.heard) == 1


async def test_or_none_does(sqlite: str, tmp_path: Path) -> None:
    async with hub_on(sqlite, tmp_path / "a", SetClock()) as here:
        made = await here.add("0 * * * *", missed="never")
        here.clock.move(5 * HOUR + LATE_S + 1)
        async with scheduling(here):
            (run,) = await here.until_states(made.id, "missed")
            assert run.problem == "no hub ran at that time" and not here.heard
        here.clock.move(HOUR - LATE_S)
        async with scheduling(here):  # a hub that is restarted at that moment is in time
            await here.until_states(made.id, "success", "missed")


async def test_times_that_pass_while_it_is_paused_are_no_missed_ones(sqlite: str, tmp_path: Path) -> None:
    async with hub_on(sqlite, tmp_path / "a", SetClock()) as here, scheduling(here):
        made = await here.add("0 * * * *")
        paused = await here.manager.change(made.id, ScheduleChange(paused=True), policy=None)
        assert paused.next == ()
        here.clock.move(5 * HOUR)
        resumed = await here.manager.change(made.id, ScheduleChange(paused=False), policy=None)
        assert resumed.next[0] == MONDAY + 6 * HOUR
        here.clock.move(HOUR)
        (run,) = await here.until_states(made.id, "success")
        assert run.due_at == MONDAY + 6 * HOUR


async def test_a_schedule_that_was_paused_a_moment_ago_starts_nothing(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The news has not come to the one that keeps the time."""
    hears, hear = True, Scheduler._on_schedule  # pyright: ignore[reportPrivateUsage]

    def on_schedule(self: Scheduler, id: str, value: bytes | None, news: bool) -> None:
        if hears:
            hear(self, id, value, news)

    monkeypatch.setattr(Scheduler, "_on_schedule", on_schedule)
    async with hub_on(sqlite, tmp_path / "a", SetClock()) as here, scheduling(here):
        made, other = await here.add("0 * * * *", name="made"), await here.add("30 * * * *", name="other")
        here.clock.move(HOUR)
        for each in (made, other):
            await here.until_states(each.id, "success")
        hears = False
        await here.manager.change(made.id, ScheduleChange(paused=True), policy=None)
        here.clock.move(HOUR)
        await here.until_states(other.id, "success", "success")
        assert len((await here.manager.view(made.id)).runs) == 1


async def test_a_machine_that_is_away_is_waited_for(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_module, "RETRY_S", 60.0)
    async with hub_on(sqlite, tmp_path / "a", SetClock()) as here:
        away = Away(here.hub, 3)
        async with scheduling(here, away):
            made = await here.add()
            here.clock.move(HOUR)
            for tries in (2, 1, 0):
                await eventually(lambda tries=tries: away.tries == tries, "it does not try")
                here.clock.move(60)
            await here.until_states(made.id, "success")


async def test_until_the_next_time_is_due(sqlite: str, tmp_path: Path) -> None:
    async with hub_on(sqlite, tmp_path / "a", SetClock()) as here:
        away = Away(here.hub, 1_000_000)
        async with scheduling(here, away):
            made = await here.add()
            here.clock.move(HOUR)
            await here.until_states(made.id, "starting")
            assert GIVE_UP_S == 24 * HOUR
            here.clock.move(24 * HOUR)
            await here.looked(made.id)
            away.tries = 0
            here.clock.move(60)
            today, before = await here.until_states(made.id, "success", "missed")
            assert "laptop" in before.problem
            assert today.due_at == MONDAY + 25 * HOUR


# --- the rest ---


async def test_one_time_only(sqlite: str, tmp_path: Path) -> None:
    async with hub_on(sqlite, tmp_path / "a", SetClock()) as here, scheduling(here):
        made = await here.add(once="2026-11-16 10:30", zone="Europe/Berlin")
        assert made.next == (MONDAY + 1.5 * HOUR,)
        here.clock.move(2 * HOUR)
        await here.until_states(made.id, "success")
        here.clock.move(1000 * HOUR)
        view = await here.manager.view(made.id)
        assert view.next == () and len(view.runs) == 1


async def test_one_that_cannot_be_started_says_why_and_stops_no_other(sqlite: str, tmp_path: Path) -> None:
    async with hub_on(sqlite, tmp_path / "a", SetClock()) as here, scheduling(here):
        lost = await here.add(agent="nobody")
        gone = await here.add(cwd=str(tmp_path / "nowhere"))
        fine = await here.add()
        here.clock.move(HOUR)
        await here.until_states(fine.id, "success")
        (run,) = await here.until_states(lost.id, "failed")
        assert "nobody" in run.problem
        (run,) = await here.until(gone.id, lambda runs: bool(runs) and not runs[0].is_open)
        assert "nowhere" in run.problem


async def test_how_a_turn_ends_is_told(sqlite: str, tmp_path: Path) -> None:
    replies = ((Run("exit 3"),), (Say("It failed. " * 1000),))
    async with hub_on(sqlite, tmp_path / "a", SetClock(), replies) as here, scheduling(here):
        made = await here.add(timeout_s=300.0, environment=("COLOUR=red",))
        await here.manager.change(made.id, ScheduleChange(), policy=Policy(shell="allow"))
        here.clock.move(HOUR)
        (run,) = await here.until_states(made.id, "success")
        assert run.text.startswith("It failed. ") and len(run.text) == scheduler_module.MAX_TEXT
        record = here.sessions.get(run.session)
        assert (record.environment, record.policy.shell) == (("COLOUR=red",), "allow")


async def test_removed_it_starts_nothing_more(sqlite: str, tmp_path: Path) -> None:
    async with hub_on(sqlite, tmp_path / "a", SetClock(), STALL) as here, scheduling(here):
        made, other = await here.add("0 * * * *", overlap="queue"), await here.add("0 * * * *")
        here.clock.move(HOUR)
        await here.until_states(made.id, "running")
        here.clock.move(HOUR)
        (_, run) = await here.until_states(made.id, "waiting", "running")
        await eventually(lambda: len(here.heard) == 2, "the turns do not begin")
        await here.manager.remove(made.id)
        await here.sessions.abort(run.session)
        here.clock.move(HOUR)
        await here.looked(other.id)
        assert [each.id for each in await here.manager.views()] == [other.id]
        assert len(here.heard) == 2
        assert await here.bus.table("schedule-runs").keys(f"{made.id}.>") == []


@pytest.mark.slow
async def test_another_hub_takes_over(sqlite: str, tmp_path: Path) -> None:
    async with hub_on(sqlite, tmp_path / "a", SetClock()) as here, AsyncExitStack() as stack:
        first = await stack.enter_async_context(AsyncExitStack())
        await first.enter_async_context(scheduling(here))
        made = await here.add("0 * * * *")
        here.clock.move(HOUR)
        await here.until_states(made.id, "success")
        await stack.enter_async_context(scheduling(here))
        await first.aclose()
        here.clock.move(HOUR)
        await here.until_states(made.id, "success", "success")
    assert len(here.heard) == 2


async def test_run_now(sqlite: str, tmp_path: Path) -> None:
    async with hub_on(sqlite, tmp_path / "a", SetClock(), STALL) as here, scheduling(here):
        made = await here.add(paused=True)
        run = await here.manager.run_now(made.id, by="alice", key="k1")
        here.clock.move(5)
        assert (await here.manager.run_now(made.id, by="alice", key="k1")).id == run.id, "the same wish"
        (run,) = await here.until_states(made.id, "running")
        assert run.by == "alice"
        with pytest.raises(Exception, match="has not ended"):
            await here.manager.run_now(made.id, by="alice", key="k2")
        await eventually(lambda: bool(here.heard), "the turn does not begin")
        await here.sessions.abort(run.session)
        await here.until_states(made.id, "interrupted")
        await here.manager.run_now(made.id, by="alice", key="k2")
        await here.until_states(made.id, "running", "interrupted")


async def test_the_history_is_bounded(sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "KEEP_RUNS", 3)
    async with hub_on(sqlite, tmp_path / "a", SetClock()) as here, scheduling(here):
        made = await here.add("0 * * * *")
        for _ in range(5):
            here.clock.move(HOUR)
            await here.until(
                made.id,
                lambda runs: bool(runs) and runs[0].due_at == here.clock.now() and runs[0].outcome == "success",
            )
        runs = await here.until(made.id, lambda runs: len(runs) == 3)
        assert [run.due_at - MONDAY for run in runs] == [5 * HOUR, 4 * HOUR, 3 * HOUR]


async def test_a_copy_of_an_earlier_conversation_begins_each_run(sqlite: str, tmp_path: Path) -> None:
    class Seen(HubSessions):
        wanted: SessionRequest | None = None

        async def create(self, session: str, wanted: SessionRequest) -> None:
            self.wanted = wanted
            with suppress(Exception):
                await super().create(session, wanted)
            raise SessionNodeOffline("x")

    async with hub_on(sqlite, tmp_path / "a", SetClock()) as here:
        seen = Seen(here.hub)
        async with scheduling(here, seen):
            await here.manager.add(
                NewSchedule(cron="0 9 * * *", agent="bot", cwd=str(tmp_path), prompt="go on", resume="native-1"),
                policy=Policy(),
                node="local",
                by="owner",
            )
            here.clock.move(HOUR)
            await eventually(lambda: seen.wanted is not None, "nothing is started")
            assert seen.wanted is not None and seen.wanted.fork_of == "native-1"


async def test_a_missed_time_does_not_wait_for_the_run_before(sqlite: str, tmp_path: Path) -> None:
    async with hub_on(sqlite, tmp_path / "a", SetClock(), STALL) as here:
        async with scheduling(here):
            made = await here.add("0 * * * *", missed="never", overlap="queue")
            here.clock.move(HOUR)
            await here.until_states(made.id, "running")
        here.clock.move(HOUR + LATE_S + 1)
        async with scheduling(here):
            await here.until_states(made.id, "missed", "running")


# --- worktrees ---


def repository(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    for words in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "one")):
        subprocess.run(["git", *words], cwd=folder, check=True, env={**GIT, "HOME": str(folder)})
    return folder


def branches(repository: Path) -> set[str]:
    listing = subprocess.run(
        ["git", "branch", "--format=%(refname:short)"], cwd=repository, check=True, env=GIT, stdout=-1
    )
    return set(listing.stdout.decode().split())


async def test_each_run_works_in_a_worktree_of_its_own_and_only_work_stays(sqlite: str, tmp_path: Path) -> None:
    """Two runs that write do not meet; one that changed nothing leaves nothing behind."""
    shop = repository(tmp_path / "shop")
    replies = ([Write("made.txt", "mine\n")], [Say("Done.")])
    async with hub_on(sqlite, tmp_path / "a", SetClock(), replies) as here, scheduling(here):
        new = NewSchedule(cron="0 9 * * *", agent="bot", cwd=str(shop), prompt="write it", branch="nightly")
        made = await here.manager.add(new, policy=Policy("allow", "allow", "allow"), node="local", by="owner")
        here.clock.move(24 * HOUR)
        await here.until_states(made.id, "success")
        here.clock.move(24 * HOUR)
        later, first = await here.until_states(made.id, "success", "success")
        ran = [here.sessions.get(run.session) for run in (first, later)]
        assert [record.branch for record in ran] == ["nightly-20261116-090000", "nightly-20261117-090000"]
        assert branches(shop) == {"main", "nightly-20261116-090000", "nightly-20261117-090000"}
        assert all((Path(record.cwd) / "made.txt").read_text() == "mine\n" for record in ran)
        assert ran[0].cwd != ran[1].cwd and not (shop / "made.txt").exists()


async def test_a_run_that_changed_nothing_leaves_no_worktree(sqlite: str, tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop")
    async with hub_on(sqlite, tmp_path / "a", SetClock()) as here, scheduling(here):
        made = await here.add(cwd=str(shop), worktree=True)
        here.clock.move(24 * HOUR)
        (run,) = await here.until_states(made.id, "success")
        record = here.sessions.get(run.session)
        assert record.worktree is not None and record.worktree.ended == "discarded"
        assert not Path(record.cwd).exists() and branches(shop) == {"main"}
        await here.sessions.prompt(run.session, Prompt("go on"))  # a person does: it is made again
        await eventually(lambda: here.heard == ["look around", "go on"], "it does not go on")
        assert Path(here.sessions.get(run.session).cwd, "a.txt").exists()


async def test_a_worktree_that_cannot_be_made_fails_the_run_with_the_reason(sqlite: str, tmp_path: Path) -> None:
    async with hub_on(sqlite, tmp_path / "a", SetClock()) as here, scheduling(here):
        made = await here.add(worktree=True)  # where there is no repository
        here.clock.move(24 * HOUR)
        (run,) = await here.until_states(made.id, "failed")
        assert "is not in a git repository" in run.problem and here.heard == []
        with pytest.raises(UsageError, match="cannot begin the name of a branch"):
            await here.add(worktree=True, branch="-x..y")


@pytest.mark.parametrize("dies", ["before", "after"])
async def test_a_hub_that_dies_while_it_cleans_up_leaves_it_to_the_next(sqlite: str, tmp_path: Path, dies: str) -> None:
    class Dying(HubSessions):
        reached = asyncio.Event()

        async def remove_unused_worktree(self, session: str) -> None:
            if dies == "after":
                await super().remove_unused_worktree(session)
            self.reached.set()
            await asyncio.Event().wait()

    shop = repository(tmp_path / "shop")
    async with hub_on(sqlite, tmp_path / "a", SetClock()) as here:
        dying = Dying(here.hub)
        async with scheduling(here, dying, lease_s=1):
            made = await here.add(cwd=str(shop), worktree=True)
            here.clock.move(24 * HOUR)
            async with asyncio.timeout(BOUND):
                await dying.reached.wait()
        async with scheduling(here, lease_s=1):
            (run,) = await here.until_states(made.id, "success")
            assert not Path(here.sessions.get(run.session).cwd).exists() and branches(shop) == {"main"}
            assert here.heard == ["look around"], "it is one run"
