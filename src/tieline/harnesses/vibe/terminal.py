"""A Mistral Vibe session in a person's terminal, attached: its record is followed, which tells all of it as it happens,
also what is asked and what became of that. Vibe takes nothing from elsewhere: what it asks is answered at the terminal,
and shown as long as it is asked."""

from collections.abc import Iterable

from ...drivers.acp.permissions import permission_ask, questions_of
from ...drivers.acp.tools import AcpToolCall
from ...events import Ask
from ...wire.json_object import JsonDict
from ..terminals.acp_transcript import fields_in, members, text_in
from ..terminals.recorded_asks_terminal import RecordedAsksTerminal, TerminalDecision
from ..terminals.transcript_file import TranscriptCursor, TranscriptLine
from .record import VibeRecord
from .transcript import PRESET, VibeEvents, tool_name

QUESTION = "ask_user_question"
"""Its tool for that."""


class VibeTerminal(RecordedAsksTerminal[VibeEvents]):
    harness = "vibe"
    how = "Vibe takes nothing from other programs"

    def _new_events(self, cursor: TranscriptCursor) -> VibeEvents:
        return VibeEvents(self._session, self._cwd, cursor)

    def _new_file(self, cursor: TranscriptCursor) -> VibeRecord:
        return VibeRecord(self._path, cursor)

    def _begins(self, line: TranscriptLine) -> bool:
        return line.message.get("kind") == "begin"

    def _asked_in(self, line: TranscriptLine) -> Iterable[tuple[str, JsonDict]]:
        record = fields_in(line.message, "told")
        if line.message.get("kind") == "asked":
            yield text_in(record, "id"), record

    def _decided_in(self, line: TranscriptLine) -> Iterable[tuple[str, TerminalDecision]]:
        record = fields_in(line.message, "told")
        if line.message.get("kind") == "answered":
            yield text_in(record, "id"), "allow" if _is_allowed(fields_in(record, "output")) else "deny"

    async def _build_ask(self, record: JsonDict) -> Ask:
        detail = fields_in(record, "detail")
        if detail.get("kind") == "user_input":
            questions = questions_of(members(fields_in(detail, "request").get("questions")))
            call = next((tool.id for tool in self._unasked() if tool.name == QUESTION), text_in(record, "id"))
            return Ask("", "question", text_in(record, "title") or QUESTION, tool=call, questions=questions)
        id, effect = text_in(detail, "relatedEntryId"), fields_in(detail, "effect")
        tool = self._events.open_calls.get(id)
        if tool is None:  # a subagent's
            tool = AcpToolCall(tool_name(text_in(effect, "toolName")), id or text_in(record, "id"))
            tool.title, tool.arguments = tool.name, fields_in(effect, "input")
        return await permission_ask("", tool, self._events.action(tool), {"toolCall": record}, PRESET, self._cwd)


def _is_allowed(output: JsonDict) -> bool:
    """Of a question: whether it was answered."""
    if text_in(output, "type") == "user_input":
        return fields_in(output, "result").get("cancelled") is False
    return text_in(fields_in(output, "decision"), "type").startswith("approve")
