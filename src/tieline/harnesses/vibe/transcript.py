"""Mistral Vibe's record of a session as events."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ...drivers.acp.tools import AcpToolCall
from ...drivers.acp_presets import PRESETS
from ...events import Event, Outcome, Status
from ...sessions.attached_session import SAID
from ...wire.json_object import JsonDict
from ..terminals.acp_transcript import AcpTranscriptEvents, ModelText, TellAfter, fields_in, members, text_in, tokens_of
from ..terminals.transcript_file import TranscriptCursor, TranscriptLine
from .record import content_text

HARNESS = "vibe"
PRESET = PRESETS[HARNESS]
KINDS: Mapping[str, str] = {
    **dict.fromkeys(("file_system.write_file", "file_system.search_replace"), "edit"),
    **dict.fromkeys(("file_system.bash", "process.start"), "execute"),
    **dict.fromkeys(("web_fetch", "web_search", "connector_web_search.open_url"), "fetch"),
    "connector_web_search.web_search": "fetch",
    "file_system.read_file": "read",
    "grep": "search",
    **dict.fromkeys(("agents.spawn", "subagent.spawn"), "task"),
}
"""A tool, with its group → its kind in ACP, which the record does not have."""
MCP_GROUP = "mcp_"
"""So the group of an MCP server's tools begins; its name follows."""
NOT_RUN = frozenset(("tool_denied", "tool_skipped"))
"""The codes of calls that a person, or a hook of theirs, did not let run."""
OUTCOMES: Mapping[str, Outcome] = {"completed": "success", "failed": "error", "interrupted": "interrupted"}


class VibeEvents(AcpTranscriptEvents):
    harness = HARNESS
    preset = PRESET

    def feed(self, line: TranscriptLine) -> TellAfter:
        record, kind = fields_in(line.message, "told"), line.message.get("kind")
        if kind == "begin":
            return self._feed_beginning(line, record)
        if kind == "entry" and record.get("type") == "checkpoint" and record.get("generationStatus") == "completed":
            return self._feed_checkpoint(record)
        if self.turn is None or text_in(record, "turnId") not in ("", self.turn.id):
            return []
        match kind, record.get("type"):
            case "entry", "message" | "reasoning" if record.get("generationStatus") == "completed":
                return self._with_cursor(self._feed_message(record), line)
            case "entry", "effect":
                return self._with_cursor(self._feed_call(record), line)
            case "usage", _:
                self._spent[text_in(record, "id")] = tokens_of(
                    fields_in(record, "usage"),
                    input="input_tokens",
                    output="output_tokens",
                    cached="cached_input_tokens",
                    thoughts="",
                )
                return self._with_cursor(self._init(text_in(record, "model")), line)
            case "end", _ if record.get("id") == self.turn.id:
                return self._feed_end(line, record)
            case _:
                pass
        return []

    def end_turn(self, outcome: Outcome | None = None) -> TellAfter:
        """None: how it ended is not told any more."""
        if self.turn is None:
            return []
        ended = self._problem_events()
        return [*ended, *super().end_turn(outcome or ("success" if self.may_be_over else "interrupted"))]

    def _feed_beginning(self, line: TranscriptLine, record: JsonDict) -> TellAfter:
        id, began = text_in(record, "id"), _seconds(record.get("startedAt"))
        if self.turn is not None and self.turn.id == id:  # the turn is read a second time
            return []
        ended = self.end_turn()
        self._left_out = began < self.since
        if self._left_out:
            return ended
        self._last = TranscriptCursor(line.start, id)
        self._input = text_in(record, "inputEntryId")
        events = self._begin(text_in(record, "prompt"), record, id)
        self.began_at = began
        return [*ended, *self._with_cursor(events, line)]

    def _feed_end(self, line: TranscriptLine, record: JsonDict) -> TellAfter:
        events = self._with_cursor(self._init(text_in(record, "model")), line)
        outcome = OUTCOMES.get(text_in(record, "status"))
        if outcome == "error":
            self._problem = text_in(fields_in(record, "error"), "message") or "the model did not answer"
        return [*events, *self.end_turn(outcome)]

    def _feed_checkpoint(self, record: JsonDict) -> TellAfter:
        """Take a checkpoint. Most come between two turns."""
        match record.get("kind"):
            case "compaction":
                events: list[Event] = [Status("compacted")]
            case "agent_change":
                events = self.mode(text_in(fields_in(record, "details"), "agent"))
            case _:
                events = []
        if self.turn is not None:
            return [(event, "") for event in events]
        if _seconds(record.get("createdAt")) >= self.since:
            self._between += events
        return []

    def _feed_message(self, record: JsonDict) -> list[Event]:
        id, text = text_in(record, "id"), content_text(record) or text_in(record, "text")
        if record.get("role") == "user":
            if id == self._input:
                return []
            self._answered = False
            return [Status(SAID, text)]
        chunk: ModelText = ("agent_thought_chunk" if record.get("type") == "reasoning" else "agent_message_chunk", text)
        return self._text_events(id, [chunk]) if text.strip() else []

    def _feed_call(self, record: JsonDict) -> list[Event]:
        id, state, events = text_in(record, "id"), fields_in(record, "state"), list[Event]()
        if id in self.closed_calls:
            return []
        if (tool := self.open_calls.get(id)) is None:
            tool = self._begin_call(id, fields_in(record, "detail"))
            events += self._take()
        match state.get("status"):
            case "running":
                return events
            case "completed":
                code = fields_in(fields_in(state, "output"), "structured_content").get("returncode")
                return [*events, *self._close_call(tool, "error" if code else "ok", _result(state), {})]
            case "skipped":
                return [*events, *self._close_call(tool, "denied", text_in(state, "reason"), {})]
            case _:
                error = fields_in(state, "error")
                status = "denied" if text_in(error, "code") in NOT_RUN else "error"
                why = text_in(error, "message") or text_in(state, "reason") or text_in(state, "status")
                return [*events, *self._close_call(tool, status, why, {})]

    def _begin_call(self, id: str, detail: JsonDict) -> AcpToolCall:
        name, given = text_in(detail, "toolName"), fields_in(detail, "input")
        kind = KINDS.get(name, "other")
        if kind == "task":
            given = {"description": text_in(given, "task"), **given}
        content = changed_texts(given) if kind == "edit" else []
        return self._open_call(id, tool_name(name), given, kind, content)


def tool_name(name: str) -> str:
    """As its model calls it; of an MCP server's tool with the server."""
    group, _, tool = name.rpartition(".")
    return f"mcp__{group.removeprefix(MCP_GROUP)}__{tool}" if group.startswith(MCP_GROUP) else tool


def changed_texts(given: JsonDict) -> list[JsonDict]:
    """What a call for an edit changes, as content of ACP."""
    path = text_in(given, "path") or text_in(given, "file_path")
    blocks = [(text_in(block, "old_str"), text_in(block, "new_str")) for block in members(given.get("content"))]
    texts = blocks or [("", text_in(given, "content"))]
    return [{"type": "diff", "path": path, "oldText": old, "newText": new} for old, new in texts]


def _result(state: JsonDict) -> str:
    """What a call returned to the model."""
    output = fields_in(state, "output")
    given = fields_in(output, "structured_content")
    if "stdout" in given:
        return "\n".join(filter(None, (text_in(given, "stdout"), text_in(given, "stderr"))))
    shown = "\n".join(text_in(part, "text") for part in members(output.get("content")))
    whole = msgspec.json.encode(given).decode() if given else ""
    return text_in(state, "outputText") or shown or text_in(given, "content") or whole


def _seconds(value: Any) -> float:
    return value / 1000 if isinstance(value, int) else float("inf")
