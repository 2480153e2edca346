"""Sessions on a real bus: durable prompts, asks decided once, one log for live and replay."""

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.bus.conftest import address

from tieline.bus import open_bus
from tieline.config import Config, WatchdogConfig
from tieline.drivers.base import Prompt
from tieline.drivers.scripted import Scripted
from tieline.errors import UnknownAgent, Unsupported, UsageError
from tieline.events import Answer, Ask, Done, Event, Status, Text, TextDelta, TurnStarted, Warning
from tieline.policy import Policy
from tieline.script import Inquire, Reply, Run, Say, Stall, Think, Write
from tieline.sessions.event_log import EventLog
from tieline.sessions.manager import SessionManager
from tieline.sessions.pending_asks import AlreadyAnswered
from tieline.sessions.prompt_queue import PromptQueue
from tieline.sessions.records import AskRecord, PromptRecord, SessionRecord
from tieline.testing.stream_checks import verify
from tieline.testing.wait_for import eventually

FULL = Policy("allow", "allow", "allow")
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


@pytest.fixture(params=["sqlite", "nats"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[str, None]:
    async with address(request.param, tmp_path) as url:
        yield url


@asynccontextmanager
async def managing(
    url: str, replies: Sequence[Reply], *, on_stall: Callable[[], None] = lambda: None, **options: Any
) -> AsyncGenerator[SessionManager, None]:
    settings = {name: options.pop(name) for name in ("pool", "watchdog", "policy") if name in options}
    config = Config(default_agent="scripted", environ=ENV | options.pop("env", {}), **settings)
    async with (
        open_bus(url) as bus,
        SessionManager(bus, config, drivers={"scripted": Scripted(replies, on_stall=on_stall)}, **options) as manager,
    ):
        yield manager


async def until_done(manager: SessionManager, session: str, *, after: int = 0, turns: int = 1) -> list[Event]:
    """A session's events up to the end of so many turns."""
    seen: list[Event] = []
    async with asyncio.timeout(60):
        async for entry in manager.events(session, after=after):
            seen.append(entry.event)
            turns -= isinstance(entry.event, Done)
            if not turns:
                return seen
    raise AssertionError("the log ended")


async def settled(manager: SessionManager, session: str, prompt: str) -> PromptRecord:
    await eventually(lambda: manager.prompts.is_over(session, prompt), f"{prompt} did not end", timeout=60)
    return await manager.prompts.get(session, prompt)


async def pending(manager: SessionManager) -> AskRecord:
    await eventually(lambda: bool(manager.asks.pending()), "nothing was asked", timeout=60)
    return manager.asks.pending()[0]


async def test_a_prompt_becomes_a_log(tmp_path: Path, url: str) -> None:
    async with managing(url, [[Think("hm"), Say("the answer")]]) as manager:
        session = await manager.create(cwd=str(tmp_path), title="first")
        prompt = await manager.prompt(session.id, "go")
        seen = await until_done(manager, session.id)
        verify(seen)
        assert not [event for event in seen if isinstance(event, TextDelta)], "deltas are not in the log"
        record = await settled(manager, session.id, prompt.id)
        assert (record.status, record.outcome) == ("done", "success")
        replay = [entry.event async for entry in manager.events(session.id, follow=False)]
        assert replay == seen
        kept = manager.get(session.id)
        assert (kept.status, kept.turns, kept.last_line, kept.title) == ("idle", 1, "the answer", "first")
        assert (kept.tokens.output or 0) > 0
        assert [message.kind for message in await manager.messages(session.id)] == ["user", "thinking", "text", "done"]


async def test_the_first_prompt_gives_the_title(tmp_path: Path, url: str) -> None:
    """Unless a person has given one, or the session is a team's."""
    async with managing(url, [[Say("one")], [Say("two")]]) as manager:
        bare = (await manager.create(cwd=str(tmp_path))).id
        named = (await manager.create(cwd=str(tmp_path), title="mine")).id
        member = (await manager.create(cwd=str(tmp_path), team="t")).id
        for session in (bare, named, member):
            await manager.prompt(session, "Mend the `greeting`.\nPlease.")
            await until_done(manager, session)
        assert [manager.get(id).title for id in (bare, named, member)] == ["Mend the greeting.", "mine", ""]
        await manager.prompt(bare, "Something else.")
        await until_done(manager, bare, turns=2)
        assert manager.get(bare).title == "Mend the greeting."


async def test_those_who_listen_hear_deltas(tmp_path: Path, url: str) -> None:
    async with managing(url, [[Say("one two three", chunks=3, delay_s=0.02)]]) as manager:
        session = await manager.create(cwd=str(tmp_path))

        async def listen() -> list[Event]:
            heard: list[Event] = []
            async for entry in manager.events(session.id, deltas=True):
                heard.append(entry.event)
                if isinstance(entry.event, Done):
                    break
            return heard

        listener = asyncio.create_task(listen())
        await asyncio.sleep(0)
        await manager.prompt(session.id, "go")
        async with asyncio.timeout(60):
            heard = await listener
        assert "".join(event.text for event in heard if isinstance(event, TextDelta)).startswith("one")
        assert [event.text for event in heard if isinstance(event, Text)] == ["one two three"]


async def test_unknown_things_are_named(tmp_path: Path, url: str) -> None:
    async with managing(url, []) as manager:
        with pytest.raises(UnknownAgent):
            await manager.create("nobody", cwd=str(tmp_path))
        with pytest.raises(UsageError, match="no directory"):
            await manager.create(cwd=str(tmp_path / "none"))
        with pytest.raises(UsageError, match="no session"):
            await manager.prompt("nothing", "go")
        session = await manager.create(cwd=str(tmp_path))
        with pytest.raises(UsageError, match="empty"):
            await manager.prompt(session.id, " ")
        with pytest.raises(UsageError, match="no ask"):
            await manager.answer("nothing", Answer("", "allow"))
        with pytest.raises(Unsupported, match="fork"):
            await manager.fork(session.id)
        with pytest.raises(UsageError, match="cannot be changed"):
            await manager.update(session.id, cwd="/")


async def test_sending_twice_is_harmless(tmp_path: Path, url: str) -> None:
    async with managing(url, [[Say("once")]]) as manager:
        session = await manager.create(cwd=str(tmp_path))
        first = await manager.prompt(session.id, "go", id="client-1")
        again = await manager.prompt(session.id, "go", id="client-1")
        assert again.id == first.id
        await settled(manager, session.id, "client-1")
        assert (await manager.prompt(session.id, "go", id="client-1")).status == "done"
        assert manager.get(session.id).turns == 1
        with pytest.raises(UsageError, match="not valid"):
            await manager.prompt(session.id, "go", id="a.b")


async def test_clients_of_different_sessions_may_choose_the_same_id(tmp_path: Path, url: str) -> None:
    async with managing(url, [[Say("answer")]]) as manager:
        sessions = [await manager.create(cwd=str(tmp_path)) for _ in range(20)]
        for session in sessions:
            await manager.prompt(session.id, "go", id="p")
        for session in sessions:
            verify(await until_done(manager, session.id))


async def test_a_queue_can_be_cancelled_and_reordered(tmp_path: Path, url: str) -> None:
    stalled = asyncio.Event()
    replies: list[Reply] = [[Stall()], *[[Say(str(number))] for number in range(5)]]
    async with managing(url, replies, on_stall=stalled.set) as manager:
        session = await manager.create(cwd=str(tmp_path))
        running = await manager.prompt(session.id, "p0", id="p0")
        for name in ("p1", "p2", "p3"):
            await manager.prompt(session.id, name, id=name)
        async with asyncio.timeout(60):
            await stalled.wait()
        await manager.prompts.cancel(session.id, "p1")
        await manager.prompts.move(session.id, "p3", before="p2")
        with pytest.raises(UsageError, match="running"):
            await manager.prompts.cancel(session.id, running.id)
        assert [record.id for record in manager.prompts.waiting(session.id)] == ["p3", "p2"]
        assert await manager.abort(session.id)
        seen = await until_done(manager, session.id, turns=3)
        started = [event.prompt for event in seen if event.type == "turn_started"]  # type: ignore[attr-defined]
        assert started == ["p0", "p3", "p2"]
        assert (await settled(manager, session.id, "p0")).outcome == "interrupted"
        assert (await manager.prompts.get(session.id, "p1")).status == "cancelled"


async def test_an_abort_that_comes_early_counts(tmp_path: Path, url: str) -> None:
    async with managing(url, [[Stall()]]) as manager:
        session = await manager.create(cwd=str(tmp_path))
        await manager.prompt(session.id, "go", id="p")
        await eventually(lambda: manager.prompts.running(session.id) is not None, "nothing runs")
        assert await manager.abort(session.id)
        assert (await settled(manager, session.id, "p")).outcome == "interrupted"


async def test_the_agents_own_id_is_known_before_its_turn_ends(tmp_path: Path, url: str) -> None:
    """From its first words: whoever dies in the middle of a first turn can still go on with it."""
    async with managing(url, [[Stall()]]) as manager:
        session = await manager.create(cwd=str(tmp_path))
        assert session.native_id == ""
        await manager.prompt(session.id, "go")
        await eventually(lambda: manager.get(session.id).native_id != "", "it is not known", timeout=60)
        assert manager.prompts.running(session.id) is not None, "its turn goes on"


async def test_an_ask_waits_for_people(tmp_path: Path, url: str) -> None:
    async with managing(url, [[Write("new.txt", "x\n")], [Say("written")]]) as manager:
        session = await manager.create(cwd=str(tmp_path))
        await manager.prompt(session.id, "go", id="p")
        ask = await pending(manager)
        assert (ask.session, ask.ask.capability) == (session.id, "file_write")
        assert manager.get(session.id).status == "waiting"
        with pytest.raises(UsageError, match="has changed"):
            await manager.answer(ask.id, Answer("", "allow", by="me"), digest="wrong")
        await manager.answer(ask.id, Answer("", "allow", by="me"), digest=ask.digest)
        with pytest.raises(AlreadyAnswered, match="by me: allow"):
            await manager.answer(ask.id, Answer("", "deny", by="you"))
        await settled(manager, session.id, "p")
        assert (tmp_path / "new.txt").exists()
        seen = [entry.event async for entry in manager.events(session.id, follow=False)]
        (answer,) = [event for event in seen if isinstance(event, Answer)]
        assert (answer.ask, answer.by, answer.decision) == (ask.id, "me", "allow")


async def test_an_ask_expires(tmp_path: Path, url: str) -> None:
    async with managing(url, [[Run("touch no.txt")], [Say("refused")]], ask_expiry_s=0.1) as manager:
        session = await manager.create(cwd=str(tmp_path))
        await manager.prompt(session.id, "go", id="p")
        await settled(manager, session.id, "p")
        log = [entry.event async for entry in manager.events(session.id, follow=False)]
        (ask,) = [event for event in log if isinstance(event, Ask)]
        assert [event.by for event in log if isinstance(event, Answer)] == ["expiry"]
        record, _ = await manager.asks.get(ask.id)
        assert record.status == "expired"
        assert not (tmp_path / "no.txt").exists()
        with pytest.raises(AlreadyAnswered, match="expired"):
            await manager.answer(ask.id, Answer("", "allow"))


async def test_an_ask_is_withdrawn_with_its_turn(tmp_path: Path, url: str) -> None:
    async with managing(url, [[Inquire("which?", ("a", "b"))]]) as manager:
        session = await manager.create(cwd=str(tmp_path))
        await manager.prompt(session.id, "go", id="p")
        ask = await pending(manager)
        await manager.abort(session.id)
        assert (await settled(manager, session.id, "p")).outcome == "interrupted"
        record, _ = await manager.asks.get(ask.id)
        assert record.status == "withdrawn"
        assert not manager.asks.pending()


@pytest.mark.slow
async def test_two_answers_at_once_a_thousand_times(tmp_path: Path, url: str) -> None:
    async with managing(url, []) as manager:
        await manager.create(cwd=str(tmp_path), id="s")

        async def race(number: int) -> None:
            ask = Ask(f"ask-{number}", "permission")
            waiting = asyncio.create_task(manager.asks.wait("s", ask))
            mine = manager.asks.pending
            await eventually(lambda: any(record.id == ask.id for record in mine()), "not pending", timeout=60)
            both = await asyncio.gather(
                manager.answer(ask.id, Answer("", "allow", by="one")),
                manager.answer(ask.id, Answer("", "deny", by="two")),
                return_exceptions=True,
            )
            won = [result for result in both if isinstance(result, AskRecord)]
            lost = [result for result in both if isinstance(result, AlreadyAnswered)]
            assert (len(won), len(lost)) == (1, 1), both
            assert (await waiting) == won[0].answer == lost[0].record.answer

        async with asyncio.timeout(60):
            for start in range(0, 1000, 50):
                await asyncio.gather(*(race(number) for number in range(start, start + 50)))


async def test_an_ask_can_be_answered_as_soon_as_the_log_shows_it(tmp_path: Path, url: str) -> None:
    async with managing(url, [[Run(f"touch {number}")] for number in range(20)]) as manager:
        session = await manager.create(cwd=str(tmp_path), policy=Policy("ask", "ask", "ask"))
        await manager.prompt(session.id, "go")
        async with asyncio.timeout(60):
            async for entry in manager.events(session.id):
                if isinstance(entry.event, Ask):
                    await manager.answer(entry.event.id, Answer("", "allow", by="me"))
                if isinstance(entry.event, Done):
                    break
        assert {path.name for path in tmp_path.glob("[0-9]*")} == {str(number) for number in range(20)}


async def test_state_outlives_the_router(tmp_path: Path, url: str) -> None:
    async with managing(url, [[Say("one")]]) as manager:
        session = await manager.create(cwd=str(tmp_path), policy=FULL, title="kept")
        await manager.prompt(session.id, "go", id="p")
        await settled(manager, session.id, "p")
        before = manager.get(session.id)
    async with managing(url, [[Say("two")]]) as manager:
        assert manager.get(session.id) == before
        assert manager.sessions() == [before]
        await manager.prompt(session.id, "go", id="q")
        await settled(manager, session.id, "q")
        texts = [e.event.text async for e in manager.events(session.id, follow=False) if isinstance(e.event, Text)]
        assert texts == ["one", "two"]


async def test_an_event_larger_than_a_record(tmp_path: Path, url: str) -> None:
    text = "0123456789" * 500_000
    async with managing(url, [[Say(text, chunks=1)], [Say("small")]]) as manager:
        session = await manager.create(cwd=str(tmp_path))
        await manager.prompt(session.id, "go", id="p")
        await manager.prompt(session.id, "go", id="q")
        await settled(manager, session.id, "q")
        entries = [entry async for entry in manager.events(session.id, follow=False)]
        texts = [entry.event.text for entry in entries if isinstance(entry.event, Text)]
        assert texts == [text, "small"]
        again = [entry async for entry in manager.events(session.id, after=entries[2].seq, follow=False)]
        assert again == entries[3:]


async def test_diff_since_the_session_began(tmp_path: Path, url: str) -> None:
    repository = tmp_path / "place"
    repository.mkdir()
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", "-b", "trunk"], cwd=repository, check=True, env=ENV)
    (repository / "before.txt").write_text("before\n")
    home = {"TIELINE_HOME": str(tmp_path / "state")}
    async with managing(url, [[Write("new.txt", "by the agent\n")], [Say("written")]], env=home) as manager:
        session = await manager.create(cwd=str(repository), policy=FULL)
        await manager.prompt(session.id, "go", id="p")
        await settled(manager, session.id, "p")
        diff = await manager.diff(session.id)
        assert "+by the agent" in diff
        assert "before" not in diff
        assert manager.get(session.id).branch == "trunk"


async def test_a_repository_that_git_cannot_read_is_told_once(tmp_path: Path) -> None:
    """The session works, and its diff is what the agent reports."""
    (tmp_path / "place/.git").mkdir(parents=True)
    (tmp_path / "place/.git/HEAD").write_text("ref: refs/heads/trunk\n")
    env = {"TIELINE_HOME": str(tmp_path / "state"), "PATH": str(tmp_path)}  # no git there
    async with managing(f"sqlite://{tmp_path}/bus.db", [[Say("one")], [Say("two")]], env=env) as manager:
        session = await manager.create(cwd=str(tmp_path / "place"))
        for _ in range(2):
            await manager.prompt(session.id, "go")
        seen = await until_done(manager, session.id, turns=2)
        verify(seen[: seen.index(next(event for event in seen if isinstance(event, Done))) + 1])
        (warning,) = [event for event in seen if isinstance(event, Warning)]
        assert "git is not installed" in warning.message and "Install git" in warning.message


async def test_what_an_agent_wrote_into_the_repository_runs_neither_for_a_diff_nor_for_a_first_prompt(
    tmp_path: Path,
) -> None:
    """It may write files, and nothing else."""
    repository, ran = tmp_path / "place", tmp_path / "ran"
    repository.mkdir()
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", "-b", "trunk"], cwd=repository, check=True, env=ENV)
    config = (repository / ".git/config").read_text() + f'[filter "x"]\n\tclean = "touch {ran}; cat"\n'
    written = [[Write(".git/config", config), Write(".gitattributes", "* filter=x\n")], [Say("written")]]
    home = {"TIELINE_HOME": str(tmp_path / "state")}
    async with managing(f"sqlite://{tmp_path}/bus.db", [*written, [Say("read")]], env=home) as manager:
        session = await manager.create(cwd=str(repository), policy=Policy("allow", "deny", "deny"))
        await manager.prompt(session.id, "go", id="p")
        await settled(manager, session.id, "p")
        assert "+* filter=x" in await manager.diff(session.id)
        reader = await manager.create(cwd=str(repository), policy=Policy("deny", "deny", "deny"))
        await manager.prompt(reader.id, "go", id="q")
        await settled(manager, reader.id, "q")
        assert manager.get(reader.id).began and await manager.diff(reader.id) == ""
    assert not ran.exists()
    await asyncio.to_thread(subprocess.run, ["git", "add", "--all"], cwd=repository, check=True, env=ENV)
    assert ran.exists(), "plain git runs it"


@pytest.mark.slow
async def test_a_quiet_agent_is_said_to_be_stuck(tmp_path: Path, url: str) -> None:
    async with managing(url, [[Stall()], [Say("alive")]], watchdog=WatchdogConfig(quiet_s=0.5)) as manager:
        session = await manager.create(cwd=str(tmp_path))
        await manager.prompt(session.id, "go", id="p")
        await eventually(lambda: manager.get(session.id).status == "stuck", "nobody noticed", timeout=60)
        await manager.abort(session.id)
        await settled(manager, session.id, "p")
        seen = [entry.event async for entry in manager.events(session.id, follow=False)]
        assert [event.state for event in seen if isinstance(event, Status)] == ["stuck"]
        await manager.prompt(session.id, "go", id="q")
        assert (await settled(manager, session.id, "q")).status == "done"


async def test_changes_and_closing(tmp_path: Path, url: str) -> None:
    async with managing(url, [[Run("touch ran.txt")], [Say("x")], [Run("touch ran.txt")], [Say("y")]]) as manager:
        session: SessionRecord = await manager.create(cwd=str(tmp_path), policy=Policy("deny", "deny", "deny"))
        await manager.prompt(session.id, "go", id="p")
        await settled(manager, session.id, "p")
        assert not (tmp_path / "ran.txt").exists()
        await manager.update(session.id, policy=FULL, title="renamed")
        await manager.prompt(session.id, "go", id="q")
        await settled(manager, session.id, "q")
        assert (tmp_path / "ran.txt").exists()
        closed = await manager.close(session.id)
        assert (closed.status, closed.title, closed.turns) == ("closed", "renamed", 2)
        await manager.update(session.id, archived=True)
        assert manager.sessions() == []
        assert [record.id for record in manager.sessions(archived=True)] == [session.id]


async def test_nothing_starts_once_the_end_has_begun(tmp_path: Path, url: str) -> None:
    """What waited is not begun while the turn before it is interrupted; it runs after the next start."""
    stalled = asyncio.Event()
    waited: list[tuple[SessionRecord, ...]] = []
    async with managing(url, [[Stall()]], on_stall=stalled.set, ending=waited.append) as manager:
        session = await manager.create(cwd=str(tmp_path), title="long")
        first = await manager.prompt(session.id, "one")
        await asyncio.wait_for(stalled.wait(), 60)
        second = await manager.prompt(session.id, "two")
        manager.stop_starting()
        late = await manager.prompt(session.id, "three")
        other = await manager.create(cwd=str(tmp_path))
        alone = await manager.prompt(other.id, "elsewhere")
    assert [[record.title for record in turns] for turns in waited] == [["long"], []]
    async with open_bus(url) as bus:
        prompts = PromptQueue(bus)
        assert (await prompts.get(session.id, first.id)).outcome == "interrupted"
        for id, prompt in ((session.id, second), (session.id, late), (other.id, alone)):
            assert (await prompts.get(id, prompt.id)).status == "queued"
        entries = [entry.event async for entry in EventLog(bus).read(session.id, follow=False)]
        assert [event.prompt for event in entries if isinstance(event, TurnStarted)] == ["one"]
    async with managing(url, [[Say("Went on.")]] * 3) as manager:
        assert (await settled(manager, session.id, second.id)).status == "done"
        assert (await settled(manager, session.id, late.id)).status == "done"
        assert (await settled(manager, other.id, alone.id)).status == "done"


async def test_a_prompt_that_was_only_just_taken_waits_again(tmp_path: Path, url: str) -> None:
    async with open_bus(url) as bus:
        prompts = PromptQueue(bus)
        first, _ = await prompts.receive("one", Prompt("first"))
        second, _ = await prompts.receive("one", Prompt("second"))
        taken = await prompts.start("one")
        assert taken is not None and taken.id == first.id
        await prompts.give_back(taken)
        assert [record.id for record in prompts.waiting("one")] == [first.id, second.id]
        assert prompts.running("one") is None and (await prompts.get("one", first.id)).status == "queued"


async def test_a_prompt_that_is_being_changed_starts_once_and_as_it_is_then(url: str) -> None:
    """A start, a move and an edit at the same moment: nothing runs twice, nothing is lost after a crash."""
    async with open_bus(url) as bus:
        prompts = PromptQueue(bus)
        for id in ("a", "b", "c"):
            await prompts.receive("one", Prompt(f"text {id}"), id=id)
        edited, taken, _, gone = await asyncio.gather(
            prompts.edit("one", "a", "other words"),
            prompts.start("one"),
            prompts.move("one", "c", before="b"),
            prompts.edit("one", "a", "too late"),
            return_exceptions=True,
        )
        assert isinstance(edited, PromptRecord) and isinstance(taken, PromptRecord)
        assert (taken.id, taken.text) == ("a", "other words")
        assert isinstance(gone, UsageError) and "(status: running)" in gone.message
        assert [record.id for record in prompts.waiting("one")] == ["c", "b"]
        _, cancelled = await asyncio.gather(prompts.edit("one", "b", "not to be seen"), prompts.cancel("one", "b"))
        assert cancelled.status == "cancelled"
        after_a_crash = PromptQueue(bus)
        (running,) = await after_a_crash.load(lambda session: True)
        assert (running.id, running.text) == ("a", "other words")
        assert [record.id for record in after_a_crash.waiting("one")] == ["c"]


async def test_so_many_prompts_wait_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.sessions.prompt_queue.MAX_QUEUED", 2)
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
        prompts = PromptQueue(bus)
        for number in range(3):  # the first of them runs
            await prompts.receive("one", Prompt(f"{number}"))
            if not number:
                await prompts.start("one")
        with pytest.raises(UsageError, match="2 prompts are already waiting"):
            await prompts.receive("one", Prompt("3"))
        await prompts.receive("another", Prompt("3"))


async def test_a_prompt_that_is_taken_when_the_end_begins_is_not_run(tmp_path: Path, url: str) -> None:
    async with managing(url, [[Say("Not said.")]]) as manager:
        session = await manager.create(cwd=str(tmp_path))
        start, given_back = manager.prompts.start, asyncio.Event()
        give_back = manager.prompts.give_back

        async def start_late(id: str) -> PromptRecord | None:
            prompt = await start(id)
            manager.stop_starting()
            return prompt

        async def note(prompt: PromptRecord) -> None:
            await give_back(prompt)
            given_back.set()

        manager.prompts.start, manager.prompts.give_back = start_late, note  # type: ignore[method-assign]
        prompt = await manager.prompt(session.id, "go")
        async with asyncio.timeout(60):
            await given_back.wait()
    async with open_bus(url) as bus:
        assert (await PromptQueue(bus).get(session.id, prompt.id)).status == "queued"
        assert not [entry async for entry in EventLog(bus).read(session.id, follow=False)]


async def test_without_a_repository_the_diff_is_the_agents_own(tmp_path: Path, url: str) -> None:
    replies: list[Reply] = [[Write("a.txt", "one\n")], [Say("Written.")]]
    async with managing(url, replies) as manager:
        session = await manager.create(cwd=str(tmp_path), policy=Policy("allow", "deny", "deny"))
        prompt = await manager.prompt(session.id, "write")
        await settled(manager, session.id, prompt.id)
        async with asyncio.timeout(60):
            assert "+one\n" in await manager.diff(session.id)


async def test_a_new_title_leaves_the_agent_alone_and_a_new_model_ends_it(tmp_path: Path, url: str) -> None:
    async with managing(url, [[Say("One.")]]) as manager:
        session = await manager.create(cwd=str(tmp_path))
        assert (await manager.update(session.id, model="small")).model == "small", "it has no agent yet"
        prompt = await manager.prompt(session.id, "go")
        await settled(manager, session.id, prompt.id)
        runner = manager.runners[session.id]
        assert (await manager.update(session.id, title="new")).title == "new"
        assert manager.runners[session.id] is runner
        await manager.update(session.id, model="large")
        assert session.id not in manager.runners
