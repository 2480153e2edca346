"""The record that Copilot CLI keeps of a session, followed: lines of JSON in `~/.copilot/session-state/SESSION`.

Each line is an event that is written once, as it happens: what people said, each answer of the model with its calls,
the result of each call, what was asked and decided, and the tokens of each model call.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ...drivers.acp_presets import PRESETS
from ...events import Event, Outcome, Status
from ...sessions.attached_session import SAID
from ...wire.json_lines import decode_line
from ...wire.json_object import JsonDict
from ..terminals.acp_transcript import (
    AcpTranscriptEvents,
    ModelText,
    TellAfter,
    fields_in,
    members,
    text_in,
    time_of,
    tokens_of,
)
from ..terminals.transcript_file import TranscriptCursor, TranscriptFile, TranscriptLine, first_line

HARNESS = "copilot"
PRESET = PRESETS[HARNESS]
TOLD = frozenset(
    (
        "user.message", "assistant.message", "assistant.turn_end", "tool.execution_complete", "permission.requested",
        "permission.completed", "session.usage_record", "session.error", "session.compaction_complete",
        "session.mode_changed", "abort",
    )
)  # fmt: skip
"""The events that say something of the conversation. The others are Copilot's own."""
KINDS: Mapping[str, str] = {
    **dict.fromkeys(("create", "edit", "str_replace_editor", "apply_patch", "write"), "edit"),
    **dict.fromkeys(("bash", "write_bash", "powershell", "shell"), "execute"),
    **dict.fromkeys(("web_fetch", "web_search", "url"), "fetch"),
    **dict.fromkeys(("view", "read_bash", "read"), "read"),
    **dict.fromkeys(("glob", "grep", "rg"), "search"),
    "task": "task",
}
"""A tool, or what is asked for → its kind in ACP, which the record does not have."""
DENIED = frozenset(("denied", "rejected"))
"""The codes of results of calls that a person has denied."""


class _Head(Struct, frozen=True, rename="camel"):
    session_id: str = ""
    start_time: datetime | None = None


class _CopilotRecord(Struct, frozen=True):
    type: str = ""
    data: msgspec.Raw = msgspec.Raw(b"{}")


_RECORD = msgspec.json.Decoder(_CopilotRecord)
_MESSAGE = msgspec.json.Decoder(dict[str, Any])


class CopilotTranscriptFile(TranscriptFile):
    def decode(self, raw: bytes) -> JsonDict | None:
        try:
            return decode_line(_MESSAGE, raw) if decode_line(_RECORD, raw).type in TOLD else None
        except msgspec.MsgspecError:
            return None


def head_of(path: Path) -> tuple[str, float]:
    """The session that a record is of, and when it began. Empty and 0: it does not say so yet."""
    try:
        head = msgspec.json.decode(_RECORD.decode(first_line(path)).data, type=_Head)
    except msgspec.MsgspecError:
        return "", 0.0
    return head.session_id, head.start_time.timestamp() if head.start_time else 0.0


class CopilotEvents(AcpTranscriptEvents):
    harness = HARNESS
    preset = PRESET

    def _reset(self) -> None:
        super()._reset()
        self._asked: dict[str, str] = {}  # a request that is open → the call that it asks about
        self._calls_more = True  # the model's last answer has calls

    def feed(self, line: TranscriptLine) -> TellAfter:
        message, data = line.message, fields_in(line.message, "data")
        kind = text_in(message, "type")
        if kind == "user.message" and (self.turn is None or self._is_over):
            return self._feed_prompt(line, text_in(data, "content"))
        if self._left_out or time_of(message) < self.since:
            return []
        if line.id:
            self._last = TranscriptCursor(line.start, line.id)
        if text_in(data, "parentToolCallId") and kind != "session.usage_record":  # a subagent's
            return []
        events: list[Event] = []
        if self.turn is None:
            if kind == "session.compaction_complete":
                self._between.append(Status("compacted"))
            elif kind == "session.mode_changed":
                self._between += self._changed_mode(data)
            if kind != "assistant.message":
                return []
            events += self._begin("", message, line.id)
        match kind:
            case "assistant.message":
                events += self._feed_model(text_in(data, "messageId") or line.id, data)
            case "tool.execution_complete":
                events += self._feed_result(data)
            case "session.usage_record":
                self._spent[line.id] = tokens_of(
                    fields_in(data, "usage"),
                    input="inputTokens",
                    output="outputTokens",
                    cached="cacheReadTokens",
                    thoughts="reasoningTokens",
                )
            case "permission.requested":
                request = fields_in(data, "permissionRequest")
                self._asked[text_in(data, "requestId")] = text_in(request, "toolCallId")
            case "permission.completed":
                self._asked.pop(text_in(data, "requestId"), None)
                if not text_in(fields_in(data, "result"), "kind").startswith("approved"):
                    events += self._deny(text_in(data, "toolCallId"))
            case "session.mode_changed":
                events += self._changed_mode(data)
            case "session.compaction_complete":
                events.append(Status("compacted"))
            case "session.error":
                self._problem = text_in(data, "message") or "the model did not answer"
                return self.end_turn()
            case "abort":
                for call in list(self._asked.values()):
                    events += self._deny(call)
                return [*self._with_cursor(events, line), *self.end_turn("interrupted")]
            case "assistant.turn_end":
                return self.end_turn() if self._is_over else []
            case _:
                events.append(Status(SAID, text_in(data, "content")))
        return self._with_cursor(events, line)

    def end_turn(self, outcome: Outcome = "success") -> TellAfter:
        if self.turn is None:
            return []
        code = ""
        if denied := self._normaliser.denied:  # neither was the prompt answered, nor did anybody interrupt
            code, self._problem = "denied", f"the agent ended the turn because this was denied: {denied}"
        ended = self._problem_events(code)
        return [*ended, *super().end_turn("error" if self._problem else outcome)]

    @property
    def _is_over(self) -> bool:
        return not self._calls_more and not self.open_calls

    def _feed_prompt(self, line: TranscriptLine, prompt: str) -> TellAfter:
        ended = self.end_turn()
        self._left_out = time_of(line.message) < self.since
        if self._left_out:
            return ended
        self._last = TranscriptCursor(line.start, line.id)
        return [*ended, *self._with_cursor(self._begin(prompt, line.message, line.id), line)]

    def _feed_model(self, id: str, data: JsonDict) -> list[Event]:
        texts: list[ModelText] = []
        if thought := text_in(data, "reasoningText").strip():
            texts.append(("agent_thought_chunk", thought))
        if text := text_in(data, "content").strip():
            texts.append(("agent_message_chunk", text))
        events = [*self._init(text_in(data, "model")), *self._text_events(id, texts)]
        calls = members(data.get("toolRequests"))
        self._calls_more = bool(calls)
        for call in calls:
            name = text_in(call, "name")
            kind = KINDS.get(name) or PRESET.tool_kinds.get(name, "other")
            self._open_call(text_in(call, "toolCallId"), name, fields_in(call, "arguments"), kind)
            events += self._take()
        return events

    def _feed_result(self, data: JsonDict) -> list[Event]:
        tool = self.open_calls.get(text_in(data, "toolCallId"))
        if tool is None:
            return []
        if data.get("success") is True:
            status = "error" if fields_in(data, "shellExecution").get("exitCode") else "ok"
            return self._close_call(tool, status, text_in(fields_in(data, "result"), "content"), {})
        failed = fields_in(data, "error")
        status = "denied" if text_in(failed, "code") in DENIED else "error"
        return self._close_call(tool, status, text_in(failed, "message"), {})

    def _changed_mode(self, data: JsonDict) -> list[Event]:
        """The events of a changed mode. The earlier mode is included: no other record contains the first mode."""
        return [*self.mode(text_in(data, "previousMode")), *self.mode(text_in(data, "newMode"))]

    def _deny(self, call: str) -> list[Event]:
        tool = self.open_calls.get(call)
        return self._close_call(tool, "denied", "denied at the terminal", {}) if tool else []
