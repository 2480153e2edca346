"""ACP's session updates as events. Synchronous: `feed` takes the `update` of one notification and emits what it means.

A tool call grows over several messages (and with some agents begins only in the request for permission), so what is
known of it is kept until it can be told whole.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...events import (
    AnyAction,
    Diff,
    Event,
    Other,
    Plan,
    PlanStep,
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
from ..acp_presets import Preset
from ..unified_diff import unified_diff
from .tools import NOTHING, AcpToolCall, Fields

GOVERNED = frozenset({"edit", "delete", "move", "execute", "fetch"})
PROGRESS: Mapping[str, Any] = {"pending": "pending", "in_progress": "running", "completed": "done"}


class AcpNormaliser:
    """`begin(emit)` starts a turn, `feed` takes its updates, `end` tells what was still held back."""

    def __init__(self, preset: Preset, cwd: str = "") -> None:
        self.commands: tuple[str, ...] = ()
        self.has_output = False  # whether the agent did anything at all in this turn
        self._preset = preset
        self._cwd = f"{cwd}/"
        self._items = 0
        self._cost: float | None = None  # USD, of the whole session
        self._handlers: Mapping[str, Callable[[dict[str, Any]], None]] = {
            "agent_message_chunk": self._message_chunk,
            "agent_thought_chunk": self._thought_chunk,
            "tool_call": self._tool_call,
            "tool_call_update": self._tool_call,
            "plan": self._plan,
            "available_commands_update": self._commands,
            "current_mode_update": self._mode,
            "usage_update": self._usage,
            "session_info_update": self._info,
            "config_option_update": self._options,
            "user_message_chunk": lambda update: None,  # what we said ourselves
        }
        self.begin(lambda event: None)

    def begin(self, emit: Callable[[Event], None]) -> None:
        """A new turn: nothing of the one before is open any more."""
        self._emit = emit
        self.has_output = False
        self._item_type: type[Text] | type[Thinking] | None = None
        self._message: str | None = None
        self._item = ""
        self._parts: list[str] = []
        self._tools: dict[str, AcpToolCall] = {}
        self._changes: dict[str, tuple[str | None, str]] = {}  # path → its text before the turn, and the diff since
        self._cost_before = self._cost or 0.0

    def feed(self, update: dict[str, Any]) -> None:
        take = self._handlers.get(update.get("sessionUpdate", ""))
        if take is None:
            self._close_item()
            self._emit(Other(update, "session/update"))
        else:
            take(update)

    def end(self) -> None:
        self._close_item()
        for tool in self._tools.values():
            if not tool.announced:
                self._announce(tool)

    def permission_requested(self, call: Fields) -> AcpToolCall:
        """A request for permission tells of its tool call too, and may be the first to do so."""
        self._close_item()
        tool = self._get_tool(call)
        tool.merge_permission_request(call)
        if not tool.announced:
            self._announce(tool)
        return tool

    def refuse(self, tool: AcpToolCall, reason: str) -> None:
        """It was denied. Agents may say nothing more about it."""
        tool.refused = True
        self._emit(ToolResult(tool.id, "denied", reason))

    def action(self, tool: AcpToolCall) -> AnyAction:
        """By its kind; by its name, which may be the model's choice, only where the kind is not a governed one."""
        known = tool.kind if tool.kind in GOVERNED else self._preset.tool_kinds.get(tool.name, tool.kind)
        return tool.action(known, self._cwd)

    def tokens(self, result: Fields) -> Tokens | None:
        """The tokens in a prompt's result; None where it tells none."""
        usage: Any = result
        for name in self._preset.usage_path:
            usage = usage.get(name) or NOTHING
        cost = None if self._cost is None else round(self._cost - self._cost_before, 9)
        if not usage and cost is None:
            return None
        return Tokens(
            input=usage.get("inputTokens", usage.get("input_tokens")),
            output=usage.get("outputTokens", usage.get("output_tokens")),
            cache_read=usage.get("cachedReadTokens"),
            cache_write=usage.get("cachedWriteTokens"),
            reasoning=usage.get("thoughtTokens"),
            cost_usd=cost,
        )

    # --- one method per kind of update -----------------------------------------------------------------

    def _message_chunk(self, update: dict[str, Any]) -> None:
        text = update["content"].get("text")
        mark = self._preset.mode_prefix
        if text is None:
            self._close_item()
            self._emit(Other(update, "session/update"))
        elif mark and text.startswith(mark):
            self._emit(Status("mode", text[len(mark) :]))
        else:
            if self._item_type is not Text or update.get("messageId") != self._message:
                self._open_item(Text, update)
            self._parts.append(text)
            self._emit(TextDelta(text, self._item))

    def _thought_chunk(self, update: dict[str, Any]) -> None:
        text = update["content"].get("text") or ""
        if self._item_type is not Thinking or update.get("messageId") != self._message:
            self._open_item(Thinking, update)
        self._parts.append(text)
        self._emit(ThinkingDelta(text, self._item))

    def _tool_call(self, update: dict[str, Any]) -> None:
        self._close_item()
        tool = self._get_tool(update)
        tool.merge(update)
        status = update.get("status")
        if not tool.announced and (tool.describable or status not in (None, "pending")):
            self._announce(tool)
        if status in ("completed", "failed"):
            self._finish(tool, status)
        elif tool.announced and update["sessionUpdate"] == "tool_call_update" and update.get("content"):
            text = tool.text
            if text != tool.output:  # the content is replaced each time; we tell what is new of it
                news = text[len(tool.output) :] if text.startswith(tool.output) else text
                tool.output = text
                self._emit(ToolOutput(tool.id, news))

    def _plan(self, update: dict[str, Any]) -> None:
        self._close_item()
        self._emit_plan(update["entries"])

    def _commands(self, update: dict[str, Any]) -> None:
        self.commands = tuple(command["name"] for command in update["availableCommands"])
        self._emit(Status("commands", " ".join(f"/{name}" for name in self.commands)))

    def _mode(self, update: dict[str, Any]) -> None:
        self._emit(Status("mode", update["currentModeId"]))

    def _usage(self, update: dict[str, Any]) -> None:
        cost = update.get("cost") or NOTHING
        if cost.get("currency") == "USD":
            self._cost = cost["amount"]
        self._emit(Status("context", f"{update['used']} of {update['size']} tokens"))

    def _info(self, update: dict[str, Any]) -> None:
        self._emit(Status("title", update.get("title") or ""))

    def _options(self, update: dict[str, Any]) -> None:
        chosen = [f"{option['id']}={option.get('currentValue')}" for option in update["configOptions"]]
        self._emit(Status("options", " ".join(chosen)))

    # --- inside ----------------------------------------------------------------------------------------

    def _open_item(self, whole: type[Text] | type[Thinking], update: dict[str, Any]) -> None:
        self._close_item()
        self.has_output = True
        self._item_type = whole
        self._message = update.get("messageId")
        self._items += 1
        self._item = f"item-{self._items}"

    def _close_item(self) -> None:
        """The text or thought that was being streamed is complete."""
        if self._item_type is not None:
            self._emit(self._item_type("".join(self._parts), self._item))
            self._item_type = None
            self._parts = []

    def _get_tool(self, call: Fields) -> AcpToolCall:
        id = call["toolCallId"]
        tool = self._tools.get(id)
        if tool is None:
            tool = self._tools[id] = AcpToolCall(self._tool_name(call, id), id)
        return tool

    def _tool_name(self, call: Fields, id: str) -> str:
        mark = self._preset.name_separator
        if mark and mark in id:
            return id.partition(mark)[0]
        told = ((call.get("_meta") or NOTHING).get("claudeCode") or NOTHING).get("toolName")
        return told or call.get("title") or call.get("kind") or "tool"

    def _announce(self, tool: AcpToolCall) -> None:
        tool.announced = True
        self.has_output = True
        self._emit(ToolUse(tool.id, tool.name, self.action(tool), tool.arguments))

    def _finish(self, tool: AcpToolCall, status: str) -> None:
        output = tool.result_text
        if status == "failed":
            by_rule = output.endswith(self._preset.refusal_suffixes)
            self._emit(ToolResult(tool.id, "denied" if by_rule else "error", output))
        elif tool.refused:
            self._emit(Warning(f"{tool.name} was denied, and the agent reports that it ran"))
        elif output.startswith(self._preset.failure_prefixes) or (tool.result and tool.metadata.get("exit")):
            self._emit(ToolResult(tool.id, "error", output))
        else:
            self._emit(ToolResult(tool.id, "ok", output))
            if tool.name in self._preset.plan_tools:
                self._emit_plan(tool.arguments.get("todos") or ())
            self._add_changes(tool)

    def _emit_plan(self, entries: Iterable[Fields]) -> None:
        steps = [PlanStep(entry["content"], PROGRESS.get(entry["status"], "pending")) for entry in entries]
        self._emit(Plan(tuple(steps)))

    def _add_changes(self, tool: AcpToolCall) -> None:
        """Add the files that a call has changed to what the turn changed so far."""
        patch = None if tool.proposed else self._patch(tool)
        changes = [] if patch else tool.proposed or tool.diffs
        if patch:
            path, diff = patch
            self._changes[path] = (None, self._changes.get(path, (None, ""))[1] + diff)
        for path, old, new in changes:
            known = self._changes.get(path)
            if known is None and len(changes) == 1 and tool.cached_diff[0] == changes:
                self._changes[path] = (old, tool.cached_diff[1])
                continue
            first, diff = known or (old, "")
            short = path.removeprefix(self._cwd)
            # Without the text that it had before the turn, one diff can only follow another.
            diff = (
                unified_diff(short, first or None, new)
                if first is not None
                else diff + unified_diff(short, old or None, new)
            )
            self._changes[path] = (first, diff)
        if patch or changes:
            told = {path.removeprefix(self._cwd): diff for path, (_, diff) in self._changes.items() if diff}
            self._emit(Diff("".join(told.values()), tuple(told)))

    def _patch(self, tool: AcpToolCall) -> tuple[str, str] | None:
        """OpenCode shows only the edited fragment as its diff, and none of a new file; its metadata knows more."""
        metadata = tool.metadata
        if not metadata:
            return None
        path = metadata.get("filepath") or tool.argument("filePath")
        if not path:
            return None
        short = path.removeprefix(self._cwd)
        if diff := metadata.get("diff"):
            start = diff.find("@@")
            return path, f"--- a/{short}\n+++ b/{short}\n{diff[start:]}" if start >= 0 else ""
        if metadata.get("exists") is False:
            return path, unified_diff(short, None, tool.argument("content"))
        return None
