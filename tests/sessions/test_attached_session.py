"""A session of a terminal in our records: each event once, the first answer wins, prompts wait until it is idle."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from tieline.bus import open_bus
from tieline.config import Config
from tieline.drivers.base import Driver, Prompt
from tieline.drivers.scripted import Scripted
from tieline.errors import Unsupported, UsageError
from tieline.events import (
    Answer,
    Ask,
    Command,
    Done,
    Event,
    Init,
    Status,
    Text,
    TextDelta,
    ToolResult,
    ToolUse,
    TurnStarted,
)
from tieline.harnesses.attach_consent import CurrentConsent
from tieline.policy import Policy
from tieline.script import Say
from tieline.sessions.ask_rules import AskRule
from tieline.sessions.attached_session import (
    ANSWER_THERE,
    AT_THE_TERMINAL,
    MODE,
    SAID,
    AttachedSession,
    TerminalUnreachable,
    check_attached_prompt,
)
from tieline.sessions.attacher import GONE, Attacher
from tieline.sessions.manager import SessionManager
from tieline.sessions.records import PromptRecord, Remote
from tieline.testing.wait_for import eventually

NATIVE = "01890000-0000-7000-8000-000000000001"


class Resumable(Scripted):
    features = replace(Scripted.features, resume=True)


class RecordingTerminal:
    def __init__(self, *remote: Remote) -> None:
        self.remote: tuple[Remote, ...] = remote or ("prompt", "steer", "abort", "answer")
        self.process = 0
        self.calls: list[str] = []
        self.failures = 0

    async def prompt(self, text: str, *, model: str = "", effort: str = "") -> None:
        if self.failures:
            self.failures -= 1
            raise TerminalUnreachable("it is just starting")
        self.calls.append(" ".join(filter(None, (text, model, effort))))

    async def steer(self, text: str) -> None:
        self.calls.append(f"steer {text}")

    async def abort(self) -> None:
        self.calls.append("abort")


@asynccontextmanager
async def manager_in(folder: Path, **drivers: Driver) -> AsyncGenerator[SessionManager, None]:
    config = Config(environ={"HOME": str(folder), "TIELINE_HOME": str(folder), "PATH": "/usr/bin:/bin"})
    async with (
        open_bus(f"sqlite://{folder / 'bus.db'}") as bus,
        SessionManager(bus, config, node="here", drivers=drivers) as manager,
    ):
        yield manager


async def attached(manager: SessionManager, folder: Path, terminal: RecordingTerminal) -> AttachedSession:
    return await manager.attach("codex", NATIVE, cwd=str(folder), terminal=terminal)


async def events(manager: SessionManager, session: AttachedSession) -> list[Event]:
    await session.flush()
    return [entry.event async for entry in manager.events(session.record.id, follow=False)]


def tell(session: AttachedSession, *events: Event) -> None:
    for event in events:
        assert session.tell(event)


TURN = (
    TurnStarted("list the files", "turn-1"),
    ToolUse("call-1", "exec_command", Command("ls")),
    ToolResult("call-1", "ok", "a b"),
    Text("There are two.", "item-1"),
    Done("success", text="There are two."),
)


async def test_a_turn_of_the_terminal_is_written_and_counted(tmp_path: Path) -> None:
    async with manager_in(tmp_path) as manager:
        session = await attached(manager, tmp_path, RecordingTerminal())
        tell(session, Init("codex", NATIVE, model="m"), *TURN, TextDelta("not kept"))
        assert await events(manager, session) == [Init("codex", NATIVE, model="m"), *TURN]
        record = manager.get(session.record.id)
        assert (record.kind, record.status, record.turns, record.last_line) == ("attached", "idle", 1, "There are two.")
        assert record.model == "m"


async def test_a_new_session_says_from_its_first_record_on_what_can_be_done_from_elsewhere(tmp_path: Path) -> None:
    async with manager_in(tmp_path) as manager, asyncio.timeout(30):
        terminal = RecordingTerminal()
        attaching = asyncio.create_task(
            manager.attach("codex", NATIVE, cwd=str(tmp_path), terminal=terminal, working=True)
        )
        while not manager.sessions():  # noqa: ASYNC110 (at each step of the loop)
            await asyncio.sleep(0)
        (first,) = manager.sessions()
        assert not attaching.done(), "it is seen before it is ready"
        assert (first.remote, first.status) == (terminal.remote, "working")
        await attaching


async def test_the_same_words_said_twice_in_a_turn_are_told_by_their_place(tmp_path: Path) -> None:
    words = Status(SAID, "go on")
    turn = (*TURN[:2], words, Status("retrying"), words)
    async with manager_in(tmp_path) as manager:
        session = await attached(manager, tmp_path, RecordingTerminal())
        tell(session, *turn, *turn)
        assert await events(manager, session) == [*turn]
    async with manager_in(tmp_path) as manager:
        session = await attached(manager, tmp_path, RecordingTerminal())
        tell(session, *TURN[:2], words, words, words, TURN[2])  # the history does not have all that was told live
        assert await events(manager, session) == [*turn, words, TURN[2]]


async def test_a_mode_is_written_when_it_changes_and_not_with_each_turn(tmp_path: Path) -> None:
    usual, plan = Status(MODE, "default"), Status(MODE, "plan")
    second = replace(TURN[0], id="turn-2")
    async with manager_in(tmp_path) as manager:
        session = await attached(manager, tmp_path, RecordingTerminal())
        tell(session, TURN[0], usual, TURN[-1], second, plan, usual)
        assert await events(manager, session) == [TURN[0], TURN[-1], second, plan, usual]
        assert manager.get(session.record.id).mode == "default"
    async with manager_in(tmp_path) as manager:
        session = await attached(manager, tmp_path, RecordingTerminal())
        tell(session, second, plan, usual, TURN[-1], replace(TURN[0], id="turn-3"), usual, plan)
        log = await events(manager, session)
        assert [event for event in log if isinstance(event, Status)] == [plan, usual, plan]
        assert manager.get(session.record.id).mode == "plan"


async def test_what_is_told_again_is_not_written_again(tmp_path: Path) -> None:
    async with manager_in(tmp_path) as manager:
        session = await attached(manager, tmp_path, RecordingTerminal())
        tell(session, *TURN[:2], *TURN[:3], *TURN[:4])
        assert await events(manager, session) == [*TURN[:4]]
        session.tell(TURN[4], cursor="turn-1")
        id = session.record.id
        await session.flush()
        assert manager.get(id).cursor == "turn-1"
    async with manager_in(tmp_path) as manager:  # also not after a restart, in the middle of a turn
        session = await attached(manager, tmp_path, RecordingTerminal())
        assert session.record.id == id
        second = TurnStarted("and now?", "turn-2")
        tell(session, Init("codex", NATIVE), second, Text("Wait.", "item-2"))
        await session.flush()
    async with manager_in(tmp_path) as manager:
        session = await attached(manager, tmp_path, RecordingTerminal())
        tell(session, second, Text("Wait.", "item-2"), Text("Done.", "item-3"), Done("success", text="Done."))
        log = await events(manager, session)
        assert log[5:] == [second, Text("Wait.", "item-2"), Text("Done.", "item-3"), Done("success", text="Done.")]


async def test_a_prompt_waits_until_the_terminal_is_idle_and_its_turn_is_the_prompts(tmp_path: Path) -> None:
    async with manager_in(tmp_path) as manager:
        terminal = RecordingTerminal()
        terminal.failures = 1
        session = await attached(manager, tmp_path, terminal)
        session.activity("working")
        tell(session, TURN[0])
        await session.flush()
        prompt = await manager.prompt(session.record.id, "and the size?", id="p1")
        await manager.steer(session.record.id, "quickly")
        assert await manager.abort(session.record.id)
        assert terminal.calls == ["steer quickly", "abort"]
        assert [waiting.id for waiting in manager.prompts.waiting(session.record.id)] == [prompt.id]
        tell(session, Done("interrupted"))
        session.activity("idle")
        await eventually(lambda: terminal.calls[-1] == "and the size?", "the prompt was not sent")
        tell(session, TurnStarted("<peer>and the size?</peer>", "turn-2"), Done("success"))
        assert TurnStarted("<peer>and the size?</peer>", "p1") in await events(manager, session)
        assert (await manager.prompts.get(session.record.id, "p1")).status == "done"
        with pytest.raises(UsageError, match="no turn is running"):
            await manager.steer(session.record.id, "too late")
        assert not await manager.abort(session.record.id)


async def test_a_prompt_that_comes_while_it_is_looked_for_one_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with manager_in(tmp_path) as manager:
        start, looked, go_on = manager.prompts.start, asyncio.Event(), asyncio.Event()

        async def slow_start(session: str) -> PromptRecord | None:
            record = await start(session)
            looked.set()
            await go_on.wait()
            return record

        monkeypatch.setattr(manager.prompts, "start", slow_start)
        terminal = RecordingTerminal()
        session = await attached(manager, tmp_path, terminal)
        await looked.wait()  # there was none
        await manager.prompt(session.record.id, "hello")
        go_on.set()
        await eventually(lambda: terminal.calls == ["hello"], "the prompt lies there")


async def test_the_first_answer_wins_and_none_expires(tmp_path: Path) -> None:
    async with manager_in(tmp_path) as manager:
        session = await attached(manager, tmp_path, RecordingTerminal())
        tell(session, TURN[0], TURN[1])
        asking = asyncio.create_task(session.ask(Ask("1", "permission", "Run ls", tool="call-1"), "a1"))
        await eventually(lambda: bool(manager.asks.pending()), "nothing is asked")
        (pending,) = manager.asks.pending(session.record.id)
        assert pending.expires_at == 0
        await eventually(lambda: manager.get(session.record.id).status == "waiting", "it does not wait")
        await manager.answer(pending.id, Answer(pending.id, "deny", by="alice", reason="not now"))
        assert (await asking).by == "alice"
        await session.settle("a1", "allow")  # too late
        again = asyncio.create_task(session.ask(Ask("1", "permission", "Run ls", tool="call-1"), "a1"))
        await eventually(lambda: bool(manager.asks.pending()), "nothing is asked")
        (pending,) = manager.asks.pending(session.record.id)
        await session.settle("a1", "allow")
        assert ((await again).decision, (await again).by) == ("allow", AT_THE_TERMINAL)
        with pytest.raises(UsageError, match="answered by terminal: allow"):
            await manager.answer(pending.id, Answer(pending.id, "deny", by="alice"))
        answers = [event for event in await events(manager, session) if isinstance(event, Answer)]
        assert [(answer.by, answer.decision) for answer in answers] == [("alice", "deny"), (AT_THE_TERMINAL, "allow")]


async def test_a_terminal_that_is_gone_leaves_no_open_turn_nor_ask(tmp_path: Path) -> None:
    async with manager_in(tmp_path) as manager:
        session = await attached(manager, tmp_path, RecordingTerminal())
        tell(session, *TURN[:2])
        asking = asyncio.create_task(session.ask(Ask("1", "permission", "Run ls", tool="call-1"), "a1"))
        await eventually(lambda: bool(manager.asks.pending()), "nothing is asked")
        await session.detach()
        assert asking.cancelled()
        assert not manager.asks.pending()
        log = await events(manager, session)
        assert isinstance(log[-1], Done)
        assert ToolResult("call-1", "error", "it was not finished") in log
        assert manager.get(session.record.id).status == "closed"
        await manager.close(session.record.id)
        with pytest.raises(UsageError, match="no turn is running"):
            await manager.steer(session.record.id, "anyone?")


async def test_a_terminal_that_ended_while_we_were_away_is_closed(tmp_path: Path) -> None:
    async with manager_in(tmp_path) as manager:
        session = await attached(manager, tmp_path, RecordingTerminal())
        tell(session, *TURN[:2])
        await session.flush()
        id = session.record.id
        await manager.prompts.receive(id, Prompt("next"), id="p1")
    async with manager_in(tmp_path) as manager:
        assert manager.get(id).status == "working"
        assert [each.record.id for each in manager.attached("codex")] == [id]
        assert not manager.attached("claude-code")
        attacher = Attacher(manager, CurrentConsent({"HOME": str(tmp_path)}))
        await attacher.only("codex", {NATIVE})
        assert manager.get(id).status == "working"
        await attacher.only("codex", ())
        assert manager.get(id).status == "closed"
        assert not manager.attached("codex")
        assert [entry.event async for entry in manager.events(id, follow=False)][-1] == Done(
            "interrupted", error=GONE, native_id=NATIVE
        )
        assert [prompt.id for prompt in manager.prompts.waiting(id)] == ["p1"]


async def test_a_turn_that_began_before_we_came_back_is_at_work_once_its_reader_says_so(tmp_path: Path) -> None:
    async with manager_in(tmp_path) as manager:
        session = await attached(manager, tmp_path, RecordingTerminal())
        tell(session, *TURN[:2])
        await session.flush()
        id = session.record.id
    async with manager_in(tmp_path) as manager:
        session = await attached(manager, tmp_path, RecordingTerminal())
        assert session.record.id == id
        tell(session, *TURN[:2])
        session.activity("working")
        await eventually(lambda: manager.get(id).status == "working", "it looks idle")
        tell(session, *TURN[2:])
        session.activity("idle")
        await eventually(lambda: manager.get(id).status == "idle", "its turn is not over")
        session.activity("working")
        await session.flush()
        assert manager.get(id).status == "idle", "of the next turn nothing was told"


async def test_a_terminal_whose_process_still_runs_is_waited_for_until_it_has_told(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec("sleep", "600")
    try:
        for ends in (False, True):
            folder = tmp_path / str(ends)
            folder.mkdir()
            async with manager_in(folder) as manager:
                terminal = RecordingTerminal()
                terminal.process = process.pid
                session = await attached(manager, folder, terminal)
                tell(session, *TURN[:2])
                await session.flush()
                id = session.record.id
            async with manager_in(folder) as manager:
                attacher = Attacher(manager, CurrentConsent({"HOME": str(folder)}))
                assert not await attacher.only("codex", (), {os.getpid()})
                assert manager.get(id).status == "working", "it may be slow, or stopped"
                if ends:
                    process.kill()
                    await process.wait()
                assert await attacher.only("codex", (), () if ends else {process.pid})
                assert (manager.get(id).status, manager.get(id).process) == ("closed", "")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_what_a_terminal_does_not_take_is_refused(tmp_path: Path) -> None:
    async with manager_in(tmp_path) as manager:
        session = await attached(manager, tmp_path, RecordingTerminal("answer"))
        with pytest.raises(Unsupported, match="prompts from elsewhere"):
            await manager.prompt(session.record.id, "hello")
        with pytest.raises(UsageError, match="runs in a terminal"):
            await manager.close(session.record.id)
        with pytest.raises(UsageError, match="cannot be changed from here"):
            await manager.update(session.record.id, model="other")
        with pytest.raises(UsageError, match="open in a terminal"):
            await manager.adopt(session.record.id)
        assert (await manager.update(session.record.id, title="mine")).title == "mine"
        with pytest.raises(UsageError, match="empty"):
            check_attached_prompt(session.record, Prompt(" "), None)
        await session.detach()
        adopted = await manager.adopt(session.record.id)
        assert (adopted.kind, adopted.native_id, adopted.status) == ("driven", NATIVE, "idle")


async def test_a_model_goes_to_the_terminal_with_the_next_prompt_once_and_what_the_terminal_has_is_shown(
    tmp_path: Path,
) -> None:
    async with manager_in(tmp_path) as manager:
        terminal = RecordingTerminal("prompt", "model")
        session = await attached(manager, tmp_path, terminal)
        id = session.record.id
        for model in ("first", "typed"):  # the second was chosen at the terminal
            tell(session, Init("codex", NATIVE, str(tmp_path), model))
            await session.flush()
            assert manager.get(id).model == model
        await manager.update(id, model="mine", effort="high")
        tell(session, Init("codex", NATIVE, str(tmp_path), "typed"))
        await session.flush()
        assert manager.get(id).model == "mine", "it has not heard of it yet"
        with pytest.raises(UsageError, match="policy of a session in a terminal cannot be changed from here"):
            await manager.update(id, policy=Policy(), model="other")
    async with manager_in(tmp_path) as manager:  # a hub later
        terminal.failures = 1
        session = await attached(manager, tmp_path, terminal)
        await manager.prompt(id, "go", id="p1")
        await eventually(lambda: manager.get(id).problem == "it is just starting", "it is not said")
        await eventually(lambda: terminal.calls == ["go mine high"], "it was not sent")
        tell(session, TurnStarted("go", "t1"), Done("success"))
        await session.flush()
        await manager.prompt(id, "on", id="p2")
        await eventually(lambda: terminal.calls[1:] == ["on"], "it was sent again")
        assert (manager.get(id).model, manager.get(id).model_unsent, manager.get(id).problem) == ("mine", False, "")


async def test_turns_that_we_ran_are_not_told_again_when_it_is_back_in_a_terminal(tmp_path: Path) -> None:
    async with manager_in(tmp_path, codex=Resumable([[Say("From the phone.")], [Say("Twice.")]])) as manager:
        session = await attached(manager, tmp_path, RecordingTerminal())
        id = session.record.id
        tell(session, *TURN)
        await session.flush()
        await session.detach()
        await manager.adopt(id)
        for number, text in enumerate(("one from the phone", "and another")):
            await manager.prompt(id, text)
            await eventually(lambda turns=number + 2: manager.get(id).turns == turns, "the turn did not end")
        before = [entry.event async for entry in manager.events(id, follow=False)]
        again = await attached(manager, tmp_path, RecordingTerminal())
        assert again.record.id == id
        # The harness's own history has all three, the first perhaps once more, and then the terminal's next.
        for number, text in enumerate(("one from the phone", "and another")):
            tell(again, TurnStarted(text, f"native-{number}"), Text("Its words.", f"n{number}"), Done("success"))
        back = (TurnStarted("back at the desk", "native-9"), Text("Welcome.", "n9"), Done("success", text="Welcome."))
        tell(again, *back)
        assert await events(manager, again) == [*before, *back]
        assert (manager.get(id).kind, manager.get(id).turns) == ("attached", 4)


async def test_what_takes_no_answer_from_elsewhere_is_not_answered_from_there(tmp_path: Path) -> None:
    async with manager_in(tmp_path) as manager:
        session = await attached(manager, tmp_path, RecordingTerminal("steer"))
        tell(session, *TURN[:2])
        asking = asyncio.create_task(session.ask(Ask("", "permission", tool="call-1", action=Command("ls")), "key"))
        await eventually(lambda: len(manager.asks.pending()) == 1, "nothing is asked")
        (pending,) = manager.asks.pending()
        for answer in (Answer(pending.id, "allow", by="alice"), Answer(pending.id, "deny", by="alice")):
            with pytest.raises(UsageError, match=ANSWER_THERE):
                await manager.answer(pending.id, answer)
        assert [record.id for record in manager.asks.pending()] == [pending.id]
        await session.settle("key", "allow")
        assert (await asking).by == AT_THE_TERMINAL
        with pytest.raises(UsageError, match="answered by terminal"):
            await manager.answer(pending.id, Answer(pending.id, "deny", by="alice"))


LS = Ask("1", "permission", "Run ls", tool="call-1", action=Command("ls"), input={"command": "ls"}, capability="shell")
LIST = AskRule(id="r1", match="exact", pattern="ls", made_by="anna")


@pytest.mark.parametrize(
    ("ask", "rule"),
    {
        "allow": (LS, LIST),
        "deny": (LS, replace(LIST, decision="deny")),
        "in its directory only": (LS, replace(LIST, directory="HERE")),
    }.values(),
)
async def test_a_rule_answers_and_nobody_is_asked(tmp_path: Path, ask: Ask, rule: AskRule) -> None:
    async with manager_in(tmp_path) as manager:
        rule = replace(rule, directory=str(tmp_path) if rule.directory else "")
        await manager.rules.keep_joined("hub", (rule,))
        session = await attached(manager, tmp_path, RecordingTerminal())
        tell(session, TURN[0], TURN[1])
        answer = await asyncio.wait_for(session.ask(ask, "a1"), 30)
        assert (answer.decision, answer.by, answer.rule, answer.tool) == (rule.decision, "rule", "r1", "call-1")
        assert "made by anna" in answer.reason
        await session.settle("a1", "deny")  # too late
        assert await events(manager, session) == [*TURN[:2], answer]
        record, _ = await manager.asks.get(answer.ask)
        assert (record.status, record.answer) == ("answered", answer)
        assert manager.get(session.record.id).obeys_rules


@pytest.mark.parametrize(
    ("ask", "rule", "remote"),
    {
        "another command": (replace(LS, action=Command("ls -l"), input={"command": "ls -l"}), LIST, ("answer",)),
        "another directory": (LS, replace(LIST, directory="/nonexistent"), ("answer",)),
        "its shell is elsewhere": (
            replace(LS, action=Command("ls", "/nonexistent")), replace(LIST, directory="HERE"), ("answer",),
        ),
        "another agent": (LS, replace(LIST, agent="claude-code"), ("answer",)),
        "more than the action": (replace(LS, wider=True), LIST, ("answer",)),
        "an input that is not understood": (replace(LS, input={"command": "ls", "sudo": True}), LIST, ("answer",)),
        "withheld": (replace(LS, withheld="too long"), LIST, ("answer",)),
        "a question": (replace(LS, kind="question"), LIST, ("answer",)),
        "revoked": (LS, replace(LIST, revoked_at=1.0), ("answer",)),
        "answered at the terminal only": (LS, LIST, ("steer",)),
        "a deny rule, answered at the terminal only": (LS, replace(LIST, decision="deny"), ("steer",)),
    }.values(),
)  # fmt: skip
async def test_what_no_rule_may_answer_is_for_people(
    tmp_path: Path, ask: Ask, rule: AskRule, remote: tuple[Remote, ...]
) -> None:
    async with manager_in(tmp_path) as manager:
        directory = str(tmp_path) if rule.directory == "HERE" else rule.directory
        await manager.rules.keep_joined("hub", (replace(rule, directory=directory),))
        session = await attached(manager, tmp_path, RecordingTerminal(*remote))
        tell(session, TURN[0], TURN[1])
        asking = asyncio.create_task(session.ask(ask, "a1"))
        await eventually(lambda: bool(manager.asks.pending()), "nothing is asked")
        assert not asking.done()
        await session.settle("a1", "allow")
        assert (await asking).by == AT_THE_TERMINAL
        assert session.record.obeys_rules == ("answer" in remote)


@pytest.mark.parametrize("decides", [True, False])
async def test_the_terminal_may_decide_while_rules_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decides: bool
) -> None:
    async with manager_in(tmp_path) as manager:
        if decides:
            await manager.rules.keep_joined("hub", (LIST,))
        rules, looked, go_on = manager.rules.rules, asyncio.Event(), asyncio.Event()

        async def slow_rules() -> list[AskRule]:
            looked.set()
            await go_on.wait()
            return await rules()

        monkeypatch.setattr(manager.rules, "rules", slow_rules)
        session = await attached(manager, tmp_path, RecordingTerminal())
        tell(session, TURN[0], TURN[1])
        asking = asyncio.create_task(session.ask(LS, "a1"))
        await looked.wait()
        await session.settle("a1", "deny")
        go_on.set()
        answer = await asyncio.wait_for(asking, 30)
        assert (answer.decision, answer.by) == (("allow", "rule") if decides else ("deny", AT_THE_TERMINAL))
        assert not manager.asks.pending()
        assert (await events(manager, session))[-1] == answer
        record, _ = await manager.asks.get(answer.ask)
        assert (record.status, record.answer) == ("answered", answer)
