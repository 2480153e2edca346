"""Claude Code's messages (stream-json) as events. Synchronous, one dictionary lookup per message, nothing parsed twice.

What other events already tell is left out on purpose (`IGNORED`, `IGNORED_SYSTEM`); everything else that has no
place is kept as `other`.
"""

from collections.abc import Callable, Iterable
from typing import cast

from ...events import (
    Diff,
    Done,
    Error,
    Event,
    Init,
    Other,
    Outcome,
    Plan,
    Status,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolOutput,
    ToolResult,
    ToolUse,
    Usage,
)
from ...policy import Receipt
from ...wire.json_object import JsonDict
from .tools import TodoList, content_text, patch_diff, tool_action
from .usage import ClaudeCodeUsageMeter

SOURCE = "claude-code"
IGNORED = frozenset({"command_lifecycle", "keep_alive", "tool_progress"})
"""Bookkeeping and heartbeats."""
IGNORED_SYSTEM = frozenset(
    {"thinking_tokens", "task_updated", "background_tasks_changed", "session_state_changed", "hook_started"}
)
OUTCOMES: dict[str, Outcome] = {"error_max_turns": "max_turns", "error_max_budget_usd": "max_budget"}
REFUSAL_KINDS = frozenset({"permission-rule", "user-rejected"})
"""Claude Code's kinds of non-execution that mean somebody or some rule said no."""
INTERRUPTED = "[Request interrupted by user"
MAX_CALLS = 10_000
"""Calls remembered until their result comes. Nobody has more in flight; the oldest are forgotten."""


class ClaudeCodeNormaliser:
    """One conversation's messages. `feed` gives the events of one message; a `Done` among them ends a turn."""

    def __init__(
        self,
        agent: str,
        receipt: Receipt | None = None,
        hidden: Iterable[str] = (),
        meter: ClaudeCodeUsageMeter | None = None,
    ) -> None:
        """`hidden`: tools that were taken away; a call of one is a refused call, not a mistake."""
        self.native_id = ""
        self._agent = agent
        self._receipt = receipt
        self._hidden = frozenset(hidden)
        self._init_sent = False
        self._calls: dict[str, JsonDict] = {}  # tool_use blocks whose result has not come
        self._message = ""  # the id of the one being streamed
        self._open: dict[str, list[tuple[str, str]]] = {}  # message id → streamed blocks (type, item), not yet whole
        self._block: tuple[type[TextDelta] | type[ThinkingDelta], str] | None = None
        self._finished_calls: set[str] = set()  # calls of this turn that have their result
        self._todo_list = TodoList()
        self._diffs: list[str] = []
        self._paths: dict[str, None] = {}
        self._meter = meter or ClaudeCodeUsageMeter()
        self._handlers: dict[str, Callable[[JsonDict], list[Event]]] = {
            "stream_event": self._stream,
            "assistant": self._assistant,
            "user": self._user,
            "system": self._system,
            "result": self._result,
            "rate_limit_event": self._rate_limit,
        }

    def feed(self, message: JsonDict) -> list[Event]:
        kind = message.get("type")
        try:
            handle = self._handlers.get(kind)  # type: ignore[arg-type]
            if handle is not None:
                return handle(message)
            return [] if kind in IGNORED else [Other(message, SOURCE)]
        except (AttributeError, KeyError, TypeError, ValueError):  # not the shape we know: keep it as it came
            if kind == "result":  # and still: it is the end of a turn
                return [Other(message, SOURCE), Done("error", error="the turn's result is not of a known shape")]
            return [Other(message, SOURCE)]

    def call_input(self, tool: str) -> JsonDict:
        """The input the model gave to a call that is not finished; Claude Code's own asks leave parts of it out."""
        return self._calls.get(tool, {}).get("input") or {}

    def partial_usage(self) -> list[Event]:
        """Of a turn that comes to no result."""
        return [Usage(self._meter.tokens())]

    def turn_diff(self) -> list[Event]:
        """What the turn changed, once: its diff, if there is one. The next turn starts anew."""
        if not self._diffs:
            return []
        diff = Diff("".join(self._diffs), tuple(self._paths))
        self._diffs, self._paths = [], {}
        return [diff]

    # --- the model's stream ----------------------------------------------------------------------------

    def _stream(self, message: JsonDict) -> list[Event]:
        event = message["event"]
        kind = event["type"]
        if kind == "content_block_delta":
            delta = event["delta"]
            what = delta["type"]
            if what == "text_delta" or what == "thinking_delta":
                if self._block is None:
                    return []
                event_type, item = self._block
                return [event_type(delta["text" if what == "text_delta" else "thinking"], item)]
            return []  # a tool's input or a signature: the whole block follows
        if kind == "content_block_start":
            block = event["content_block"]["type"]
            self._block = None
            if (block == "text" or block == "thinking") and not message.get("parent_tool_use_id"):
                item = f"{self._message}:{event['index']}"
                self._block = (TextDelta if block == "text" else ThinkingDelta, item)
                self._open.setdefault(self._message, []).append((block, item))
        elif kind == "message_start":
            self._message = event["message"]["id"]
            self._open.clear()
            if not message.get("parent_tool_use_id"):
                self._meter.model_call_started(event["message"].get("usage"))
        elif kind == "message_delta":
            return [Usage(self._meter.model_call_ended(event.get("usage")))]
        return []

    def _assistant(self, message: JsonDict) -> list[Event]:
        parent = message.get("parent_tool_use_id") or ""
        inner = message["message"]
        if message.get("is_api_error_message"):
            return []  # the result tells it, as an error
        events: list[Event] = []
        for block in inner["content"]:
            kind = block["type"]
            if kind == "tool_use":
                if len(self._calls) >= MAX_CALLS:
                    del self._calls[next(iter(self._calls))]
                self._calls[block["id"]] = block
                action = tool_action(block["name"], block["input"])
                events.append(ToolUse(block["id"], block["name"], action, block["input"], parent))
            elif kind == "text":
                if block["text"]:
                    events.append(Text(block["text"], self._item(message, inner["id"], kind), parent))
            elif kind == "thinking":
                item = self._item(message, inner["id"], kind)
                if block["thinking"]:  # the vendor may keep it to itself: then there is only a signature
                    events.append(Thinking(block["thinking"], item, parent))
            else:
                events.append(Other(block, SOURCE))
        return events

    def _item(self, message: JsonDict, native: str, kind: str) -> str:
        """The item whose deltas were streamed for this block, in order; else one of its own."""
        streamed = self._open.get(native)
        if streamed:
            for index, (block, item) in enumerate(streamed):
                if block == kind:
                    del streamed[index]
                    return item
        return str(message.get("uuid") or native)

    # --- tool results ----------------------------------------------------------------------------------

    def _user(self, message: JsonDict) -> list[Event]:
        content = message["message"]["content"]
        parent = message.get("parent_tool_use_id") or ""
        if message.get("isReplay") or isinstance(content, str):
            return [] if message.get("isReplay") or parent else [Other(message, SOURCE)]
        events: list[Event] = []
        for block in content:
            if block["type"] == "tool_result":
                events += self._tool_result(block, message, parent)
            elif block["type"] == "text" and (parent or block["text"].startswith(INTERRUPTED)):
                continue  # a subagent's task is in its call; an interrupt is in the turn's end
            else:
                events.append(Other(block, SOURCE))
        return events

    def _tool_result(self, block: JsonDict, message: JsonDict, parent: str) -> list[Event]:
        tool = block["tool_use_id"]
        call = self._calls.pop(tool, None)
        self._finished_calls.add(tool)
        output = content_text(block.get("content"))
        status = "error" if block.get("is_error") else "ok"
        if status == "error":
            output = output.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
            if self._refused(tool, call, message):
                status = "denied"
        events: list[Event] = [ToolResult(tool, status, output, parent)]
        raw_result = message.get("tool_use_result")
        if call is not None and status == "ok" and isinstance(raw_result, dict):
            result = cast(JsonDict, raw_result)
            if "structuredPatch" in result:
                self._paths[result["filePath"]] = None
                self._diffs.append(patch_diff(result))
            elif (steps := self._todo_list.apply(call["name"], call["input"], result)) is not None:
                events.append(Plan(steps))
        return events

    def _refused(self, tool: str, call: JsonDict | None, message: JsonDict) -> bool:
        for meta in message.get("tool_result_meta") or ():
            if meta.get("id") == tool:
                decision: JsonDict = meta.get("permission_decision") or {}
                return decision.get("decision") == "reject" or meta.get("non_execution_kind") in REFUSAL_KINDS
        return call is not None and call["name"] in self._hidden

    # --- everything around it --------------------------------------------------------------------------

    def _system(self, message: JsonDict) -> list[Event]:
        subtype = message["subtype"]
        if subtype == "init":
            return self._init(message)
        if subtype in IGNORED_SYSTEM:
            return []
        if subtype == "status":
            state = message.get("status")
            return [] if state in (None, "requesting") else [Status(str(state))]
        if subtype == "api_retry":
            what = message.get("error") or "the model did not answer"
            detail = f"{what}: trying again ({message.get('attempt')} of {message.get('max_retries')})"
            return [Error(detail, str(message.get("error_status") or ""), recoverable=True)]
        if subtype == "task_progress":
            return [ToolOutput(message["tool_use_id"], f"{message['description']}\n")]
        if subtype == "task_started":
            return [Status("task_started", message.get("description") or "")]
        if subtype == "task_notification":
            return [Status(f"task_{message['status']}", message.get("summary") or "")]
        if subtype == "compact_boundary":
            return [Status("compacted", str(cast(JsonDict, message.get("compact_metadata") or {}).get("trigger", "")))]
        return [Other(message, SOURCE)]

    def _init(self, message: JsonDict) -> list[Event]:
        """Claude Code says it at the start of each turn; the conversation is opened once."""
        self.native_id = message.get("session_id") or self.native_id
        if self._init_sent:
            return []
        self._init_sent = True
        return [
            Init(
                self._agent,
                self.native_id,
                message.get("cwd") or "",
                message.get("model") or "",
                message.get("claude_code_version") or "",
                tuple(message.get("tools") or ()),
                tuple(message.get("slash_commands") or ()),
                self._receipt,
            )
        ]

    def _rate_limit(self, message: JsonDict) -> list[Event]:
        info: JsonDict = message.get("rate_limit_info") or {}
        kind = info.get("rateLimitType") or ""
        return [Status("rate_limit", f"{kind} {info.get('status') or ''}".strip())]

    def _result(self, message: JsonDict) -> list[Event]:
        self.native_id = message.get("session_id") or self.native_id
        subtype = message.get("subtype") or ""
        status = OUTCOMES.get(subtype, "error" if message.get("is_error") or subtype != "success" else "success")
        text = message.get("result") or ""
        events = self._denials(message)
        problem = ""
        if status != "success":
            problem = "; ".join(map(str, message.get("errors") or ())) or text or subtype
            if status == "error":
                text = ""
                events.append(Error(problem, str(message.get("api_error_status") or subtype)))
        tokens = self._meter.turn_ended(message.get("modelUsage"), message.get("usage"), broken=status != "success")
        turns = message.get("num_turns")
        events.append(Done(status, text, problem, tokens, "complete", self.native_id, turns=turns))
        return events

    def _denials(self, message: JsonDict) -> list[Event]:
        """Refused calls that the stream did not show."""
        events: list[Event] = []
        for denial in message.get("permission_denials") or ():
            tool, name = denial["tool_use_id"], denial["tool_name"]
            given: JsonDict = denial.get("tool_input") or {}
            if tool not in self._finished_calls:
                events.append(ToolUse(tool, name, tool_action(name, given), given))
                events.append(ToolResult(tool, "denied"))
        return events

    def next_turn(self) -> None:
        """Usage and refusals are told per turn."""
        self._meter.next_turn()
        self._finished_calls = set()
