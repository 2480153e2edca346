"""What the real Claude Code asks for, and how its rules and ours go together."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tieline.api import open_session
from tieline.drivers.base import McpServer
from tieline.drivers.claude_code.launch import ClaudeCodeOptions
from tieline.events import (
    Answer,
    Ask,
    Command,
    Edit,
    Mcp,
    ToolResult,
    ToolUse,
)
from tieline.policy import Policy
from tieline.script import Call, Get, Inquire, Propose, Run, Say, Write
from tieline.sessions.session import Session
from tieline.testing import mcp_server
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.stream_checks import collect, done, of, the

pytestmark = pytest.mark.real

ASK = Policy()
FULL = Policy("allow", "allow", "allow")


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ClaudeCodeRig]:
    async with ClaudeCodeRig(tmp_path / "home") as rig:
        yield rig


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    cwd = tmp_path / "place"
    cwd.mkdir()
    return cwd


class Decide:
    """Answers every ask with yes, remembered for as long as told, and keeps the asks."""

    def __init__(self, remember: str = "once", decision: str = "allow") -> None:
        self.asks: list[Ask] = []
        self._remember = remember
        self._decision = decision

    def __call__(self, ask: Ask) -> Answer:
        self.asks.append(ask)
        return Answer(ask.id, self._decision, by="caller", remember=self._remember)  # type: ignore[arg-type]


def talk(rig: ClaudeCodeRig, cwd: Path, policy: Policy = FULL, **more: object) -> Session:
    return open_session(rig.driver, cwd=cwd, policy=policy, **{**rig.options, **more})  # type: ignore[arg-type]


async def test_harmless_command_is_asked_for(rig: ClaudeCodeRig, cwd: Path) -> None:
    """Claude Code would run it unasked."""
    decide = Decide()
    rig.play([Run("echo harmless")], [Say("Ran.")])
    async with talk(rig, cwd, ASK, on_ask=decide) as session:
        seen = await collect(session.turn("run it"))
    (ask,) = decide.asks
    assert isinstance(ask.action, Command)
    assert ask.title == "Bash"
    assert the(seen, ToolResult).output == "harmless"


async def test_edits_remembered_for_the_session(rig: ClaudeCodeRig, cwd: Path) -> None:
    decide = Decide("session")
    outside = cwd.parent / "outside.txt"
    rig.play(
        [Write(str(cwd / "a.txt"), "1\n")],
        [Write(str(cwd / "b.txt"), "2\n")],
        [Run("touch c.txt")],
        [Run("touch c.txt")],
        [Run("touch d.txt")],
        [Write(str(outside), "3\n")],
        [Say("Ok.")],
    )
    async with talk(rig, cwd, ASK, on_ask=decide) as session:
        await collect(session.turn("write both"))
    asked = [ask.action for ask in decide.asks]
    assert [type(action) for action in asked] == [Edit, Command, Command, Edit], "the second edit needs no ask"
    assert asked[1:3] == [Command("touch c.txt"), Command("touch d.txt")], "a command is remembered as it is"
    assert isinstance(asked[3], Edit) and asked[3].paths == (str(outside),), "the directory is not left"
    assert decide.asks[0].remember == ("session",)
    assert decide.asks[0].scopes == {"session": "all edits in this directory, this session"}, "and it says so"
    assert (cwd / "b.txt").read_text() == "2\n"


async def test_host_remembered_for_the_session(rig: ClaudeCodeRig, cwd: Path) -> None:
    decide = Decide("session")
    rig.play([Get("http://127.0.0.1:9/one"), Get("http://127.0.0.1:9/two")], [Get("http://127.0.0.2:9/")], [Say("Ok.")])
    async with talk(rig, cwd, ASK, on_ask=decide) as session:
        await collect(session.turn("fetch both"))
        rig.play([Get("http://127.0.0.1:9/three")], [Say("Ok.")])
        asked = len(decide.asks)
        await collect(session.turn("and the third"))
    assert len(decide.asks) == asked, "the host is known by now"
    assert "http://127.0.0.2:9/" in [ask.input["url"] for ask in decide.asks], "another host is another ask"


async def test_user_rules_are_honoured_when_told_so(tmp_path: Path, cwd: Path) -> None:
    """Then Claude Code's own suggestions are offered, and kept by Claude Code itself."""
    decide = Decide("always")
    (cwd / ".git").mkdir()  # Claude Code keeps a project's rules at its root
    options = ClaudeCodeOptions(user_rules=True, setting_sources=("user", "project", "local"))
    async with ClaudeCodeRig(tmp_path / "home", options) as rig:
        rig.settings(permissions={"allow": ["Bash(touch allowed*)"]})
        rig.play([Run("touch allowed.txt")], [Run("mkdir made")], [Say("Ok.")])
        async with talk(rig, cwd, ASK, on_ask=decide) as session:
            await collect(session.turn("both"))
            assert "your own allow rules" in session.receipt.shell.note
        (ask,) = decide.asks
        assert ask.remember == ("session", "always")
        rules = (cwd / ".claude" / "settings.local.json").read_text()
        assert "mkdir made" in rules
        rig.play([Run("mkdir made again")], [Say("Ok.")])
        async with talk(rig, cwd, ASK, on_ask=decide) as session:
            await collect(session.turn("again"))
    assert len(decide.asks) == 1, "it was remembered for ever"


async def test_what_would_be_kept_in_settings_that_do_not_count_is_not_offered(tmp_path: Path, cwd: Path) -> None:
    decide = Decide("session")
    (cwd / ".git").mkdir()
    async with ClaudeCodeRig(tmp_path / "home", ClaudeCodeOptions(user_rules=True)) as rig:
        rig.play([Run("mkdir made")], [Say("Ok.")])
        async with talk(rig, cwd, ASK, on_ask=decide) as session:
            await collect(session.turn("do it"))
    (ask,) = decide.asks
    assert ask.remember == ("session",) and "always" not in ask.scopes


def words(word: str) -> McpServer:
    """Its tool `speak` says the word, which it has from its environment."""
    return McpServer(command=mcp_server.command_line("speak", "/usr/bin/printenv", "WORD"), env={"WORD": word})


async def test_mcp_tool_is_asked_for_and_remembered(rig: ClaudeCodeRig, cwd: Path) -> None:
    server = words("secret-word")
    decide = Decide("session")
    rig.play([Call("mcp__words__speak")], [Call("mcp__words__speak")], [Say("Ok.")])
    async with talk(rig, cwd, Policy("allow", "allow", "ask"), on_ask=decide, mcp_servers={"words": server}) as session:
        seen = await collect(session.turn("speak"))
    assert [result.output for result in of(seen, ToolResult)] == ["secret-word", "secret-word"]
    assert of(seen, ToolUse)[0].action == Mcp("words", "speak")
    assert [ask.capability for ask in decide.asks] == [None]


async def test_full_policy_asks_nobody(rig: ClaudeCodeRig, cwd: Path) -> None:
    """As bypassPermissions would, also for what the policy has no line for, and also as root."""
    server = words("heard")
    rig.play([Call("mcp__words__speak")], [Call("Read", {"file_path": "/etc/hostname"})], [Say("Ok.")])
    async with talk(rig, cwd, FULL, mcp_servers={"words": server}) as session:
        seen = await collect(session.turn("speak"))
    assert [result.status for result in of(seen, ToolResult)] == ["ok", "ok"]
    assert not of(seen, Ask)


async def test_disallowed_tool_is_visibly_refused(rig: ClaudeCodeRig, cwd: Path) -> None:
    rig.play([Run("touch x; rm x")], [Call("Glob", {"pattern": "*"})], [Say("Ok.")])
    async with talk(rig, cwd, FULL, disallowed_tools=("Bash(touch *)", "Glob")) as session:
        seen = await collect(session.turn("try"))
    assert [result.status for result in of(seen, ToolResult)] == ["denied", "denied"]


async def test_questions(rig: ClaudeCodeRig, cwd: Path) -> None:
    options = [{"label": label, "description": label} for label in ("Ham", "Cheese", "Egg")]
    asked = [
        {"question": "Which filling?", "header": "Filling", "options": options, "multiSelect": True},
        {"question": "How many?", "header": "Number", "options": options[:2], "multiSelect": False},
    ]
    rig.play([Call("AskUserQuestion", {"questions": asked})], [Say("Ok.")])

    def decide(ask: Ask) -> Answer:
        filling, number = ask.questions
        assert (filling.many, number.many) == (True, False)
        return Answer(ask.id, "allow", by="caller", answers={filling.id: ("Ham", "Egg"), number.id: ("a dozen",)})

    async with talk(rig, cwd, ASK, on_ask=decide) as session:
        seen = await collect(session.turn("ask me"))
    result = the(seen, ToolResult)
    assert result.status == "ok"
    assert "Ham, Egg" in result.output
    assert "a dozen" in result.output


async def test_refused_question(rig: ClaudeCodeRig, cwd: Path) -> None:
    rig.play([Inquire("Which?", ("This", "That"))], [Say("Ok.")])
    async with talk(rig, cwd, FULL) as session:
        seen = await collect(session.turn("ask me"))
    assert the(seen, Answer).by == "nobody"
    assert done(seen).status == "success"


async def test_plan_mode(tmp_path: Path, cwd: Path) -> None:
    decide = Decide()
    async with ClaudeCodeRig(tmp_path / "home", ClaudeCodeOptions(mode="plan")) as rig:
        rig.model.play([Propose("1. Look\n2. Leap")], [Write(str(cwd / "leapt.txt"), "x\n")], [Say("Leapt.")])
        async with talk(rig, cwd, FULL, on_ask=decide) as session:
            seen = await collect(session.turn("make a plan"))
    (ask,) = decide.asks
    assert (ask.kind, ask.plan) == ("plan", "1. Look\n2. Leap")
    assert [result.status for result in of(seen, ToolResult)] == ["ok", "ok"]
    assert (cwd / "leapt.txt").exists()


async def test_refused_plan(tmp_path: Path, cwd: Path) -> None:
    async with ClaudeCodeRig(tmp_path / "home", ClaudeCodeOptions(mode="plan")) as rig:
        rig.model.play([Propose("1. Look\n2. Leap")], [Say("I stay.")])
        async with talk(rig, cwd, FULL, on_ask=Decide(decision="deny")) as session:
            seen = await collect(session.turn("make a plan"))
    assert the(seen, ToolResult).status == "denied"


async def test_withdrawn_ask(rig: ClaudeCodeRig, cwd: Path) -> None:
    """The agent gives up on its ask when the turn is interrupted: it is closed in the record."""
    asked = asyncio.Event()

    async def decide(ask: Ask) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    rig.play([Run("touch never.txt")], [Say("never said")])
    async with talk(rig, cwd, ASK, on_ask=decide) as session:

        async def stop() -> None:
            await asked.wait()
            await session.interrupt()

        stopper = asyncio.create_task(stop())
        seen = await collect(session.turn("touch it"))
        await stopper
    assert the(seen, Answer).ask == the(seen, Ask).id
    assert the(seen, Answer).by in ("agent", "turn-end")  # its withdrawal, or the end of its turn, whichever came first
    assert the(seen, ToolResult).status == "denied"
    assert done(seen).status == "interrupted"
