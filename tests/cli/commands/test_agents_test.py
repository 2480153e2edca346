"""`tieline agents test`: the driver contract against installed agents, over the scripted model."""

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tieline.cli.commands import agents, agents_test
from tieline.config import Config
from tieline.drivers.acp import driver as acp
from tieline.drivers.acp_presets import PRESETS
from tieline.drivers.base import StartsProgram
from tieline.script import Reply, Say
from tieline.testing import installed_agents
from tieline.testing.agent_checks import CHECKS, AgentChecks, CheckResult
from tieline.testing.cli_process import CliProcess
from tieline.testing.rig import scratch_env

PEER = Path(__file__).with_name("lying_acp_agent.py")
PAGE = Path(__file__).parents[3] / "docs" / "agents.md"
BINARIES = Path(__file__).parents[2] / "agents/node_modules/.bin"
NOT_SCRIPTED = {"usage", "plan", "question"}
"""What the stand-in does not claim."""


class LyingRig:
    """An ACP agent that plays a script itself and may be told to lie."""

    limits = frozenset({"plan"})

    def __init__(self, folder: Path, lies: str = "") -> None:
        self._folder = folder / "agent"
        (self._folder / "replies").mkdir(parents=True)
        self._played = 0
        command = [sys.executable, "-I", "-S", str(PEER), str(self._folder)]
        asks = ["file_write", "shell", "network"]
        can = {"resume": True, "fork": True, "model": True, "attachments": ["image/*"]}
        traits = {"steering": "request"}
        self.driver = acp.create("liar", {"command": command, "asks": asks, "can": can, "traits": traits})
        self.options: Mapping[str, Any] = {"env": scratch_env(folder / "home", path="/usr/bin:/bin", LIES=lies)}

    @property
    def reported_tokens(self) -> tuple[int, int]:
        return 0, 0

    @property
    def called_as(self) -> list[str]:
        return (self._folder / "called.txt").read_text().split()

    def play(self, *replies: Reply) -> None:
        for file in (self._folder / "replies").iterdir():
            file.unlink()
        for reply in replies:
            self._played += 1
            draft = self._folder / "draft"
            draft.write_bytes(msgspec.json.encode(reply))
            draft.rename(self._folder / "replies" / f"{self._played:04}.json")

    def heard(self) -> str:
        file = self._folder / "heard.txt"
        return file.read_text() if file.exists() else ""

    async def stalled(self) -> None:
        while not (self._folder / "stalled").exists():  # noqa: ASYNC110 (another process tells)
            await asyncio.sleep(0.01)


async def checked(tmp_path: Path, lies: str) -> dict[str, CheckResult]:
    folder = tmp_path / "work"
    folder.mkdir()
    rig = LyingRig(tmp_path, lies)
    results = await AgentChecks(rig, folder, model=rig, another_model="another").run()
    assert [result.name for result in results] == [*CHECKS], "each has one row, in order"
    return {result.name: result for result in results}


def failed(results: Mapping[str, CheckResult]) -> dict[str, str]:
    return {name: result.detail for name, result in results.items() if result.outcome == "failed"}


@pytest.mark.slow
async def test_an_honest_agent_passes(tmp_path: Path) -> None:
    results = await checked(tmp_path, "")
    assert failed(results) == {}
    assert {name for name, result in results.items() if result.outcome == "not offered"} == NOT_SCRIPTED
    assert results["usage"].detail == "its driver does not claim `usage`"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lies", "problems"),
    [
        ("denied", {"policy": "the command ran, although the policy denies it",
                    "denial": "the command ran, although it was denied",
                    "write_denial": "the file was written, although it was denied",
                    "fetch_denial": "the page was fetched, although it was denied"}),
        ("early", {"ask": "the command ran before it was allowed",
                   "policy": "the command ran, although the policy denies it",
                   "denial": "the command ran, although it was denied"}),
        ("short", {"ask": "the ask does not show the whole command"}),
        ("success", {"model_error": "the turn ended as success, and its model had refused"}),
        ("late", {"late_model_error": "the turn ended as success, and its model had refused"}),
        ("stubborn", {"withdrawn_ask": "the command ran, although nobody allowed it"}),
        ("deaf", {"attachment": "its model was not told what is in the file",
                  "steer": "its model was not told what was said"}),
        ("forgets", {"resume": "its model was not told what had been said before",
                     "fork": "its model was not told what had been said before"}),
        ("same_model", {"model": "it asked usual"}),
        ("no_servers", {"mcp_server": "the server was not started"}),
    ],
)  # fmt: skip
async def test_a_lie_is_found(tmp_path: Path, lies: str, problems: Mapping[str, str]) -> None:
    results = failed(await checked(tmp_path, lies))
    for name, words in problems.items():
        assert words in results.get(name, ""), results
    if lies != "early":
        assert set(results) == set(problems), "the others are told as they are"


@pytest.mark.slow
def test_the_table_of_a_liar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rig = LyingRig(tmp_path, "denied")
    own: Mapping[str, installed_agents.SetUp] = {"acp": lambda home, program: nullcontext(rig)}
    monkeypatch.setattr(installed_agents, "OF_THEIR_OWN", own)
    file = tmp_path / "tieline.toml"
    command = json.dumps([sys.executable, "-I", "-S", str(PEER), str(tmp_path / "agent")])
    file.write_text(f'[agents.liar]\ntype = "acp"\ncommand = {command}\nasks = ["file_write", "shell", "network"]\n')
    for name in ("HOME", "TIELINE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("TIELINE_CONFIG", str(file))
    options: dict[str, Any] = {"prompt": "", "own_model": False, "yes": False, "accept_unenforced": False}
    assert agents_test.show(["liar"], **options, json=False) == 1
    out, err = capsys.readouterr()
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "liar 1.0 (unverified), over the scripted model"
    assert lines[1 + lines.index(next(line for line in lines if line.startswith("✗ does not run what a person")))] == (
        "the command ran, although it was denied"
    )
    assert any(line.startswith("✓ answers a prompt") and line.endswith(" s") for line in lines)
    assert any(line.startswith("– tells the tokens of a turn not offered") for line in lines)
    assert max(map(len, out.splitlines())) <= 80
    assert f"liar 1.0 does not work: 4 of {len(CHECKS)} checks failed" in err
    # What it did is kept, for the list of the agents of this machine.
    agents.show(["liar"], all=False, json=False)
    shown = capsys.readouterr().out
    assert f"checked here with 1.0, {time.strftime('%Y-%m-%d')}: 14 checks" in shown
    assert "failed: policy, denial, write_denial, fetch_denial" in shown
    agents.show(["liar"], all=False, json=True)
    [report] = json.loads(capsys.readouterr().out)
    assert report["checked"]["failed"] == ["policy", "denial", "write_denial", "fetch_denial"]
    assert "text" in report["checked"]["passed"]


def test_where_no_agent_is_it_says_what_to_do(cli: CliProcess) -> None:
    cli.configure("[agents.claude-code]\nenabled = false\n")  # the tests' environment brings it
    ended = cli.run("agents", "test")
    assert ended.returncode == 1 and "No agent is installed here" in ended.stderr
    assert "tieline agents --all" in ended.stderr and "npm install" in ended.stderr
    ended = cli.run("agents", "test", "scripted")
    assert ended.returncode == 0 and "It cannot be pointed at the scripted model" in ended.stdout


def test_its_own_model_is_asked_after_its_user(cli: CliProcess) -> None:
    cli.agent("mine", [Say("switchboard")])
    ended = cli.run("agents", "test", "mine", "--own-model")
    assert ended.returncode == 2 and "was not asked" in ended.stderr and "--yes" in ended.stderr
    ended = cli.run("agents", "test", "mine", "--own-model", "--yes", "--json")
    result = json.loads(ended.stdout)
    assert (result["works"], result["model"], result["answer"]) == (True, "own", "switchboard")


async def test_nothing_of_this_machine_reaches_the_agent(tmp_path: Path) -> None:
    """It has a HOME of its own, a dummy key, and of the configuration nothing that would lead it elsewhere."""
    configured = {"type": "codex", "args": ["--strict-config"], "model": "big", "env": {"A_KEY": "mine"}}
    environ = {"PATH": "/usr/bin", "HOME": "/home/me", "OPENAI_API_KEY": "real"}
    config = Config(agents={"work": configured}, environ=environ)
    async with installed_agents.installed_rig("work", "/usr/bin/codex", tmp_path / "home", config) as rig:
        env = rig.options["env"]
        assert (env["HOME"], env["PATH"]) == (str(tmp_path / "home"), "/usr/bin")
        assert not {"OPENAI_API_KEY", "A_KEY"} & env.keys() and rig.driver.name == "work"
        assert isinstance(rig.driver, StartsProgram)
        assert rig.driver.env == {} and "--strict-config" in rig.driver.program.args
    of_presets = [name for name, preset in PRESETS.items() if preset.recipe]
    tested = [name for name, preset in PRESETS.items() if preset.tested]
    assert {*tested} <= {*of_presets}, "what was tested can be tested again"
    for name in (*installed_agents.OF_THEIR_OWN, *of_presets):
        home = tmp_path / name
        async with installed_agents.installed_rig(name, f"/opt/{name}", home, Config(environ=environ)) as rig:
            assert (rig.driver.name, rig.options["env"]["HOME"]) == (name, str(home))
            assert "real" not in rig.options["env"].values() and rig.model is not None
    for options in ({"type": "opencode", "url": "http://127.0.0.1:1"}, {"type": "codex", "run_as": "nobody"}, {}):
        assert installed_agents.set_up_of("work", Config(agents={"work": options})) is None


@pytest.mark.parametrize(("name", "variable"), [("qwen", "OPENAI_BASE_URL"), ("copilot", "COPILOT_PROVIDER_BASE_URL")])
async def test_agents_that_are_not_in_these_tests_are_set_up_over_loopback(
    tmp_path: Path, name: str, variable: str
) -> None:
    config = Config(environ={"PATH": "/usr/bin", "HOME": "/home/me", variable: "https://example.org"})
    async with installed_agents.installed_rig(name, f"/usr/bin/{name}", tmp_path / "home", config) as rig:
        env = rig.options["env"]
        assert env[variable].startswith("http://127.0.0.1:")
        assert env["HOME"] == str(tmp_path / "home") and "/home/me" not in str(env)
        assert rig.model is not None and rig.limits


def test_it_needs_no_pytest() -> None:
    code = "import sys, tieline.cli.commands.agents_test; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert not {"pytest", "_pytest", "pytest_asyncio"} & set(modules.split())


@pytest.mark.real
@pytest.mark.timeout(400)
def test_an_agent_that_a_person_has_given_a_recipe_passes(tmp_path: Path) -> None:
    """The one that the documents have as an example."""
    node = Path(shutil.which("node") or "/usr/bin/node").parent
    cli = CliProcess(tmp_path, path=f"{BINARIES}:{node}:/usr/bin:/bin")
    example = PAGE.read_text().partition("<!-- recipe -->\n```toml\n")[2].partition("```")[0]
    cli.configure(example)
    ended = cli.run_program("agents", "test", "my-agent", "--json", timeout=380)
    result = json.loads(ended.stdout)
    passed = {check["name"] for check in result["checks"] if check["outcome"] == "passed"}
    assert (result["works"], result["problem"], result["model"]) == (True, "", "scripted"), ended.stderr
    assert passed >= {"text", "command", "edit", "interrupt", "policy", "ask", "denial", "model_error"}


@pytest.mark.real
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini"])
def test_the_real_agents_pass(tmp_path: Path, name: str) -> None:
    """Not OpenCode: four starts of it take half a minute, and the driver contract holds it to the same."""
    node = Path(shutil.which("node") or "/usr/bin/node").parent
    cli = CliProcess(tmp_path, path=f"{BINARIES}:{node}:/usr/bin:/bin")
    ended = cli.run_program("agents", "test", name, "--json", timeout=380)
    result = json.loads(ended.stdout)
    failures = [check for check in result["checks"] if check["outcome"] == "failed"]
    assert (failures, result["problem"], ended.returncode) == ([], "", 0), ended.stderr
    offered = {check["name"] for check in result["checks"] if check["outcome"] == "passed"}
    assert offered >= {"text", "usage", "command", "edit", "interrupt", "resume", "policy", "ask", "denial"}
