"""The real Claude Code over the scripted model."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.drivers.hostile_repository import COMMANDS_NOT_ALLOWED, WORDS, HostileRepository

from tieline.api import open_session
from tieline.drivers.base import Attachment, Prompt
from tieline.drivers.claude_code.driver import ClaudeCode
from tieline.drivers.claude_code.launch import ClaudeCodeOptions
from tieline.errors import AgentMissing, AgentStartFailed, Unsupported
from tieline.events import (
    Error,
    Event,
    Other,
    Plan,
    PlanStep,
    Status,
    Text,
    TextDelta,
    ToolUse,
    Usage,
    Warning,
)
from tieline.policy import Policy
from tieline.processes import spawn
from tieline.script import Call, Get, Run, Say, Stall
from tieline.sessions.session import Session
from tieline.testing.driver_contract import DriverContract
from tieline.testing.policy_contract import PolicyContract, Web
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.stream_checks import collect, done, of, the
from tieline.testing.wait_for import eventually

pytestmark = pytest.mark.real

FULL = Policy("allow", "allow", "allow")
OWN_RULES = {"allow": ["Bash", "Write", "Edit", "WebFetch"], "defaultMode": "acceptEdits"}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ClaudeCodeRig]:
    async with ClaudeCodeRig(tmp_path / "home") as rig:
        yield rig


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    cwd = tmp_path / "place"
    cwd.mkdir()
    return cwd


class TestClaudeCode(DriverContract):
    @pytest.fixture
    async def rig(self, tmp_path: Path) -> AsyncIterator[ClaudeCodeRig]:
        async with ClaudeCodeRig(tmp_path / "home") as rig:
            yield rig


class TestClaudeCodePolicies(PolicyContract):
    """With the user's own rules allowing everything: the policy holds all the same."""

    @pytest.fixture
    async def rig(self, tmp_path: Path) -> AsyncIterator[ClaudeCodeRig]:
        async with ClaudeCodeRig(tmp_path / "home") as rig:
            rig.settings(permissions=OWN_RULES, disableAllHooks=True)
            yield rig

    async def test_its_fetch_tool_speaks_tls_only(self, rig: ClaudeCodeRig, web: Web, cwd: Path) -> None:
        """Why a TLS handshake counts as a visit of the page."""
        rig.play([Get(web.url)], [Say("Tried.")])
        async with talk(rig, cwd) as session:
            await collect(session.turn("fetch"))
        assert web.fetched
        assert not web.requests


def talk(rig: ClaudeCodeRig, cwd: Path, policy: Policy = FULL, **more: object) -> Session:
    return open_session(rig.driver, cwd=cwd, policy=policy, **{**rig.options, **more})  # type: ignore[arg-type]


# --- turns ---------------------------------------------------------------------------------------------


async def test_usage_is_of_the_turn_and_the_whole_tree(rig: ClaudeCodeRig, cwd: Path) -> None:
    task = {"description": "Help", "prompt": "help", "subagent_type": "general-purpose", "run_in_background": False}
    rig.play([Say("one")], [Call("Agent", task)], [Say("helped")], [Say("two")])
    async with talk(rig, cwd) as session:
        first = await collect(session.turn("one"))
        second = await collect(session.turn("two"))
    first_tokens, second_tokens = done(first).tokens, done(second).tokens
    assert first_tokens and second_tokens and first_tokens.cost_usd and second_tokens.cost_usd
    assert (first_tokens.input, second_tokens.input) == (25, 75), "a model call each, the helper's included"
    assert second_tokens.cost_usd == pytest.approx(3 * first_tokens.cost_usd, rel=0.2)
    assert the(first, Usage).tokens.input == 25
    helped = next(text for text in of(second, Text) if text.text == "helped")
    assert helped.parent == next(use.id for use in of(second, ToolUse) if use.name == "Agent")


async def test_what_it_does_ahead_is_between_it_and_us(rig: ClaudeCodeRig, cwd: Path) -> None:
    """Its vendor is not asked, its home has no trace of it, and the conversation neither."""
    rig.play([Say("Here.")])
    async with talk(rig, cwd) as session:
        await session.warm_up()
        assert not rig.model.requests and not rig.model.asides and not rig.model.unheard
        files = [name for _, _, names in os.walk(rig.home) for name in names]  # takes folders that vanish meanwhile
        assert not [name for name in files if name.endswith(".jsonl")]
        seen = await collect(session.turn("hello"))
    assert the(seen, Text).text == "Here."
    (request,) = rig.model.requests
    messages = [message for message in request["messages"] if message["role"] == "user"]
    assert len(messages) == 1 and "hello" in str(messages)


async def test_one_that_dies_while_it_warms_up(rig: ClaudeCodeRig, cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.sessions.session.WARM_UP_S", 300.0)
    async with talk(rig, cwd) as session:
        for pid in spawn.live().values():
            os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(60):  # not as long as it may take
            await session.warm_up()
        await eventually(lambda: not session.alive, "it is not known to be dead")


async def test_steering_too_late_gets_its_own_answer(rig: ClaudeCodeRig, cwd: Path) -> None:
    rig.play([Say("A long answer.", chunks=4, delay_s=0.2)], [Say("The pelican, yes.")])
    async with talk(rig, cwd) as session:
        seen: list[Event] = []
        async for event in session.turn("speak"):
            if isinstance(event, TextDelta) and not any(isinstance(old, TextDelta) for old in seen):
                await session.steer("mind the pelican")
            seen.append(event)
    assert [text.text for text in of(seen, Text)] == ["A long answer.", "The pelican, yes."]
    assert done(seen).text == "The pelican, yes."
    assert done(seen).tokens.input == 50  # type: ignore[union-attr]


async def test_no_steering_without_a_turn(rig: ClaudeCodeRig, cwd: Path) -> None:
    async with talk(rig, cwd) as session:
        with pytest.raises(Unsupported, match="steer"):
            await session.steer("nobody is there")


async def test_interrupt_at_once(rig: ClaudeCodeRig, cwd: Path) -> None:
    """Before the agent has taken the prompt up, which it would forget."""
    rig.play([Say("never mind"), Stall()], [Say("after it")])
    async with talk(rig, cwd) as session:
        seen: list[Event] = []
        async for event in session.turn("go"):
            if not seen:
                await session.interrupt()
            seen.append(event)
        assert done(seen).status == "interrupted"
        rig.model.reset()
        rig.play([Say("after it")])
        assert done(await collect(session.turn("again"))).text == "after it"


async def test_agent_that_wakes_by_itself(rig: ClaudeCodeRig, cwd: Path) -> None:
    """A background command ends between two turns, and Claude Code takes a turn of its own: nothing of it is lost, and
    the next turn ends with its own result."""
    gate = cwd / "gate"
    command = {"command": f"while [ ! -e {gate} ]; do sleep 0.05; done; echo finished", "run_in_background": True}
    rig.play([Call("Bash", command)], [Say("Started.")], [Say("I noticed.", delay_s=0.1)], [Say("The second answer.")])
    async with talk(rig, cwd) as session:
        first = await collect(session.turn("start it"))
        assert done(first).text == "Started."
        rig.model.called.clear()
        gate.touch()
        async with asyncio.timeout(20):
            await rig.model.called.wait()
        second = await collect(session.turn("and now"))
    assert done(second).status == "success"
    assert done(second).text == "The second answer."
    assert [text.text for text in of(second, Text)] == ["I noticed.", "The second answer."]
    assert any(status.state == "task_completed" for status in of(second, Status))
    assert done(second).tokens.input == 50  # type: ignore[union-attr]


async def test_tasks_as_plan(tmp_path: Path, cwd: Path) -> None:
    """The newer to-do tools tell one task at a time."""
    async with ClaudeCodeRig(tmp_path / "home", CLAUDE_CODE_ENABLE_TASKS="1") as rig:
        rig.play(
            [Call("TaskCreate", {"subject": "Look", "description": "d"})],
            [Call("TaskCreate", {"subject": "Leap", "description": "d"})],
            [Call("TaskUpdate", {"taskId": "1", "status": "completed"})],
            [Say("Planned.")],
        )
        async with talk(rig, cwd) as session:
            seen = await collect(session.turn("plan"))
    assert of(seen, Plan)[-1].steps == (PlanStep("Look", "done"), PlanStep("Leap", "pending"))


async def test_documents(rig: ClaudeCodeRig, cwd: Path) -> None:
    note = Attachment(data=b"the note says albatross", media_type="text/markdown", name="note.md")
    rig.play([Say("Read.")])
    async with talk(rig, cwd) as session:
        seen = await collect(session.turn(Prompt("read it", (note,))))
        assert done(seen).status == "success"
        with pytest.raises(Unsupported, match="image/tiff"):
            await collect(session.turn(Prompt("see", (Attachment(data=b"II", media_type="image/tiff"),))))
    assert "the note says albatross" in rig.heard()


# --- faults --------------------------------------------------------------------------------------------


def broken(script: str, **options: float) -> ClaudeCode:
    return ClaudeCode(ClaudeCodeOptions(command=("/bin/sh", "-c", script), **options))  # type: ignore[arg-type]


async def test_exits_at_once(cwd: Path) -> None:
    with pytest.raises(AgentStartFailed, match="status 7") as caught:
        async with open_session(broken("echo no licence >&2; exit 7"), cwd=cwd, env={"PATH": "/usr/bin:/bin"}):
            pass
    assert "no licence" in caught.value.hint


@pytest.mark.parametrize("script", ["echo this is no protocol", "while :; do echo this is no protocol; done"])
async def test_prints_garbage(cwd: Path, script: str) -> None:
    with pytest.raises(AgentStartFailed) as caught:
        async with open_session(broken(script), cwd=cwd, env={"PATH": "/usr/bin:/bin"}):
            pass
    assert "this is no protocol" in caught.value.hint


async def test_never_answers(cwd: Path) -> None:
    with pytest.raises(AgentStartFailed, match="did not answer within"):
        async with open_session(broken("cat >/dev/null", start_timeout_s=0.3), cwd=cwd, env={"PATH": "/usr/bin:/bin"}):
            pass


async def test_garbage_in_a_turn_is_kept(rig: ClaudeCodeRig, cwd: Path) -> None:
    """A line that is no JSON, in the middle of a healthy stream."""
    path = (await rig.driver.probe(rig.options["env"])).path
    rig.driver = ClaudeCode(ClaudeCodeOptions(command=("/bin/sh", "-c", 'echo "[debug] hello"; exec "$0" "$@"', path)))
    rig.play([Say("Fine.")])
    async with talk(rig, cwd) as session:
        seen = await collect(session.turn("go"))
    assert done(seen).text == "Fine."
    assert [other.raw for other in of(seen, Other)] == ["[debug] hello"]


async def test_unknown_conversation(rig: ClaudeCodeRig, cwd: Path) -> None:
    with pytest.raises(AgentStartFailed) as caught:
        async with talk(rig, cwd, resume="00000000-0000-4000-8000-000000000000"):
            pass
    assert "No conversation found" in caught.value.hint


async def test_died_agent_says_how_to_go_on(rig: ClaudeCodeRig, cwd: Path) -> None:
    rig.play([Run("kill -9 $PPID")], [Say("never said")])
    async with talk(rig, cwd) as session:
        seen = await collect(session.turn("go"))
        assert "killed by signal 9" in done(seen).error
        again = await collect(session.turn("are you there"))
        assert f"resume={session.native_id!r}" in the(again, Error).message


async def test_missing_binary(cwd: Path) -> None:
    driver = ClaudeCode(ClaudeCodeOptions(command=("/nowhere/claude",)))
    with pytest.raises(AgentMissing, match="/nowhere/claude"):
        async with open_session(driver, cwd=cwd, env={}):
            pass
    probe = await driver.probe({})
    assert not probe.found
    assert "/nowhere/claude" in probe.problem


async def test_missing_sdk(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)  # as if it were not installed
    probe = await ClaudeCode().probe({})
    assert (probe.found, probe.hint) == (False, "Install it: pip install 'tieline[claude]'")
    with pytest.raises(AgentMissing, match="claude-agent-sdk is not installed"):
        async with open_session(ClaudeCode(), cwd=cwd, env={}):
            pass


async def test_its_models(rig: ClaudeCodeRig, cwd: Path) -> None:
    async with talk(rig, cwd):
        offered = rig.driver.offered_models
        assert "default" in offered.names and len(offered.names) > 1


async def test_it_lists_its_models_without_a_session(rig: ClaudeCodeRig, cwd: Path) -> None:
    """Asked without a conversation: none of the user's hooks run for it, and no model hears of it."""
    ran = cwd / "hook-ran"
    rig.settings(hooks={"SessionStart": [{"hooks": [{"type": "command", "command": f"touch {ran}"}]}]})
    listed = await rig.driver.list_models(str(cwd), rig.options["env"])
    assert {"default", "opus", "sonnet"} <= set(listed.names) and not listed.certain
    assert "high" in listed.efforts["opus"]
    assert not ran.exists() and not rig.model.requests
    rig.play([Say("Here.")])
    async with talk(rig, cwd) as session:
        await collect(session.turn("hello"))
    assert ran.exists(), "in a session they do"


async def test_probe(rig: ClaudeCodeRig) -> None:
    probe = await rig.driver.probe(rig.options["env"])
    assert (probe.version, probe.signed_in) == (rig.driver.tested, True)
    assert (await rig.driver.probe({"HOME": str(rig.home)})).signed_in is not True
    given = await ClaudeCode(ClaudeCodeOptions(command=(probe.path,))).probe({"HOME": str(rig.home)})
    assert given.version == rig.driver.tested
    failed = await broken("exit 3").probe({})
    assert not failed.found


def test_the_sdk_is_pinned() -> None:
    pins = (Path(__file__).parents[2] / "requirements" / "dev.txt").read_text()
    assert f"\nclaude-agent-sdk=={version('claude-agent-sdk')} \\\n" in pins


# --- a repository of somebody else ---------------------------------------------------------------------


@COMMANDS_NOT_ALLOWED
async def test_a_repositorys_settings_run_nothing_where_commands_are_not_allowed(
    tmp_path: Path, cwd: Path, policy: Policy
) -> None:
    """By themselves hooks, MCP servers and key helpers run before anybody is asked."""
    hostile = HostileRepository(cwd, tmp_path)
    fired = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")
    hooks = {name: [{"hooks": [{"type": "command", "command": hostile.command(name)}]}] for name in fired}
    settings = {
        "hooks": hooks,
        "apiKeyHelper": f"{hostile.command('key')}; echo key",
        "env": {"BASH_ENV": f"{cwd}/env.sh", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"},
        "enableAllProjectMcpServers": True,
        "permissions": {"deny": ["Read(./secret.txt)"]},
    }
    program, *arguments = hostile.server("server")
    hostile.write(".claude/settings.json", settings)
    hostile.write(".claude/settings.local.json", {"hooks": hooks})
    hostile.write(".mcp.json", {"mcpServers": {"own": {"command": program, "args": arguments}}})
    hostile.write("CLAUDE.md", f"{WORDS} @more.md")
    hostile.write("more.md", "Imported words.")
    hostile.write("secret.txt", "A secret of the place.")
    async with ClaudeCodeRig(tmp_path / "home") as rig:
        rig.play([Call("Read", {"file_path": str(cwd / "secret.txt")})], [Say("Done.")])
        async with talk(rig, cwd, policy) as session:
            events = await collect(session.turn("read it"))
        assert done(events).status == "success"
        assert not hostile.ran
        (warning,) = (event.message for event in events if isinstance(event, Warning) and "left out" in event.message)
        assert ".claude/settings.json, .claude/settings.local.json, .mcp.json. If you trust it" in warning
        assert WORDS in rig.heard() and "Imported words." in rig.heard()
        assert "A secret of the place." not in rig.heard()  # what a repository denies holds
