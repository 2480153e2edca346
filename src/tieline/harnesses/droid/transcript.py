"""The record that Droid keeps of a session, followed: lines of JSON in `~/.factory/sessions/PROJECT/SESSION.jsonl`.

Each line is written as it happens: what people said, each answer of the model with its calls, the results of those,
each hook that ran, and how a turn ended. The first line has the title: when that changes, the file is written anew.
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
from ...events import Choice, Event, Outcome, Question, Status
from ...safe_file_read import open_file, read_inside
from ...sessions.attached_session import SAID
from ...wire.json_lines import decode_line
from ...wire.json_object import JsonDict
from ..terminals.acp_transcript import AcpTranscriptEvents, ModelText, TellAfter, fields_in, members, text_in, time_of
from ..terminals.transcript_file import MAX_HEAD, TranscriptCursor, TranscriptFile, TranscriptLine, first_time

HARNESS = "droid"
PRESET = PRESETS[HARNESS]
TYPES: Mapping[str, Literal["message", "end", "compacted", "own"]] = {
    "message": "message",
    "agent_turn_outcome": "end",
    "compaction_state": "compacted",
    "session_start": "own",
    "todo_state": "own",
}
"""All that a record can hold. `own`: Droid's own, or the same in other words."""
OUTCOMES: Mapping[str, Outcome] = {
    "completed": "success",
    "spec_handoff": "success",
    "cancelled": "interrupted",
    "process_exit": "interrupted",
    **dict.fromkeys(
        (
            "permission_rejected", "no_approver_available", "prompt_rejected", "error",
            "structured_output_missing", "structured_output_invalid", "structured_output_schema_invalid",
            "model_usage_exhausted", "model_authentication_failed", "model_request_rejected",
            "model_provider_unreachable", "model_provider_unavailable", "model_rate_limited",
            "completion_persistence_failed",
        ),
        "error",
    ),
}  # fmt: skip
"""How a turn ended → what that is. All else is an error."""
KINDS: Mapping[str, str] = {
    **dict.fromkeys(("Create", "Edit"), "edit"),
    "Execute": "execute",
    **dict.fromkeys(("Read", "LS"), "read"),
    **dict.fromkeys(("Grep", "Glob"), "search"),
    "ExitSpecMode": "switch_mode",
}
"""A tool → its kind in ACP, which the record does not have; beside those of the preset."""
QUESTION, PLAN = "AskUser", "ExitSpecMode"
DENIED = "Tool execution cancelled"
"""So the result of a call begins that a person has denied; that of a call that was cut off, with `Error:` before it."""
EXIT = re.compile(r"\n*\[Process exited with code (-?\d+)\]\s*\Z")
SEEN_BY_MODEL, SEEN_BY_PEOPLE = "llm_only", "user_only"
REWRITE_LOOKS = 5
"""While it is written anew, lines are missing: so often it is looked for the one that was read last."""
ASKED_LINE = re.compile(r"(?:\d+\.\s*)?\[question\]\s*(.*?)(\s*\(multi\))?\s*", re.IGNORECASE)
PART_LINE = re.compile(r"\[(topic|option)\]\s*(.*?)\s*", re.IGNORECASE)


class _DroidRecord(Struct, frozen=True):
    type: str = ""


class _DroidHead(Struct, frozen=True, rename="camel"):
    type: str = ""
    id: str = ""
    calling_session_id: str = ""


_RECORD = msgspec.json.Decoder(_DroidRecord)
_MESSAGE = msgspec.json.Decoder(JsonDict)


class DroidTranscriptFile(TranscriptFile):
    """Reached without following any link below the folder of all records."""

    _looks = 0

    def open(self) -> int:
        return open_file(*_inside(self.path))

    def decode(self, raw: bytes) -> JsonDict | None:
        try:
            known = TYPES.get(decode_line(_RECORD, raw).type, "own") != "own"
            return decode_line(_MESSAGE, raw) if known else None
        except (msgspec.MsgspecError, RecursionError):
            return None

    def _locate(self, descriptor: int, size: int) -> bool:
        wanted = self._last
        found = super()._locate(descriptor, size)
        if found or self._looks >= REWRITE_LOOKS:
            self._looks = 0
            return found
        self._looks, self._last, self._inode = self._looks + 1, wanted, 0
        raise OSError("it is being written anew")


def head_of(path: Path) -> tuple[str, float]:
    """The session that a record is of, and when it began; of a subagent's, the session that called it. Empty and 0: it
    does not say so yet."""
    try:
        lines = read_inside(*_inside(path), MAX_HEAD)
        head = msgspec.json.decode(lines.partition(b"\n")[0], type=_DroidHead)
    except (OSError, msgspec.MsgspecError):
        return "", 0.0
    if head.type != "session_start" or not (began := first_time(lines)):
        return "", 0.0
    return head.calling_session_id or head.id, began


def _inside(path: Path) -> tuple[str, str]:
    """The folder of all records, and where this one is in it."""
    return os.path.realpath(path.parents[1]), "/".join(path.parts[-2:])


def hook_of(line: TranscriptLine) -> str:
    """The event of the hook that ran. Empty: the line is of something else."""
    return text_in(fields_in(line.message, "message"), "hookEventName")


class DroidEvents(AcpTranscriptEvents):
    harness = HARNESS
    preset = PRESET

    def _reset(self) -> None:
        super()._reset()
        self._notice = ""  # what was shown to people

    @property
    def may_be_over(self) -> bool:
        """Its record says when it is."""
        return False

    def feed(self, line: TranscriptLine) -> TellAfter:
        message, content = line.message, fields_in(line.message, "message")
        means = TYPES.get(text_in(message, "type"), "own")
        if means == "end":
            return self._feed_end(text_in(message, "reason"))
        if hook := hook_of(line):
            return self.end_turn() if hook == "SessionStart" else []  # a terminal that died in a turn was resumed
        spoken = "" if text_in(content, "visibility") else _words(content)
        if spoken and content.get("role") == "user" and self.turn is None:
            return self._feed_prompt(line, spoken)
        if self._left_out or time_of(message) < self.since:
            return []
        if line.id:
            self._last = TranscriptCursor(line.start, line.id)
        if means == "compacted":
            return self._feed_compaction(line)
        events: list[Event] = []
        if content.get("role") == "assistant":
            if self.turn is None:  # a task in the background is over: nobody said anything
                events += self._begin("", message, line.id)
            events += self._feed_model(line.id, content)
        elif self.turn is not None:
            for part in members(content.get("content")):
                if part.get("type") == "tool_result":
                    events += self._feed_result(part)
            if content.get("visibility") == SEEN_BY_PEOPLE:
                self._notice = _words(content) or self._notice
            elif spoken:
                self._answered = False
                events.append(Status(SAID, spoken))
        return self._with_cursor(events, line)

    def end_turn(self, outcome: Outcome = "interrupted") -> TellAfter:
        """Without its end in the record, its terminal died in its midst."""
        if self.turn is None:
            return []
        code = ""
        if outcome == "success" and (denied := self._normaliser.denied):  # neither answered nor interrupted
            code, outcome = "denied", "error"
            self._problem = f"the agent ended the turn because this was denied: {denied}"
        return [*self._problem_events(code), *super().end_turn(outcome)]

    # --- turns -----------------------------------------------------------------------------------------------

    def _feed_prompt(self, line: TranscriptLine, prompt: str) -> TellAfter:
        self._left_out = time_of(line.message) < self.since
        if self._left_out:
            return []
        self._last = TranscriptCursor(line.start, line.id)
        return self._with_cursor(self._begin(prompt, line.message, line.id), line)

    def _feed_end(self, reason: str) -> TellAfter:
        """Of what was said in the middle of the turn it is told once more, when the turn is over already."""
        self._left_out = False
        outcome = OUTCOMES.get(reason, "error")
        if outcome == "error":
            self._problem = self._notice or f"the turn ended: {reason}"
        return self.end_turn(outcome)

    def _feed_compaction(self, line: TranscriptLine) -> TellAfter:
        if self.turn is not None:
            return self._with_cursor([Status("compacted")], line)
        self._between.append(Status("compacted"))
        return []

    # --- what the model says and does ------------------------------------------------------------------------

    def _feed_model(self, id: str, content: JsonDict) -> list[Event]:
        texts: list[ModelText] = []
        parts = members(content.get("content"))
        for part in parts:
            if thought := text_in(part, "thinking").strip():
                texts.append(("agent_thought_chunk", thought))
            elif text := text_in(part, "text").strip():
                texts.append(("agent_message_chunk", text))
        events = [*self._init(text_in(content, "modelId")), *self._text_events(id, texts)]
        for part in parts:
            call = text_in(part, "id")
            if part.get("type") == "tool_use" and call not in self.open_calls and call not in self.closed_calls:
                self._begin_call(call, text_in(part, "name"), fields_in(part, "input"))
                events += self._take()
        return events

    def _begin_call(self, id: str, name: str, given: JsonDict) -> AcpToolCall:
        kind = KINDS.get(name) or PRESET.tool_kinds.get(name, "other")
        content: list[JsonDict] = []
        if kind == "edit":
            content = [_changed_text(given)]
        elif name == PLAN and (plan := text_in(given, "plan")):
            content = [{"type": "content", "content": {"type": "text", "text": plan}}]
        return self._open_call(id, name, given, kind, content)

    def _feed_result(self, result: JsonDict) -> list[Event]:
        tool = self.open_calls.get(text_in(result, "tool_use_id"))
        if tool is None:
            return []
        text = _output(result)
        if is_denied(result):
            return self._close_call(tool, "denied", text, {})
        status = "error" if result.get("is_error") is True else "ok"
        return self._close_call(tool, status, EXIT.sub("", text) if tool.kind == "execute" else text, {})


def is_denied(result: JsonDict) -> bool:
    """Of a plan: whether it was turned down."""
    text = _output(result)
    if text.startswith(DENIED):
        return True
    return text.startswith('{"approved":false')


def results_in(line: TranscriptLine) -> list[JsonDict]:
    """The results of calls."""
    parts = members(fields_in(line.message, "message").get("content"))
    return [part for part in parts if part.get("type") == "tool_result"]


def questions_in(text: str) -> tuple[Question, ...]:
    """Of a questionnaire, which its tool takes as lines."""
    found: list[Question] = []
    for line in text.splitlines():
        if asked := ASKED_LINE.fullmatch(line.strip()):
            found.append(Question(id=str(len(found)), text=asked[1], many=bool(asked[2])))
        elif found and (part := PART_LINE.fullmatch(line.strip())):
            last = found[-1]
            if part[1].lower() == "topic":
                found[-1] = replace(last, header=part[2])
            else:
                found[-1] = replace(last, choices=(*last.choices, Choice(part[2], part[2])))
    return tuple(found)


def _changed_text(given: JsonDict) -> JsonDict:
    """What a call for an edit changes, as content of ACP."""
    new = text_in(given, "new_str") or text_in(given, "content")
    return {"type": "diff", "path": text_in(given, "file_path"), "oldText": text_in(given, "old_str"), "newText": new}


def _words(content: JsonDict) -> str:
    return "\n".join(text for part in members(content.get("content")) if (text := text_in(part, "text").strip()))


def _output(result: JsonDict) -> str:
    """What a call returned to the model."""
    content: Any = result.get("content")
    return content if isinstance(content, str) else "\n".join(text_in(part, "text") for part in members(content))
