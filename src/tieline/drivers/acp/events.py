"""ACP's session updates as events. Synchronous: `feed` takes the `update` of one notification and emits what it means.

A tool call grows over several messages (and with some agents begins only in the request for permission), so what is
known of it is kept until it can be told whole.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, cast

from ...events import (
    AnyAction,
    Diff,
    Event,
    Mcp,
    Other,
    Plan,
    PlanStep,
    Status,
    Task,
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
from ...wire.json_lines import BROKEN_CHARACTER
from ...wire.json_object import JsonObject
from ..acp_presets import Preset
from ..observed_features import Shown
from ..unified_diff import unified_diff
from .tools import NOTHING, AcpToolCall, at_path

GOVERNED = frozenset({"edit", "delete", "move", "execute", "fetch"})
PROGRESS: Mapping[str, Any] = {"pending": "pending", "in_progress": "running", "completed": "done"}
TOKENS: Mapping[str, tuple[str, ...]] = {
    "input": ("inputTokens", "input_tokens"),
    "output": ("outputTokens", "output_tokens"),
    "cache_read": ("cachedReadTokens",),
    "cache_write": ("cachedWriteTokens",),
    "reasoning": ("thoughtTokens",),
}
"""Fields of Tokens, and what agents call them."""


class AcpNormaliser:
    """`begin(emit)` starts a turn, `feed` takes its updates, `end` tells what was still held back."""

    def __init__(self, preset: Preset, cwd: str = "", *, resumed: bool = False) -> None:
        """`resumed`: what the session spent before is not known."""
        self.commands: tuple[str, ...] = ()
        self.has_output = False  # whether the agent did anything at all in this turn
        self.shown: set[Shown] = set()  # features that were seen, of the whole session
        self._preset = preset
        self._traits = preset.traits
        self._cwd = f"{cwd}/"
        before_us = resumed and preset.traits.usage == "session"
        self._session_tokens: dict[str, int] | None = None if before_us else {}  # as far as it was told
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
        self._id_uses: dict[str, int] = {}  # how many calls had an id
        self._changes: dict[str, tuple[str | None, str]] = {}  # path → its text before the turn, and the diff since
        self._texts = 0
        self._last_text = ""
        self._last_chunk = ""  # of text, since the last call began
        self._denied = ""  # the call that was denied last
        self._allowed: list[AcpToolCall] = []  # with one answer, and none of them is over
        self._unasked: AcpToolCall | None = None
        self._answered = True  # there are words of the model since then; another call may be of the same reply
        self._delegated = False  # a subagent was at work
        self._failed = False  # the agent said so, beside what it says as text
        self._chunk_tokens: dict[str, int] = {}
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

    def calls_asked_about(self, request: JsonObject) -> list[AcpToolCall]:
        """What a request for permission is about: the call that it names, or all that have begun."""
        begun = [tool for tool in self._tools.values() if tool.announced and not (tool.finished or tool.refused)]
        return begun if self._traits.asks_together and begun else [self.permission_requested(request)]

    def allowed_together(self, tools: Iterable[AcpToolCall]) -> None:
        """They were allowed with one answer. What begins before any of them is over runs on that answer as well."""
        self._allowed = [tool for tool in tools if not tool.finished]

    def take_unasked(self) -> AcpToolCall | None:
        """A call that began on the answer to others, once."""
        unasked, self._unasked = self._unasked, None
        return unasked

    def permission_requested(self, request: JsonObject) -> AcpToolCall:
        """A request for permission tells of its tool call too, and may be the first to do so."""
        self._close_item()
        call: JsonObject = request["toolCall"]
        tool = self._get_tool(call, begins=True)
        command = self._command_in_text(call)
        if command and not _begins_with(tool.argument("command"), command, self._traits.cut_mark):
            tool = self._new_tool(call)  # its id is another call's, too
        tool.mcp = tool.mcp or self._is_mcp(request)
        tool.merge_permission_request(call)
        if command and not tool.arguments:
            tool.described = command
        if not tool.announced:
            self._announce(tool)
        return tool

    def refuse(self, tool: AcpToolCall, reason: str) -> None:
        """It was denied. Agents may say nothing more about it."""
        tool.refused = True
        self._denied, self._answered = tool.title or tool.name, False
        self._emit(ToolResult(tool.id, "denied", reason))

    def action(self, tool: AcpToolCall) -> AnyAction:
        """By its kind; by its name, which may be the model's choice, only where the kind is not a governed one."""
        known = tool.kind if tool.kind in GOVERNED else self._preset.tool_kinds.get(tool.name, tool.kind)
        return tool.action(known, self._cwd)

    @property
    def denied(self) -> str:
        """The denied call after which nothing came: it is what ended the turn."""
        return "" if self._answered else self._denied

    @property
    def any_denied(self) -> str:
        """The call that was denied last, whatever came after it."""
        return self._denied

    @property
    def reported_error(self) -> str:
        """The turn's last text, if it is an error of the agent and not an answer of the model: it is the turn's only
        text, or it came in one piece, which a model's answer does not."""
        if self._failed:
            return self._last_text or "the agent does not say why"
        alone = self._last_text if self._texts == 1 and not self._tools else ""
        candidates = (alone, self._last_chunk.strip())
        return next((text for text in candidates if text and _matches(self._traits.error_texts, text)), "")

    @property
    def unanswered(self) -> bool:
        """It did nothing at all; or said nothing at its end, which with some agents is a failure."""
        return not self.has_output or (self._traits.silence_fails and not self._last_chunk)

    def tokens(self, result: JsonObject) -> Tokens | None:
        """The turn's tokens, as far as a prompt's result and what came before it tell them; None where they tell none.
        Once per turn."""
        spent = self._chunk_tokens or _tokens(at_path(result, self._traits.usage_path))
        if self._traits.usage in ("session", "process") and spent:
            before, self._session_tokens = self._session_tokens, spent
            if before is None:
                spent = {}  # it may be the whole session's, from before we came
            elif all(spent[name] >= before.get(name, 0) for name in spent):  # else it counts anew
                spent = {name: spent[name] - before.get(name, 0) for name in spent}
        cost = None if self._cost is None else round(self._cost - self._cost_before, 9)
        if spent:
            self.shown.add("usage")
        return Tokens(**spent, cost_usd=cost) if spent or cost is not None else None

    def usage_of(self, tokens: Tokens | None) -> Literal["complete", "partial", "unknown"]:
        """How much of the turn's spending they are."""
        if tokens is None:
            return "unknown"
        if self._traits.calls_uncounted or (self._traits.subagents_uncounted and self._delegated):
            return "partial"
        return "complete" if self._traits.usage in ("turn", "session", "process") else "partial"

    # --- one method per kind of update -----------------------------------------------------------------

    def _message_chunk(self, update: dict[str, Any]) -> None:
        text = update["content"].get("text")
        mark = self._preset.mode_prefix
        if text is None:
            self._close_item()
            self._emit(Other(update, "session/update"))
        elif mark and text.startswith(mark):
            self._emit(Status("mode", text[len(mark) :]))
        elif not text:  # what it carries is beside it
            for name, number in _tokens(at_path(update, self._traits.chunk_usage_path)).items():
                self._chunk_tokens[name] = self._chunk_tokens.get(name, 0) + number
        elif not self._answered and _matches(self._traits.denial_texts, text.strip()):
            self._close_item()  # the denial is told already, and by whom
        elif _matches(self._traits.notice_texts, text.strip()):
            self._close_item()
            self._emit(Warning(text.strip()))
        else:
            if self._item_type is not Text or update.get("messageId") != self._message:
                self._open_item(Text, update)
            self._parts.append(text)
            if not text.isspace():
                self._last_chunk = text
            self._emit(TextDelta(text, self._item))

    def _thought_chunk(self, update: dict[str, Any]) -> None:
        text = update["content"].get("text")
        if not text or _matches(self._traits.notice_thoughts, text):
            return
        if self._item_type is not Thinking or update.get("messageId") != self._message:
            self._open_item(Thinking, update)
        self._parts.append(text)
        self._emit(ThinkingDelta(text, self._item))

    def _tool_call(self, update: dict[str, Any]) -> None:
        self._close_item()
        status = update.get("status")
        over = status in ("completed", "failed")
        tool = self._get_tool(update, begins=update["sessionUpdate"] == "tool_call" and not over)
        tool.mcp = tool.mcp or self._is_mcp(update)
        tool.merge(update)
        if self._traits.replacements and not tool.content:
            tool.take_replacements(self._traits.replacements)
        progress = "output" if over else self._traits.progress
        if progress == "arguments":
            tool.take_arguments()
        if not tool.announced and (tool.describable or status not in (None, "pending")):
            self._announce(tool)
        if tool.announced and update["sessionUpdate"] == "tool_call_update":
            piece = at_path(update, self._traits.output_path)
            if isinstance(piece, str):
                self._tell_output(tool, piece if self._traits.output_whole else tool.output + piece)
            elif progress == "output" and update.get("content") and not over:
                self._tell_output(tool, tool.text)
        if over:
            self._finish(tool, cast("str", status))

    def _tell_output(self, tool: AcpToolCall, whole: str) -> None:
        """What is new of its output. The content of a call is replaced each time."""
        if whole != tool.output:
            news = whole[len(tool.output) :] if whole.startswith(tool.output) else whole
            tool.output = whole
            self._emit(ToolOutput(tool.id, news))

    def _plan(self, update: dict[str, Any]) -> None:
        self._close_item()
        self._allowed = []  # the end of a call that has no other
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
        failure = self._traits.failure
        self._failed = self._failed or (bool(failure) and at_path(update, self._traits.failure_path) == failure)
        if title := update.get("title"):
            self._emit(Status("title", title))

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
            text = "".join(self._parts)
            if self._item_type is Thinking:
                self.shown.add("thinking")
            elif len(self._parts) > 1:
                self.shown.add("deltas")
            if self._item_type is Text and text.strip():
                self._texts += 1
                self._last_text = text.strip()
                self._answered = self._answered or not _matches(self._traits.denial_texts, self._last_text)
            self._emit(self._item_type(text, self._item))
            self._item_type = None
            self._parts = []

    def _get_tool(self, call: JsonObject, *, begins: bool) -> AcpToolCall:
        """The call of this id; another one where that is over and this begins. Some models use an id again."""
        tool = self._tools.get(call["toolCallId"])
        over = tool is not None and begins and (tool.finished or tool.refused)
        return self._new_tool(call) if tool is None or over else tool

    def _new_tool(self, call: JsonObject) -> AcpToolCall:
        id = call["toolCallId"]
        self._id_uses[id] = uses = self._id_uses.get(id, 0) + 1
        tool = self._tools[id] = AcpToolCall(self._tool_name(call, id), id if uses == 1 else f"{id} ({uses})")
        return tool

    def _command_in_text(self, call: JsonObject) -> str:
        """The command, or its beginning, if the text of an ask contains it."""
        asked = AcpToolCall("", "")
        asked.merge(call)
        commands = (asked.text.partition(prefix)[2] for prefix in self._traits.command_prefixes)
        return next(filter(None, commands), "")

    def _is_mcp(self, call: JsonObject) -> bool:
        return any(at_path(call, ("_meta", mark)) for mark in self._traits.mcp_marks)

    def _tool_name(self, call: JsonObject, id: str) -> str:
        mark = self._preset.name_separator
        if mark and mark in id:
            return id.partition(mark)[0]
        return at_path(call, self._traits.name_path) or call.get("title") or call.get("kind") or "tool"

    def _announce(self, tool: AcpToolCall) -> None:
        tool.announced = True
        self.has_output = True
        self._last_chunk = ""
        action = self.action(tool)
        self._delegated = self._delegated or isinstance(action, Task)
        if isinstance(action, Mcp):
            self.shown.add("mcp_servers")
        if self._allowed:
            self._unasked = tool
        self._emit(ToolUse(tool.id, tool.name, action, tool.arguments))

    def _finish(self, tool: AcpToolCall, status: str) -> None:
        tool.finished = True
        self._allowed = []
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

    def _emit_plan(self, entries: Iterable[JsonObject]) -> None:
        self.shown.add("plans")
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
            self.shown.add("diffs")
            diffs = {path.removeprefix(self._cwd): diff for path, (_, diff) in self._changes.items() if diff}
            self._emit(Diff("".join(diffs.values()), tuple(diffs)))

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


def _matches(patterns: Iterable[str], text: str) -> bool:
    return any(re.fullmatch(pattern, text, re.DOTALL) for pattern in patterns)


def _begins_with(known: str, excerpt: str, cut_mark: str) -> bool:
    """Whether the known command begins with the excerpt that an ask shows; true for an unknown command. The excerpt may
    be cut within a character, which is not compared then."""
    beginning = excerpt.removesuffix(cut_mark).removesuffix(BROKEN_CHARACTER) if excerpt.endswith(cut_mark) else excerpt
    return not known or known.startswith(beginning)


def _tokens(usage: Any) -> dict[str, int]:
    """The fields of Tokens that the agent reports."""
    if not isinstance(usage, dict):
        return {}
    counts = cast("Mapping[str, Any]", usage)
    by_field = {
        field: [counts[name] for name in names if isinstance(counts.get(name), int)] for field, names in TOKENS.items()
    }
    return {field: numbers[0] for field, numbers in by_field.items() if numbers}
