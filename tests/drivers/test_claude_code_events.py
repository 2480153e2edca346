"""Claude Code's messages as events, from recorded transcripts; its flags and receipts. Nothing is started here."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from tieline import open_session
from tieline.drivers.base import McpServer, Prompt, Spec
from tieline.drivers.claude_code.driver import ClaudeCode, create
from tieline.drivers.claude_code.events import ClaudeCodeNormaliser
from tieline.drivers.claude_code.launch import ClaudeCodeLaunch, ClaudeCodeOptions, launch_command
from tieline.drivers.claude_code.prompt import user_message
from tieline.drivers.claude_code.tools import tool_action
from tieline.drivers.turn_stream import Turn
from tieline.errors import NotSignedIn, UsageError
from tieline.events import (
    Answer,
    Ask,
    Command,
    Diff,
    Done,
    Edit,
    Error,
    Event,
    Fetch,
    Init,
    Mcp,
    Other,
    OtherAction,
    Plan,
    PlanStep,
    Read,
    Search,
    Status,
    Task,
    Text,
    Thinking,
    ToolOutput,
    ToolResult,
    ToolUse,
    Usage,
    changed_paths,
)
from tieline.policy import CAPABILITIES, Policy, every_policy
from tieline.processes import spawn as wire_launch
from tieline.testing.stream_checks import of, the, verify

RECORDED = Path(__file__).parent / "claude_code"
TRANSCRIPTS = sorted(path.stem for path in RECORDED.glob("*.jsonl"))


def messages(name: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in (RECORDED / f"{name}.jsonl").read_bytes().splitlines()]


def replay(name: str, **options: Any) -> list[list[Event]]:
    """The turns of a transcript, as events."""
    normaliser = ClaudeCodeNormaliser("claude-code", **options)
    turns: list[list[Event]] = [[]]
    for message in messages(name):
        for event in normaliser.feed(message):
            if isinstance(event, Done):
                turns[-1] += normaliser.turn_diff()
                normaliser.next_turn()
            turns[-1].append(event)
            if isinstance(event, Done):
                turns.append([])
    return turns[:-1]


async def nobody(ask: Ask, emit: object) -> Answer:
    raise AssertionError("transcripts ask nobody")


@pytest.mark.parametrize("name", TRANSCRIPTS)
async def test_every_transcript_keeps_the_promises(name: str) -> None:
    for events in replay(name):
        turn = Turn(Prompt("again"), nobody)
        for event in events:
            turn.emit(event)
        seen = [event async for event in turn]
        verify(seen)
        assert not of(seen, Other), "nothing in it is unknown"


def test_text() -> None:
    first, second = replay("text")
    assert the(first, Thinking).text == "Let me consider."
    assert the(first, Text).text == "Hello there."
    assert the(first, Text).item != the(first, Thinking).item
    init = the(first, Init)
    assert (init.agent, init.version, init.cwd) == ("claude-code", "2.1.325", "/home/user/place")
    assert init.model == "claude-opus-5-5"
    assert "Bash" in init.tools
    assert not of(second, Init), "it is told at the start of each turn, and opened once"
    assert the(second, Done).text == "The second answer."
    assert the(second, Done).native_id == init.native_id
    tokens = the(second, Done).tokens
    assert tokens and tokens.input == 25, "of this turn alone"
    assert of(second, Usage)[-1].tokens.output == tokens.output


def test_tools() -> None:
    (seen,) = replay("tools")
    write, edit, cat, fail, read = of(seen, ToolUse)
    assert isinstance(write.action, Edit)
    assert isinstance(edit.action, Edit)
    assert "-two\n+three\n" in edit.action.diff
    assert cat.action == Command("cat /home/user/place/notes.txt")
    assert read.action == Read("/home/user/place/notes.txt")
    results = {result.id: result for result in of(seen, ToolResult)}
    assert results[cat.id].output == "one\nthree"
    assert results[fail.id].status == "error"
    diff = the(seen, Diff)
    assert diff.paths == ("/home/user/place/notes.txt",)
    assert "+one\n+two\n" in diff.diff
    assert "-two\n+three\n" in diff.diff
    assert changed_paths(diff.diff) == ("/home/user/place/notes.txt",)


def test_denied() -> None:
    (seen,) = replay("denied", hidden=("WebFetch", "WebSearch"))
    assert [result.status for result in of(seen, ToolResult)] == ["denied"] * 3


def test_denial_that_the_stream_did_not_show() -> None:
    (result,) = (message for message in messages("denied") if message["type"] == "result")
    seen = ClaudeCodeNormaliser("claude-code").feed(result)
    assert [use.name for use in of(seen, ToolUse)] == ["Write", "Bash"]
    assert [result.status for result in of(seen, ToolResult)] == ["denied"] * 2


@pytest.mark.parametrize("name", ["todo", "tasks"])
def test_plan(name: str) -> None:
    steps = of(replay(name)[0], Plan)[-1].steps
    assert steps[:2] == (PlanStep("Look", "done"), PlanStep("Change", "running"))


def test_subagent() -> None:
    (seen,) = replay("subagent")
    task, helped = of(seen, ToolUse)
    assert task.action == Task("Look around")
    assert helped.parent == task.id
    assert the(seen, Thinking).parent == task.id
    assert [text.parent for text in of(seen, Text)] == [task.id, task.id, ""]
    assert the(seen, ToolOutput).id == task.id
    assert [status.state for status in of(seen, Status)] == ["task_started", "task_completed"]
    assert the(seen, Done).tokens.input == 100, "four model calls, two of them the helper's"  # type: ignore[union-attr]


def test_api_error() -> None:
    (seen,) = replay("api_error")
    *retries, refusal = of(seen, Error)
    assert all(error.recoverable for error in retries)
    assert retries
    assert (refusal.message, refusal.code) == ("API Error: 400 scripted refusal", "400")
    assert not refusal.recoverable
    assert not of(seen, Text), "an error is no answer"
    assert the(seen, Done).status == "error"


def test_max_turns() -> None:
    (seen,) = replay("max_turns")
    assert the(seen, Done).status == "max_turns"
    assert the(seen, Done).turns


@pytest.mark.parametrize(
    "message",
    [
        {"type": "from_the_future", "x": 1},
        {"no": "type"},
        {"type": ["odd"]},
        {"type": "system", "subtype": "from_the_future"},
        {"type": "assistant"},
        {"type": "assistant", "message": {"id": "m", "content": [7]}},
        {"type": "user", "message": {"content": None}},
        {"type": "user", "message": {"role": "user", "content": "somebody else's words"}},
        {"type": "stream_event", "event": None},
        {"type": "system"},
    ],
)
def test_unknown_is_kept(message: dict[str, Any]) -> None:
    assert [event.raw for event in of(ClaudeCodeNormaliser("claude-code").feed(message), Other)] == [message]


def test_unknown_block_is_kept() -> None:
    block = {"type": "hologram", "data": "…"}
    message = {"type": "assistant", "message": {"id": "m", "content": [block, {"type": "text", "text": "Hi."}]}}
    other, text = ClaudeCodeNormaliser("claude-code").feed(message)
    assert isinstance(other, Other) and other.raw == block
    assert isinstance(text, Text) and text.text == "Hi."


def test_odd_result_still_ends_the_turn() -> None:
    (done,) = of(ClaudeCodeNormaliser("claude-code").feed({"type": "result", "subtype": "error_from_the_future"}), Done)
    assert (done.status, done.error) == ("error", "error_from_the_future")
    odd = {"type": "result", "subtype": "success", "modelUsage": ["renamed"]}
    seen = ClaudeCodeNormaliser("claude-code").feed(odd)
    assert the(seen, Other).raw == odd
    assert the(seen, Done).status == "error"


@pytest.mark.parametrize(
    ("name", "given", "action"),
    [
        ("Bash", {"command": "ls"}, Command("ls")),
        ("Bash", {}, Command("")),
        ("Write", {"file": "renamed"}, Edit(())),
        ("NotebookEdit", {"notebook_path": "/n.ipynb"}, Edit(("/n.ipynb",))),
        ("Grep", {"pattern": "x", "path": "src"}, Search("x", "src")),
        ("WebFetch", {"url": "https://example.org"}, Fetch("https://example.org")),
        ("WebSearch", {"query": "tie line"}, Fetch(query="tie line")),
        ("mcp__git__log", {}, Mcp("git", "log")),
        ("mcp__odd", {}, Mcp("odd", "")),
        ("Skill", {"skill": "x"}, OtherAction()),
    ],
)
def test_actions(name: str, given: dict[str, Any], action: object) -> None:
    assert tool_action(name, given) == action


# --- how it is started ---------------------------------------------------------------------------------


def launch(options: ClaudeCodeOptions | None = None, **spec: Any) -> ClaudeCodeLaunch:
    return launch_command(Spec(cwd="/place", **spec), options or ClaudeCodeOptions(command=("claude",)))


def test_flags() -> None:
    started = launch(
        env={"HOME": "/home/user", "CLAUDECODE": "1"},
        policy=Policy("allow", "ask", "deny"),
        model="opus",
        effort="high",
        max_turns=3,
        max_budget_usd=0.5,
        system="--be kind",
        allowed_tools=("mcp__git__log",),
        disallowed_tools=("Bash(rm *)",),
    )
    assert started.argv[0] == "claude"
    for flag in (
        "--model=opus",
        "--effort=high",
        "--max-turns=3",
        "--max-budget-usd=0.5",
        "--append-system-prompt=--be kind",
        "--allowedTools=Write,Edit,NotebookEdit,mcp__git__log",
        "--disallowedTools=WebFetch,WebSearch,Bash(rm *)",
        f"--session-id={started.native_id}",
    ):
        assert flag in started.argv
    assert started.argv[started.argv.index("--permission-mode") + 1] == "default"
    assert started.argv[started.argv.index("--permission-prompt-tool") + 1] == "stdio"
    assert "CLAUDECODE" not in started.env
    assert started.env["PWD"] == "/place"
    assert started.env["HOME"] == "/home/user"


def test_the_instruction_is_a_flag_and_the_prompt_as_it_is() -> None:
    assert not [flag for flag in launch().argv if "system-prompt" in flag]
    assert "--append-system-prompt=Be brief." in launch(system="Be brief.").argv
    assert user_message(Prompt("  hello\n"))["message"] == {"role": "user", "content": "  hello\n"}


@pytest.mark.slow
def test_the_sdk_is_imported_when_a_session_is_opened() -> None:
    """In a process of its own: here it may be imported already. First as if it were not installed."""
    code = """
import asyncio, sys
sys.modules["claude_agent_sdk"] = None
from tieline import open_session
from tieline.config import Config
from tieline.drivers import registry
from tieline.errors import AgentStartFailed

agent = registry.create("claude-code", Config(agents={"claude-code": {"command": ["/bin/false"]}}))
del sys.modules["claude_agent_sdk"]
asyncio.run(agent.probe({}))
assert "claude_agent_sdk" not in sys.modules

async def attempt():
    async with open_session(agent, cwd="/", env={}):
        raise AssertionError

try:
    asyncio.run(attempt())
except AgentStartFailed:
    assert "claude_agent_sdk" in sys.modules
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


def test_a_repositorys_own_settings_count_only_where_commands_are_allowed(tmp_path: Path) -> None:
    """They name programs: hooks, MCP servers, what fetches a key. What they deny holds, and instructions are text."""
    repository, inner = tmp_path / "shop", tmp_path / "shop/web/app"
    (repository / ".git").mkdir(parents=True)
    (inner / ".claude").mkdir(parents=True)
    (tmp_path / "CLAUDE.md").write_text("not of the repository")
    (repository / "CLAUDE.md").write_text("be kind\0\n")
    (repository / "web/CLAUDE.md").symlink_to("/etc/hostname")
    (inner / "CLAUDE.md").write_text("it reads this one itself")
    (inner / ".claude/settings.json").write_text('{"permissions": {"deny": ["Read(.env)", "Bash(rm:*)"]}, "hooks": {}}')
    (inner / ".claude/settings.local.json").write_text('{"permissions": {"deny": "all"}}')

    def flags(policy: Policy, sources: tuple[Literal["user", "project", "local"], ...] | None = None) -> list[str]:
        options = ClaudeCodeOptions(command=("claude",), setting_sources=sources)
        started = launch_command(Spec(cwd=str(inner), system="Briefly.", policy=policy), options)
        read = started.env.get("CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD") == "1"
        assert read == (f"--add-dir={inner}" in started.argv)
        return [*started.argv, *(["read"] if read else [])]

    above = f"Instructions of the repository, in {repository}/CLAUDE.md:\n\nbe kind"
    for policy in (Policy(), Policy("allow", "ask", "allow"), Policy("deny", "deny", "deny")):
        arguments = flags(policy)
        assert {"--setting-sources=user", f"--append-system-prompt={above}\n\nBriefly.", "read"} <= set(arguments)
        (denied,) = [word for word in arguments if word.startswith("--disallowedTools=")]
        assert denied.endswith("Read(.env),Bash(rm:*)")
    for arguments in (
        flags(Policy("ask", "allow", "ask")),
        flags(Policy(), ("user", "project")),
        flags(Policy(), ("user",)),
    ):
        assert "--append-system-prompt=Briefly." in arguments and "read" not in arguments
        assert not any("Read(.env)" in word for word in arguments)
    assert not any(word.startswith("--setting-sources") for word in flags(Policy("ask", "allow", "ask")))
    assert "--setting-sources=user,project" in flags(Policy(), ("user", "project"))


def test_what_a_repository_writes_never_keeps_it_from_starting(tmp_path: Path) -> None:
    inner = tmp_path / "a"
    (tmp_path / ".git").mkdir()
    (inner / ".claude").mkdir(parents=True)
    (tmp_path / "CLAUDE.md").write_text("x" * 1_000_000)
    many = ",".join(f'"Read(./{number})"' for number in range(9000))
    (inner / ".claude/settings.json").write_text(f'{{"permissions": {{"deny": [{many}]}}}}')
    started = launch_command(Spec(cwd=str(inner)), ClaudeCodeOptions(command=("claude",)))
    assert all(len(word) < 100_000 for word in started.argv)


def test_resume_and_fork() -> None:
    resumed = launch(resume="abc")
    assert resumed.native_id == "abc"
    assert "--resume=abc" in resumed.argv
    assert not any(flag.startswith("--session-id") for flag in resumed.argv)
    forked = launch(resume="abc", fork=True)
    assert {"--resume=abc", "--fork-session", f"--session-id={forked.native_id}"} <= set(forked.argv)


def test_options() -> None:
    started = launch(ClaudeCodeOptions(command=("node", "cli.js"), mode="plan", setting_sources=("project",)))
    assert started.argv[:2] == ("node", "cli.js")
    assert started.argv[started.argv.index("--permission-mode") + 1] == "plan"
    assert "--setting-sources=project" in started.argv
    assert create("mine", {"mode": "plan"}).options.mode == "plan"
    with pytest.raises(UsageError, match="unknown field"):
        create("mine", {"colour": "blue"})


def test_secrets_of_mcp_servers_are_no_arguments() -> None:
    servers = {
        "files": McpServer(command=("files", "--root", "/"), env={"TOKEN": "hidden-one"}),
        "web": McpServer(url="https://example.org/mcp", headers={"Authorization": "Bearer hidden-two"}),
    }
    started = launch(mcp_servers=servers)
    given = next(flag for flag in started.argv if flag.startswith("--mcp-config="))
    config = msgspec.json.decode(given.removeprefix("--mcp-config="))["mcpServers"]
    assert config["files"]["command"] == "files"
    assert config["files"]["args"] == ["--root", "/"]
    assert config["web"]["url"] == "https://example.org/mcp"
    assert "hidden" not in given
    for reference, value in (
        (config["files"]["env"]["TOKEN"], "hidden-one"),
        (config["web"]["headers"]["Authorization"], "Bearer hidden-two"),
    ):
        assert started.env[reference[2:-1]] == value


@pytest.mark.parametrize("policy", every_policy(), ids=str)
def test_receipt(policy: Policy) -> None:
    receipt = ClaudeCode().enforce(policy)
    assert not receipt.unenforced()
    for capability in CAPABILITIES:
        line = receipt.of(capability)
        assert line.means == {"allow": "rule", "ask": "prompt", "deny": "rule"}[policy.level(capability)]
        loophole = capability != "shell" and line.level != "allow" and policy.shell != "deny"
        assert ("a permitted command can still" in line.note) == loophole
        assert ("inside a skill's text" in line.note) == (capability == "shell" and line.level == "ask")
    trusting = ClaudeCode(ClaudeCodeOptions(setting_sources=("user", "local"))).enforce(policy)
    assert ("hooks and servers run without an ask" in trusting.shell.note) == (policy.shell != "allow")


# --- signing in --------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "darwin", reason="there the keychain keeps it")
async def test_sign_in_is_checked_before_a_session_opens(tmp_path: Path) -> None:
    """Without credentials nothing is started; wherever they may be, they are found."""
    env = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    opening = open_session(ClaudeCode(), cwd=tmp_path, env=env)
    with pytest.raises(NotSignedIn, match="claude-code: it is not signed in") as refused:
        await opening.__aenter__()
    assert "ANTHROPIC_API_KEY" in refused.value.hint
    assert not wire_launch.live()
    assert (await ClaudeCode().probe(env)).signed_in is False
    assert (await ClaudeCode().probe({**env, "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"})).signed_in is None
    assert (await ClaudeCode(ClaudeCodeOptions(env={"ANTHROPIC_AUTH_TOKEN": "x"})).probe(env)).signed_in is True
    settings = tmp_path / "home/.claude/settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"apiKeyHelper": "print-key"}')
    assert (await ClaudeCode().probe(env)).signed_in is True
