"""The real Qwen Code against the contract, and what is special about it."""

from pathlib import Path

import msgspec
import pytest
from tests.drivers.acp_contract import OnAgentsOfTheirOwn, OnSharedAgents, agents, shared_rig

from tieline.events import Ask, Command, Fetch, Init, ToolResult, ToolUse
from tieline.policy import Policy, preset
from tieline.script import Call, Get, Run, Say
from tieline.testing.policy_contract import Web
from tieline.testing.rigs.acp import QwenRig
from tieline.testing.stream_checks import collect, done, of, the

pytestmark = pytest.mark.real
__all__ = ["agents", "shared_rig"]


@pytest.mark.asyncio(loop_scope="class")
class TestQwen(OnSharedAgents):
    RIG = QwenRig
    POLICIES = (preset("full"), preset("ask"), preset("read-only"))
    """The ends and the middle: all 27 are tried by `make test-agents`. Each line is held by the same questions."""

    async def test_what_it_would_let_pass_is_asked_too(self, rig: QwenRig, web: Web, cwd: Path) -> None:
        """On its own it runs commands that only read, without a question."""
        rig.play([Run("ls")], [Get(web.url)], [Say("Done.")])
        asked: list[Ask] = []

        def decide(ask: Ask) -> bool:
            asked.append(ask)
            return True

        async with self.session(rig, cwd, policy=Policy(), on_ask=decide) as session:
            seen = await collect(session.turn("try"))
        assert [ask.capability for ask in asked] == ["shell", "network"]
        assert isinstance(asked[0].action, Command) and asked[0].action.command == "ls"
        assert isinstance(asked[1].action, Fetch) and asked[1].action.url == web.url
        assert [result.status for result in of(seen, ToolResult)] == ["ok", "ok"]

    async def test_a_watched_command_is_a_command(self, rig: QwenRig, cwd: Path) -> None:
        rig.play([Call("monitor", {"command": "touch watched.txt", "description": "Scripted"})], [Say("Done.")])
        async with self.session(rig, cwd, policy=Policy("allow", "deny", "allow")) as session:
            seen = await collect(session.turn("watch"))
        assert isinstance(the(seen, ToolUse).action, Command)
        assert the(seen, ToolResult).status == "denied"
        assert not (cwd / "watched.txt").exists()

    async def test_init(self, rig: QwenRig, cwd: Path) -> None:
        rig.play([Say("Done.")])
        async with self.session(rig, cwd) as session:
            init = the(await collect(session.turn("hello")), Init)
        assert init.version == rig.driver.tested
        assert rig.model_name in rig.model.requests[0]["model"]


class TestQwenAlone(OnAgentsOfTheirOwn):
    RIG = QwenRig
    test_no_process_left = test_resume = test_warm = None  # type: ignore[assignment] # by `make test-agents`

    async def test_rules_of_others_do_not_widen_the_policy(self, rig: QwenRig, cwd: Path) -> None:
        """Neither those of the user nor those that a repository brings along."""
        allow = {"permissions": {"allow": ["Bash", "Edit"]}, "tools": {"approvalMode": "yolo"}}
        mine = Path(rig.options["env"]["HOME"], ".qwen/settings.json")
        mine.write_bytes(msgspec.json.encode(msgspec.json.decode(mine.read_bytes()) | allow))
        (cwd / ".qwen").mkdir()
        (cwd / ".qwen/settings.json").write_bytes(msgspec.json.encode(allow))
        (cwd / ".qwen/.env").write_text(
            "QWEN_CODE_SAFE_MODE=1\nQWEN_CODE_SIMPLE=1\nQWEN_CODE_SYSTEM_DEFAULTS_PATH=/x\n"
        )
        rig.play([Run("cat .qwen/settings.json")])  # one that only reads: by itself it would not ask about it
        async with self.session(rig, cwd, policy=Policy("allow", "deny", "allow")) as session:
            seen = await collect(session.turn("try"))
        assert the(seen, ToolResult).status == "denied"
        assert done(seen).status == "error", "a denial ends its turn, and that is no success"
