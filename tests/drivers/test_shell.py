"""The shell driver, with a small real command-line agent: the contract, and what is its own."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tieline import config, open_session
from tieline.config import Config
from tieline.drivers import registry
from tieline.drivers.scripted import Scripted
from tieline.drivers.shell import conversation as shell_process
from tieline.drivers.shell.driver import Shell
from tieline.errors import UnknownAgent
from tieline.events import Event, Other, Text, Thinking, Tokens
from tieline.policy import preset
from tieline.script import Say, Think
from tieline.testing.driver_contract import DriverContract
from tieline.testing.driver_contract.base import FULL
from tieline.testing.policy_contract import PolicyContract
from tieline.testing.rigs.shell import JSONL, TEXT, ShellRig
from tieline.testing.stream_checks import collect, done, of, the


class TestText(DriverContract, PolicyContract):
    TURN_LIMIT_S = 1.0
    POLICIES = (preset("full"), preset("ask"), preset("read-only"))
    """The ends and the middle: how an agent prints has no part in what it may do, and the other is held to all 27."""

    @pytest.fixture
    async def rig(self, tmp_path: Path) -> ShellRig:
        return ShellRig(tmp_path, TEXT)


class TestJsonLines(DriverContract, PolicyContract):
    TURN_LIMIT_S = 1.0

    @pytest.fixture
    async def rig(self, tmp_path: Path) -> ShellRig:
        return ShellRig(tmp_path, JSONL)


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    cwd = tmp_path / "place"
    cwd.mkdir()
    return cwd


# --- which driver ------------------------------------------------------------------------------------------


def test_the_type_alone_chooses_the_driver() -> None:
    chosen = Config(
        agents={
            "codex": {"type": "shell", "command": ["something-else"]},
            "shell": {"type": "shell", "command": ["my-agent"]},
            "my-shell": {"type": "scripted"},
            "claude-dev": {"type": "shell", "command": ["one"]},
            "claude-prod": {"type": "shell", "command": ["two"]},
        }
    )
    named_codex = registry.create("codex", chosen)
    assert isinstance(named_codex, Shell)
    assert (named_codex.name, named_codex.options.command) == ("codex", ("something-else",))
    assert isinstance(registry.create("shell", chosen), Shell)
    assert isinstance(registry.create("my-shell", chosen), Scripted)
    assert type(registry.create("claude-dev", chosen)) is type(registry.create("claude-prod", chosen))


@pytest.mark.parametrize(
    ("kind", "driver"),
    [("claude-code", "ClaudeCode"), ("codex", "Codex"), ("gemini", "Acp"), ("google-gemini", "Acp")],
)
def test_types_choose_their_drivers(kind: str, driver: str) -> None:
    chosen = registry.create("mine", Config(agents={"mine": {"type": kind}}))
    assert (type(chosen).__name__, chosen.name) == (driver, "mine")
    if driver == "Acp":
        assert chosen.features == registry.create("gemini", Config()).features


def test_shell_without_a_configuration_is_no_agent() -> None:
    with pytest.raises(UnknownAgent):
        registry.create("shell", Config())


ROOT = Path(__file__).parents[2]
TABLES = re.findall(r"^```toml\n(.*?)^```$", (ROOT / "docs/drivers/shell.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("toml", [*TABLES, (ROOT / "examples/shell.toml").read_text()])
def test_documented_configurations_load(toml: str, tmp_path: Path) -> None:
    file = tmp_path / "tieline.toml"
    file.write_text(toml)
    loaded = config.load(environ={"TIELINE_CONFIG": str(file)})
    assert loaded.agents
    for name in loaded.agents:
        assert isinstance(registry.create(name, loaded), Shell)


def test_the_documentation_calls_a_wrapper_optional() -> None:
    page = (ROOT / "docs/drivers/shell.md").read_text()
    assert "no wrapper script to install. A wrapper of your\nown is a command like any other." in page


# --- what goes in ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [TEXT, JSONL], ids=["argument", "stdin"])
async def test_prompt_arrives_as_it_is(tmp_path: Path, cwd: Path, base: Mapping[str, Any]) -> None:
    prompt = "line one\nline 'two' \"$(touch trap)\" `touch trap` {model} ü 🚢 \\"
    rig = ShellRig(tmp_path, base)
    await rig.turn(cwd, prompt)
    (start,) = rig.starts()
    assert start["prompt"] == (prompt if base is TEXT else f"{prompt}\n"), "standard input ends with a newline"
    assert not (cwd / "trap").exists()


async def test_huge_prompt_on_stdin(tmp_path: Path, cwd: Path) -> None:
    rig = ShellRig(tmp_path, JSONL)
    prompt = "0123456789" * 300_000
    assert done(await rig.turn(cwd, prompt)).status == "success"
    assert rig.starts()[0]["prompt"] == f"{prompt}\n"


@pytest.mark.parametrize(
    ("prompt", "problem"), [("x" * 3_000_000, 'prompt_by = "stdin"'), ("nul\0l", "null byte")], ids=["long", "null"]
)
async def test_prompt_that_is_no_argument(tmp_path: Path, cwd: Path, prompt: str, problem: str) -> None:
    seen = await ShellRig(tmp_path, TEXT).turn(cwd, prompt)
    assert done(seen).status == "error"
    assert problem in done(seen).error


async def test_agent_that_does_not_read_its_input(tmp_path: Path, cwd: Path) -> None:
    """It exits without having taken the prompt: that is its own affair."""
    rig = ShellRig(tmp_path, TEXT, prompt_by="stdin", command=["/bin/echo", "no thanks"])
    seen = await rig.turn(cwd, "x" * 3_000_000)
    assert (done(seen).status, done(seen).text) == ("success", "no thanks")


async def test_system_for_every_message(tmp_path: Path, cwd: Path) -> None:
    rig = ShellRig(tmp_path, TEXT)
    async with open_session(rig.driver, cwd=cwd, policy=FULL, system="Be brief.", **rig.options) as session:
        await collect(session.turn("one"))
        await collect(session.turn("two"))
    assert [start["prompt"] for start in rig.starts()] == [
        "[SYSTEM]\nBe brief.\n\n[MESSAGE]\none",
        "[SYSTEM]\nBe brief.\n\n[MESSAGE]\ntwo",
    ]


async def test_system_by_flag(tmp_path: Path, cwd: Path) -> None:
    rig = ShellRig(tmp_path, JSONL)
    await rig.turn(cwd, system="Be brief.")
    (start,) = rig.starts()
    assert start["prompt"] == "hello\n"
    assert start["argv"][-2:] == ["--instruction", "Be brief."]


async def test_model_and_environment(tmp_path: Path, cwd: Path) -> None:
    rig = ShellRig(tmp_path, JSONL, env={"MOOD": "calm"})
    await rig.turn(cwd, model="big", env={**rig.options["env"], "MOOD": "wild"})
    (start,) = rig.starts()
    assert start["argv"][-2:] == ["--model", "big"]
    assert start["mood"] == "calm", "the configuration's variables come on top"


async def test_further_turns_go_on_with_the_session(tmp_path: Path, cwd: Path) -> None:
    rig = ShellRig(tmp_path, JSONL)
    rig.play([Say("one")], [Say("two")])
    async with open_session(rig.driver, cwd=cwd, policy=FULL, **rig.options) as session:
        first = await collect(session.turn("remember albatross"))
        second = await collect(session.turn("go on"))
        assert done(first).native_id == done(second).native_id == session.native_id
    starts = rig.starts()
    assert "--resume" not in starts[0]["argv"]
    assert starts[1]["argv"][-2:] == ["--resume", session_of(first)]
    assert rig.heard().count("albatross") == 3, "the prompt, the first history and the second"


def session_of(seen: list[Event]) -> str:
    return done(seen).native_id


# --- what comes out ----------------------------------------------------------------------------------------


async def test_thinking_usage_and_what_has_no_place(tmp_path: Path, cwd: Path) -> None:
    rig = ShellRig(tmp_path, JSONL)
    rig.play([Think("hm"), Say("the answer")])
    seen = await rig.turn(cwd, "two words")
    assert the(seen, Thinking).text == "hm"
    assert done(seen).tokens == Tokens(input=2, output=2, cost_usd=0.25)
    assert done(seen).usage == "complete"
    started = the(seen, Other)
    assert started.source == "scripted-shell"
    assert started.raw["type"] == "session.started"


async def test_garbage_between_the_lines_is_kept(tmp_path: Path, cwd: Path) -> None:
    rig = ShellRig(tmp_path, JSONL)
    rig.play_steps([{"do": "raw", "text": "Loading…\n{broken\n\n[1]\n"}, {"do": "say", "text": "fine"}])
    seen = await rig.turn(cwd)
    assert (done(seen).status, done(seen).text) == ("success", "fine")
    assert [other.raw for other in of(seen, Other)][1:] == ["Loading…", "{broken", [1]]


async def test_nothing_but_garbage(tmp_path: Path, cwd: Path) -> None:
    rig = ShellRig(tmp_path, JSONL, command=["/bin/echo", "Usage: agent [options]"], prompt_by="argument", done_when=())
    seen = await rig.turn(cwd)
    assert done(seen).status == "error"
    assert "printed no JSON lines" in done(seen).error
    assert "Usage: agent [options]" in the(seen, Other).raw


async def test_json_lines_that_end_with_the_process(tmp_path: Path, cwd: Path) -> None:
    rig = ShellRig(tmp_path, JSONL, done_when=())
    rig.play([Say("one"), Say("two")])
    seen = await rig.turn(cwd)
    assert done(seen).status == "success"
    assert [text.text for text in of(seen, Text)] == ["one", "two"]
    assert done(seen).tokens == Tokens(input=1, output=2, cost_usd=0.25)


async def test_text_that_is_no_utf8(tmp_path: Path, cwd: Path) -> None:
    rig = ShellRig(tmp_path, TEXT, prompt_by="stdin", command=["/usr/bin/printf", "a \\377 b\\r\\n\\n"])
    assert done(await rig.turn(cwd)).text == "a \ufffd b"


async def test_too_much_text(tmp_path: Path, cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_process, "MAX_TEXT", 100_000)
    rig = ShellRig(tmp_path, TEXT, command=["/usr/bin/yes"])
    seen = await rig.turn(cwd)
    assert done(seen).status == "error"
    assert "more than 100000 bytes" in done(seen).error
