"""Pi's session events as ours. Synchronous: `feed` takes one record and emits what it means."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from ...events import (
    Diff,
    Error,
    Event,
    Other,
    Status,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tokens,
    ToolOutput,
    ToolResult,
    ToolUse,
    Warning,
)
from ...wire.json_object import JsonDict
from ..unified_diff import unified_diff
from .tools import ProposedChange, action_of, content_text

QUIET = frozenset({
    "agent_start", "agent_end", "turn_start", "turn_end", "queue_update", "entry_appended", "thinking_level_changed",
    "session_info_changed", "auto_retry_end", "summarization_retry_attempt_start", "summarization_retry_finished",
})  # fmt: skip
"""Events that say nothing that the others do not."""
TOKENS = {"input": "input", "output": "output", "cache_read": "cacheRead", "cache_write": "cacheWrite"}
"""Fields of Tokens, and what Pi calls them."""
STOPPED = {
    "error": "the model failed",
    "length": "the model reached its token limit",
    "aborted": "the agent gave the turn up",
}


class PiNormaliser:
    """The events of one turn."""

    def __init__(self, emit: Callable[[Event], None], cwd: str) -> None:
        self._emit = emit
        self._cwd = f"{cwd}/"
        self._messages = 0
        self._spent: dict[str, int] = {}
        self._cost = 0.0
        self._untold = False  # a model call ended without its tokens
        self._stop = ""
        self._failure = ""
        self._outputs: dict[str, str] = {}  # of tools that still run
        self._proposed: dict[str, ProposedChange] = {}  # by tool call
        self._changes: dict[str, tuple[str | None, str]] = {}  # path → before the turn, and now

    def propose(self, tool: str, change: ProposedChange | None) -> None:
        """What a call will make of a file, if it is allowed and succeeds."""
        if change is not None:
            self._proposed[tool] = change

    @property
    def failure(self) -> str:
        """Why the turn is no success; empty: it is one."""
        if not self._stop:
            return "the agent ended the turn without an answer"
        return self._failure or STOPPED.get(self._stop, "")

    @property
    def tokens(self) -> Tokens | None:
        return Tokens(**self._spent, cost_usd=round(self._cost, 9)) if self._spent else None

    @property
    def usage(self) -> Literal["complete", "partial", "unknown"]:
        return "unknown" if not self._spent else "partial" if self._untold else "complete"

    def feed(self, record: JsonDict) -> None:
        match record.get("type"):
            case "message_start":
                self._messages += 1
            case "message_update":
                self._update(record["assistantMessageEvent"])
            case "message_end":
                self._end_message(record["message"])
            case "tool_execution_start":
                name = str(record["toolName"])
                given: Mapping[str, Any] = record.get("args") or {}
                self._emit(ToolUse(record["toolCallId"], name, action_of(name, given), given))
            case "tool_execution_update":
                self._output(record["toolCallId"], content_text(record.get("partialResult")))
            case "tool_execution_end":
                self._end_tool(record)
            case "auto_retry_start" | "summarization_retry_scheduled":
                message = str(record.get("errorMessage") or "the model failed")
                self._emit(Error(message, "retry", recoverable=True))
                self._emit(Status("retrying", f"{record.get('attempt')} of {record.get('maxAttempts')}: {message}"))
            case "compaction_start":
                self._emit(Status("compacting", str(record.get("reason") or "")))
            case "compaction_end":
                result: Mapping[str, Any] = record.get("result") or {}
                self._count(result.get("usage"))
            case "extension_error":
                self._emit(Warning(f"an extension failed at {record.get('event')}: {record.get('error')}"))
            case kind if kind in QUIET:
                pass
            case kind:
                self._emit(Other(record, str(kind or "")))

    def _update(self, event: Mapping[str, Any]) -> None:
        item = f"{self._messages}-{event.get('contentIndex', 0)}"
        match event.get("type"):
            case "text_delta":
                self._emit(TextDelta(event["delta"], item))
            case "text_end" if event["content"]:
                self._emit(Text(event["content"], item))
            case "thinking_delta":
                self._emit(ThinkingDelta(event["delta"], item))
            case "thinking_end" if event["content"]:
                self._emit(Thinking(event["content"], item))
            case _:
                pass

    def _end_message(self, message: Mapping[str, Any]) -> None:
        if message.get("role") != "assistant":
            return
        self._stop = str(message.get("stopReason") or "stop")
        self._failure = str(message.get("errorMessage") or "") if self._stop in STOPPED else ""
        self._untold = self._untold or self._stop in ("error", "aborted")
        self._count(message.get("usage"))

    def _count(self, usage: Mapping[str, Any] | None) -> None:
        if not usage or not any(usage.get(theirs) for theirs in TOKENS.values()):
            return
        for ours, theirs in TOKENS.items():
            self._spent[ours] = self._spent.get(ours, 0) + int(usage.get(theirs) or 0)
        cost: Mapping[str, Any] = usage.get("cost") or {}
        self._cost += float(cost.get("total") or 0.0)

    def _output(self, tool: str, whole: str) -> None:
        """What is new of it: each update has all of it, or as much of its end as Pi keeps."""
        before = self._outputs.get(tool, "")
        if whole and whole != before:
            self._outputs[tool] = whole
            self._emit(ToolOutput(tool, whole[len(before) :] if whole.startswith(before) else whole))

    def _end_tool(self, record: JsonDict) -> None:
        tool = record["toolCallId"]
        self._outputs.pop(tool, None)
        failed = bool(record.get("isError"))
        self._emit(ToolResult(tool, "error" if failed else "ok", content_text(record.get("result"))))
        change = self._proposed.pop(tool, None)
        if change is None or failed:
            return
        path = change.path.removeprefix(self._cwd)
        first = self._changes[path][0] if path in self._changes else change.before
        self._changes[path] = (first, change.after)
        diffs = {path: unified_diff(path, old, new) for path, (old, new) in self._changes.items()}
        changed = {path: diff for path, diff in diffs.items() if diff}
        self._emit(Diff("".join(changed.values()), tuple(changed)))
