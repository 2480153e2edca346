"""Watching a session: each turn with its prompt, its own calls and its own time."""

import io
import time
from collections.abc import AsyncIterator

import pytest
from rich.console import Console

from tieline.cli.terminal import session_view
from tieline.cli.terminal.non_interactive_views import PlainView
from tieline.cli.terminal.session_view import SessionView
from tieline.cli.terminal.turn_view import TerminalView
from tieline.events import Answer, AnyEvent, Ask, Command, Done, Error, Init, Text, ToolResult, ToolUse, TurnStarted
from tieline.protocol.stream_frames import EventFrame
from tieline.sessions.ask_decisions import lost
from tieline.sessions.event_log import LogEntry
from tieline.sessions.records import SessionRecord
from tieline.sessions.transcript import fold

RECORD = SessionRecord(id="abc", agent="worker", cwd="/")


def turn(prompt: str, command: str, *, first: bool = False) -> list[AnyEvent]:
    init: list[AnyEvent] = [Init("worker", cwd="/")] if first else []
    use, result = ToolUse("call_1", "sh", Command(command)), ToolResult("call_1", "ok", f"output of {command}")
    return [TurnStarted(prompt), *init, use, result, Text("Said."), Done("success", text="Said.")]


def frames(events: list[AnyEvent], *, at: float) -> list[EventFrame]:
    return [EventFrame(seq=n + 1, session="abc", at=at + n, event=event) for n, event in enumerate(events)]


def test_piped_all_of_it_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    watch = SessionView(RECORD)
    for frame in frames([*turn("first", "one", first=True), *turn("second\nline", "two")], at=1000.0):
        watch.show(frame)
    shown = capsys.readouterr()
    assert not shown.err
    lines = shown.out.splitlines()
    assert lines.index("› first") < lines.index("$ one: ok") < lines.index("› second") < lines.index("$ two: ok")
    assert lines.count("Said.") == 2


def decisions() -> list[AnyEvent]:
    """A turn with a call that somebody elsewhere allowed, one that was denied, and a question that was answered."""
    via = "pid 123 tieline approve \x1b[2K\u202e"
    return [
        TurnStarted("go"),
        Init("worker", cwd="/"),
        ToolUse("call_1", "sh", Command("one")),
        Answer("a", "allow", by="owner", tool="call_1", via=via),
        ToolResult("call_1", "ok", ""),
        ToolUse("call_2", "sh", Command("two")),
        Answer("b", "deny", by="phone", reason="no", tool="call_2", via="device phone"),
        Answer("c", "allow", by="phone", answers={"q": ("red", "blue")}, via="device phone"),
        Answer("d", "allow", by="policy"),
        Answer("e", "allow", by="person"),
        Done("success"),
    ]


@pytest.mark.parametrize("terminal", [False, True])
def test_a_decision_says_from_where(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session_view, "on_terminal", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "120")
    watch = SessionView(RECORD)
    for frame in frames(decisions(), at=time.time()):
        watch.show(frame)
    watch.close()
    shown = capsys.readouterr().out
    assert "allowed by owner (pid 123 tieline approve ⟨U+001B⟩[2K⟨U+202E⟩)" in shown
    assert "denied by phone (device phone)" in shown
    assert "answered by phone (device phone): red, blue" in shown
    assert "by policy" not in shown and "by person" not in shown, "what was decided here needs no such word"


def test_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every turn's prompt; time from the turn's start; what Ctrl-C really does."""
    monkeypatch.setattr(session_view, "on_terminal", lambda: True)
    watch = SessionView(RECORD)
    began = time.time() - 3600
    for frame in frames([*turn("first", "one", first=True), *turn("second", "two")[:2]], at=began):
        watch.show(frame)
    view = watch._view  # pyright: ignore[reportPrivateUsage]
    assert isinstance(view, TerminalView)
    screen = Console(file=io.StringIO(), width=100, height=24)
    screen.print(view._region)  # pyright: ignore[reportPrivateUsage]
    assert isinstance(screen.file, io.StringIO)
    live = screen.file.getvalue()
    assert "59m 5" in live and "Ctrl-C leaves" in live and "interrupts" not in live
    watch.close()
    shown = capsys.readouterr().out
    assert "› first" in shown and "› second" in shown
    assert "✓ 1.0s" in shown, "a call's time is as the log has it"


def test_one_error_is_one_line() -> None:
    out = io.StringIO()
    view = PlainView(out, out)
    for event in (TurnStarted("go"), Error("it broke"), Done("error", error="it broke")):
        view.show(event)
    assert out.getvalue().count("it broke") == 1 and "failed (" in out.getvalue()


def test_what_a_restart_denied_says_so() -> None:
    out = io.StringIO()
    view = PlainView(out, out)
    for event in (TurnStarted("go"), lost(Ask("q", "permission", tool="1", action=Command("make")))):
        view.show(event)
    assert "denied: Tieline was restarted before anyone answered\n" in out.getvalue()


async def test_an_id_that_is_used_again_is_another_call() -> None:
    async def entries() -> AsyncIterator[LogEntry]:
        for n, event in enumerate([*turn("first", "one"), *turn("second", "two")]):
            yield LogEntry(seq=n + 1, at=float(n), event=event)

    tools = [message for message in await fold(entries(), limit=100) if message.kind == "tool"]
    assert [message.tool.action for message in tools if message.tool] == [Command("one"), Command("two")]
    assert [message.result.output for message in tools if message.result] == ["output of one", "output of two"]
