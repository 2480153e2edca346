"""What [agents.NAME] says for every kind of agent: type, arguments, environment, defaults, and who wins over whom."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tieline import config, open_session
from tieline.bus import open_bus
from tieline.config import Config
from tieline.drivers import registry
from tieline.drivers.acp_presets import PRESETS
from tieline.drivers.base import Driver, Spec, StartsProgram, agent_env
from tieline.drivers.claude_code.driver import ClaudeCode
from tieline.drivers.claude_code.launch import launch_command as claude_command
from tieline.errors import AgentError, UnknownAgent, UsageError
from tieline.script import Stall
from tieline.sessions.manager import SessionManager
from tieline.sessions.startup_files_fingerprint import fingerprint
from tieline.testing.driver_contract.base import FULL
from tieline.testing.rig import scratch_env
from tieline.testing.rigs.shell import JSONL, TEXT, ShellRig
from tieline.testing.stream_checks import collect, done

RECORDER = """#!/bin/sh
printf '%s\\n' "$@" > "$RECORD/args"
env > "$RECORD/env"
echo not-an-agent
"""
"""Stands in for an agent's program: it writes down how it was started, and is no agent."""

KINDS = {
    "claude-code": ("stdio", "--permission-mode", "default"),
    "codex": ("app-server",),
    "opencode": ("serve", "--port", "0", "--hostname", "127.0.0.1"),
    "gemini": PRESETS["gemini"].args,
    "acp": (),
    "shell": (),
}
"""Type → the last of its driver's own arguments."""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "agent"
    file.write_text(RECORDER)
    file.chmod(0o755)
    return file


def made(kind: str, **options: Any) -> Driver:
    return registry.create("mine", Config(agents={"mine": {"type": kind, **options}}))


@pytest.mark.parametrize("kind", KINDS)
async def test_arguments_and_environment_reach_every_agent(kind: str, program: Path, tmp_path: Path) -> None:
    """The additional arguments follow the driver's own, and the configured variables come on top."""
    driver = made(kind, command=[str(program)], args=["--more", "of it"], env={"MOOD": "calm", "RECORD": str(tmp_path)})
    env = {**scratch_env(tmp_path / "home", path="/usr/bin:/bin"), "MOOD": "wild", "STAYS": "yes"}
    env["ANTHROPIC_API_KEY"] = "x"
    system = "Speak like a ferryman." if driver.features.system != "none" else ""
    opening = open_session(driver, cwd=tmp_path, env=env, policy=FULL, accept_unenforced=True, system=system)
    if kind == "shell":  # it takes any program
        async with opening as session:
            assert done(await collect(session.turn("hello"))).status == "success"
    else:
        with pytest.raises(AgentError, match="mine"):  # it is no agent: what counts is how it was started
            await opening.__aenter__()
    args = (tmp_path / "args").read_text().splitlines()
    index = args.index("--more")
    assert args[index + 1] == "of it"
    assert tuple(args[index - len(KINDS[kind]) : index]) == KINDS[kind]
    seen = (tmp_path / "env").read_text().splitlines()
    assert {"MOOD=calm", "STAYS=yes"} <= set(seen)
    assert "MOOD=wild" not in seen
    assert "ferryman" not in "".join(seen), "no variable carries the system instruction"


@pytest.mark.parametrize("kind", [*KINDS, "scripted"])
def test_a_driver_tells_its_type_its_command_and_its_arguments(kind: str) -> None:
    command: Mapping[str, Any] = {} if kind == "scripted" else {"command": ["some-agent", "first"], "args": ["--more"]}
    driver = made(kind, **command)
    assert isinstance(driver, StartsProgram)
    assert driver.program.type == ("acp" if kind == "gemini" else kind)
    if command:
        assert driver.program.command == ("some-agent", "first")
        assert driver.program.args[-1] == "--more"
        assert driver.program.args[:-1][-len(KINDS[kind]) or 1 :] == KINDS[kind]


def test_a_driver_has_a_command_without_a_configuration() -> None:
    for name, command in {"claude-code": "claude", "codex": "codex", "gemini": "gemini"}.items():
        driver = registry.create(name, Config())
        assert isinstance(driver, StartsProgram)
        assert driver.program.command == (command,)


@pytest.mark.parametrize(
    ("kind", "argument"),
    [
        ("claude-code", "--dangerously-skip-permissions"),
        ("claude-code", "--permission-mode=bypassPermissions"),
        ("codex", "--dangerously-bypass-approvals-and-sandbox"),
        ("opencode", "--hostname=0.0.0.0"),
        ("gemini", "--yolo"),
        ("gemini", "--approval-mode"),
        ("acp", "--yolo"),
    ],
)
def test_arguments_that_undo_the_policy_are_refused(kind: str, argument: str) -> None:
    command = {"command": ["some-agent"]} if kind == "acp" else {}
    with pytest.raises(UsageError, match=r"agents\.mine\.args: --") as refused:
        made(kind, args=[argument], **command)
    assert refused.value.field == "agents.mine.args"


@pytest.mark.parametrize("options", [{"args": "--more"}, {"env": {"A": 1}}, {"env": ["A"]}])
@pytest.mark.parametrize("kind", ["claude-code", "codex", "opencode", "gemini"])
def test_errors_name_the_agent(kind: str, options: Mapping[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"agents\.mine"):
        made(kind, **options)


def test_a_server_elsewhere_takes_no_arguments() -> None:
    with pytest.raises(UsageError, match=r"agents\.mine: a url and env"):
        made("opencode", url="http://127.0.0.1:1", env={"A": "b"})


@pytest.mark.parametrize(
    ("kind", "same"),
    [("openai-codex", "codex"), ("google-gemini", "gemini"), ("gemini-cli", "gemini"), ("claude", "claude-code")],
)
def test_other_names_of_a_type(kind: str, same: str) -> None:
    assert type(made(kind)) is type(made(same))
    assert made(kind).tested == made(same).tested
    assert type(registry.create(kind, Config())) is type(registry.create(same, Config()))


def test_variables_by_reference() -> None:
    agents = {"mine": {"type": "codex", "env": {"OPENAI_API_KEY": "env:WORK_KEY"}}}
    chosen = Config(agents=agents, environ={"WORK_KEY": "s3cret", "OTHER": "x"})
    assert agent_env(registry.create("mine", chosen), chosen.for_children()) == {
        "OTHER": "x",
        "OPENAI_API_KEY": "s3cret",
    }
    with pytest.raises(UsageError, match=r"agents\.mine\.env\.OPENAI_API_KEY refers to WORK_KEY, which is not set"):
        registry.create("mine", Config(agents=agents))


def test_a_warm_agent_goes_by_its_own_environment(tmp_path: Path) -> None:
    """Its configured folder is looked at, not the one of our own environment."""
    driver = made("claude-code", env={"CLAUDE_CONFIG_DIR": str(tmp_path / "own")})
    before = fingerprint("/", agent_env(driver, {}))
    (tmp_path / "own").mkdir()
    (tmp_path / "own/CLAUDE.md").write_text("Be brief.")
    assert fingerprint("/", agent_env(driver, {})) != before


# --- defaults ----------------------------------------------------------------------------------------------


def test_what_a_session_says_wins_over_the_configuration() -> None:
    chosen = Config(agents={"mine": {"type": "claude-code", "model": "big", "effort": "low", "system": "Be brief."}})
    session = open_session("mine", config=chosen, cwd="/", env={})
    assert (session.spec.model, session.spec.effort, session.spec.system) == ("big", "low", "Be brief.")
    session = open_session("mine", config=chosen, cwd="/", env={}, model="small", effort="max", system="Talk.")
    assert (session.spec.model, session.spec.effort, session.spec.system) == ("small", "max", "Talk.")
    plain = open_session("claude-code", config=chosen, cwd="/", env={})
    assert (plain.spec.model, plain.spec.effort, plain.spec.system) == ("", "", ""), "the agent's own choice"


def test_an_argument_of_the_session_comes_after_the_configured_ones() -> None:
    """Of two values of an option the last one counts."""
    driver = made("claude-code", command=["claude"], args=["--model=big"])
    assert isinstance(driver, ClaudeCode)
    argv = claude_command(Spec(cwd="/", model="small"), driver.options).argv
    assert argv.index("--model=big") < argv.index("--model=small")


async def test_a_durable_session_is_opened_with_the_configured_options(tmp_path: Path) -> None:
    agents = {"mine": {"type": "scripted", "model": "big"}}
    chosen = Config(agents=agents, default_agent="mine", environ=scratch_env(tmp_path, path="/usr/bin:/bin"))
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus, SessionManager(bus, chosen) as manager:
        assert (await manager.create(cwd=str(tmp_path))).model == "big"
        assert (await manager.create(cwd=str(tmp_path), model="small")).model == "small"


async def test_the_limit_of_a_message_wins(tmp_path: Path) -> None:
    """A message's own, else the agent's configured one, else the driver's."""
    (tmp_path / "place").mkdir()
    rig = ShellRig(tmp_path, TEXT, timeout_s=0.3)
    rig.play([Stall()], [Stall()])
    async with open_session(rig.driver, cwd=tmp_path / "place", policy=FULL, **rig.options) as session:
        ended = done(await collect(session.turn("configured")))
        assert (ended.status, ended.error) == ("timeout", "scripted-shell: no end within 0.3 s (timeout_s)")
        ended = done(await collect(session.turn("its own", timeout=0.6)))
        assert (ended.status, ended.error) == ("timeout", "no end within 0.6 s")
    unlimited = ShellRig(tmp_path / "driver's", JSONL)
    assert unlimited.driver.options.timeout_s == 3600.0


async def test_a_configured_limit_for_any_agent(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[[{"do": "stall"}], [{"do": "stall"}]]')
    chosen = Config(agents={"mine": {"type": "scripted", "script": str(script), "timeout_s": 0.2}})
    async with open_session("mine", config=chosen, cwd=tmp_path, env={}) as session:
        ended = done(await collect(session.turn("configured")))
        assert (ended.status, ended.error) == ("timeout", "no end within 0.2 s")
        ended = done(await collect(session.turn("its own", timeout=0.1)))
        assert (ended.status, ended.error) == ("timeout", "no end within 0.1 s")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("model = 3", r"tieline\.toml:2: agents\.codex\.model: expected text, found a whole number"),
        ("timeout_s = 0", r"agents\.codex\.timeout_s: 0 s must be more than 0"),
    ],
)
def test_wrong_defaults_are_named(line: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "tieline.toml"
    file.write_text(f"[agents.codex]\n{line}\n")
    with pytest.raises(UsageError, match=problem):
        config.load(environ={"TIELINE_CONFIG": str(file)})


def test_a_known_agent_needs_no_type(tmp_path: Path) -> None:
    file = tmp_path / "tieline.toml"
    file.write_text('[agents.codex]\nargs = ["--strict"]\nenv = { A = "b" }\n[agents.unheard-of]\nmodel = "x"\n')
    loaded = config.load(environ={"TIELINE_CONFIG": str(file)})
    driver = registry.create("codex", loaded)
    assert isinstance(driver, StartsProgram)
    assert driver.program.args == ("app-server", "--strict")
    with pytest.raises(UnknownAgent):
        registry.create("unheard-of", loaded)
