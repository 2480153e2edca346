"""Codex, the real one, over the scripted model."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.drivers.codex_repositories import PLACES, folder_under_rules

from tieline.api import open_session
from tieline.config import Config
from tieline.drivers.base import McpServer
from tieline.drivers.codex.driver import Codex
from tieline.drivers.options import build_spec
from tieline.drivers.prestart import prestart, send_first_message
from tieline.errors import UsageError
from tieline.events import Answer, Ask, Command, Edit, Mcp, Text, ToolResult, ToolUse, Warning
from tieline.policy import Level, Policy
from tieline.processes import spawn
from tieline.script import AnyStep, Call, Inquire, Run, Say, Stall, Write
from tieline.testing import mcp_server
from tieline.testing.driver_contract import DriverContract
from tieline.testing.driver_contract.base import eventually, yes
from tieline.testing.policy_contract import PolicyContract, Web, fetch_command, loopback_web
from tieline.testing.rigs.codex import CodexRig, codex_rig
from tieline.testing.stream_checks import collect, done, of, the

pytestmark = pytest.mark.real

CODEX = Path(__file__).parent.parent / "agents/node_modules/.bin/codex"
FULL = Policy("allow", "allow", "allow")


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncGenerator[CodexRig, None]:
    async with codex_rig(tmp_path / "home", CODEX) as rig:
        yield rig


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    cwd = tmp_path / "place"
    cwd.mkdir()
    return cwd


class TestCodex(DriverContract):
    @pytest.fixture
    async def rig(self, tmp_path: Path) -> AsyncGenerator[CodexRig, None]:
        async with codex_rig(tmp_path / "home", CODEX) as rig:
            yield rig


class TestCodexPolicies(PolicyContract):
    @pytest.fixture
    async def rig(self, tmp_path: Path) -> AsyncGenerator[CodexRig, None]:
        async with codex_rig(tmp_path / "home", CODEX) as rig:
            yield rig


@pytest.fixture
async def web() -> AsyncGenerator[Web, None]:
    async with loopback_web() as web:
        yield web


def outside(command: str) -> AnyStep:
    """A command that asks to leave the sandbox."""
    escalated = {"sandbox_permissions": "require_escalated", "justification": "it must"}
    return Call("exec_command", {"cmd": command, **escalated})


# --- the sandbox -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("network", "reached"), [("allow", True), ("ask", False), ("deny", False)])
@pytest.mark.parametrize("file_write", ["allow", "deny"])
async def test_the_sandbox_cuts_the_network_of_commands(
    rig: CodexRig, cwd: Path, web: Web, file_write: Level, network: Level, reached: bool
) -> None:
    rig.play([Run(fetch_command(web.command_url))], [Say("Tried.")])
    policy = Policy(file_write, "allow", network)
    async with open_session(rig.driver, cwd=cwd, policy=policy, **rig.options) as session:
        seen = await collect(session.turn("fetch it"))
    assert web.command_fetched == reached
    assert the(seen, ToolResult).status == ("ok" if reached else "error"), "a refusal by the sandbox is visible"


async def test_leaving_the_sandbox_falls_under_what_it_holds(rig: CodexRig, cwd: Path, web: Web) -> None:
    """shell=allow does not mean that a command may go out: that is the network's line."""
    asked: list[Ask] = []

    def decide(ask: Ask) -> bool:
        asked.append(ask)
        return True

    tries: list[tuple[Level, bool]] = [("deny", False), ("ask", True)]
    for network, reached in tries:
        rig.play([outside(fetch_command(web.command_url))], [Say("Tried.")])
        policy = Policy("allow", "allow", network)
        async with open_session(rig.driver, cwd=cwd, policy=policy, on_ask=decide, **rig.options) as session:
            seen = await collect(session.turn("fetch it"))
        assert web.command_fetched == reached
        assert the(seen, ToolResult).status == ("ok" if reached else "denied")
    (ask,) = asked
    assert (ask.capability, ask.reason) == ("network", "it must")
    assert isinstance(ask.action, Command)


async def test_an_outside_command_is_refused_where_the_network_is_denied(rig: CodexRig, cwd: Path, web: Web) -> None:
    rig.play([outside(fetch_command(web.command_url))], [Say("Tried.")])
    policy = Policy("allow", "ask", "deny")
    async with open_session(rig.driver, cwd=cwd, policy=policy, on_ask=yes, **rig.options) as session:
        seen = await collect(session.turn("fetch it"))
    assert not web.command_fetched
    assert not of(seen, Ask)
    assert the(seen, Answer).reason == "the policy denies network"


async def test_own_rules_of_the_user_are_not_asked_about(rig: CodexRig, cwd: Path, tmp_path: Path) -> None:
    """What the receipt says: Codex has no switch against its user's own rules, short of taking the tool away."""
    rules = tmp_path / "home/.codex/rules/default.rules"
    rules.parent.mkdir(parents=True)
    rules.write_text('prefix_rule(pattern=["touch"], decision="allow")\n')
    tries: list[tuple[Level, bool]] = [("ask", True), ("deny", False)]
    for shell, ran in tries:
        rig.play([Run(f"touch {shell}.txt")], [Say("Touched.")])
        policy = Policy("deny", shell, "deny")
        async with open_session(rig.driver, cwd=cwd, policy=policy, **rig.options) as session:
            assert ("rules/*.rules" in session.receipt.shell.note) == ran
            seen = await collect(session.turn("touch it"))
        assert (cwd / f"{shell}.txt").exists() == ran
        assert the(seen, ToolResult).status == ("ok" if ran else "denied")


@pytest.mark.parametrize("where", PLACES)
async def test_rules_of_a_repository_allow_nothing(rig: CodexRig, tmp_path: Path, where: str) -> None:
    """A stranger wrote them; also not where Codex has been told, or has told itself, that the repository is trusted,
    and not in a conversation that is resumed."""
    repository, cwd = folder_under_rules(tmp_path, where)
    config = tmp_path / "home/.codex/config.toml"
    with config.open("a") as file:
        for trusted in {repository.resolve(), cwd.resolve()}:
            file.write(f'\n[projects."{trusted}"]\ntrust_level = "trusted"\n')
    before = config.read_text()
    asked: list[Ask] = []

    def decide(ask: Ask) -> bool:
        asked.append(ask)
        return False

    native = ""
    for number in (1, 2):
        rig.play([Run("touch ran.txt")], [Say("Not touched.")])
        async with open_session(
            rig.driver, cwd=cwd, policy=Policy(), on_ask=decide, resume=native, **rig.options
        ) as session:
            await collect(session.turn("touch it"))
            native = session.native_id
        assert len(asked) == number and not (cwd / "ran.txt").exists()
    assert config.read_text() == before, "it made the repository trusted"


# --- asks ------------------------------------------------------------------------------------------------------------


async def test_an_ask_about_a_patch_shows_it(rig: CodexRig, cwd: Path) -> None:
    rig.play([Write(str(cwd / "new.txt"), "a new line\n")], [Say("Written.")])
    asked: list[Ask] = []

    def decide(ask: Ask) -> bool:
        asked.append(ask)
        return True

    async with open_session(rig.driver, cwd=cwd, policy=Policy(), on_ask=decide, **rig.options) as session:
        await collect(session.turn("write it"))
    (ask,) = asked
    assert isinstance(ask.action, Edit)
    assert ask.action.paths == (str(cwd / "new.txt"),)
    assert ask.action.diff == f"--- /dev/null\n+++ {cwd}/new.txt\n@@ -0,0 +1 @@\n+a new line\n"
    assert (cwd / "new.txt").read_text() == "a new line\n"


async def test_a_patch_by_a_command_is_asked_about_as_the_change_that_it_is(rig: CodexRig, cwd: Path) -> None:
    (cwd / "a.txt").write_text("old\n")
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** End Patch\n"
    rig.play([Run(f"apply_patch <<'EOF'\n{patch}EOF")], [Say("Done.")])
    asked: list[Ask] = []

    def decide(ask: Ask) -> bool:
        asked.append(ask)
        return True

    async with open_session(rig.driver, cwd=cwd, policy=Policy(), on_ask=decide, **rig.options) as session:
        await collect(session.turn("patch it"))
    (ask,) = asked
    assert isinstance(ask.action, Edit)
    assert ask.capability == "file_write"
    assert "@@ -1 +1 @@\n-old\n+new\n" in ask.action.diff
    assert (cwd / "a.txt").read_text() == "new\n"


async def test_remember(rig: CodexRig, cwd: Path) -> None:
    asked: list[Ask] = []

    def decide(ask: Ask) -> Answer:
        asked.append(ask)
        return Answer(ask.id, "allow", remember="session")

    def patch(head: str, body: str) -> Call:
        return Call("apply_patch", {"input": f"*** Begin Patch\n*** {head}\n{body}*** End Patch\n"})

    files = [
        patch("Add File: a.txt", "+1\n"),
        patch("Update File: a.txt", "@@\n-1\n+2\n"),
        patch("Add File: b.txt", "+3\n"),
    ]
    rig.play(
        [Run("echo one")], [Say("a")], [Run("echo one")], [Run("echo two")], *([file] for file in files), [Say("b")]
    )
    async with open_session(rig.driver, cwd=cwd, policy=Policy(), on_ask=decide, **rig.options) as session:
        await collect(session.turn("run it"))
        await collect(session.turn("and again"))
    command, second_command, edit, second_edit = asked
    assert command.remember == second_command.remember == ("session", "always")
    assert command.scopes["session"] == "exactly this command in this directory, this session"
    assert edit.scopes == {"session": f"every change of {cwd}/a.txt, this session"}
    assert isinstance(second_edit.action, Edit) and second_edit.action.paths == (str(cwd / "b.txt"),), (
        "a.txt was not asked again"
    )
    assert ((cwd / "a.txt").read_text(), (cwd / "b.txt").read_text()) == ("2\n", "3\n")


async def test_a_refused_question(rig: CodexRig, cwd: Path) -> None:
    rig.play([Inquire("Which colour?", ("Red", "Blue"))], [Say("None, then.")])
    async with open_session(rig.driver, cwd=cwd, policy=FULL, **rig.options) as session:
        seen = await collect(session.turn("ask me"))
    assert the(seen, Answer).by == "nobody"
    assert done(seen).text == "None, then."


async def test_more_permissions(tmp_path: Path, cwd: Path) -> None:
    wanted = {"network": {"enabled": True}}
    config = {"features.request_permissions_tool": True}
    asked: list[Ask] = []

    def decide(ask: Ask) -> bool:
        asked.append(ask)
        return True

    async with codex_rig(tmp_path / "home", CODEX, config=config) as rig:
        for policy in (Policy(), Policy(network="deny")):
            rig.play([Call("request_permissions", {"reason": "to fetch", "permissions": wanted})], [Say("So be it.")])
            async with open_session(rig.driver, cwd=cwd, policy=policy, on_ask=decide, **rig.options) as session:
                seen = await collect(session.turn("get more"))
            result = the(seen, ToolResult)
            assert result.status == ("ok" if policy.network == "ask" else "denied")
    (ask,) = asked
    assert (ask.capability, ask.reason, dict(ask.input)) == ("network", "to fetch", wanted)


async def test_mcp_tools_are_asked_about(rig: CodexRig, cwd: Path) -> None:
    parrot = "import json, sys; print('parrot says', json.load(sys.stdin)['text'])"
    servers = {"parrot": McpServer(command=mcp_server.command_line("echo", sys.executable, "-c", parrot))}
    asked: list[Ask] = []

    def decide(ask: Ask) -> bool:
        asked.append(ask)
        return len(asked) == 1

    call = Call("echo", {"namespace": "mcp__parrot", "text": "hello"})
    rig.play([call], [Say("Said.")], [call], [Say("Not said.")])
    options: dict[str, Any] = {**rig.options, "mcp_servers": servers, "on_ask": decide}
    async with open_session(rig.driver, cwd=cwd, policy=Policy(), **options) as session:
        first = await collect(session.turn("say it"))
        second = await collect(session.turn("again"))
    assert the(first, ToolUse).action == asked[0].action == Mcp("parrot", "echo")
    assert the(first, ToolResult).output == "parrot says hello"
    assert the(second, ToolResult).status == "denied"
    assert asked[0].remember == ("session", "always")


# --- subagents, going on ---------------------------------------------------------------------------------------------


async def test_subagents_are_part_of_the_turn(rig: CodexRig, cwd: Path) -> None:
    """Their asks reach us, and what they do is told under the call that made them."""

    def choose(body: dict[str, list[dict[str, str]]]) -> list[AnyStep]:
        outputs = [item["output"] for item in body["input"] if item["type"] == "function_call_output"]
        if "the main prompt" not in str(body["input"]):
            return [Say("I did.")] if outputs else [Call("exec_command", {"cmd": "touch child.txt"})]
        if not outputs:
            return [Call("spawn_agent", {"namespace": "multi_agent_v1", "message": "touch it, child"})]
        if len(outputs) == 1:
            agent = outputs[0].split('"')[3]
            return [Call("wait_agent", {"namespace": "multi_agent_v1", "targets": [agent], "timeout_ms": 20_000})]
        return [Say("All did.")]

    rig.model.choose = choose
    asked: list[Ask] = []

    def decide(ask: Ask) -> bool:
        asked.append(ask)
        return True

    policy = Policy("allow", "ask", "allow")
    async with open_session(rig.driver, cwd=cwd, policy=policy, on_ask=decide, **rig.options) as session:
        seen = await collect(session.turn("the main prompt"))
    assert (cwd / "child.txt").exists()
    uses = {use.name: use for use in of(seen, ToolUse)}
    spawn, command = uses["spawnAgent"], uses["exec_command"]
    assert command.parent == spawn.id
    assert [ask.tool for ask in asked] == [command.id]
    assert next(text for text in of(seen, Text) if text.text == "I did.").parent == spawn.id
    assert done(seen).text == "All did."
    assert done(seen).turns == 5
    tokens = done(seen).tokens
    assert tokens is not None
    assert ((tokens.input or 0) + (tokens.cache_read or 0), tokens.output) == rig.model.reported_tokens, "theirs count"


async def test_resumed(rig: CodexRig, cwd: Path) -> None:
    """A resumed thread sends no raw items: refused calls are still shown, and asks know what they are about."""
    rig.play(
        [Say("Hello.")], [Run("touch denied.txt")], [Say("Refused.")], [outside("touch out.txt")], [Say("Refused.")]
    )
    policy = Policy("deny", "deny", "deny")
    async with open_session(rig.driver, cwd=cwd, policy=policy, **rig.options) as session:
        first = await collect(session.turn("hello"))
        native = session.native_id
    options: dict[str, Any] = {**rig.options, "resume": native, "system": "Speak like a ferryman."}
    async with open_session(rig.driver, cwd=cwd, policy=policy, **options) as session:
        seen = await collect(session.turn("touch it"))
        assert the(seen, ToolResult).status == "denied"
        tokens, before = done(seen).tokens, done(first).tokens
        assert tokens and before and tokens.output == 2 and before.output == 1, "tokens of this turn alone"
    assert "Speak like a ferryman." in rig.heard()
    policy = Policy("allow", "ask", "deny")
    options |= {"system": "", "on_ask": yes}
    async with open_session(rig.driver, cwd=cwd, policy=policy, **options) as session:
        seen = await collect(session.turn("touch it outside"))
        assert the(seen, Answer).reason == "the policy denies network"


async def test_steer_needs_a_turn(rig: CodexRig, cwd: Path) -> None:
    async with open_session(rig.driver, cwd=cwd, policy=FULL, **rig.options) as session:
        with pytest.raises(UsageError, match="no turn is running"):
            await session.steer("left")


# --- one server for many ---------------------------------------------------------------------------------------------


async def test_sessions_share_a_server(rig: CodexRig, cwd: Path, tmp_path: Path) -> None:
    started = tmp_path / "mcp-pid"
    server = McpServer(command=("/bin/sh", "-c", 'echo $$ > "$0"; exec cat >/dev/null', str(started)))
    before = spawn.live()
    async with open_session(rig.driver, cwd=cwd, policy=FULL, **rig.options) as stays:
        async with open_session(rig.driver, cwd=cwd, policy=FULL, **rig.options, mcp_servers={"m": server}) as leaves:
            assert len(spawn.live()) == len(before) + 1
            await collect(leaves.turn("hello"))
            await eventually(started.exists, "the MCP server never started")
        pid = started.read_text().strip()
        await eventually(lambda: not Path(f"/proc/{pid}").exists(), "what a session left behind is still there")
        assert done(await collect(stays.turn("still there?"))).status == "success"
    assert spawn.live() == before


async def test_the_death_of_a_server_reaches_all_its_sessions(rig: CodexRig, cwd: Path) -> None:
    rig.play([Say("The beginning. "), Stall()], [Say("The beginning. "), Stall()])
    before = spawn.live()
    options: dict[str, Any] = {**rig.options, "policy": FULL}
    async with (
        open_session(rig.driver, cwd=cwd, **options) as first,
        open_session(rig.driver, cwd=cwd, **options) as second,
    ):
        turns = [asyncio.create_task(collect(session.turn("tell me"))) for session in (first, second)]
        await eventually(lambda: len(rig.model.requests) == 2, "they never began")
        await rig.stalled()
        (pid,) = set(spawn.live().values()) - set(before.values())
        os.kill(pid, signal.SIGKILL)
        for seen in await asyncio.gather(*turns):
            assert "killed by signal 9" in done(seen).error
        after = await collect(first.turn("are you there"))
        assert f"resume={first.native_id}" in done(after).error
        async with open_session(rig.driver, cwd=cwd, **options, resume=first.native_id) as again:
            assert done(await collect(again.turn("and now?"))).status == "success"


async def test_a_conversation_is_open_once(rig: CodexRig, cwd: Path) -> None:
    async with open_session(rig.driver, cwd=cwd, policy=FULL, **rig.options) as session:
        with pytest.raises(UsageError, match="open already"):
            async with open_session(rig.driver, cwd=cwd, resume=session.native_id, **rig.options):
                pass


async def test_a_broken_mcp_server_is_a_warning(rig: CodexRig, cwd: Path) -> None:
    servers = {"broken": McpServer(command=("/bin/false",))}
    async with open_session(rig.driver, cwd=cwd, policy=FULL, mcp_servers=servers, **rig.options) as session:
        seen = await collect(session.turn("hello"))
    assert any("MCP server broken" in warning.message for warning in of(seen, Warning))
    with pytest.raises(UsageError, match="no MCP server named"):
        async with open_session(rig.driver, cwd=cwd, mcp_servers={"a.b": servers["broken"]}, **rig.options):
            pass


async def test_started_and_greeted_ahead(rig: CodexRig, cwd: Path) -> None:
    env = {**rig.env, "PATH": f"{CODEX.parent}:{rig.env['PATH']}"}
    early = prestart("codex", env)
    assert early is not None
    send_first_message(early, "codex", build_spec(Config(), cwd=cwd, env=env, policy=FULL))
    assert early.written_ahead.count(b"\n") == 3, "the handshake, and what opens the thread"
    rig.play([Say("there")])
    async with open_session(Codex(), cwd=cwd, env=env, policy=FULL) as session:
        assert list(spawn.live().values()) == [early.pid], "the very same one"
        assert early.written_ahead == b"", "nothing is left of it, so nothing was said twice"
        assert done(await collect(session.turn("go"))).text == "there"
    assert not spawn.live()


async def test_greeted_ahead_for_something_else(rig: CodexRig, cwd: Path) -> None:
    env = {**rig.env, "PATH": f"{CODEX.parent}:{rig.env['PATH']}"}
    early = prestart("codex", env)
    assert early is not None
    send_first_message(early, "codex", build_spec(Config(), cwd=cwd, env=env, policy=FULL))
    rig.play([Say("there")])
    async with open_session(Codex(), cwd=cwd, env=env, policy="read-only") as session:
        assert early.pid not in spawn.live().values(), "it has a thread with another policy"
        assert done(await collect(session.turn("go"))).text == "there"
    assert not spawn.live()


async def test_it_lists_its_models_without_a_session(rig: CodexRig, cwd: Path) -> None:
    listed = await rig.driver.list_models(str(cwd), rig.env)
    assert "gpt-5.5" in listed.names and not listed.certain, "it takes what its provider takes"
    assert set(listed.efforts) == set(listed.names)
    assert {"low", "high"} <= set(listed.efforts["gpt-5.5"]) <= set(rig.driver.features.effort)
    assert not rig.model.requests
