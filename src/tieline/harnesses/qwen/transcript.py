"""The record that Qwen Code keeps of a session, followed: lines of JSON in `~/.qwen/projects/PROJECT/chats`.

Each line is written once and stays as it is: what people said, each answer of the model with its calls, the result of
each call, and Qwen Code's own notes. That a turn is over, none says; its hooks do.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ...drivers.acp_presets import PRESETS
from ...events import Error, Event, Outcome, Status
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
from ..terminals.transcript_file import TranscriptCursor, TranscriptFile, TranscriptLine

HARNESS = "qwen"
PRESET = PRESETS[HARNESS]

Meaning = Literal["prompt", "woken", "said", "model", "result", "telemetry", "compacted", "own"]
TYPES: Mapping[str, Meaning] = {"user": "prompt", "assistant": "model", "tool_result": "result", "system": "own"}
"""What a record means by its type, if it has no subtype."""
SUBTYPES: Mapping[str, Meaning | None] = {
    "realtime_message": None,  # as its type says: a spoken conversation, written down
    "notification": "woken",  # by a peer, or by a task in the background
    "cron": "woken",
    "goal_runtime": "woken",
    "mid_turn_user_message": "said",
    "chat_compression": "compacted",
    "ui_telemetry": "telemetry",
    **dict.fromkeys(
        (
            "slash_command", "at_command", "user_text_elements", "omni_recall", "rewind", "turn_result",
            "custom_title", "parent_session", "session_source", "session_model", "session_sources_snapshot",
            "attribution_snapshot", "file_history_snapshot", "branch_checkpoint", "background_task_completed",
            "agent_bootstrap", "agent_launch_prompt", "agent_retry", "agent_session_ready",
            "goal_state", "goal_turn_end", "session_artifact_event", "session_artifact_snapshot",
            "managed_session_header_v1", "managed_session_event_v1", "managed_session_commit_v1",
        ),
        "own",
    ),
}  # fmt: skip
"""What a record means by its subtype. `own`: nothing of the conversation. What was taken back (`rewind`) has happened
all the same."""
KINDS: Mapping[str, str] = {
    **dict.fromkeys(("edit", "write_file"), "edit"),
    "run_shell_command": "execute",
    "web_fetch": "fetch",
    "read_file": "read",
    **dict.fromkeys(("glob", "grep_search", "list_directory"), "search"),
    "agent": "task",
}
"""A tool → its kind in ACP, which the record does not have; beside those of the preset."""
DENIED = "execution_denied"
PEER = re.compile(r"<cross_session_message [^>]*>\n(.*)\n</cross_session_message>", re.DOTALL)
"""Around what somebody else said; its own tags are defused there."""


class _QwenRecord(Struct, frozen=True):
    type: str = ""
    subtype: str = ""


_RECORD = msgspec.json.Decoder(_QwenRecord)
_MESSAGE = msgspec.json.Decoder(dict[str, Any])


class QwenTranscriptFile(TranscriptFile):
    def decode(self, raw: bytes) -> JsonDict | None:
        try:
            record = decode_line(_RECORD, raw)
            return None if meaning(record.type, record.subtype) == "own" else decode_line(_MESSAGE, raw)
        except msgspec.MsgspecError:
            return None


def meaning(type: str, subtype: str) -> Meaning:
    """What we do not know is Qwen Code's own."""
    return (SUBTYPES.get(subtype, "own") if subtype else None) or TYPES.get(type, "own")


class QwenEvents(AcpTranscriptEvents):
    harness = HARNESS
    preset = PRESET

    def _reset(self) -> None:
        super()._reset()
        self._code = ""  # of the problem
        self._whole = False  # the answer that comes next is one: of an interrupted one there is a part

    def feed(self, line: TranscriptLine) -> TellAfter:
        message = line.message
        means = meaning(text_in(message, "type"), text_in(message, "subtype"))
        if means == "prompt" or (means == "woken" and (self.turn is None or self.may_be_over)):
            return self._feed_prompt(line)
        if self._left_out or time_of(message) < self.since:
            return []
        if line.id:
            self._last = TranscriptCursor(line.start, line.id)
        events: list[Event] = []
        if self.turn is None:
            if means == "compacted":
                self._between.append(Status("compacted"))
            if means != "model":
                return []
            events += self._begin("", message, line.id)
        match means:
            case "model":
                events += self._feed_model(line.id, message)
            case "result":
                events += self._feed_result(message)
            case "telemetry":
                self._feed_telemetry(message)
            case "compacted":
                events.append(Status("compacted"))
            case _:
                self._answered = False
                events.append(Status(SAID, _prompt(message)))
        return self._with_cursor(events, line)

    def end_turn(self, outcome: Outcome | None = None) -> TellAfter:
        if self.turn is None:
            return []
        code, ended = self._code, TellAfter()
        if denied := self._normaliser.denied:  # neither was the prompt answered, nor did anybody interrupt
            code, self._problem = "denied", f"the agent ended the turn because this was denied: {denied}"
        if self._problem:
            ended = self._with_cursor([Error(self._problem, code)], TranscriptLine(self._last.start, {}))
        if outcome is None:
            outcome = "error" if self._problem else "success" if self.may_be_over else "interrupted"
        return [*ended, *super().end_turn(outcome)]

    def _feed_prompt(self, line: TranscriptLine) -> TellAfter:
        ended = self.end_turn()
        self._left_out = time_of(line.message) < self.since
        if self._left_out:
            return ended
        self._last = TranscriptCursor(line.start, line.id)
        return [*ended, *self._with_cursor(self._begin(_prompt(line.message), line.message, line.id), line)]

    def _feed_model(self, id: str, message: JsonDict) -> list[Event]:
        events = self._init(text_in(message, "model"))
        if used := fields_in(message, "usageMetadata"):
            self._spent[id] = tokens_of(
                used,
                input="promptTokenCount",
                output="candidatesTokenCount",
                cached="cachedContentTokenCount",
                thoughts="thoughtsTokenCount",
            )
        texts: list[ModelText] = []
        parts = members(fields_in(message, "message").get("parts"))
        for part in parts:
            if text := text_in(part, "text").strip():
                texts.append(("agent_thought_chunk" if part.get("thought") else "agent_message_chunk", text))
        events += self._text_events(id, texts)
        self._answered, self._whole = self._answered and self._whole, False
        if self._answered:  # a model that failed was asked again
            self._problem = ""
        for part in parts:
            if call := fields_in(part, "functionCall"):
                name = text_in(call, "name")
                kind = KINDS.get(name) or PRESET.tool_kinds.get(name, "other")
                self._open_call(text_in(call, "id"), name, fields_in(call, "args"), kind)
                events += self._take()
        return events

    def _feed_result(self, message: JsonDict) -> list[Event]:
        about = fields_in(message, "toolCallResult")
        tool = self.open_calls.get(text_in(about, "callId"))
        if tool is None:
            return []
        text = _result(message)
        # One that was not allowed is cancelled before it starts.
        match text_in(about, "status"), text_in(about, "executionStatus"):
            case "cancelled", "not_started":
                return self._close_call(tool, "denied", text, {})
            case "error", "not_started" if text_in(about, "errorType") == DENIED:  # by a hook: the turn goes on
                return self._close_call(tool, "denied", text, {})
            case "success", _:
                return self._close_call(tool, "ok", text, fields_in(about, "resultDisplay"))
            case _:
                return self._close_call(tool, "error", text, {})

    def _feed_telemetry(self, message: JsonDict) -> None:
        ui_event = fields_in(fields_in(message, "systemPayload"), "uiEvent")
        match ui_event.get("event.name"):
            case _ if "subagent_id" in ui_event:
                pass
            case "qwen-code.api_response":
                self._whole = True
            case "qwen-code.api_error":
                self._answered = False
                self._problem = text_in(ui_event, "error_message") or "the model did not answer"
                self._code = str(ui_event.get("status_code") or "")
            case _:
                pass


def _prompt(message: JsonDict) -> str:
    """As the person wrote it: hooks may have added something."""
    texts = (text_in(part, "text") for part in members(fields_in(message, "message").get("parts")))
    words = "\n".join(filter(None, texts))
    if peer := PEER.match(words):
        return peer[1].replace("&lt;", "<")
    return text_in(fields_in(message, "systemPayload"), "displayText") or words


def _result(message: JsonDict) -> str:
    """What a call returned to the model."""
    texts: list[str] = []
    for part in members(fields_in(message, "message").get("parts")):
        response = fields_in(fields_in(part, "functionResponse"), "response")
        texts.append(text_in(response, "output") or text_in(response, "error"))
    return "\n".join(filter(None, texts))
