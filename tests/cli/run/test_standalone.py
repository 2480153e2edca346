"""`tieline run` as a program: streams, exit statuses, signals, errors. No terminal here."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tieline import events
from tieline.script import Fail, Inquire, Outline, Propose, Run, Say, Stall, Think, Write
from tieline.testing.cli_process import CliProcess
from tieline.testing.stream_checks import done, of, verify
from tieline.testing.wait_for import at_work_in, eventually

ESCAPE = "\x1b"


def stream(output: str) -> list[events.Event]:
    seen: list[events.Event] = [events.decode(line) for line in output.splitlines()]
    verify(seen)
    return seen


# --- what goes where ----------------------------------------------------------------------------------------


def test_answer_on_stdout_the_rest_on_stderr(cli: CliProcess) -> None:
    cli.agent(
        "helper",
        [Think("Let me see."), Outline(("Look", "Tell"), 1), Say("I'll look."), Run("echo seen")],
        [Say("The *answer* is 42.")],
    )
    ended = cli.run("run", "helper", "what is it", "--allow", "shell")
    assert ended.returncode == 0
    assert ended.stdout == "The *answer* is 42.\n"
    for words in ("thinking: Let me see.", "[x] Look", "I'll look.", "$ echo seen: ok", "done ("):
        assert words in ended.stderr
    assert "The *answer*" not in ended.stderr
    assert ESCAPE not in ended.stdout + ended.stderr


def test_control_codes_of_the_agent_are_not_passed_on(cli: CliProcess) -> None:
    cli.agent("sly", [Run("printf '\\033[2J\\033]0;title\\007'; exit 3")], [Say("a\x1b[31mred\x1b[0m\x07 b\u202ec")])
    ended = cli.run("run", "sly", "hello", "--policy", "full")
    assert ended.returncode == 0
    assert not {"\x1b", "\x07", "\u202e"} & set(ended.stdout + ended.stderr)
    assert "red" in ended.stdout


def test_json_is_events_and_nothing_else(cli: CliProcess) -> None:
    cli.agent("helper", [Run("echo seen")], [Say("Seen.", chunks=3)])
    ended = cli.run("run", "helper", "look", "--json", "--allow=shell")
    assert ended.returncode == 0
    seen = stream(ended.stdout)
    assert done(seen).text == "Seen."
    assert of(seen, events.TextDelta)
    assert ended.stderr == ""


def test_prompt_from_stdin(cli: CliProcess) -> None:
    cli.agent("helper", [Say("ok")])
    ended = cli.run("run", "helper", "-", "--json", given="a prompt\nof two lines\n")
    assert stream(ended.stdout)[0] == events.TurnStarted("a prompt\nof two lines\n")


def test_directory(cli: CliProcess, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    cli.agent("writer", [Write("made.txt", "x")], [Say("ok")])
    ended = cli.run("run", "writer", "write", "--cwd", str(tmp_path / "other"), "--allow", "file-write")
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "other/made.txt").read_text() == "x"


def test_attachments_are_refused_where_the_agent_cannot_take_them(cli: CliProcess) -> None:
    cli.agent("helper", [Say("ok")])
    (cli.place / "notes.md").write_text("# notes")
    ended = cli.run("run", "helper", "read it", "--attach", "notes.md")
    assert ended.returncode == 2
    assert "does not support attachments of type text/markdown" in ended.stderr


def test_closed_streams(cli: CliProcess) -> None:
    cli.agent("helper", [Run("true")], [Say("ok")])
    for closed in ("<&-", "<&- 2>&-", "<&- >&- 2>&-"):
        ended = subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", cli.program, "run", "helper", "go"],
            cwd=cli.place, env=cli.env, capture_output=True, text=True, timeout=30, start_new_session=True,
        )  # fmt: skip
        assert ended.returncode == 0
        assert ended.stdout == ("" if ">&- " in closed else "ok\n")
        assert "Traceback" not in ended.stderr


# --- who decides --------------------------------------------------------------------------------------------


def test_asks_are_denied_when_nobody_can_be_asked(cli: CliProcess) -> None:
    cli.agent("writer", [Write("made.txt", "x")], [Say("I could not.")])
    ended = cli.run("run", "writer", "write")
    assert ended.returncode == 0
    assert ended.stdout == "I could not.\n"
    assert "edit made.txt  +1: denied (nobody could be asked)" in ended.stderr
    assert "nobody could be asked: there is no terminal" in ended.stderr
    assert "--on-ask allow" in ended.stderr
    assert not (cli.place / "made.txt").exists()


def test_json_says_on_stderr_that_nobody_could_be_asked(cli: CliProcess) -> None:
    cli.agent("writer", [Write("made.txt", "x")], [Say("I could not.")])
    ended = cli.run("run", "writer", "write", "--json")
    stream(ended.stdout)
    assert "nobody could be asked" in ended.stderr


@pytest.mark.parametrize(("how", "written"), [("allow", True), ("deny", False)])
def test_on_ask(cli: CliProcess, how: str, written: bool) -> None:
    cli.agent("writer", [Propose("1. write"), Write("made.txt", "x")], [Say("ok")])
    ended = cli.run("run", "writer", "write", "--json", "--on-ask", how)
    answers = of(stream(ended.stdout), events.Answer)
    assert [answer.decision for answer in answers] == [how, how]
    assert (cli.place / "made.txt").exists() is written
    assert ended.stderr == ""


def test_on_ask_allow_does_not_choose(cli: CliProcess) -> None:
    cli.agent("asker", [Inquire("Which?", ("left", "right"))], [Say("ok")])
    (answer,) = of(stream(cli.run("run", "asker", "go", "--json", "--on-ask", "allow").stdout), events.Answer)
    assert answer.decision == "deny"
    assert "decide yourself" in answer.reason


def test_policy_options(cli: CliProcess) -> None:
    cli.agent("busy", [Write("made.txt", "x"), Run("touch ran.txt")], [Say("ok")])
    arguments = ["--policy", "full", "--deny", "file_write,network", "--json"]
    seen = stream(cli.run("run", "busy", "go", *arguments).stdout)
    (init,) = of(seen, events.Init)
    assert init.receipt is not None
    assert [init.receipt.of(c).level for c in ("file_write", "shell", "network")] == ["deny", "allow", "deny"]
    assert not (cli.place / "made.txt").exists()
    assert (cli.place / "ran.txt").exists()


def test_policy_of_the_configuration(cli: CliProcess) -> None:
    cli.configure('policy = "read-only"\n')
    cli.agent("writer", [Write("made.txt", "x")], [Say("ok")])
    ended = cli.run("run", "writer", "write")
    assert "denied (the policy denies file_write)" in ended.stderr
    assert "nobody could be asked" not in ended.stderr


# --- exit statuses ------------------------------------------------------------------------------------------


def test_failed_turn_is_1(cli: CliProcess) -> None:
    cli.agent("broken", [Say("half an answer"), Fail(500, "the model is down")])
    ended = cli.run("run", "broken", "go")
    assert ended.returncode == 1
    assert "the model is down" in ended.stderr
    assert ended.stdout == "half an answer\n"


def test_timeout_is_124(cli: CliProcess) -> None:
    cli.agent("slow", [Say("wait"), Stall()])
    ended = cli.run("run", "slow", "go", "--timeout", "0.3")
    assert ended.returncode == 124
    assert "timed out: no end within 0.3 s" in ended.stderr


async def stalled(cli: CliProcess, *arguments: str) -> "subprocess.Popen[bytes]":
    """A run whose command is at work: `sleep 300` in the session's directory."""
    cli.agent("sleeper", [Run("trap '' TERM INT; touch begun; sleep 300; sleep 300")], [Say("never")])
    process = cli.start("run", "sleeper", "sleep", "--policy", "full", *arguments)
    await eventually((cli.place / "begun").exists, "the command did not begin")
    return process


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
async def test_signal_ends_the_turn_and_leaves_nothing(cli: CliProcess, number: signal.Signals, status: int) -> None:
    process = await stalled(cli, "--json")
    process.send_signal(number)
    out, errors = process.communicate(timeout=20)
    assert process.returncode == status
    assert done(stream(out.decode())).status == "interrupted"
    assert b"interrupting" in errors
    assert b"Traceback" not in errors
    await eventually(lambda: not at_work_in(cli.place), "a process is left")


async def test_second_signal_leaves_at_once(cli: CliProcess) -> None:
    process = await stalled(cli, "--json")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert b"interrupting" in process.stderr.readline()  # two at the same moment would count as one
    process.send_signal(signal.SIGINT)
    assert process.wait(3) == 130, "the command ignores SIGTERM: only who waits for nothing is so quick"
    process.communicate()
    await eventually(lambda: not at_work_in(cli.place), "a process is left")


@pytest.mark.slow
async def test_kill_leaves_nothing(cli: CliProcess) -> None:
    process = await stalled(cli)
    assert at_work_in(cli.place)
    process.kill()
    process.communicate(timeout=10)
    await eventually(lambda: not at_work_in(cli.place), "a process is left")


async def test_reader_that_leaves(cli: CliProcess) -> None:
    cli.agent("chatty", [Run("sleep 300"), Say("x")])
    process = cli.start("run", "chatty", "talk", "--policy", "full", "--json")
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    process.send_signal(signal.SIGTERM)  # what it has to say now finds nobody
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(20) in (1, 143)
    assert b"Traceback" not in errors and b"Exception ignored" not in errors
    await eventually(lambda: not at_work_in(cli.place), "a process is left")


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (["run", "helpr", "x"], ["unknown agent 'helpr'", "Did you mean helper"]),
        (["run", "helper", "  "], ["the prompt is empty"]),
        (["run", "helper", "x", "--cwd", "nowhere"], ["there is no directory", "nowhere"]),
        (["run", "helper", "x", "--cwd", "file"], ["is not a directory"]),
        (["run", "helper", "x", "--cwd", "x" * 300], ["cannot be used", "File name too long"]),
        (["run", "helper", "x", "--cwd", "~nobody-of-that-name/x"], ["cannot be used"]),
        (["run", "helper", "x", "--policy", "lax"], ["unknown policy 'lax'", "read-only, ask, edits, full"]),
        (["run", "helper", "x", "--allow", "shell,flying"], ["unknown capability 'flying'", "file_write, shell"]),
        (["run", "helper", "x", "--allow", "shell", "--deny", "shell"], ["both --allow and --deny"]),
        (["run", "helper", "x", "--on-ask", "maybe"], ["invalid value 'maybe' for --on-ask", "prompt, allow, deny"]),
        (["run", "helper", "x", "--on-ask", "prompt"], ["--on-ask prompt needs a terminal", "--on-ask allow"]),
        (["run", "helper", "x", "--timeout", "0"], ["invalid value 0 for --timeout", "more than zero"]),
        (["run", "helper", "x", "--timeout=-3"], ["invalid value -3 for --timeout"]),
        (["run", "helper", "x", "--timeout", "soon"], ["--timeout", "'soon' is not a valid float"]),
        (["run", "helper", "x", "--max-turns", "1.5"], ["--max-turns", "'1.5' is not a valid int"]),
        (["run", "helper", "x", "--max-turns", "3"], ["does not support max_turns"]),
        (["run", "helper", "x", "--resume", "abc"], ["does not support resume"]),
        (["run", "helper", "x", "--fork"], ["does not support fork"]),
        (["run", "helper", "x", "--attach", "gone.png"], ["cannot attach 'gone.png'", "No such file"]),
        (["run", "helper", "x", "--nonsense"], ["No such option", "--nonsense"]),
        (["run", "helper", "x", "--cwd"], ["--cwd", "requires an argument"]),
        (["run", "helper"], ["Missing argument", "PROMPT"]),
        (["run", "helper", "x", "y"], ["unexpected extra argument"]),
        (["run", "lost", "x"], ["the script", "cannot be read: No such file"]),
        (["run", "odd", "x"], ["agents.odd", "unknown field `colour`"]),
        (["run", "ghost", "x"], ["unknown agent 'spectre'"]),
        (["runn"], ["No such command", "runn"]),
    ],
    ids=lambda value: " ".join(value[1:])[:60] if value[0].startswith("run") else "",
)  # fmt: skip
def test_bad_input(cli: CliProcess, arguments: list[str], messages: list[str]) -> None:
    cli.agent("helper", [Say("never said")])
    cli.configure('[agents.lost]\ntype = "scripted"\nscript = "gone.json"\n')
    cli.configure('[agents.odd]\ntype = "scripted"\ncolour = "red"\n')
    cli.configure('[agents.ghost]\ntype = "spectre"\n')
    (cli.place / "file").touch()
    ended = cli.run(*arguments)
    assert ended.returncode == 2, ended
    for words in messages:
        assert words in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("policy = ", "this is not valid TOML"),
        ("colour = 1\n", "tieline.toml:1: colour: unknown key"),
        ("[agents.x]\ncommand = []\n", "tieline.toml:1: agents.x: it has no type"),
        ('policy = "lax"\n', "unknown policy 'lax'"),
    ],
)
def test_bad_configuration(cli: CliProcess, toml: str, message: str) -> None:
    cli.configure(toml)
    ended = cli.run("run", "scripted", "x")
    assert ended.returncode == 2
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


def test_unusable_directory(cli: CliProcess) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may enter every directory")
    (cli.place / "closed").mkdir(mode=0o000)
    ended = cli.run("run", "scripted", "x", "--cwd", "closed")
    assert ended.returncode == 2
    assert "cannot be read: Permission denied" in ended.stderr


class TestShellAgents:
    """Programs that are no agents at all."""

    def test_missing_binary(self, cli: CliProcess) -> None:
        cli.configure('[agents.gone]\ntype = "shell"\ncommand = ["no-such-program", "{prompt}"]\ninstall = "get it"\n')
        ended = cli.run("run", "gone", "x", "--policy", "full")
        assert ended.returncode == 2
        assert "no-such-program" in ended.stderr and "get it" in ended.stderr
        assert "Traceback" not in ended.stderr

    def test_exits_at_once(self, cli: CliProcess) -> None:
        command = '["/bin/sh", "-c", "echo I am broken >&2; exit 7", "sh", "{prompt}"]'
        cli.configure(f'[agents.short]\ntype = "shell"\ncommand = {command}\n')
        ended = cli.run("run", "short", "x", "--policy", "full")
        assert ended.returncode == 1
        assert "exited with status 7" in ended.stderr and "I am broken" in ended.stderr
        assert "Traceback" not in ended.stderr

    def test_prints_garbage(self, cli: CliProcess) -> None:
        command = '["/bin/sh", "-c", "head -c 5000 /dev/urandom", "sh", "{prompt}"]'
        cli.configure(f'[agents.noisy]\ntype = "shell"\noutput = "jsonl"\ntext_field = "text"\ncommand = {command}\n')
        ended = cli.run("run", "noisy", "x", "--policy", "full")
        assert ended.returncode == 1
        assert "Traceback" not in ended.stderr
        assert ESCAPE not in ended.stdout + ended.stderr

    def test_policy_that_nothing_enforces(self, cli: CliProcess) -> None:
        cli.configure('[agents.plain]\ntype = "shell"\ncommand = ["/bin/echo", "{prompt}"]\n')
        refused = cli.run("run", "plain", "hello", "--policy", "read-only")
        assert refused.returncode == 2
        assert "--accept-unenforced" in refused.stderr
        accepted = cli.run("run", "plain", "hello", "--policy", "read-only", "--accept-unenforced")
        assert accepted.returncode == 0
        assert accepted.stdout == "hello\n"
