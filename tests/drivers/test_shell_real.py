"""Real agents by their own command lines, as `examples/shell.toml` describes them, over the scripted model."""

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, Protocol

import claude_agent_sdk
import pytest

from tieline import config, open_session
from tieline.drivers.shell import driver as shell
from tieline.errors import PolicyUnenforceable
from tieline.events import Text, Thinking
from tieline.policy import Policy
from tieline.script import Reply, Run, Say, Think, Write
from tieline.testing.driver_contract import DriverContract
from tieline.testing.driver_contract.base import FULL
from tieline.testing.model_server import ScriptedModel
from tieline.testing.rig import Rig
from tieline.testing.rigs.acp import GeminiRig
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.rigs.codex import codex_rig
from tieline.testing.stream_checks import collect, done, of

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
BINARIES = ROOT / "tests" / "agents" / "node_modules" / ".bin"
CLAUDE = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
EXAMPLES = config.load(environ={"TIELINE_CONFIG": str(ROOT / "examples" / "shell.toml")}).agents


class ModelRig(Rig, Protocol):
    @property
    def model(self) -> ScriptedModel: ...


class CommandRig:
    """Another driver's rig, its agent driven by its command line instead."""

    limits = frozenset({"tools", "propose", "dead_after_kill"})

    def __init__(self, rig: ModelRig, name: str, program: Path) -> None:
        options = {key: value for key, value in EXAMPLES[name].items() if key != "type"}
        options["command"] = [str(program), *options["command"][1:]]
        self._rig = rig
        self.model = rig.model
        self.driver = shell.create(name, options)
        self.options: Mapping[str, Any] = rig.options

    def play(self, *replies: Reply) -> None:
        self._rig.play(*replies)

    def heard(self) -> str:
        return self._rig.heard()

    async def stalled(self) -> None:
        await self._rig.stalled()


@pytest.fixture
async def claude(tmp_path: Path) -> AsyncGenerator[CommandRig, None]:
    async with ClaudeCodeRig(tmp_path / "home") as rig:
        yield CommandRig(rig, "claude-command", CLAUDE)


@pytest.fixture
async def codex(tmp_path: Path) -> AsyncGenerator[CommandRig, None]:
    async with codex_rig(tmp_path / "home", BINARIES / "codex") as rig:
        yield CommandRig(rig, "codex-command", BINARIES / "codex")


@pytest.fixture
async def gemini(tmp_path: Path) -> AsyncGenerator[CommandRig, None]:
    async with GeminiRig(tmp_path / "home", BINARIES) as rig:
        yield CommandRig(rig, "gemini-command", BINARIES / "gemini")


@pytest.fixture(params=["claude", "codex", "gemini"])
def rig(request: pytest.FixtureRequest) -> CommandRig:
    return request.getfixturevalue(request.param)  # pyright: ignore[reportUnknownMemberType]


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    cwd = tmp_path / "place"
    cwd.mkdir()
    return cwd


class TestClaudeCommand(DriverContract):
    @pytest.fixture
    async def rig(self, claude: CommandRig) -> CommandRig:
        return claude


class TestCodexCommand(DriverContract):
    @pytest.fixture
    async def rig(self, codex: CommandRig) -> CommandRig:
        return codex


async def test_a_conversation(rig: CommandRig, cwd: Path) -> None:
    """Its version, two turns of one session, the system instruction in each, the answer apart from what led to it."""
    probe = await rig.driver.probe(rig.options["env"])
    assert probe.found
    assert probe.version[0].isdigit()
    thoughts = [Think("Let me see.")] if rig.driver.features.thinking else []
    rig.play([*thoughts, Say("I will run it."), Run("touch ran.txt")], [Say("I will remember.")], [Say("Albatross.")])
    options: dict[str, Any] = {"policy": FULL, "system": "Speak like a ferryman.", **rig.options}
    async with open_session(rig.driver, cwd=cwd, **options) as session:
        first = await collect(session.turn("remember the word albatross"))
        assert done(first).status == "success", first
        assert [text.text for text in of(first, Text)] == ["I will run it.", "I will remember."]
        assert done(first).text == "I will remember."
        assert [thought.text for thought in of(first, Thinking)] == [thought.text for thought in thoughts]
        assert (cwd / "ran.txt").exists()
        tokens = done(first).tokens
        assert tokens is not None and tokens.input and tokens.output
        native = done(first).native_id
        assert native
        before = rig.heard().count("albatross")
        second = await collect(session.turn("which word was it"))
        assert done(second).text == "Albatross."
        assert done(second).native_id == native
        assert rig.heard().count("albatross") > before, "the first turn was sent to the model again"
    assert "Speak like a ferryman." in rig.heard()


POLICIES = {
    "deny/deny/deny": Policy("deny", "deny", "deny"),
    "deny/deny/allow": Policy("deny", "deny", "allow"),
    "allow/deny/allow": Policy("allow", "deny", "allow"),
    "allow/deny/deny": Policy("allow", "deny", "deny"),
    "deny/allow/deny": Policy("deny", "allow", "deny"),
    "allow/allow/deny": Policy("allow", "allow", "deny"),
    "allow/allow/allow": FULL,
}


NETWORK = ("WebFetch", "WebSearch", "web_search", "web_fetch", "google_web_search")


def names_of(tools: list[dict[str, Any]]) -> list[str]:
    """The tools of a model request, in each vendor's way of naming them."""
    declared = [each for tool in tools for each in tool.get("functionDeclarations", ())]
    return [tool.get("name") or tool.get("type", "") for tool in (*tools, *declared)]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
async def test_policies_as_the_example_claims_them(rig: CommandRig, cwd: Path, policy: Policy) -> None:
    """What it claims is what happens: on disk, and to the tools that the model is offered."""
    if rig.driver.enforce(policy).unenforced():  # the example has no arguments for it
        with pytest.raises(PolicyUnenforceable):
            open_session(rig.driver, cwd=cwd, policy=policy, **rig.options)
        return
    rig.play(
        [Write(str(cwd / "written.txt"), "content\n")],
        [Run(f"touch {cwd}/ran.txt")],
        [Run("true > /dev/null; echo this-ran")],
        [Say("Tried.")],
    )
    async with open_session(rig.driver, cwd=cwd, policy=policy, **rig.options) as session:
        seen = await collect(session.turn("try them"))
    assert done(seen).status == "success", seen
    assert done(seen).text == "Tried."
    assert (cwd / "written.txt").exists() == (policy.file_write == "allow")
    # A command that writes falls under both lines; one that only prints shows whether commands run at all.
    assert (cwd / "ran.txt").exists() == (policy.file_write == policy.shell == "allow")
    offered = set(NETWORK) & {name for request in rig.model.requests for name in names_of(request.get("tools", ()))}
    assert not offered or policy.network == "allow"
    assert ("this-ran\\n" in rig.heard() or '"this-ran' in rig.heard()) == (policy.shell == "allow")
