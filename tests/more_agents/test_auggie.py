"""The real Auggie against the contract, all policies and the matrix of asks, and what is special about it."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.asks.agents import MORE
from tests.asks.stage import offered
from tests.drivers.acp_contract import OnAgentsOfTheirOwn, OnSharedAgents, agents, shared_rig

from tieline.drivers.base import McpServer
from tieline.errors import PolicyUnenforceable
from tieline.events import Answer, Ask, Command, Diff, Edit, Init, ToolResult
from tieline.policy import Policy
from tieline.script import Call, Run, Say, Write
from tieline.testing import mcp_server
from tieline.testing.driver_contract.base import DriverContractBase, eventually, yes
from tieline.testing.driver_contract.ends import EndContract
from tieline.testing.driver_contract.options import OptionContract
from tieline.testing.model_apis.augment import COMPACT, SUBAGENTS, service
from tieline.testing.rigs.acp import AuggieRig
from tieline.testing.stream_checks import collect, done, of, the

pytestmark = pytest.mark.real
__all__ = ["agents", "shared_rig"]
NO_COMMANDS = Policy("allow", "deny", "allow")
NO_WRITES = Policy("deny", "allow", "allow")
LETS_ALL_PASS = {
    "toolPermissions": [
        {"toolName": tool, "permission": {"type": "allow"}} for tool in ("launch-process", "save-file", "web-fetch")
    ]
}
SEARCHES_SENT_CODE = "codebase-retrieval"
"""The tool that it offers its model where it may send the code."""
UPLOAD = "POST /batch-upload"


class ShortToolsRig(AuggieRig):
    """An account for which its vendor has chosen the short list of tools."""

    api = service(COMPACT)


class SubagentsRig(AuggieRig):
    api = service(SUBAGENTS)


@pytest.mark.asyncio(loop_scope="class")
class TestAuggie(OnSharedAgents):
    RIG = AuggieRig
    BINARIES = MORE
    test_interrupt_running_tool = None  # type: ignore[assignment] # its process is looked for in the directory
    test_mcp_server = None  # type: ignore[assignment] # a process of it starts those of its first session alone

    async def test_init(self, rig: AuggieRig, cwd: Path) -> None:
        rig.play([Say("Done.")])
        async with self.session(rig, cwd, model="scripted") as session:
            init = the(await collect(session.turn("hello")), Init)
        assert (init.version, init.model) == (rig.driver.tested, "scripted")
        assert rig.model.requests[-1]["model"] == "scripted"

    async def test_a_patch_is_held_to_the_policy(self, rig: AuggieRig, cwd: Path) -> None:
        patch = "*** Begin Patch\n*** Add File: denied.txt\n+words\n*** End Patch"
        rig.play([Call("apply_patch", {"input": patch})], [Say("Refused.")])
        async with self.session(rig, cwd, policy=NO_WRITES) as session:
            seen = await collect(session.turn("patch it"))
        assert the(seen, ToolResult).status == "denied" and not (cwd / "denied.txt").exists()
        assert (done(seen).status, done(seen).text) == ("success", "Refused."), "its model is told, and goes on"

    async def test_a_patch_shows_what_it_changed(self, rig: AuggieRig, cwd: Path) -> None:
        (cwd / "old.txt").write_text("one\n2\nthree\n")
        patch = f"*** Begin Patch\n*** Update File: {cwd}/old.txt\n one\n-2\n+two\n three\n*** End Patch"
        rig.play([Call("apply_patch", {"input": patch})], [Say("Done.")])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("patch it"))
        assert (cwd / "old.txt").read_text() == "one\ntwo\nthree\n"
        assert "-2\n+two\n" in of(seen, Diff)[-1].diff

    async def test_a_replacement_is_shown_in_its_file(self, rig: AuggieRig, cwd: Path) -> None:
        (cwd / "old.txt").write_text("".join(f"line {number}\n" for number in range(30)))
        entry = {"old_str": "line 15\n", "new_str": "another\n", "old_str_start_line_number": 16,
                 "old_str_end_line_number": 16}  # fmt: skip
        change = {"command": "str_replace", "path": str(cwd / "old.txt"), "str_replace_entries": [entry]}
        rig.play([Call("str-replace-editor", change)], [Say("Done.")])
        async with self.session(rig, cwd, policy=Policy("ask", "deny", "deny"), on_ask=yes) as session:
            seen = await collect(session.turn("change it"))
        action = the(seen, Ask).action
        assert isinstance(action, Edit) and " line 14\n-line 15\n+another\n line 16\n" in action.diff
        assert "-line 15\n+another\n" in of(seen, Diff)[-1].diff
        assert "another\n" in (cwd / "old.txt").read_text()


class TestAuggieAlone(OnAgentsOfTheirOwn):
    RIG = AuggieRig
    BINARIES = MORE
    test_mcp_server = OptionContract.test_mcp_server
    test_interrupt_running_tool = EndContract.test_interrupt_running_tool

    async def test_code_is_sent_to_its_vendor_only_if_a_person_chooses_it(self, rig: AuggieRig, cwd: Path) -> None:
        """Not by a policy that allows everything, nor by an answer that merely allows."""
        Path(rig.options["env"]["HOME"], ".augment/settings.json").write_text("{}")
        (cwd / "secret.py").write_text("SECRET = 'albatross'\n")
        rig.play([Say("Not sent.")])
        async with self.session(rig, cwd, on_ask=yes) as session:
            seen = await collect(session.turn("hello"))
        (question,) = the(seen, Ask).questions
        assert (question.text, done(seen).text) == ("Workspace Indexing Permission", "Not sent.")
        assert SEARCHES_SENT_CODE not in offered(rig.model.requests[-1])

        def choose(ask: Ask) -> Answer:
            return Answer(ask.id, "allow", answers={ask.questions[0].id: ("Index for this session",)})

        rig.play([Say("Sent.")])
        async with self.session(rig, cwd, on_ask=choose) as session:
            assert done(await collect(session.turn("hello"))).text == "Sent."
            assert SEARCHES_SENT_CODE in offered(rig.model.requests[-1])
            await eventually(lambda: UPLOAD in rig.model.asides, "it sends nothing")

    async def test_its_users_settings_do_not_widen_the_policy(self, rig: AuggieRig, cwd: Path) -> None:
        mine = Path(rig.options["env"]["HOME"], ".augment/settings.json")
        mine.write_bytes(msgspec.json.encode({**msgspec.json.decode(mine.read_bytes()), **LETS_ALL_PASS}))
        rig.play([Run("touch denied.txt")], [Write("denied.txt", "words")], [Say("Refused.")])
        async with self.session(rig, cwd, policy=Policy("deny", "deny", "allow")) as session:
            seen = await collect(session.turn("do it"))
        assert [result.status for result in of(seen, ToolResult)] == ["denied", "denied"]
        assert not (cwd / "denied.txt").exists()

    @pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
    async def test_a_repository_with_settings_is_opened_under_no_policy_that_holds_something(
        self, rig: AuggieRig, cwd: Path, name: str
    ) -> None:
        """It runs their script by itself when a session begins."""
        (cwd / ".augment").mkdir()
        settings = cwd / ".augment" / name
        settings.write_bytes(msgspec.json.encode({"startupScript": f"touch {cwd}/ran.txt"}))
        with pytest.raises(PolicyUnenforceable) as refused:
            async with self.session(rig, cwd, policy=NO_COMMANDS):
                pass
        assert str(settings) in refused.value.hint and not (cwd / "ran.txt").exists()
        rig.play([Say("Done.")])
        async with self.session(rig, cwd) as session:
            await collect(session.turn("hello"))
        assert (cwd / "ran.txt").exists(), "which is why"

    async def test_a_servers_command_is_not_read_by_a_shell(self, rig: AuggieRig, cwd: Path) -> None:
        """Auggie puts it together for one."""
        words = "print('it is $HOME & more; touch ran.txt')"
        server = McpServer(command=mcp_server.command_line("speak", sys.executable, "-c", words))
        rig.play([Call("speak_words", {})], [Say("Done.")])
        async with self.session(rig, cwd, mcp_servers={"words": server}) as session:
            seen = await collect(session.turn("speak"))
        assert the(seen, ToolResult).output == "it is $HOME & more; touch ran.txt"


class TestAccounts(DriverContractBase):
    """Its vendor decides which tools there are."""

    @pytest.fixture
    async def rig(self, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[AuggieRig]:  # type: ignore[override]
        async with request.param(tmp_path / "home", MORE) as rig:
            yield rig

    @pytest.mark.parametrize("rig", [ShortToolsRig], indirect=True)
    async def test_short_tools_are_held_to_the_policy(self, rig: AuggieRig, cwd: Path) -> None:
        asked: list[Ask] = []

        def decide(ask: Ask) -> bool:
            asked.append(ask)
            return False

        rig.play(
            [Call("bash", {"command": "touch denied.txt"})],
            [Call("write", {"path": "denied.txt", "content": "words"})],
            [Call("edit", {"path": "denied.txt", "edits": [{"oldText": "words", "newText": "others"}]})],
            [Say("Refused.")],
        )
        async with self.session(rig, cwd, policy=Policy(), on_ask=decide) as session:
            seen = await collect(session.turn("do it"))
        assert [ask.capability for ask in asked] == ["shell", "file_write", "file_write"]
        assert asked[0].action == Command("touch denied.txt")
        assert [result.status for result in of(seen, ToolResult)] == ["denied"] * 3
        assert not (cwd / "denied.txt").exists()

    @pytest.mark.parametrize("rig", [SubagentsRig], indirect=True)
    async def test_a_subagent_does_nothing_that_would_have_to_be_asked(self, rig: AuggieRig, cwd: Path) -> None:
        """Its asks reach nobody, and are refused, whatever the policy says."""
        work = {"action": "run", "name": "helper", "instruction": "touch it"}
        rig.play(
            [Call("sub-agent-code", work)],
            [Run("touch denied.txt")],
            [Write("denied.txt", "words")],
            [Say("The subagent could not.")],
            [Say("Done.")],
        )
        async with self.session(rig, cwd, on_ask=yes) as session:
            seen = await collect(session.turn("delegate it"))
        assert (the(seen, ToolResult).output, done(seen).text) == ("The subagent could not.", "Done.")
        assert not of(seen, Ask) and not (cwd / "denied.txt").exists()
