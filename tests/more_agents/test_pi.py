"""The real Pi against the contract, the policies and the matrix of asks, and what is special about it."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.asks.agents import MORE
from tests.drivers.hostile_repository import WORDS, HostileRepository

from tieline.errors import UsageError
from tieline.events import Ask, OtherAction, ToolResult, ToolUse
from tieline.policy import Policy, preset
from tieline.script import Call, Run, Say
from tieline.testing.driver_contract import DriverContract
from tieline.testing.policy_contract import PolicyContract
from tieline.testing.rigs.pi import PiRig
from tieline.testing.stream_checks import collect, done, of, the

pytestmark = pytest.mark.real

EXTENSION = """
import { writeFileSync } from "node:fs";
import { Type } from "typebox";
export default function (pi) {
  writeFileSync("extension-ran.txt", "");
  pi.registerTool({
    name: "greet", label: "Greet", description: "Greets", parameters: Type.Object({}),
    async execute() { return { content: [{ type: "text", text: "hello" }], details: {} }; },
  });
  const handler = async (_, ctx) => ctx.ui.notify("hello", "info");
  pi.registerCommand("say-hello", { description: "Says it", handler });
}
"""


def module(hostile: HostileRepository, name: str) -> str:
    return f"{hostile.module(name)}; export default async () => {{}}"


def allows(ask: Ask) -> bool:
    return True


class TestPi(DriverContract, PolicyContract):
    @pytest.fixture
    async def rig(self, tmp_path: Path) -> AsyncIterator[PiRig]:  # type: ignore[override]
        async with PiRig(tmp_path / "home", MORE / "pi", MORE) as rig:
            await rig.driver.probe(rig.options["env"])  # it tells its version only when it is asked for it
            yield rig

    async def test_it_lists_its_models_without_a_session(self, rig: PiRig, cwd: Path) -> None:
        listed = await rig.driver.list_models(str(cwd), rig.options["env"])
        assert listed.names == ("scripted/scripted", "scripted/another") and not rig.model.requests
        sessions = Path(rig.options["env"]["HOME"], ".pi/agent/sessions")
        assert not sessions.exists() or not [*sessions.rglob("*.jsonl")], "it leaves no conversation behind"

    def extend(self, rig: PiRig) -> None:
        folder = Path(rig.options["env"]["HOME"], ".pi/agent/extensions")
        folder.mkdir(parents=True)
        (folder / "mine.ts").write_text(EXTENSION)

    async def test_other_extensions_only_where_nothing_is_held_back(self, rig: PiRig, cwd: Path) -> None:
        """They run commands as they like: no policy holds them."""
        self.extend(rig)
        rig.play([Say("Done.")])
        async with self.session(rig, cwd, policy=Policy("allow", "ask", "allow")) as session:
            await collect(session.turn("hello"))
        assert not (cwd / "extension-ran.txt").exists()
        rig.play([Call("greet", {})], [Say("Done.")])
        async with self.session(rig, cwd, policy=preset("full")) as session:
            seen = await collect(session.turn("greet"))
        assert (cwd / "extension-ran.txt").exists()
        assert the(seen, ToolUse).action == OtherAction()
        assert (the(seen, ToolResult).status, the(seen, ToolResult).output) == ("ok", "hello")
        assert not of(seen, Ask)

    @pytest.mark.parametrize("given", [Policy("deny", "deny", "deny"), Policy("allow", "ask", "allow"), preset("full")])
    async def test_a_repositorys_settings_run_nothing_where_something_is_held(
        self, rig: PiRig, tmp_path: Path, given: Policy
    ) -> None:
        """Its person has called it trusted once: somebody may have written there since."""
        free = given == preset("full")
        hostile = HostileRepository(tmp_path / "place", tmp_path)
        hostile.write(".pi/extensions/found.js", module(hostile, "found"))
        named = hostile.write("named.mjs", module(hostile, "named"))
        package = hostile.write("package/package.json", {"name": "p", "pi": {"extensions": ["./one.mjs"]}})
        hostile.write("package/one.mjs", module(hostile, "package"))
        hostile.write(
            ".pi/settings.json",
            {
                "extensions": [str(named)],
                "packages": [str(package.parent)],
                "shellCommandPrefix": f"{hostile.command('prefix')};",
            },
        )
        hostile.write("AGENTS.md", WORDS)
        home = Path(rig.options["env"]["HOME"])
        (home / ".pi/agent/trust.json").write_text(json.dumps({str(hostile.path): True}))
        rig.play([Run("touch made.txt")], [Say("Done.")])
        opening = self.session(rig, hostile.path, policy=given, on_ask=allows)
        async with opening as session:
            await collect(session.turn("touch it"))
        assert hostile.ran == ({"found", "named", "package", "prefix"} if free else set())
        assert (hostile.path / "made.txt").exists() == (free or given.shell == "ask")
        assert WORDS in rig.heard(), "its instructions are text"

    async def test_a_command_of_an_extension_ends_its_turn(self, rig: PiRig, cwd: Path) -> None:
        """No model is asked, and nothing tells of an end."""
        self.extend(rig)
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("/say-hello"), timeout=60)
        assert done(seen).status == "success"
        assert not rig.model.requests

    async def test_several_calls_at_once(self, rig: PiRig, cwd: Path) -> None:
        """One is denied and the other is not."""
        rig.play([Run("touch one.txt"), Run("touch two.txt")], [Say("One of two.")])

        def decide(ask: Ask) -> bool:
            return "two" in str(ask.input)

        async with self.session(rig, cwd, policy=Policy("allow", "ask", "allow"), on_ask=decide) as session:
            seen = await collect(session.turn("try"))
        assert sorted(result.status for result in of(seen, ToolResult)) == ["denied", "ok"]
        assert not (cwd / "one.txt").exists() and (cwd / "two.txt").exists()
        assert done(seen).text == "One of two."

    async def test_an_id_is_an_id(self, rig: PiRig, cwd: Path) -> None:
        """Not a path to a file, and not an option."""
        for id in ("../../etc/passwd", "--approve", "/tmp/session.jsonl"):
            with pytest.raises(UsageError, match="is not the id"):
                async with self.session(rig, cwd, resume=id):
                    pass
