"""Recorded transcripts of real ACP agents through the normaliser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tieline.drivers.acp.events import AcpNormaliser
from tieline.drivers.acp_presets import PRESETS
from tieline.events import (
    Command,
    Diff,
    Edit,
    Event,
    Fetch,
    Mcp,
    OtherAction,
    Plan,
    PlanStep,
    Read,
    Search,
    Status,
    Task,
    Text,
    TextDelta,
    Thinking,
    ToolOutput,
    ToolResult,
    ToolUse,
)
from tieline.testing.stream_checks import of, the

RECORDED = Path(__file__).with_name("acp")

NEW_FILE = "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"


def messages(name: str) -> Iterator[dict[str, Any]]:
    for line in (RECORDED / f"{name}.jsonl").read_bytes().splitlines():
        yield msgspec.json.decode(line)


def play(name: str, preset: str) -> tuple[list[Event], AcpNormaliser, dict[str, Any]]:
    """The events of a recorded turn, and its result."""
    seen: list[Event] = []
    normaliser = AcpNormaliser(PRESETS[preset], "/place")
    normaliser.begin(seen.append)
    result: dict[str, Any] = {}
    for message in messages(name):
        match message.get("method"):
            case "session/update":
                normaliser.feed(message["params"]["update"])
            case "session/request_permission":
                normaliser.permission_requested(message["params"])
            case _:
                result = message["result"]
    normaliser.end()
    return seen, normaliser, result


def test_gemini() -> None:
    seen, normaliser, result = play("gemini", "gemini")
    assert the(seen, Thinking).text == "**Thinking**\nThe file is missing."
    assert [text.text for text in of(seen, Text)] == ["I will write it.", "All done."]
    assert "".join(delta.text for delta in of(seen, TextDelta)) == "I will write it.All done."
    assert [(use.name, use.action) for use in of(seen, ToolUse)] == [
        ("write_file", Edit(("/place/a.txt",), NEW_FILE)),
        ("run_shell_command", Command("echo out; exit 3")),
        ("web_fetch", Fetch("http://127.0.0.1:9/page")),
        ("write_todos", OtherAction()),
    ]
    assert [(result.status, result.output) for result in of(seen, ToolResult)] == [
        ("ok", ""),
        ("ok", "out"),
        ("ok", ""),
    ]
    assert the(seen, Diff) == Diff(NEW_FILE, ("a.txt",))
    assert normaliser.commands == ("memory", "memory show")
    tokens = normaliser.tokens(result)
    assert tokens is not None
    assert (tokens.input or 0) > 0
    assert (tokens.output or 0) > 0


def test_opencode() -> None:
    seen, normaliser, result = play("opencode", "opencode-acp")
    assert the(seen, Thinking).text == "The file is missing."
    assert [text.text for text in of(seen, Text)] == ["I will write it.", "All done."]
    assert [(use.name, use.action) for use in of(seen, ToolUse)] == [
        ("write", Edit(("/place/a.txt",))),
        ("bash", Command("echo out; exit 3", "/place")),
        ("webfetch", Fetch("http://127.0.0.1:9/page")),
        ("todowrite", OtherAction()),
    ]
    assert [result.status for result in of(seen, ToolResult)] == ["ok", "error", "error", "ok"]
    assert the(seen, ToolOutput).text == "out\n"
    assert the(seen, Diff) == Diff(NEW_FILE, ("a.txt",))
    assert the(seen, Plan) == Plan((PlanStep("Look", "done"), PlanStep("Go", "running")))
    assert (spent := normaliser.tokens(result)) is not None
    assert spent.input == result["usage"]["inputTokens"]


def call(kind: str, **fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call", "toolCallId": "1", "kind": kind, "status": "in_progress", **fields}


def normalised(preset: str, *updates: dict[str, Any]) -> list[Event]:
    seen: list[Event] = []
    normaliser = AcpNormaliser(PRESETS[preset], "/place")
    normaliser.begin(seen.append)
    for update in updates:
        normaliser.feed(update)
    normaliser.end()
    return seen


def test_actions() -> None:
    locations = [{"path": "/place/x.py"}]
    for update, action in [
        (call("read", title="x.py", locations=locations), Read("/place/x.py")),
        (call("read", title="x.py", rawInput={"filePath": "/y"}), Read("/y")),
        (call("search", title="'TODO'", rawInput={"pattern": "TODO", "path": "src"}), Search("TODO", "src")),
        (call("delete", title="rm", locations=locations), Edit(("/place/x.py",))),
        (call("execute", title="ls -l"), Command("ls -l")),
        (call("fetch", title='Reading "https://example.com/a".'), Fetch("https://example.com/a")),
        (call("other", title="mcp__github__list", toolCallId="1"), Mcp("github", "list")),
        (call("think", title="thinking"), OtherAction()),
    ]:
        assert the(normalised("codex-acp", update), ToolUse).action == action
    search = call("search", title='Searching the web for: "x"', toolCallId="google_web_search__1")
    assert isinstance(the(normalised("gemini", search), ToolUse).action, Fetch), "it leaves the machine"
    agent = call("think", title="Look around", toolCallId="invoke_agent__1")
    assert the(normalised("gemini", agent), ToolUse).action == Task("Look around")
    mcp = call("other", title="x", toolCallId="mcp_files_read__mcp_files_read_1")
    assert the(normalised("gemini", mcp), ToolUse).action == Mcp("files", "read")


def test_a_refusal_by_geminis_own_rules_is_one() -> None:
    """It comes as a failure of a call that nobody has heard of."""
    text = [{"type": "content", "content": {"type": "text", "text": 'Tool execution for "Shell" denied by policy.'}}]
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "run_shell_command__1", "status": "failed"}
    seen = normalised("gemini", {**update, "kind": "execute", "content": text})
    assert the(seen, ToolUse).name == "run_shell_command"
    assert the(seen, ToolResult).status == "denied"


def test_geminis_mode_mark_is_no_text() -> None:
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "[MODE_UPDATE] plan"}}
    seen = normalised("gemini", chunk)
    assert the(seen, Status) == Status("mode", "plan")
    assert not of(seen, Text)


def test_geminis_failed_command_is_one() -> None:
    text = [{"type": "content", "content": {"type": "text", "text": "Command exited with code: 3"}}]
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed", "content": text}
    assert the(normalised("gemini", call("execute", title="exit 3"), update), ToolResult).status == "error"
