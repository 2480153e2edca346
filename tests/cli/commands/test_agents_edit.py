"""`tieline agents add`, `test` and `remove`: agents are registered, tried and taken out by command."""

import json
import stat
import tomllib
from pathlib import Path

import pytest
import tomlkit

from tieline import config as configuration
from tieline.cli.commands import config_edit
from tieline.script import Fail, Say
from tieline.testing.cli_process import CliProcess

BEFORE = """# mine, by hand
default_agent = "helper"   # the quick one

[agents.helper]
type = "scripted"  # stays

# the hub
[hub]
port = 8200
"""


def file_of(cli: CliProcess) -> Path:
    return Path(cli.env["TIELINE_CONFIG"])


def test_added_tested_and_removed(cli: CliProcess) -> None:
    file_of(cli).write_text(BEFORE)
    ended = cli.run("agents", "add", "reviewer", "--", "/bin/echo", "--print", "{prompt}")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"reviewer is in {file_of(cli)}" in ended.stdout
    text = file_of(cli).read_text()
    for line in BEFORE.splitlines():
        assert line in text.splitlines(), "comments and all else stay"
    agent = configuration.load(environ=cli.env).agents["reviewer"]
    assert agent == {"type": "shell", "command": ["/bin/echo", "--print", "{prompt}"]}

    ended = cli.run("agents", "test", "reviewer", "--prompt", "hello", "--accept-unenforced")
    assert (ended.returncode, ended.stdout) == (0, "reviewer works: --print hello\n")

    assert cli.run("agents", "remove", "reviewer").returncode == 0
    assert file_of(cli).read_text() == BEFORE, "as it had been"
    assert cli.run("agents", "add", "reviewer", "--", "/bin/echo").returncode == 0, "and again"


def test_everything_that_can_be_said(cli: CliProcess) -> None:
    given = ["--type", "claude-code", "--arg=--add-dir", "--arg", "../lib", "--env", "TOKEN=env:HOME", "--env", "A=b=c"]
    more = ["--model", "opus", "--effort", "low", "--set", "user_rules=true", "--set", "mode=plan", "--default"]
    ended = cli.run("agents", "add", "work", *given, *more, "--json")
    assert ended.returncode == 0, ended.stderr
    added = json.loads(ended.stdout)
    assert added == {
        "name": "work",
        "file": str(file_of(cli)),
        "agent": {
            "type": "claude-code",
            "args": ["--add-dir", "../lib"],
            "env": {"TOKEN": "env:HOME", "A": "b=c"},
            "model": "opus",
            "effort": "low",
            "user_rules": True,
            "mode": "plan",
        },
    }
    loaded = configuration.load(environ=cli.env)
    assert (loaded.default_agent, loaded.agents["work"]) == ("work", added["agent"])
    (report,) = json.loads(cli.run("agents", "work", "--json").stdout)
    assert (report["type"], report["command"], report["args"][-2:]) == (
        "claude-code",
        ["claude"],
        ["--add-dir", "../lib"],
    )


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        (["add", "x"], "the type of x is missing", "Give its type"),
        (["add", "x", "--type", "cladue-code"], "unknown agent 'cladue-code'", "claude-code"),
        (["add", "helper", "--type", "codex"], "helper is configured already", "--replace"),
        (["add", "a b", "--type", "codex"], "'a b' cannot be an agent's name", "Letters"),
        (["add", "test", "--type", "codex"], "'test' cannot be an agent's name", "Letters"),
        (["add", "x", "--type", "codex", "--env", "HERE"], "--env 'HERE' has no value", "NAME=VALUE"),
        (["add", "x", "--type", "codex", "--arg=--yolo"], "agents.x.args: --yolo is Tieline's own", "Remove it"),
        (
            ["add", "x", "--type", "codex", "--set", "colour=red"],
            "agents.x: Object contains unknown",
            "",
        ),
        (["add", "x", "--type", "codex", "--env", "A=env:GONE"], "agents.x.env.A refers to GONE", "Set GONE"),
        (["remove", "x"], "no agent 'x' is configured", "There are: helper."),
        (["remove", "codex"], "codex is built in", "enabled = false"),
        (["remove", "helper"], "helper is the default agent", "default_agent"),
        (["test", "x"], "unknown agent 'x'", ""),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    cli: CliProcess, arguments: list[str], problem: str, hint: str
) -> None:
    file_of(cli).write_text(BEFORE)
    ended = cli.run("agents", *arguments)
    assert ended.returncode == 2
    assert problem in ended.stderr and hint in ended.stderr
    assert file_of(cli).read_text() == BEFORE


def test_replaced_where_it_is_wanted(cli: CliProcess) -> None:
    file_of(cli).write_text(BEFORE)
    assert cli.run("agents", "add", "helper", "--type", "codex", "--replace").returncode == 0
    assert configuration.load(environ=cli.env).agents == {"helper": {"type": "codex"}}


def test_a_known_agent_gets_settings_without_a_type(cli: CliProcess) -> None:
    assert cli.run("agents", "add", "codex", "--model", "big").returncode == 0
    assert cli.run("agents", "add", "opencode", "--set", "agent=plan").returncode == 0
    agents = configuration.load(environ=cli.env).agents
    assert agents == {"codex": {"model": "big"}, "opencode": {"type": "opencode", "agent": "plan"}}


TABLE = {"type": "shell", "command": ["x"], "env": {"A": "1"}}


@pytest.mark.parametrize(
    "before",
    [
        "",
        BEFORE,
        "[agents.mine]\ntype = 'shell'\n[agents.mine.env]\nA = 'b'\n# about the next\n[agents.next]\ntype = 'codex'\n",
        'agents = { mine = { type = "codex" }, other = { type = "codex" } }\n[hub]\nport = 1\n',
        'agents.mine.type = "codex"  # dotted\nagents.other.type = "codex"\n',
        "[agents]\nmine = { type = 'codex' }\n[hub]\nport = 1\n",
        'policy = """\n[agents.mine]\n"""\n[agents."mine"]\ntype = "codex"\n[[channels]]\nid = "a"\n',
    ],
)
def test_however_the_file_is_written(before: str) -> None:
    """What is changed is the agent alone, and every comment stays."""
    there = tomllib.loads(before)
    if "mine" in there.get("agents", {}):
        after = config_edit.without_agent(before, "mine")
        del there["agents"]["mine"]
        assert {"agents": {}, **tomllib.loads(after)} == {"agents": {}, **there}
        assert ("# about the next\n[agents.next]" in after) == ("# about" in before)
    else:
        after = before
    after = config_edit.with_value(config_edit.with_agent(after, "mine", TABLE), "default_agent", "mine")
    there.setdefault("agents", {})["mine"] = TABLE
    assert tomllib.loads(after) == {**there, "default_agent": "mine"}


def test_a_file_that_is_broken_or_missing(cli: CliProcess) -> None:
    file_of(cli).write_text("agents = [")
    ended = cli.run("agents", "add", "x", "--type", "codex")
    assert ended.returncode == 2 and "not valid TOML" in ended.stderr
    assert file_of(cli).read_text() == "agents = ["
    file_of(cli).unlink()
    assert cli.run("agents", "add", "x", "--type", "codex").returncode == 0
    assert stat.S_IMODE(file_of(cli).stat().st_mode) == 0o600, "secrets may stand in it"


def test_a_link_and_its_mode_stay(cli: CliProcess, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text(BEFORE)
    real.chmod(0o640)
    file_of(cli).unlink()
    file_of(cli).symlink_to(real)
    assert cli.run("agents", "add", "x", "--type", "codex").returncode == 0
    assert file_of(cli).is_symlink() and stat.S_IMODE(real.stat().st_mode) == 0o640
    assert "x" in tomlkit.parse(real.read_text())["agents"]  # type: ignore[operator]


def test_several_at_the_same_time(cli: CliProcess) -> None:
    started = [cli.start("agents", "add", f"agent-{number}", "--type", "codex") for number in range(4)]
    for process in started:
        process.communicate(timeout=30)
        assert process.returncode == 0
    assert sorted(configuration.load(environ=cli.env).agents) == [f"agent-{number}" for number in range(4)]
    assert not list(file_of(cli).parent.glob(".tieline*"))


def test_an_agent_that_does_not_work(cli: CliProcess) -> None:
    cli.agent("broken", [Fail(529, "the model is overloaded")])
    cli.agent("fine", [Say("hello")])
    ended = cli.run("agents", "test", "broken", "--prompt", "hello")
    assert ended.returncode == 1
    assert "broken" in ended.stderr and "does not work: " in ended.stderr
    ended = cli.run("agents", "test", "codex")  # it is not on this PATH
    assert ended.returncode == 1
    assert "codex does not work" in ended.stderr and "npm install" in ended.stderr
    trial = json.loads(cli.run("agents", "test", "fine", "--json").stdout)
    assert trial["works"] and trial["opened"] and trial["answer"] == "", "no model was called"
