"""The other verbs: agents, schema, demo, help; and how errors are told."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer

from tieline import events
from tieline.cli import errors
from tieline.cli.app import app, start
from tieline.cli.commands.agent_reports import is_older, plain_lines, probe_agents
from tieline.cli.commands.schema import SCHEMAS
from tieline.config import Config
from tieline.errors import AgentMissing, AgentStartFailed, UsageError
from tieline.policy import Policy
from tieline.script import Run, Say
from tieline.testing.cli_process import CliProcess
from tieline.testing.rig import scratch_env
from tieline.testing.wait_for import at_work_in
from tieline.version import __version__

BINARIES = Path(__file__).parents[1] / "agents/node_modules/.bin"

# --- agents -------------------------------------------------------------------------------------------------


def test_agents_json(cli: CliProcess) -> None:
    cli.agent("helper", [Say("ok")])
    cli.configure('[agents.lost]\ntype = "scripted"\nscript = "gone.json"\n')
    cli.configure('[agents.ghost]\ntype = "spectre"\n')
    ended = cli.run("agents", "--json")
    assert ended.returncode == 0
    assert ended.stderr == ""
    reports = {report["name"]: report for report in json.loads(ended.stdout)}
    assert {"claude-code", "codex", "opencode", "gemini", "scripted", "helper"} <= set(reports)
    jsonschema.validate(json.loads(ended.stdout), json.loads(cli.run("schema", "agents").stdout))
    helper = reports["helper"]
    assert helper["found"] and helper["signed_in"] and helper["version"] == helper["tested"] == __version__
    assert helper["features"]["deltas"] is True
    assert {
        reports[name]["basis"] for name in ("helper", "claude-code", "codex", "opencode", "gemini", "qwen", "copilot")
    } == {"tested"}
    assert (helper["proof"], helper["tested_version"]) == ("tested", True)
    assert (reports["codex"]["proof"], reports["codex"]["tested_version"]) == ("tested", None), "it is not here"
    assert reports["junie"]["proof"] == "unverified"
    assert reports["junie"]["basis"] == "unverified" and "resume" in reports["junie"]["unverified"]
    assert not reports["lost"]["found"] and "cannot be read" in reports["lost"]["problem"]
    assert not reports["ghost"]["found"] and "unknown agent" in reports["ghost"]["problem"]
    for name in ("codex", "opencode", "gemini"):  # none is on this PATH
        assert not reports[name]["found"]
        assert reports[name]["problem"]


def test_agents_plain(cli: CliProcess) -> None:
    cli.agent("helper", [Say("ok")])
    ended = cli.run("agents")
    assert ended.returncode == 0
    lines = [" ".join(line.split()) for line in ended.stdout.splitlines()]
    assert f"helper {__version__}, signed in, tested with {__version__}" in lines
    assert lines[1].startswith("can: model, deltas")
    assert lines[-1].endswith("more agents are known and not here: `tieline agents --all` says how to get each.")
    assert not any(line.startswith("codex") for line in lines)
    assert "\x1b" not in ended.stdout


def test_agents_that_are_configured_or_asked_for_are_named_though_they_are_away(cli: CliProcess) -> None:
    cli.configure('[agents.mine]\ntype = "codex"\n')
    some, whole = cli.run("agents").stdout, cli.run("agents", "--all").stdout
    for text, away in ((some, ["mine"]), (whole, ["mine", "codex", "gemini"])):
        lines = text.splitlines()
        first = max(number for number, line in enumerate(lines) if line.startswith("scripted"))
        names = [line.split()[0] for line in lines[first:] if " not found" in line]
        assert [name for name in names if name in ("mine", "codex", "gemini")] == away
    assert "--all" not in whole and "npm install -g @openai/codex" in whole


def test_agents_in_a_terminal(cli: CliProcess) -> None:
    cli.agent("helper", [Say("ok")])
    with cli.terminal("agents", "helper", "codex") as terminal:
        terminal.expect("✓ helper")
        terminal.expect("✗ codex")
        assert terminal.wait() == 0
        assert "opencode" not in terminal.text


@pytest.mark.real
def test_agents_that_are_found_are_not_registered(tmp_path: Path) -> None:
    cli = CliProcess(tmp_path, path=f"{BINARIES}:/usr/bin:/bin")
    (report,) = json.loads(cli.run("agents", "codex", "--json").stdout)
    assert report["found"]
    assert Path(cli.env["TIELINE_CONFIG"]).read_text() == ""
    assert not list(Path(cli.env["HOME"]).rglob("tieline*")), "nothing was written down"


def test_agents_unknown(cli: CliProcess) -> None:
    ended = cli.run("agents", "nonesuch")
    assert ended.returncode == 2
    assert "unknown agent 'nonesuch'" in ended.stderr


@pytest.mark.slow
async def test_a_probe_that_hangs_does_not_hold_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.cli.commands.agent_reports.PROBE_S", 1.0)
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "hangs"
    program.write_text("#!/bin/sh\nexec sleep 300\n")
    program.chmod(0o755)
    stuck = {"type": "shell", "command": [str(program), "{prompt}"], "version_args": ["-v"]}
    config = Config(agents={"stuck": stuck}, environ=scratch_env(tmp_path / "home", path="/usr/bin:/bin"))
    hung, fine = await probe_agents(["stuck", "scripted"], config)
    assert hung.problem == "it did not answer within 1 s"
    assert (fine.version, fine.problem) == (__version__, "")
    assert "problem: it did not answer" in "\n".join(plain_lines([hung, fine]))
    assert not at_work_in(tmp_path)


@pytest.mark.parametrize(
    ("version", "floor", "expected"),
    [("1.2", "1.10", True), ("1.10", "1.2", False), ("1.2", "1.2", False), ("", "1", False), ("1", "", False),
     ("0.166.0-alpha", "0.166.0", False), ("2.1.0", "2.1", False), ("odd", "1.0", False)],
)  # fmt: skip
def test_older(version: str, floor: str, expected: bool) -> None:
    assert is_older(version, floor) is expected


# --- schema -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SCHEMAS])
def test_schema_is_valid(cli: CliProcess, name: str) -> None:
    schema = json.loads(cli.run("schema", name).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"].startswith("Tieline ")


@pytest.mark.slow
def test_events_of_a_run_fit_the_schema(cli: CliProcess) -> None:
    cli.agent("helper", [Run("echo x")], [Say("ok")])
    schema = json.loads(cli.run("schema").stdout)
    for line in cli.run("run", "helper", "go", "--json", "--policy", "full").stdout.splitlines():
        jsonschema.validate(json.loads(line), schema)
    policy = json.loads(cli.run("schema", "policy").stdout)
    jsonschema.validate({"file_write": "allow", "shell": "ask", "network": "deny"}, policy)
    assert Policy("allow", "ask", "deny").network == "deny"


def test_schema_unknown(cli: CliProcess) -> None:
    ended = cli.run("schema", "nonesuch")
    assert ended.returncode == 2
    assert "There are: events, policy" in ended.stderr


# --- demo ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_demo_without_a_terminal_ends_by_itself(cli: CliProcess) -> None:
    ended = cli.run("demo")
    assert ended.returncode == 0, ended.stderr
    assert "edit greeting.py  +1 −1: ok" in ended.stderr
    assert "It changed greeting.py" in ended.stdout
    assert "tieline up " in ended.stdout.partition("Try next:")[2]
    assert "\x1b" not in ended.stdout + ended.stderr
    assert not list((cli.place.parent / "home").glob("tieline-demo-*")), "its directory is gone"


@pytest.mark.slow
def test_demo_in_a_terminal(cli: CliProcess) -> None:
    with cli.terminal("demo", "--keep") as terminal:
        terminal.expect("› The greeting is wrong.")
        terminal.expect("$ python3 test_greeting.py")
        terminal.expect("y allow")
        terminal.send("y")
        terminal.expect("AssertionError: it says 'Hello Ada'")
        terminal.expect('5 +     return f"Hello, {name}!"')
        terminal.expect("y allow")
        terminal.send("y")
        terminal.expect("✎ edit greeting.py  +1 −1  ✓")
        terminal.expect("y allow")
        terminal.send("y")
        terminal.expect("passed: it says Hello, Ada!")
        terminal.expect("1-3 choose")
        terminal.send("2")
        terminal.expect("Default name: Ada")
        terminal.expect("✓ done")
        terminal.expect("Everything is in ")
        assert terminal.wait() == 0
    (kept,) = (cli.place.parent / "home").glob("tieline-demo-*")
    assert "Hello, {name}!" in (kept / "greeting.py").read_text()


@pytest.mark.slow
def test_demo_in_which_the_change_is_denied(cli: CliProcess) -> None:
    with cli.terminal("demo") as terminal:
        for key in ("y", "n", "y"):
            terminal.expect("y allow")
            terminal.send(key)
        terminal.expect("1-3 choose")
        terminal.send("1")
        terminal.expect("I left out what you denied")
        terminal.expect("Nothing was changed. The directory was removed")
        assert terminal.wait() == 0
        assert "as the test wants it" not in terminal.text


@pytest.mark.slow
def test_demo_that_says_yes(cli: CliProcess) -> None:
    with cli.terminal("demo", "--yes") as terminal:
        terminal.expect("✓ done")
        terminal.expect("It changed greeting.py")
        assert terminal.wait() == 0
        assert "y allow" not in terminal.text


def test_demo_interrupted_twice_leaves_no_directory(cli: CliProcess) -> None:
    with cli.terminal("demo") as terminal:
        terminal.expect("y allow")
        terminal.send("\x03")
        terminal.expect("interrupt")
        terminal.send("\x03")
        assert terminal.wait() == 130
    assert not list((cli.place.parent / "home").glob("tieline-demo-*"))


IN_THE_CLEAN_UP = """
import os, sys
from tieline.cli import app, main
class Last:
    def __del__(self, kill=os.kill, own=os.getpid()):
        kill(own, 2)
last = Last()
app.start = lambda arguments: 130
sys.argv = ["tieline", "demo"]
main()
"""


def test_a_second_interrupt_while_python_cleans_up_changes_nothing() -> None:
    assert subprocess.run([sys.executable, "-c", IN_THE_CLEAN_UP]).returncode == 130


def test_demo_whose_window_is_closed_leaves_no_directory(cli: CliProcess) -> None:
    with cli.terminal("demo") as terminal:
        terminal.expect("y allow")
        terminal.hang_up()
        with suppress(ProcessLookupError):
            terminal.process.send_signal(signal.SIGHUP)  # shells tell their jobs as well
        assert terminal.process.wait(20) != 0
    assert not list((cli.place.parent / "home").glob("tieline-demo-*"))


# --- help and version ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("command", [[], ["run"], ["agents"], ["schema"], ["demo"]])
def test_help_has_examples(cli: CliProcess, command: list[str]) -> None:
    for flag in ("--help", "-h"):
        ended = cli.run(*command, flag)
        assert ended.returncode == 0
        assert "Usage: tieline" in ended.stdout
        assert f"Examples\n  tieline {' '.join(command)}" in ended.stdout
        assert "\x1b" not in ended.stdout
        assert max(map(len, ended.stdout.splitlines())) <= 100


def test_a_command_with_verbs_shows_what_there_is_when_it_is_alone(capsys: pytest.CaptureFixture[str]) -> None:
    top = typer.main.get_command(app)
    families = {name: each for name, each in getattr(top, "commands", {}).items() if hasattr(each, "commands")}
    alone: dict[str, str] = {}
    for name, family in families.items():
        context = typer.Context(family, info_name=name)
        family.parse_args(context, [])
        (alone[name],) = context._protected_args  # pyright: ignore[reportPrivateUsage]
        help_text = " ".join(family.get_help(context).split())
        assert f" {alone[name]} " in help_text
        assert help_text.count("Also without the verb.") == 1
    assert set(alone.values()) == {"list", "show", "status"}
    assert {name for name, verb in alone.items() if verb == "show"} == {"changes", "config"}
    assert {name for name, verb in alone.items() if verb == "status"} == {"node", "service"}
    assert start([]) == 0
    assert capsys.readouterr().out.startswith("Usage: tieline [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("arguments", "meant"), [("queue cancle 1f0c2a 7be04f", "cancel"), ("changes stge 1f0c2a", "stage")]
)
def test_a_misspelt_verb_is_not_taken_for_a_session(
    arguments: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(arguments.split()) == 2
    assert f"Did you mean '{meant}'" in capsys.readouterr().err
    family = getattr(typer.main.get_command(app), "commands", {})["queue"]
    assert family.with_verb(["ed1f0c"]) == ["list", "ed1f0c"], "an id is not"


WITHOUT_JSON = {
    *("mcp", "service run", "node run"),  # they stay
    *("schema", "team schema", "team export"),  # what they print is a document already
    "demo",
}


def test_every_verb_tells_programs_what_it_did() -> None:
    def verbs(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        for verb, below in getattr(command, "commands", {}).items():
            yield from verbs(below, f"{name} {verb}".strip())
        if name and (not hasattr(command, "commands") or command.invoke_without_command):
            yield name, command

    every = dict(verbs(typer.main.get_command(app), ""))
    without = {name for name, command in every.items() if not any("--json" in each.opts for each in command.params)}
    assert without == WITHOUT_JSON
    assert not [name for name, command in every.items() if not command.epilog], "without an example"


def test_what_goes_with_run_goes_with_a_new_session_at_the_hub() -> None:
    verbs = getattr(typer.main.get_command(app), "commands", {})
    run, send = ({option for each in verbs[name].params for option in each.opts} for name in ("run", "send"))
    assert {each for each in run - send if each.startswith("-")} == {"--standalone"}


def test_no_arguments_show_the_help(cli: CliProcess) -> None:
    ended = cli.run()
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Examples" in ended.stdout


def test_version(cli: CliProcess) -> None:
    assert cli.run("--version").stdout == f"tieline {__version__}\n"


def test_each_family_of_verbs_is_one_file() -> None:
    from typer.main import get_command

    from tieline.cli import app

    folder = Path(app.__file__).parent / "typer_apps"
    assert {path.stem for path in folder.glob("*.py")} - {"__init__", "options"} == set(app.FAMILIES)
    verbs = getattr(get_command(app.app), "commands", {})
    assert {"up", "down", "mcp", "harnesses", "install", "uninstall", "status"} <= set(verbs)


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (
            ["--help"],
            {"rich", "textual", "pydantic", "httpx2", "tieline.cli.run.standalone", "tieline.drivers.scripted"},
        ),
        (["run", "scripted", "hello", "--json", "--policy", "full"], {"rich", "pydantic", "typer", "httpx2"}),
    ],
)
def test_start_up_is_light(tmp_path: Path, arguments: list[str], heavy: set[str]) -> None:
    """What each way imports: time is measured by the benchmark, weight here."""
    code = (
        "import sys, tieline.cli\n"
        "sys.argv = ['tieline', *sys.argv[1:]]\n"
        "try:\n    tieline.cli.main()\nexcept SystemExit as exit:\n    assert not exit.code, exit.code\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=tmp_path, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=30,
        check=True,
    )  # fmt: skip
    assert not heavy & set(ended.stderr.split())


# --- errors -------------------------------------------------------------------------------------------------


def raising(error: BaseException) -> int:
    def work() -> int:
        raise error

    return errors.run_and_report(work)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (UsageError("bad", hint="do good"), 2, "tieline: bad\n  do good\n"),
        (AgentMissing("codex", "not found", hint="install it"), 2, "tieline: codex: not found\n  install it\n"),
        (AgentStartFailed("codex", "exited"), 1, "tieline: codex: exited\n"),
        (ExceptionGroup("g", [ExceptionGroup("h", [UsageError("inner")])]), 2, "tieline: inner\n"),
        (UsageError("\x1b[2Jbad"), 2, "tieline: ⟨U+001B⟩[2Jbad\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_are_told(error: BaseException, status: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(error) == status
    assert capsys.readouterr().err == message


def test_unexpected_error(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIELINE_DEBUG", raising=False)
    assert raising(ZeroDivisionError("oops")) == 1
    message = capsys.readouterr().err
    assert "unexpected ZeroDivisionError: oops" in message and "TIELINE_DEBUG=1" in message
    assert "Traceback" not in message
    monkeypatch.setenv("TIELINE_DEBUG", "1")
    raising(ZeroDivisionError("oops"))
    assert "Traceback" in capsys.readouterr().err


def test_a_state_directory_that_cannot_be_used_is_named(cli: CliProcess) -> None:
    (cli.place / "file").touch()
    cli.env = {**cli.env, "TIELINE_HOME": str(cli.place / "file")}
    ended = cli.run("up")
    assert ended.returncode == 1 and "Set TIELINE_HOME" in ended.stderr
    assert f"the state directory {cli.place / 'file'} cannot be used" in ended.stderr


@pytest.mark.parametrize("family", ["schedule", "rules"])
def test_a_verb_that_there_is_not_is_named(cli: CliProcess, family: str) -> None:
    ended = cli.run(family, "histroy", "nightly")
    assert ended.returncode == 2 and "No such command 'histroy'" in ended.stderr
    assert "no hub is running" in cli.run(family).stderr, "without a verb it lists them"
    assert "no hub is running" in cli.run(family, "--json").stderr


def test_json_lines_decode(cli: CliProcess) -> None:
    cli.agent("helper", [Say("ok")])
    for line in cli.run("run", "helper", "go", "--json").stdout.splitlines():
        events.decode(line)
