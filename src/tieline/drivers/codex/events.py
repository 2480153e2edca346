"""What `codex app-server` notifies, as events. Synchronous; one Normaliser reads one thread.

Codex tells a tool call twice: as a raw item of the model's response (`rawResponseItem/completed`, asked for with
`experimentalRawEvents`) and as an item of the thread (`item/started`, `item/completed`). The thread's items say more,
but leave out calls that its sandbox or its own rules refused. The raw ones fill these gaps.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from ...events import (
    AnyAction,
    Diff,
    Error,
    Event,
    Other,
    Plan,
    PlanStep,
    Status,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolOutput,
    ToolResult,
    ToolUse,
    Usage,
    Warning,
    changed_paths,
)
from ...wire.json_object import JsonObject
from .items import TOOLS, RawCall, content_text, describe_item, error_code, item_result, parse_raw_call, raw_outcome
from .launch import IGNORED
from .usage import CodexUsageMeter

SOURCE = "codex"

SHOWN_OTHERWISE = frozenset({"update_plan", "request_user_input"})
"""Tools whose calls are told as a plan and as an ask."""

STEPS: dict[str, Literal["pending", "running", "done"]] = {
    "pending": "pending",
    "inProgress": "running",
    "completed": "done",
}


def _ignore(*_: Any) -> None:
    pass


class CodexNormaliser:
    """`feed` it what is notified for one thread; it emits events, and tells of turns that begin and end."""

    def __init__(
        self,
        emit: Callable[[Event], None],
        *,
        started: Callable[[str], None] = _ignore,
        ended: Callable[[JsonObject], None] = _ignore,
        spawned: Callable[[str, str], None] = _ignore,
        meter: CodexUsageMeter | None = None,
        parent: str = "",
        cwd: str = "",
    ) -> None:
        self.emit = emit
        self.meter = meter or CodexUsageMeter()
        self.calls: dict[str, RawCall] = {}  # the model's calls of this turn, by id
        self.actions: dict[str, AnyAction] = {}  # of calls that have begun: an ask about one names only its id
        self.failure = ""  # what this turn failed with, as far as it was told
        self._started = started
        self._ended = ended
        self._spawned = spawned
        self._parent = parent
        self.cwd = cwd
        self._shown: dict[str, bool] = {}  # tool call → has its result
        self._turn = ""
        self._diff = ""

    def feed(self, method: str, params: JsonObject) -> None:
        handler = HANDLERS.get(method)
        try:
            if handler is not None:
                handler(self, params)
                return
        except (LookupError, TypeError, AttributeError, ValueError, msgspec.MsgspecError):
            pass  # another version's shape: kept below, not lost
        self.emit(Other({"method": method, "params": params}, SOURCE))

    # --- the turn --------------------------------------------------------------------------------------

    def turn_started(self, params: JsonObject) -> None:
        self._diff = self.failure = ""
        self.calls.clear()
        self.actions.clear()
        self._shown.clear()
        self._turn = params["turn"]["id"]
        self._started(self._turn)

    def turn_completed(self, params: JsonObject) -> None:
        self._ended(params["turn"])

    def usage(self, params: JsonObject) -> None:
        usage = params["tokenUsage"]
        current = params["turnId"] == self._turn
        self.meter.update(params["threadId"], usage, counts=current)
        if current and (tokens := self.meter.tokens) is not None:
            self.emit(Usage(tokens, usage.get("modelContextWindow")))

    def error(self, params: JsonObject) -> None:
        error = params["error"]
        message = error["message"]
        if details := error.get("additionalDetails"):
            message = f"{message} ({details})"
        recoverable = bool(params.get("willRetry") or self._parent)  # a subagent's failure is not the turn's
        if not recoverable:
            self.failure = message
        self.emit(Error(message, error_code(error), recoverable))

    def plan(self, params: JsonObject) -> None:
        self.emit(Plan(tuple(PlanStep(step["step"], STEPS[step["status"]]) for step in params["plan"])))

    def diff(self, params: JsonObject) -> None:
        diff = params["diff"]
        if diff != self._diff:  # it is told again with every model call
            self._diff = diff
            self.emit(Diff(diff, tuple(changed_paths(diff))))

    # --- deltas ----------------------------------------------------------------------------------------

    def text_delta(self, params: JsonObject) -> None:
        self.emit(TextDelta(params["delta"], params["itemId"], self._parent))

    def summary_delta(self, params: JsonObject) -> None:
        self.emit(ThinkingDelta(params["delta"], params["itemId"], self._parent))

    def summary_part(self, params: JsonObject) -> None:
        if params["summaryIndex"]:
            self.emit(ThinkingDelta("\n\n", params["itemId"], self._parent))

    def reasoning_delta(self, params: JsonObject) -> None:
        self.emit(ThinkingDelta(params["delta"], params["itemId"] + ":raw", self._parent))

    def output_delta(self, params: JsonObject) -> None:
        self.emit(ToolOutput(params["itemId"], params["delta"]))

    def progress(self, params: JsonObject) -> None:
        self.emit(ToolOutput(params["itemId"], params["message"] + "\n"))

    # --- items -----------------------------------------------------------------------------------------

    def item_started(self, params: JsonObject) -> None:
        item = params["item"]
        kind = item["type"]
        if kind in TOOLS and (kind != "webSearch" or item.get("query")):  # a search may tell only at its end what for
            self._show_item(item)

    def item_completed(self, params: JsonObject) -> None:
        item = params["item"]
        kind = item["type"]
        name = item["id"]
        if kind == "agentMessage" or kind == "plan":
            self.emit(Text(item["text"], name, self._parent))
        elif kind == "reasoning":
            if summary := item.get("summary"):
                self.emit(Thinking("\n\n".join(summary), name, self._parent))
            if content := item.get("content"):
                self.emit(Thinking("".join(content), name + ":raw", self._parent))
        elif kind in TOOLS:
            self._show_item(item)
            self._shown[name] = True
            self.actions.pop(name, None)
            status, output = item_result(item)
            self.emit(ToolResult(name, status, output, self._parent))
            if kind == "collabAgentToolCall" and item["tool"] == "spawnAgent":
                for thread in item["receiverThreadIds"]:
                    self._spawned(thread, name)
        elif kind == "contextCompaction":
            self.emit(Status("compacted"))
        elif kind in ("enteredReviewMode", "exitedReviewMode"):
            self.emit(Status(kind, item.get("review") or ""))
        elif kind != "userMessage":  # our own prompt, echoed
            self.emit(Other(item, SOURCE))

    def _show_item(self, item: JsonObject) -> None:
        name = item["id"]
        if name not in self._shown:
            self._shown[name] = False
            tool, action, arguments = describe_item(item)
            self.actions[name] = action
            self.emit(ToolUse(name, tool, action, arguments, self._parent))
        elif item["type"] == "fileChange" and not self._shown[name]:
            self.actions[name] = describe_item(item)[1]  # a command that is a patch: this is what an ask is about

    def raw_item(self, params: JsonObject) -> None:
        item = params["item"]
        kind = item["type"]
        if kind in ("function_call", "custom_tool_call"):
            call = parse_raw_call(item)
            if call is not None:
                name = item["call_id"]
                self.calls[name] = call
                if call.name == "exec_command":  # its item comes only once it runs: show it before
                    self.show_call(name)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._raw_output(item["call_id"], content_text(item["output"]))

    def show_call(self, name: str) -> None:
        """Tell of a call now, if it was not yet told of."""
        call = self.calls.get(name)
        if call is not None and name not in self._shown:
            self._shown[name] = False
            self.actions[name] = call.action(self.cwd)
            self.emit(ToolUse(name, call.name, self.actions[name], call.arguments, self._parent))

    def _raw_output(self, name: str, output: str) -> None:
        """The result of a call whose item has told none."""
        call = self.calls.get(name)
        if call is None or call.name in SHOWN_OTHERWISE or self._shown.get(name):
            return
        outcome = raw_outcome(call, output)
        if outcome is not None:
            self.show_call(name)
            self._shown[name] = True
            self.actions.pop(name, None)
            self.emit(ToolResult(name, outcome, output, self._parent))

    # --- the rest --------------------------------------------------------------------------------------

    def warning(self, params: JsonObject) -> None:
        text, details = params.get("message") or params.get("summary") or "", params.get("details")
        self.emit(Warning(f"{text} ({details})" if details else text))

    def mcp_status(self, params: JsonObject) -> None:
        if params["status"] == "failed":
            self.emit(Warning(f"MCP server {params['name']}: {params.get('error') or 'it did not start'}"))

    def rerouted(self, params: JsonObject) -> None:
        self.emit(Status("model_rerouted", f"{params['fromModel']} → {params['toModel']}"))

    def compacted(self, params: JsonObject) -> None:
        self.emit(Status("compacted"))

    def ignore(self, params: JsonObject) -> None:
        """Known, and nothing for the log."""


HANDLERS: dict[str, Callable[[CodexNormaliser, JsonObject], None]] = {
    "item/agentMessage/delta": CodexNormaliser.text_delta,
    "item/reasoning/summaryTextDelta": CodexNormaliser.summary_delta,
    "item/reasoning/summaryPartAdded": CodexNormaliser.summary_part,
    "item/reasoning/textDelta": CodexNormaliser.reasoning_delta,
    "item/commandExecution/outputDelta": CodexNormaliser.output_delta,
    "item/mcpToolCall/progress": CodexNormaliser.progress,
    "item/started": CodexNormaliser.item_started,
    "item/completed": CodexNormaliser.item_completed,
    "rawResponseItem/completed": CodexNormaliser.raw_item,
    "turn/started": CodexNormaliser.turn_started,
    "turn/completed": CodexNormaliser.turn_completed,
    "turn/diff/updated": CodexNormaliser.diff,
    "turn/plan/updated": CodexNormaliser.plan,
    "thread/tokenUsage/updated": CodexNormaliser.usage,
    "error": CodexNormaliser.error,
    "warning": CodexNormaliser.warning,
    "configWarning": CodexNormaliser.warning,
    "deprecationNotice": CodexNormaliser.warning,
    "guardianWarning": CodexNormaliser.warning,
    "mcpServer/startupStatus/updated": CodexNormaliser.mcp_status,
    "model/rerouted": CodexNormaliser.rerouted,
    "thread/compacted": CodexNormaliser.compacted,
    "thread/started": CodexNormaliser.ignore,
    "thread/closed": CodexNormaliser.ignore,
    "serverRequest/resolved": CodexNormaliser.ignore,
    **dict.fromkeys(IGNORED, CodexNormaliser.ignore),
}
