"""`tieline run` with a hub on this machine: the same turn, the same words, the same exit status."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cli.hub_process import HubProcess, Setting

from tieline.cli.run.target import local_hub
from tieline.testing.cli_process import WAIT_S

TOOK = re.compile(r"\(\d+\.\ds")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Generator[Setting, None, None]:
    setting = Setting(tmp_path_factory.mktemp("over_hub"))
    with HubProcess(setting):
        yield setting


# --- the same as without --------------------------------------------------------------------------------------


def outcome(ended: "subprocess.CompletedProcess[str]") -> tuple[int, str, str]:
    return ended.returncode, ended.stdout, TOOK.sub("(", ended.stderr)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("talker", "say hello"),
        ("worker", "make it"),
        ("worker", "make it", "--on-ask", "allow"),
        ("worker", "make it", "--on-ask", "deny"),
        ("editor", "write", "--policy", "edits", "--model", "m", "--system", "be brief"),
        ("asker", "ask me"),
        ("failing", "go"),
        ("stalling", "go", "--timeout", "0.5"),
        ("talker", "attached", "--attach", "given.txt"),
        ("talker", "elsewhere", "--cwd", "below"),
        ("missing", "go", "--policy", "full"),
        # what cannot be
        ("nonesuch", "go"),
        ("talker", "go", "--resume", "abc"),
        ("talker", "go", "--cwd", "nonesuch"),
        ("talker", "go", "--policy", "nonesuch"),
        ("talker", "go", "--on-ask", "prompt"),
    ],
    ids=" ".join,
)
def test_the_same_words_and_the_same_status(hub: Setting, arguments: tuple[str, ...]) -> None:
    (hub.place / "below").mkdir(exist_ok=True)
    (hub.place / "given.txt").write_text("given")
    alone = outcome(hub.run("run", *arguments, "--standalone"))
    before = {session.id for session in hub.sessions()}
    through = outcome(hub.run("run", *arguments))
    assert through == alone
    new = [(session.title, session.agent) for session in hub.sessions() if session.id not in before]
    if through[0] != 2:
        assert new == [(arguments[1], arguments[0])]


def test_the_same_events(hub: Setting) -> None:
    """Whole items are alike. Deltas may come in other pieces, or not at all, but never after their item."""

    def events(*arguments: str) -> list[dict[str, Any]]:
        ended = hub.run("run", "talker", "tell me", "--json", *arguments)
        assert (ended.returncode, ended.stderr) == (0, "")
        items: dict[str, str] = {}
        texts: dict[str, str] = {}
        whole: list[dict[str, Any]] = []
        for event in map(json.loads, ended.stdout.splitlines()):
            for name in ("id", "native_id", "duration_s"):
                event.pop(name, None)
            if event["type"].endswith("_delta"):
                texts[event["item"]] = texts.get(event["item"], "") + event["text"]
                continue
            if "item" in event:
                assert texts.pop(event["item"], "") in event["text"]
                event["item"] = items.setdefault(event["item"], str(len(items)))
            whole.append(event)
        assert texts == {}
        return whole

    assert events() == events("--standalone")


def test_a_prompt_from_standard_input_becomes_its_title(hub: Setting) -> None:
    ended = hub.run("run", "talker", "-", given="the first line\nand more\n")
    assert ended.returncode == 0
    assert hub.settled("the first line and more").turns == 1


def test_attachments_that_are_too_large_for_the_hub(hub: Setting) -> None:
    (hub.place / "large.txt").write_text("x" * 900_000)
    before = len(hub.sessions())
    ended = hub.run("run", "talker", "look at this", "--attach", "large.txt")
    assert ended.returncode == hub.run("run", "talker", "x", "--attach", "large.txt", "--standalone").returncode
    assert "too large for the hub" in ended.stderr
    assert len(hub.sessions()) == before


# --- a person at a terminal -----------------------------------------------------------------------------------


def test_an_ask_is_answered_at_the_terminal(hub: Setting) -> None:
    made = hub.place / "made.txt"
    made.unlink(missing_ok=True)
    with hub.terminal("run", "worker", "at the terminal") as terminal:
        terminal.expect("wants to run a command")
        terminal.expect("echo hi > made.txt")
        terminal.expect("y allow")
        terminal.send("y")
        terminal.expect("✓ allowed")
        terminal.expect("It is made.")
        assert terminal.wait() == 0
        assert terminal.restored
    assert made.read_text() == "hi\n"


def test_a_question_is_answered_at_the_terminal(hub: Setting) -> None:
    with hub.terminal("run", "asker", "choose at the terminal") as terminal:
        terminal.expect("Which colour?")
        terminal.expect("1-2 choose")
        terminal.send("2")
        terminal.expect("✓ Blue")
        terminal.expect("A fine colour.")
        assert terminal.wait() == 0


def test_an_ask_that_is_answered_elsewhere_is_no_longer_asked(hub: Setting) -> None:
    with hub.terminal("run", "worker", "answered elsewhere") as terminal:
        terminal.expect("y allow")
        ended = hub.run("deny", "--reason", "not now")
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout == "denied: wants to run a command: $ echo hi > made.txt\n"
        terminal.expect("— no longer asked")
        terminal.expect("denied by owner (pid ")
        assert terminal.wait() == 0


def test_ctrl_c_interrupts_the_turn_at_the_hub(hub: Setting) -> None:
    with hub.terminal("run", "stalling", "stopped by hand") as terminal:
        terminal.expect("The beginning.")
        terminal.send("\x03")
        terminal.expect("interrupted")
        assert terminal.wait() == 130
        assert terminal.restored
    assert hub.settled("stopped by hand").status == "idle"


def test_a_signal_interrupts_the_turn_at_the_hub(hub: Setting) -> None:
    process = hub.start("run", "stalling", "ended from outside", "--json")
    assert process.stdout is not None
    for line in process.stdout:
        if b"The beginning" in line:
            break
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert hub.settled("ended from outside").status == "idle"


def test_a_reader_that_leaves_ends_the_turn_at_the_hub(hub: Setting) -> None:
    """As in `tieline run … --json | head -1`: the agent does not go on unwatched."""
    process = hub.start("run", "stalling", "left alone", "--json")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    process.stderr.read()
    process.stderr.close()
    process.wait(WAIT_S)
    assert hub.settled("left alone").status == "idle"


# --- which hub ------------------------------------------------------------------------------------------------


def test_another_configuration_has_no_part_in_it(hub: Setting, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(Path(hub.env["TIELINE_CONFIG"]).read_text())
    assert local_hub(hub.env) is not None
    for changed in ({"TIELINE_CONFIG": str(other)}, {"TIELINE_HOME": str(tmp_path / "home")}):
        env: Mapping[str, str] = {**hub.env, **changed}
        assert local_hub(env) is None
        before = len(hub.sessions())
        ended = subprocess.run(
            [hub.program, "run", "talker", "not here"], cwd=hub.place, env=env, capture_output=True, timeout=WAIT_S
        )
        assert ended.returncode == 0
        assert len(hub.sessions()) == before


def test_a_hub_elsewhere_is_not_used(hub: Setting, tmp_path: Path) -> None:
    """`run` works in a directory of this machine."""
    env = {**hub.env, "TIELINE_HOME": str(tmp_path), "TIELINE_HUB": "http://127.0.0.1:9", "TIELINE_TOKEN": "x"}
    ended = subprocess.run(
        [hub.program, "run", "talker", "here"], cwd=hub.place, env=env, capture_output=True, timeout=WAIT_S
    )
    assert ended.returncode == 0


def test_what_a_dead_hub_wrote_down_does_not_count(tmp_path: Path) -> None:
    cli = Setting(tmp_path)
    state = Path(cli.env["XDG_STATE_HOME"], "tieline")
    state.mkdir(parents=True)
    for pid in (2**22 - 3, os.getpid()):  # nobody's; somebody else's, who does not listen there
        (state / "hub.json").write_text(
            json.dumps({"url": "http://127.0.0.1:9", "pid": pid, "node": "n", "socket": f"{tmp_path}/none"})
        )
        assert cli.run("run", "talker", "alone").returncode == 0
    (state / "hub.json").write_text("{")
    assert cli.run("run", "talker", "alone").returncode == 0


# --- the hub goes away ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_hub_is_killed_in_the_middle_and_comes_back(tmp_path: Path) -> None:
    """Nobody knows how far the turn came: it is said, and the exit status is 1. Then all is as before."""
    cli = Setting(tmp_path)
    with HubProcess(cli) as process:
        run = cli.start("run", "stalling", "lost", "--json")
        assert run.stdout is not None
        for line in run.stdout:
            if b"The beginning" in line:
                break
        process.kill()
        process.start()
        out, errors = run.communicate(timeout=WAIT_S)
        assert run.returncode == 1, errors
        events = [json.loads(line) for line in out.splitlines()]
        assert [event["state"] for event in events if event["type"] == "status"] == ["reconnecting", "reconnected"]
        assert events[-1]["type"] == "done" and events[-1]["status"] == "error"
        assert cli.run("run", "talker", "and again").returncode == 0
        assert cli.settled("and again").turns == 1
    ended = cli.run("run", "talker", "without it")
    assert ended.returncode == 0
