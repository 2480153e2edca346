"""`tieline run` in a real terminal: what a person sees, and what their keys do."""

import signal
from pathlib import Path

import pytest

from tieline.script import Fail, Inquire, Outline, Propose, Run, Say, Stall, Think, Write
from tieline.testing.cli_process import CliProcess
from tieline.testing.wait_for import at_work_in, eventually

KEYS = "y allow"
BELL = "\x07"


@pytest.mark.slow
def test_live_view(cli: CliProcess) -> None:
    cli.agent(
        "helper",
        [Think("Let me see."), Outline(("Look around", "Tell"), 0), Say("I'll *look*."), Run("echo seen; sleep 0.4")],
        [Outline(("Look around", "Tell"), 2), Say("# The answer\n\nIt is **42**.")],
    )
    with cli.terminal("run", "helper", "what is it", "--policy", "full") as terminal:
        terminal.expect("● helper")
        terminal.expect("files allow · shell allow · network allow")
        terminal.expect("∴ thought  Let me see.")
        terminal.expect("I'll look.")  # Markdown, rendered
        terminal.expect("◐ Look around")
        terminal.expect("Ctrl-C interrupts")
        terminal.expect("$ echo seen; sleep 0.4  ✓")
        terminal.expect("│ seen")
        terminal.expect("It is 42.")
        terminal.expect("☑ Tell")
        terminal.expect("✓ done")
        assert terminal.wait() == 0
        assert terminal.restored
        assert terminal.raw.rfind("\x1b[?25h") > terminal.raw.rfind("\x1b[?25l"), "the cursor is back"


@pytest.mark.slow
def test_spinner_tells_the_time(cli: CliProcess) -> None:
    cli.agent("slow", [Stall(1.5)], [Say("ok")])
    with cli.terminal("run", "slow", "go") as terminal:
        frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
        terminal.expect("working  0.")
        terminal.expect("working  1.")
        assert terminal.wait() == 0
        assert sum(frame in terminal.text for frame in frames) >= 5, "it moves"


@pytest.mark.parametrize(("key", "verdict", "written"), [("y", "✓ allowed", True), ("n", "✗ denied", False)])
def test_one_key(cli: CliProcess, key: str, verdict: str, written: bool) -> None:
    cli.agent("writer", [Say("I'll write."), Write("made.txt", "first\nsecond\n")], [Say("That was it.")])
    with cli.terminal("run", "writer", "write") as terminal:
        terminal.expect("I'll write.")  # asked only after what led to it is on the screen
        terminal.expect("writer wants to change a file")
        terminal.expect("made.txt  new")
        terminal.expect("1 + first")
        terminal.expect("2 + second")
        terminal.expect(KEYS)
        assert not (cli.place / "made.txt").exists()
        terminal.send(key)
        terminal.expect(verdict)
        assert terminal.wait() == 0
        assert (cli.place / "made.txt").exists() is written
        assert terminal.restored


def test_other_keys_do_nothing(cli: CliProcess) -> None:
    cli.agent("runner", [Run("touch ran.txt")], [Say("ok")])
    with cli.terminal("run", "runner", "go") as terminal:
        terminal.expect(KEYS)
        for keys in ("x", "\r", " ", "\x1b[A", "yes, please"):  # a letter, Enter, space, an arrow, a paste
            terminal.send(keys)
            terminal.expect(BELL)
        terminal.send("n")
        terminal.expect("✗ denied")
        terminal.wait()
        assert not (cli.place / "ran.txt").exists()


def test_keys_typed_before_the_ask_do_not_answer_it(cli: CliProcess) -> None:
    cli.agent("runner", [Say("Working on it."), Run("touch go; sleep 0.5")], [Run("touch ran.txt")], [Say("ok")])
    with cli.terminal("run", "runner", "go") as terminal:
        terminal.expect(KEYS)
        terminal.send("y")
        terminal.expect("✓ allowed")
        terminal.send("y\ny\n")
        terminal.expect(KEYS)
        terminal.send("n")
        terminal.expect("✗ denied")
        terminal.wait()
        assert not (cli.place / "ran.txt").exists()


def test_allow_for_the_session(cli: CliProcess) -> None:
    cli.agent("runner", [Run("echo x >> ran.txt")], [Run("echo x >> ran.txt")], [Say("ok")])
    with cli.terminal("run", "runner", "go") as terminal:
        terminal.expect("a allow exactly this again, in this session")
        terminal.send("a")
        terminal.expect("✓ allowed exactly this again, in this session")
        assert terminal.wait() == 0
        assert terminal.text.count("wants to run a command") == 1
    assert (cli.place / "ran.txt").read_text() == "x\nx\n"


def test_deny_and_say_why(cli: CliProcess) -> None:
    cli.agent("runner", [Run("touch ran.txt")], [Say("ok")])
    with cli.terminal("run", "runner", "go") as terminal:
        terminal.expect("r deny and say why")
        terminal.send("r")
        terminal.expect("why? ")
        terminal.send("not tidu\x7fy, sorry\n")  # with a correction
        terminal.expect("✗ denied: not tidy, sorry")
        assert terminal.wait() == 0
        assert terminal.restored


def test_question_by_number(cli: CliProcess) -> None:
    cli.agent("asker", [Inquire("Which way?", ("left", "right"), "Way")], [Say("ok")])
    with cli.terminal("run", "asker", "go") as terminal:
        terminal.expect("asker asks · Way")
        terminal.expect("Which way?")
        terminal.expect("1-2 choose")
        terminal.send("9")  # no such choice
        terminal.expect(BELL)
        terminal.send("2")
        terminal.expect("✓ right")
        terminal.expect("(Way: right)")
        assert terminal.wait() == 0


def test_question_in_own_words(cli: CliProcess) -> None:
    cli.agent("asker", [Inquire("Which way?", ("left", "right"), "Way")], [Say("ok")])
    with cli.terminal("run", "asker", "go") as terminal:
        terminal.expect("t type an answer")
        terminal.send("t")
        terminal.expect("› ")
        terminal.send("straight on, über die Brücke\n")
        terminal.expect("(Way: straight on, über die Brücke)")
        assert terminal.wait() == 0


def test_question_skipped(cli: CliProcess) -> None:
    cli.agent("asker", [Inquire("Which way?", ("left", "right"), "Way")], [Say("ok")])
    with cli.terminal("run", "asker", "go") as terminal:
        terminal.expect("s skip")
        terminal.send("s")
        terminal.expect("✗ not answered")
        terminal.expect("(Way: no answer)")
        assert terminal.wait() == 0


def test_plan(cli: CliProcess) -> None:
    cli.agent("planner", [Propose("1. **first** this\n2. then that")], [Say("ok")])
    with cli.terminal("run", "planner", "go") as terminal:
        terminal.expect("planner has a plan")
        terminal.expect("1. **first** this")  # as it is: a plan that is approved has nothing hidden by its markup
        terminal.expect("y approve")
        terminal.send("y")
        terminal.expect("✓ approved")
        assert terminal.wait() == 0


def boxed(text: str) -> str:
    """What is inside the box, with its lines joined again."""
    lines = [line.removeprefix("│ ").removesuffix("│") for line in text.splitlines() if line.startswith("│ ")]
    return "".join(line.rstrip() for line in lines)


@pytest.mark.parametrize("columns", [40, 100, 250])
def test_a_long_command_is_never_cut(cli: CliProcess, columns: int) -> None:
    command = "true " + "-".join(f"argument{number}" for number in range(400)) + ";rm-everything"
    cli.agent("runner", [Run(command)], [Say("ok")])
    with cli.terminal("run", "runner", "go", columns=columns, rows=20) as terminal:
        terminal.expect(KEYS if columns > 70 else "y/n/a/r")
        terminal.send("n")
        terminal.expect("✗ denied")
        terminal.wait()
        assert command.replace(" ", "") in boxed(terminal.text).replace(" ", "")


def test_a_long_diff_is_never_cut(cli: CliProcess) -> None:
    lines = [f"line {number} " + "x" * 150 for number in range(300)]
    cli.agent("writer", [Write("long.txt", "\n".join(lines) + "\n")], [Say("ok")])
    with cli.terminal("run", "writer", "go") as terminal:
        terminal.expect("y allow", timeout=20)
        terminal.send("n")
        terminal.wait()
        shown = boxed(terminal.text).replace(" ", "")
        for line in lines:
            assert line.replace(" ", "") in shown


def test_control_codes_in_a_command_are_shown(cli: CliProcess) -> None:
    cli.agent("sly", [Run("rm -rf x\r\x1b[2K\x1b[1Aecho hello")], [Say("ok")])
    with cli.terminal("run", "sly", "go") as terminal:
        terminal.expect("$ rm -rf x⟨U+000D⟩⟨U+001B⟩[2K⟨U+001B⟩[1Aecho hello")
        terminal.expect(KEYS)
        terminal.send("n")
        terminal.wait()


def test_prompt_from_stdin_and_keys_from_the_terminal(cli: CliProcess, tmp_path: Path) -> None:
    (tmp_path / "prompt").write_text("a prompt from a file")
    cli.agent("runner", [Run("touch ran.txt")], [Say("ok")])
    with cli.terminal("run", "runner", "-", redirect=f"< {tmp_path / 'prompt'}") as terminal:
        terminal.expect("› a prompt from a file")
        terminal.expect(KEYS)
        terminal.send("y")
        assert terminal.wait() == 0
        assert (cli.place / "ran.txt").exists()


@pytest.mark.parametrize("form", ["", "--json"])
def test_answer_into_a_file_asks_on_the_terminal(cli: CliProcess, tmp_path: Path, form: str) -> None:
    cli.agent("runner", [Run("touch ran.txt")], [Say("The answer.")])
    arguments = ["run", "runner", "go", *([form] if form else [])]
    with cli.terminal(*arguments, redirect=f"> {tmp_path / 'out'}") as terminal:
        terminal.expect("runner wants to run a command")
        terminal.expect(KEYS)
        terminal.send("y")
        terminal.expect("✓ allowed")
        assert terminal.wait() == 0
        assert terminal.restored
    out = (tmp_path / "out").read_text()
    assert "\x1b" not in out
    assert out == "The answer.\n" if not form else out.splitlines()[-1].startswith('{"type":"done"')
    assert (cli.place / "ran.txt").exists()


def test_dumb_terminal_gets_plain_text(cli: CliProcess) -> None:
    cli.agent("helper", [Say("The **answer**.")])
    with cli.terminal("run", "helper", "go", term="dumb") as terminal:
        terminal.expect("The **answer**.")
        assert terminal.wait() == 0
        assert "\x1b" not in terminal.raw


def test_failure(cli: CliProcess) -> None:
    cli.agent("broken", [Fail(500, "the model is down")])
    with cli.terminal("run", "broken", "go") as terminal:
        terminal.expect("✗ the model is down")
        terminal.expect("✗ failed")
        assert terminal.wait() == 1
        assert terminal.text.count("the model is down") == 1


# --- Ctrl-C and other ends ----------------------------------------------------------------------------------

STUBBORN = Run("trap '' TERM INT HUP; touch begun; sleep 300; sleep 300")


@pytest.mark.slow
async def test_interrupt(cli: CliProcess) -> None:
    cli.agent("sleeper", [STUBBORN], [Say("never")])
    with cli.terminal("run", "sleeper", "go", "--policy", "full") as terminal:
        await eventually((cli.place / "begun").exists, "the command did not begin")
        terminal.send("\x03")
        terminal.expect("interrupting; press again to quit at once")
        terminal.expect("■ interrupted")
        assert terminal.wait() == 130
        assert terminal.restored
    await eventually(lambda: not at_work_in(cli.place), "a process is left")


async def test_interrupt_twice(cli: CliProcess) -> None:
    cli.agent("sleeper", [STUBBORN], [Say("never")])
    with cli.terminal("run", "sleeper", "go", "--policy", "full") as terminal:
        await eventually((cli.place / "begun").exists, "the command did not begin")
        terminal.send("\x03")
        terminal.expect("interrupting")
        terminal.send("\x03")
        assert terminal.wait(5) == 130
        assert terminal.restored
        assert terminal.raw.rfind("\x1b[?25h") > terminal.raw.rfind("\x1b[?25l"), "the cursor is back"
    await eventually(lambda: not at_work_in(cli.place), "a process is left")


def test_interrupt_while_asked(cli: CliProcess) -> None:
    cli.agent("runner", [Run("touch ran.txt")], [Say("never")])
    with cli.terminal("run", "runner", "go") as terminal:
        terminal.expect(KEYS)
        terminal.send("\x03")
        terminal.expect("■ interrupted")
        assert terminal.wait() == 130
        assert terminal.restored
        assert not (cli.place / "ran.txt").exists()


@pytest.mark.slow
def test_timeout_while_asked(cli: CliProcess) -> None:
    cli.agent("runner", [Run("touch ran.txt")], [Say("never")])
    with cli.terminal("run", "runner", "go", "--timeout", "1") as terminal:
        terminal.expect(KEYS)
        terminal.expect("no longer asked")
        terminal.expect("■ timed out")
        assert terminal.wait() == 124
        assert terminal.restored


@pytest.mark.slow
async def test_window_closed(cli: CliProcess) -> None:
    cli.agent("sleeper", [STUBBORN], [Say("never")])
    with cli.terminal("run", "sleeper", "go", "--policy", "full") as terminal:
        await eventually((cli.place / "begun").exists, "the command did not begin")
        terminal.hang_up()
        assert terminal.process.wait(20) != 0
    await eventually(lambda: not at_work_in(cli.place), "a process is left")


async def test_window_closed_while_asked(cli: CliProcess) -> None:
    cli.agent("runner", [Run("touch ran.txt; sleep 300")], [Say("never")])
    with cli.terminal("run", "runner", "go") as terminal:
        terminal.expect(KEYS)
        terminal.hang_up()
        assert terminal.process.wait(20) != 0
    assert not (cli.place / "ran.txt").exists()


async def test_stopped_and_continued(cli: CliProcess) -> None:
    cli.agent("runner", [Run("touch ran.txt")], [Say("ok")])
    with cli.terminal("run", "runner", "go") as terminal:
        terminal.expect(KEYS)
        terminal.process.send_signal(signal.SIGTSTP)
        state = Path(f"/proc/{terminal.process.pid}/stat")
        await eventually(lambda: state.read_text().split()[2] == "T", "it did not stop")
        terminal.process.send_signal(signal.SIGCONT)
        terminal.expect(KEYS)  # put again, because the shell wrote over it
        terminal.send("y")
        terminal.expect("✓ allowed")
        assert terminal.wait() == 0
        assert terminal.restored
