"""The terminal view, event by event, on a console that keeps what it is given."""

import io
import re
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tieline.cli.terminal import event_text
from tieline.cli.terminal.ask_panel import panel, question_panel
from tieline.cli.terminal.diff_view import coloured
from tieline.cli.terminal.markdown_stream import blocks
from tieline.cli.terminal.sanitize import clean, one_line, output, plain_line
from tieline.cli.terminal.turn_view import TerminalView
from tieline.events import (
    Answer,
    AnyAction,
    Ask,
    Choice,
    Command,
    Diff,
    Done,
    Edit,
    Error,
    Event,
    Fetch,
    Init,
    Mcp,
    Other,
    OtherAction,
    Plan,
    PlanStep,
    Question,
    Read,
    Search,
    Status,
    Task,
    Text,
    TextDelta,
    Thinking,
    Tokens,
    ToolOutput,
    ToolResult,
    ToolUse,
    TurnStarted,
    Warning,
)
from tieline.policy import Enforcement, Receipt
from tieline.sessions.ask_decisions import lost
from tieline.testing.cli_process import ESCAPES
from tieline.visible_text import marked

DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n one\n-two\n+deux\n three\n"
DONE = Done("success", native_id="abc", duration_s=1.25)


class Screen:
    """A view whose clock stands still; what it prints for good is kept."""

    def __init__(self, *, resume: str = "") -> None:
        self._file = io.StringIO()
        self.now = 0.0
        console = Console(
            file=self._file, force_terminal=True, width=80, height=24, color_system="standard", markup=False
        )
        self.view = TerminalView(console, agent=resume, clock=lambda: self.now)
        self.view.resumable = bool(resume)

    def show(self, *events: Event) -> "Screen":
        for event in events:
            self.view.show(event)
        return self

    @property
    def raw(self) -> str:
        return self._file.getvalue()

    @property
    def text(self) -> str:
        return ESCAPES.sub("", self.raw)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.text.splitlines()]


def shown(*events: Event, resume: str = "") -> list[str]:
    return Screen(resume=resume).show(*events).lines


def printed(what: object) -> str:
    file = io.StringIO()
    Console(file=file, width=80, markup=False).print(what)
    return file.getvalue()


# --- tool calls ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "row"),
    [
        (Read("/w/src/a.py"), "○ read src/a.py  ✓"),
        (Edit(("/w/a.py", "/other/b.py")), "✎ edit a.py, /other/b.py  ✓"),
        (Command("make test"), "$ make test  ✓"),
        (Command("one\ntwo\nthree"), "$ one …(+2 lines)  ✓"),
        (Search("needle", "/w/src"), "⌕ search needle in src  ✓"),
        (Fetch("http://x/y"), "↓ fetch http://x/y  ✓"),
        (Fetch(query="cats"), "↓ fetch cats  ✓"),
        (Mcp("files", "list"), "◆ use files: list  ✓"),
        (Task("look around"), "» task look around  ✓"),
        (OtherAction(), "• Frobnicate depth=3  ✓"),
    ],
)
def test_row_by_action(action: AnyAction, row: str) -> None:
    lines = shown(Init("a", cwd="/w"), ToolUse("1", "Frobnicate", action, {"depth": 3}), ToolResult("1", "ok"), DONE)
    assert row in lines


def test_row_is_one_line() -> None:
    lines = shown(ToolUse("1", "run", Command("x" * 500)), ToolResult("1", "ok"))
    assert lines == ["$ " + "x" * 74 + "…  ✓"]


def test_failed_and_denied() -> None:
    lines = shown(
        ToolUse("1", "run", Command("make")),
        ToolResult("1", "error", "\n".join(f"line {n}" for n in range(30))),
        ToolUse("2", "run", Command("rm x")),
        ToolResult("2", "denied", "the policy denies shell"),
    )
    assert lines[0] == "$ make  ✗"
    assert lines[1] == "  │ … 18 lines above"
    assert lines[13] == "  │ line 29"
    assert lines[14:] == ["$ rm x  ✗ denied", "  the policy denies shell"]


def test_denied_by_policy_is_told_at_once_and_once() -> None:
    screen = Screen().show(
        ToolUse("1", "run", Command("rm x")), Answer("q", "deny", by="policy", reason="no shell", tool="1")
    )
    assert screen.lines == ["$ rm x  ✗ denied", "  no shell"]
    screen.show(ToolResult("1", "denied", "no shell"))
    assert len(screen.lines) == 2


def test_denied_by_a_restart_says_so() -> None:
    screen = Screen().show(
        ToolUse("1", "run", Command("rm x")), lost(Ask("q", "permission", tool="1", action=Command("rm x")))
    )
    assert screen.lines[0] == "! an ask was denied: Tieline was restarted before anyone answered"


@pytest.mark.parametrize(
    "answer",
    [Answer("q", "allow", by="person", tool="1"), Answer("q", "allow", by="owner", via="device phone", tool="1")],
    ids=["here", "elsewhere"],
)
def test_time_of_a_tool_does_not_count_the_person(answer: Answer) -> None:
    screen = Screen().show(ToolUse("1", "run", Command("make")))
    screen.now = 100.0
    screen.show(answer)
    screen.now = 102.5
    assert screen.show(ToolResult("1", "ok")).lines[-1] == "$ make  ✓ 2.5s"


def test_subagents_are_indented() -> None:
    lines = shown(ToolUse("1", "run", Command("ls"), parent="t"), ToolResult("1", "ok"), Text("found it", parent="t"))
    assert lines == ["  $ ls  ✓", "  found it"]


def test_edit_shows_its_diff_unless_a_person_saw_it() -> None:
    use = ToolUse("1", "edit", Edit(("x.py",), DIFF))
    unseen = Screen().show(use, ToolResult("1", "ok"))
    assert "   2 + deux" in "\n".join(unseen.lines)
    assert "\x1b[32m+ deux" in unseen.raw and "\x1b[31m- two" in unseen.raw, "in colour"
    seen = shown(use, Answer("q", "allow", by="person", tool="1"), ToolResult("1", "ok"))
    assert seen == ["✎ edit x.py  +1 −1  ✓"]


def test_diff_of_the_turn_where_no_tool_showed_it() -> None:
    assert any("+ deux" in line for line in shown(Diff(DIFF, ("x.py",)), DONE))
    use = ToolUse("1", "edit", Edit(("/w/x.py",), DIFF))
    assert sum("+ deux" in line for line in shown(use, ToolResult("1", "ok"), Diff(DIFF, ("x.py",)), DONE)) == 1


def test_the_call_that_sets_the_plan_has_no_row() -> None:
    use, plan = ToolUse("1", "todo", OtherAction(), {"todos": []}), Plan((PlanStep("a"),))
    result = ToolResult("1", "ok", "noted")
    for order in ([use, plan, result], [plan, use, result], [use, result, plan]):
        assert shown(*order, Warning("next")) == ["! next"]
    assert shown(use, plan, ToolResult("1", "error", "no such list"))[0] == "• todo todos=[]  ✗"


# --- text ---------------------------------------------------------------------------------------------------


def test_text_is_printed_once_however_it_comes() -> None:
    text = "# Title\n\nSome **bold** words.\n\n- one\n- two\n\n```python\nx = 1\n\ny = 2\n```\n\nThe end."
    whole = shown(Text(text, "i"))
    for size in (1, 7, 30):
        screen = Screen()
        for start in range(0, len(text), size):
            screen.show(TextDelta(text[start : start + size], "i"))
            screen.view.tick()
        assert screen.show(Text(text, "i")).lines == whole


def test_item_that_differs_from_its_deltas() -> None:
    assert shown(TextDelta("something else", "i"), Text("the item", "i")) == ["the item"]


def test_deltas_without_their_item_are_not_lost() -> None:
    assert "half a sentence" in shown(TextDelta("half a sentence", "i"), DONE)


def test_thinking_is_folded() -> None:
    (line,) = shown(Thinking("one\ntwo " + "x" * 300))
    assert line.startswith("∴ thought  one two xxx") and line.endswith("…")


@given(st.text(alphabet="a-*1.`~ \n#", max_size=60))
def test_what_is_settled_stays_settled(text: str) -> None:
    """More text never changes a block that is followed by another."""
    before: list[str] = []
    for end in range(len(text) + 1):
        *now, last = blocks(text[:end])
        assert "".join(now) + last == text[:end]
        assert now[: len(before)] == before
        before = now


@pytest.mark.parametrize(
    "expected",
    [
        ["one\n\n", "two"],
        ["- a\n\n- b\n"],
        ["- a\n\n  more of a\n"],
        ["- a\n\n", "after\n"],
        ["```\na\n\nb\n"],
        ["```\na\n\nb\n```\n\n", "after\n"],
        ["~~~~\n```\n\n~~~\n~~~~\n\n", "after\n"],
        ["# One\n\n\n\n", "two\n"],
        ["\n\n", "one"],
    ],
)
def test_blocks(expected: list[str]) -> None:
    assert blocks("".join(expected)) == expected


# --- the rest -----------------------------------------------------------------------------------------------


def test_header_says_who_where_and_what_is_permitted() -> None:
    receipt = Receipt(
        Enforcement("allow", "rule"), Enforcement("ask", "prompt"), Enforcement("deny", "none", "no such rule")
    )
    lines = shown(Init("codex", cwd="/w", model="gpt", receipt=receipt))
    assert lines[:2] == ["● codex  gpt · /w", "  files allow · shell ask · network deny"]
    assert lines[2] == "  ! network: nothing enforces this (no such rule)"
    assert lines[3] == "  A command that is allowed can do whatever you can on this machine."


def test_plan_at_the_end() -> None:
    plan = Plan((PlanStep("a", "done"), PlanStep("b", "running"), PlanStep("c")))
    assert shown(plan, DONE)[:3] == ["☑ a", "◐ b", "☐ c"]


@pytest.mark.parametrize(
    ("done", "line"),
    [
        (Done("success", duration_s=2.0, tokens=Tokens(input=1200, output=0, cost_usd=0.0123), usage="complete"),
         "✓ done  2.0s · 1.2k tokens in · 0 out · $0.0123"),
        (Done("error", error="it broke", duration_s=75.0), "✗ failed: it broke  1m 15s"),
        (Done("interrupted", tokens=Tokens(output=5), usage="partial"), "■ interrupted  0.0s · 5 out · so far counted"),
        (Done("max_turns"), "■ stopped: the limit of turns is reached  0.0s"),
        (Done("max_budget"), "■ stopped: the budget is spent  0.0s"),
        (Done("timeout", error="no end within 3 s"), "■ timed out: no end within 3 s  0.0s"),
    ],
)  # fmt: skip
def test_summary(done: Done, line: str) -> None:
    assert shown(done) == [line]


def test_how_to_go_on() -> None:
    assert shown(DONE, resume="codex")[-1] == '  go on with: tieline run codex --resume abc "…"'
    assert (
        event_text.resume_command("my agent", "id", "/a b") == "tieline run 'my agent' --resume id --cwd '/a b' \"…\""
    )


def test_notices() -> None:
    lines = shown(
        Warning("careful"), Status("retrying", "429"), Status("busy"), Error("oops", recoverable=True),
        Other({"x": 1}, "native"), TurnStarted("not shown"), ToolOutput("?", "nobody's"), ToolResult("?", "ok"),
    )  # fmt: skip
    assert lines == ["! careful", "· retrying: 429", "", "✗ oops"]


def test_live_region() -> None:
    screen = Screen()
    screen.view.start("codex")
    assert "starting codex  0.0s" in screen.text
    screen.show(
        TurnStarted("go"), Plan(tuple(PlanStep(f"step {n}") for n in range(20))), ToolUse("1", "run", Command("make")),
        ToolOutput("1", "compiling a\ncompiling b\n"), TextDelta("Some *text* on its way", "i"),
    )  # fmt: skip
    screen.now = 65.0
    screen.view.tick()
    frame = screen.text[screen.text.rindex("Some text") :]
    for part in ("$ make  1m 05s", "│ compiling b", "☐ step 0", "… 13 more", "writing  1m 05s · Ctrl-C interrupts"):
        assert part in frame
    screen.show(DONE)
    assert screen.raw.rstrip().endswith("1.2s\x1b[0m"), "the region is gone, the summary is last"


def test_agents_cannot_write_control_codes_or_markup() -> None:
    evil = "\x1b[2Jx\x07\x9b31m[red]y[/red]"
    screen = Screen().show(
        Init(evil, cwd=evil, model=evil), Text(evil, "1"), Thinking(evil), Warning(evil), Error(evil),
        Status(evil, evil),
        ToolUse("1", evil, OtherAction(), {"k": evil}), ToolResult("1", "error", evil), Plan((PlanStep(evil),)),
        ToolUse("2", evil, Edit((evil,), f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-{evil}\n+{evil}\n")), ToolResult("2", "ok"),
        Done("error", error="other " + evil),
    )  # fmt: skip
    ours = re.compile(r"\x1b\[[0-9;]*m")
    left = ours.sub("", screen.raw)
    assert not {"\x1b", "\x07", "\x9b"} & set(left)
    assert "[red]y[/red]" in left


# --- asks, whole --------------------------------------------------------------------------------------------


def rendered(ask: Ask) -> str:
    return printed(panel(ask, "codex"))


@pytest.mark.parametrize(
    ("ask", "parts"),
    [
        (Ask("1", "permission", action=Command("make\ninstall", "/w"), reason="It must."),
         ["It must.", "$ make", "install", "in: /w"]),
        (Ask("1", "permission", action=Edit(("x.py", "/y.py"), DIFF)), ["change files", "/y.py", "- two", "+ deux"]),
        (Ask("1", "permission", action=Edit(("z.py",)), input={"content": "whole\nfile"}),
         ["z.py", "content: ", "whole", "file"]),
        (Ask("1", "permission", action=Fetch("http://x/?q=1")), ["use the network", "http://x/?q=1"]),
        (Ask("1", "permission", action=Mcp("srv", "tool"), input={"a": [1, 2]}), ["use tool of srv", "a: ", "2"]),
        (Ask("1", "permission", "Frob", action=OtherAction()), ["wants to use Frob"]),
        (Ask("1", "permission", action=Read("/etc/passwd")), ["wants to read", "/etc/passwd"]),
        (Ask("1", "permission", action=Search("needle", "/")), ["search: needle", "in: /"]),
        (Ask("1", "permission", action=Task("t"), input={"prompt": "do it"}), ["start a subagent", "prompt: do it"]),
        (Ask("1", "permission"), ["asks for permission"]),
        (Ask("1", "plan", plan="# Plan\n\n1. **do**"), ["has a plan", "# Plan", "1. **do**"]),
        (Ask("1", "plan", plan="do <!-- hidden --> it"), ["do <!-- hidden --> it"]),
    ],
)  # fmt: skip
def test_asks_are_shown_whole(ask: Ask, parts: Iterable[str]) -> None:
    text = rendered(ask)
    for part in parts:
        assert part in text


def test_question_with_descriptions() -> None:
    choices = (Choice("a", "left", "over the bridge"), Choice("b", "right"))
    text = printed(question_panel(Question(id="q", text="Which way?", header="Way", choices=choices), "codex"))
    for part in ("codex asks · Way", "Which way?", "1  left", "over the bridge", "2  right"):
        assert part in text


def test_diff_lines_that_look_like_headings() -> None:
    first = "--- a/x.sql\n+++ b/x.sql\n@@ -1,2 +1,1 @@\n--- a comment\n-++ b\n+++ c\n"
    diff = first + "--- a/y\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"
    lines = coloured(diff).plain.split("\n")
    assert lines == ["x.sql", "   1 - -- a comment", "   2 - ++ b", "   1 + ++ c", "y  deleted", "   1 - gone"]


LINES = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=8),
    st.sampled_from(
        ["@@ -1,2 +1,2 @@", "@@ -1 +1 @@ def f():", "@@ @@", "--- a/x", "+++ b/x", "--- a/x\t1", "diff --git a b"]
    ),
    st.sampled_from(
        ["new file mode 100755", "+added", "-gone", " same", "\\ No newline", "", "--- ", "+++ b/y ", "index 1..2"]
    ),
)


@given(st.lists(LINES, max_size=12))
def test_any_text_that_is_asked_about_as_a_diff_is_shown_whole(lines: list[str]) -> None:
    """Also what is no diff, or a broken one: each line is there with all of its characters, in order."""
    shown = coloured("\n".join(lines), whole=True).plain
    position = 0
    for line in marked("\n".join(lines)).rstrip("\n").split("\n"):
        hunk = re.match(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@(.*)", line)
        known = line.startswith(("--- ", "+++ "))
        wanted = hunk[1].strip() if hunk else line.expandtabs(4)
        options = [wanted, wanted[1:], line[1:].expandtabs(4)] + ([wanted[4:], wanted[6:]] if known else [])
        positions = [at for at in (shown.find(option, position) for option in options) if at >= 0]
        assert positions, (line, shown)
        position = position if known else min(positions)


def test_diff_limit_and_odd_input() -> None:
    assert coloured(DIFF, limit=2).plain == "x.py\n   1   one\n… 3 more lines"
    assert coloured("no diff at all\n+ but a plus").plain == "no diff at all\n+ but a plus"
    assert coloured("").plain == ""
    for name in ("b//w/x.py", "/w/x.py", "b/w/x.py", "b/x.py"):
        assert coloured(f"--- /dev/null\n+++ {name}\n@@ -0,0 +1 @@\n+a\n", cwd="/w").plain == "x.py  new\n   1 + a"


# --- clean --------------------------------------------------------------------------------------------------


@given(st.text())
def test_clean_leaves_nothing_that_a_terminal_obeys(text: str) -> None:
    for made in (clean(text), output(text), one_line(text)):
        assert not [sign for sign in made if (ord(sign) < 32 and sign not in "\n\t") or 0x7F <= ord(sign) < 0xA0]


def test_output_of_progress_bars() -> None:
    assert output("10%\r50%\r100%\r\n\x1b[32mok\x1b[0m\n") == "100%\nok\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("**Bold**, `code` and [a link](http://x)", "Bold, code and a link"),
        ("## A heading", "A heading"),
        ("- [x] done", "done"),
        ("1. first", "first"),
        ("_well_ *done*, snake_case_name and 2 * 3 * 4 stay", "well done, snake_case_name and 2 * 3 * 4 stay"),
        ("~~gone~~ \x1b[31m**red**", "gone ⟨U+001B⟩[31mred"),
        ("```python", ""),
    ],
)
def test_a_list_shows_markdown_without_its_marks(text: str, line: str) -> None:
    assert plain_line(text) == line
