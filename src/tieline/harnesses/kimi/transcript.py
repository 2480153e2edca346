"""The record that Kimi Code keeps of a session, followed: lines of JSON in `~/.kimi-code/sessions/PROJECT/SESSION`.

Each line is written once, as it happens: what people said, each part of an answer, each call and its result, what was
asked and decided, the tokens of each model call, and the end of each turn.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...drivers.acp.tools import AcpToolCall
from ...drivers.acp_presets import PRESETS
from ...events import Done, Event, Outcome, Status, Tokens
from ...safe_file_read import open_file, read_inside
from ...sessions.attached_session import SAID
from ...wire.json_lines import decode_line
from ...wire.json_object import JsonDict, JsonObject
from ..terminals.acp_transcript import AcpTranscriptEvents, ModelText, TellAfter, fields_in, members, text_in
from ..terminals.transcript_file import MAX_HEAD, TranscriptCursor, TranscriptFile, TranscriptLine

HARNESS = "kimi"
PRESET = PRESETS[HARNESS]
MAIN = "main"
"""The agent whose record this is. Subagents have records of their own."""

LineMeaning = Literal[
    "prompt", "said", "loop", "model", "usage", "spawned", "asked", "decided", "mode", "compacted", "end", "own"
]  # fmt: skip
TYPES: Mapping[str, LineMeaning] = {
    "turn.prompt": "prompt",
    "turn.steer": "said",
    "context.append_loop_event": "loop",
    "llm.request": "model",
    "usage.record": "usage",
    "subagent.spawned": "spawned",
    "interaction.request": "asked",
    "interaction.resolved": "decided",
    **dict.fromkeys(("permission.set_mode", "plan_mode.enter", "plan_mode.exit", "plan_mode.cancel"), "mode"),
    "context.apply_compaction": "compacted",
    "turn.ended": "end",
    **dict.fromkeys(
        (
            "metadata", "agent.switched", "agent.message.appended", "agent.turn.started", "agent.turn.ended",
            "config.update", "profile.bind", "runtime.set_binding", "plugin.session_start", "forked",
            "context.append_message", "context.clear", "context.undo", "interruptionReminder.recorded",
            "full_compaction.begin", "full_compaction.cancel", "full_compaction.complete", "micro_compaction.apply",
            "cron.add", "cron.cursor", "cron.delete", "file_history.checkpoint", "file_history.tracked",
            "goal.create", "goal.update", "goal.clear", "goal.account_usage", "goal.continuation",
            "llm.tools_snapshot", "mcp.tools_discovered", "permission.record_approval_result", "plan.revision",
            "prompt.accepted", "prompt.aborted", "prompt.completed", "prompt.steered",
            "staleGuard.recorded", "staleGuard.cleared", "swarm_mode.enter", "swarm_mode.exit",
            "tower_mode.enter", "tower_mode.exit",
            "subagent.started", "subagent.completed", "subagent.failed", "subagent.cancelled",
            "task.started", "task.terminated", "task.waitDelivered",
            "token_counting.measured", "token_counting.rebased", "token_counting.truncated",
            "token_counting.turn_recorded",
            "tools.register_user_tool", "tools.reset_active_tools", "tools.set_active_tools",
            "tools.unregister_user_tool", "tools.update_store",
            "turn.cancel", "turn.step.interrupted", "turn.step.retrying",
        ),
        "own",
    ),
}  # fmt: skip
"""All that a record can hold. `own`: Kimi's own, or the same in other words. What was taken back (`context.undo`) has
happened all the same."""
LOOP: Mapping[str, Literal["part", "call", "result", "own"]] = {
    "content.part": "part",
    "tool.call": "call",
    "tool.result": "result",
    **dict.fromkeys(("step.begin", "step.end"), "own"),
}
"""The events of the loop, in one type of line."""
KINDS: Mapping[str, str] = {
    **dict.fromkeys(("Read", "ReadMediaFile"), "read"),
    **dict.fromkeys(("Glob", "Grep"), "search"),
    "ExitPlanMode": "switch_mode",
}
"""A tool → its kind in ACP, which the record does not have; beside those of the preset."""
OUTCOMES: Mapping[str, Outcome] = {"completed": "success", "cancelled": "interrupted"}
"""How a turn ended → what that is. All else is an error."""
PLAN = "plan"
SEEN = "seen"
"""Marks a line that was read before: what held where the reader goes on."""
MODE_LINE = re.compile(
    rb'"type":"(permission\.set_mode|plan_mode\.[a-z]+)","agentId":"main"(?:,"mode":"([a-z]+)")?', re.ASCII
)
"""Quotes are escaped within texts, so none looks like this."""
SEARCH_BYTES, OVERLAP = 1024 * 1024, 256
BELOW = 5
"""So deep is a record below the folder of all: PROJECT/SESSION/agents/main/wire.jsonl."""


class _Record(Struct, frozen=True):
    type: str = ""


class _FirstLine(Struct, frozen=True):
    created_at: float = 0.0


_RECORD = msgspec.json.Decoder(_Record)
_MESSAGE = msgspec.json.Decoder(JsonDict)


class KimiTranscriptFile(TranscriptFile):
    """Reached without following any link below the folder of all sessions."""

    def __init__(self, path: Path, cursor: TranscriptCursor) -> None:
        super().__init__(path, cursor)
        self._before: list[TranscriptLine] = []

    def open(self) -> int:
        return open_file(os.path.realpath(self.path.parents[BELOW - 1]), "/".join(self.path.parts[-BELOW:]))

    def decode(self, raw: bytes) -> JsonDict | None:
        try:
            if TYPES.get(decode_line(_RECORD, raw).type, "own") == "own":
                return None
            message = decode_line(_MESSAGE, raw)
        except (msgspec.MsgspecError, RecursionError):
            return None
        id = text_in(message, "promptId") or text_in(fields_in(message, "event"), "uuid") or text_in(message, "id")
        return {**message, "id": id or str(message.get("time"))}

    def read(self) -> tuple[list[TranscriptLine], bool]:
        lines, more = super().read()
        before, self._before = self._before, []
        return [*before, *lines], more

    def _locate(self, descriptor: int, size: int) -> bool:
        found = super()._locate(descriptor, size)
        self._before = [TranscriptLine(0, {**record, SEEN: True}) for record in _modes_before(descriptor, self._offset)]
        return found


def _modes_before(descriptor: int, end: int) -> list[JsonDict]:
    """The last record of each kind of mode before `end`: the permission mode, and whether plan mode is on."""
    modes: dict[bytes, JsonDict] = {}
    for start in range(0, end, SEARCH_BYTES):
        part = os.pread(descriptor, min(SEARCH_BYTES + OVERLAP, end - start), start)
        for match in MODE_LINE.finditer(part):
            record = {"type": match[1].decode(), "mode": (match[2] or b"").decode()}
            modes[match[1].partition(b".")[0]] = record
    return list(modes.values())


def head_of(path: Path) -> tuple[str, float]:
    """The session that a record is of, and when it began. Empty and 0: it is not there yet."""
    root = str(path.parents[BELOW - 1])
    try:
        head = msgspec.json.decode(
            read_inside(root, "/".join(path.parts[-BELOW:]), MAX_HEAD).partition(b"\n")[0], type=_FirstLine
        )
    except (OSError, msgspec.MsgspecError):
        return "", 0.0
    return path.parts[-BELOW + 1], head.created_at / 1000


class KimiEvents(AcpTranscriptEvents):
    harness = HARNESS
    preset = PRESET
    _permissions = ""
    _plans = False
    _mode_is_new = False  # it is told with the next turn

    def _reset(self) -> None:
        super()._reset()
        self._asked: dict[str, str] = {}  # what is asked → the call that it is about
        self._refused: set[str] = set()  # calls
        self._untold = False  # some tokens of the turn are not told here

    @property
    def may_be_over(self) -> bool:
        """Its record says when it is."""
        return False

    def feed(self, line: TranscriptLine) -> TellAfter:
        message = line.message
        means = TYPES.get(text_in(message, "type"), "own")
        if message.get("agentId", MAIN) != MAIN:
            return []
        if means == "prompt":
            return self._feed_prompt(line)
        if means == "mode":
            return self._feed_mode(line)
        if self._left_out or _seconds(message) < self.since:
            return []
        if line.id:
            self._last = TranscriptCursor(line.start, line.id)
        if self.turn is None:
            if means == "compacted":
                self._between.append(Status("compacted"))
            return []
        events: list[Event] = []
        match means:
            case "loop":
                events = self._feed_loop(line.id, fields_in(message, "event"))
            case "model" if message.get("kind") == "loop":
                events = self._init(text_in(message, "modelAlias") or text_in(message, "model"))
            case "usage":
                events = self._feed_usage(line, message)
            case "spawned":
                self._untold = True  # its tokens are in its own record
            case "asked":
                events = self._feed_asked(message)
            case "decided":
                events = self._feed_decided(message)
            case "said" if fields_in(message, "origin").get("kind") == "user":
                self._answered = False
                events.append(Status(SAID, _words(message)))
            case "compacted":
                events.append(Status("compacted"))
            case "end":
                return self._feed_end(message)
            case _:
                pass
        return self._with_cursor(events, line)

    def end_turn(self, outcome: Outcome = "interrupted") -> TellAfter:
        """Without its end in the record, its terminal died in its midst."""
        if self.turn is None:
            return []
        ended = self._problem_events()
        untold = self._untold
        for event, cursor in super().end_turn(outcome):
            partial = untold and isinstance(event, Done) and event.usage == "complete"
            ended.append((replace(event, usage="partial") if partial else event, cursor))
        return ended

    # --- turns -----------------------------------------------------------------------------------------------

    def _feed_prompt(self, line: TranscriptLine) -> TellAfter:
        ended, message = self.end_turn(), line.message
        self._left_out = _seconds(message) < self.since
        if self._left_out:
            return ended
        self._last = TranscriptCursor(line.start, line.id)
        events = self._begin(_prompt(message), message, line.id)
        self.began_at = _seconds(message)
        if self._mode_is_new:
            events += self.mode(self._mode)
            self._mode_is_new = False
        return [*ended, *self._with_cursor(events, line)]

    def _feed_end(self, message: JsonDict) -> TellAfter:
        reason = text_in(message, "reason")
        outcome = OUTCOMES.get(reason, "error")
        if outcome == "error":
            error = fields_in(message, "error")
            self._problem = text_in(error, "message") or text_in(error, "code") or f"the turn ended: {reason}"
        return self.end_turn(outcome)

    def _feed_mode(self, line: TranscriptLine) -> TellAfter:
        message, before = line.message, self._mode
        if message.get("type") == "permission.set_mode":
            self._permissions = text_in(message, "mode")
        else:
            self._plans = message.get("type") == "plan_mode.enter"
        if SEEN in message or self._mode == before:
            return []
        if self.turn is None or self._left_out:
            self._mode_is_new = True
            return []
        return self._with_cursor(self.mode(self._mode), line)

    @property
    def _mode(self) -> str:
        return PLAN if self._plans else self._permissions

    def _feed_usage(self, line: TranscriptLine, message: JsonDict) -> list[Event]:
        used = {name: value for name, value in fields_in(message, "usage").items() if isinstance(value, int)}
        if not any(used.values()):  # the answer was interrupted, and nobody knows
            self._untold = True
        else:
            self._spent[str(line.start)] = Tokens(
                input=used.get("inputOther", 0) + used.get("inputCacheCreation", 0),
                output=used.get("output", 0),
                cache_read=used.get("inputCacheRead", 0),
            )
        return []

    # --- what the model says and does ------------------------------------------------------------------------

    def _feed_loop(self, id: str, entry: JsonDict) -> list[Event]:
        match LOOP.get(text_in(entry, "type")):
            case "part":
                part = fields_in(entry, "part")
                thought, text = text_in(part, "think").strip(), text_in(part, "text").strip()
                texts: list[ModelText] = [("agent_thought_chunk", thought)] if thought else []
                return self._text_events(id, [*texts, ("agent_message_chunk", text)] if text else texts)
            case "call":
                return self._feed_call(text_in(entry, "toolCallId"), text_in(entry, "name"), fields_in(entry, "args"))
            case "result":
                return self._feed_result(text_in(entry, "toolCallId"), fields_in(entry, "result"))
            case _:
                return []

    def _feed_call(self, id: str, name: str, given: JsonDict, content: list[JsonDict] | None = None) -> list[Event]:
        if id in self.closed_calls:
            return []
        if tool := self.open_calls.get(id):  # what was asked about it was told first
            tool.arguments = given or tool.arguments
            return []
        kind = kind_of(name)
        self._open_call(id, name, given, kind, content or (changed_text(given) if kind == "edit" else []))
        return self._take()

    def _feed_result(self, id: str, result: JsonDict) -> list[Event]:
        tool = self.open_calls.get(id)
        if tool is None:
            return []
        status = "denied" if id in self._refused else "error" if result.get("isError") is True else "ok"
        return self._close_call(tool, status, _output(result), {})

    # --- what it asks ----------------------------------------------------------------------------------------

    def _feed_asked(self, message: JsonDict) -> list[Event]:
        request, call = fields_in(message, "request"), text_in(message, "toolCallId")
        self._asked[text_in(message, "id")] = call
        if message.get("kind") != "approval":
            return []
        shown = fields_in(request, "display")
        return self._feed_call(call, text_in(request, "toolName"), input_of(shown), plan_of(shown))

    def _feed_decided(self, message: JsonDict) -> list[Event]:
        call = self._asked.pop(text_in(message, "id"), "")
        if not is_allowed(fields_in(message, "response")):
            self._refused.add(call)
        return []

    def tool_of(self, call: str) -> AcpToolCall | None:
        return self.open_calls.get(call) or self.closed_calls.get(call)


def is_allowed(response: JsonObject) -> bool:
    """Of a question: whether it was answered."""
    return response.get("decision") == "approved" or bool(fields_in(response, "answers"))


def kind_of(name: str) -> str:
    return KINDS.get(name) or PRESET.tool_kinds.get(name, "other")


def new_call(id: str, name: str, request: JsonDict, given: JsonDict | None = None) -> AcpToolCall:
    """Of which only a request for permission tells."""
    tool, shown = AcpToolCall(name, id), fields_in(request, "display")
    tool.title, tool.kind, tool.arguments = name, kind_of(name), given or input_of(shown)
    content = changed_text(tool.arguments) if tool.kind == "edit" else plan_of(shown)
    tool.merge_permission_request({"content": content})
    return tool


def input_of(shown: JsonDict) -> JsonDict:
    """The input of a call, from what is shown of it before it begins."""
    match shown:
        case {"kind": "file_io", "operation": "edit", "path": path}:
            return {"path": path, "old_string": text_in(shown, "before"), "new_string": text_in(shown, "after")}
        case {"kind": "diff", "path": path}:
            return {"path": path, "old_string": text_in(shown, "before"), "new_string": text_in(shown, "after")}
        case {"kind": "file_io", "path": path}:
            return {"path": path, "content": text_in(shown, "content")} if "content" in shown else {"path": path}
        case {"kind": "command", "command": command}:
            return {"command": command}
        case {"kind": "generic", "detail": dict()}:
            return fields_in(shown, "detail")
        case _:
            return {name: value for name, value in shown.items() if name != "kind"}


def plan_of(shown: JsonDict) -> list[JsonDict]:
    """As content of ACP."""
    plan = text_in(shown, "plan") if shown.get("kind") == "plan_review" else ""
    return [{"type": "content", "content": {"type": "text", "text": plan}}] if plan else []


def changed_text(given: JsonDict) -> list[JsonDict]:
    """What a call for an edit changes, as content of ACP."""
    new = text_in(given, "new_string") or text_in(given, "content")
    return [{"type": "diff", "path": text_in(given, "path"), "oldText": text_in(given, "old_string"), "newText": new}]


def _prompt(message: JsonDict) -> str:
    """What a person said; what begins a turn by itself, such as a task in the background that is over, said nothing."""
    origin = fields_in(message, "origin")
    match origin.get("kind"), origin.get("trigger"):
        case ("user", _) | ("skill_activation" | "plugin_command", "user-slash"):
            return _words(message)
        case _:
            return ""


def _words(message: JsonDict) -> str:
    """Without the texts of skills that go with them, which come first."""
    skills: Any = fields_in(message, "origin").get("skillActivations")
    texts = [text_in(part, "text") for part in members(message.get("input")) if part.get("type") == "text"]
    return "".join(texts[len(members(skills)) :])


def _output(result: JsonDict) -> str:
    """What a call returned to the model."""
    return text_in(result, "output") or "\n".join(text_in(part, "text") for part in members(result.get("output")))


def _seconds(message: JsonDict) -> float:
    time = message.get("time")
    return time / 1000 if isinstance(time, int | float) else float("inf")
