"""A Kimi Code session in a person's terminal, attached: its record is followed, which tells all of it as it happens,
also what is asked and what became of that. Kimi takes nothing from elsewhere: what it asks is answered at the terminal,
and shown as long as it is asked."""

from ..drivers.acp.permissions import permission_ask, questions_of
from ..drivers.acp.tools import AcpToolCall
from ..events import Ask
from .acp_transcript import fields_in, members, text_in
from .kimi_transcript import PRESET, KimiEvents, KimiTranscriptFile, input_of, is_allowed
from .recorded_asks_terminal import Decision, RecordedAsksTerminal
from .transcript_file import Message, TranscriptCursor, TranscriptLine

ASKED = ("approval", "question")
"""What people are asked. The rest is for the program that has given Kimi a tool."""


class KimiTerminal(RecordedAsksTerminal[KimiEvents]):
    harness = "kimi"
    how = "Kimi Code takes nothing from other programs"

    def _new_events(self, cursor: TranscriptCursor) -> KimiEvents:
        return KimiEvents(self._session, self._cwd, cursor)

    def _new_file(self, cursor: TranscriptCursor) -> KimiTranscriptFile:
        return KimiTranscriptFile(self._path, cursor)

    def _begins(self, line: TranscriptLine) -> bool:
        return line.message.get("type") == "turn.prompt"

    def _asked_in(self, line: TranscriptLine) -> tuple[str, Message] | None:
        told = line.message
        if told.get("type") != "interaction.request" or told.get("kind") not in ASKED:
            return None
        return text_in(told, "id"), told

    def _decided_in(self, line: TranscriptLine) -> tuple[str, Decision | None] | None:
        told = line.message
        if told.get("type") != "interaction.resolved":
            return None
        response = fields_in(told, "response")
        given_up = response.get("cancelled") is True or response.get("decision") == "cancelled"
        return text_in(told, "id"), "allow" if is_allowed(response) else None if given_up else "deny"

    async def _build_ask(self, told: Message) -> Ask:
        request, call = fields_in(told, "request"), text_in(told, "toolCallId")
        if told.get("kind") == "question":
            questions = questions_of(members(request.get("questions")))
            return Ask("", "question", "AskUserQuestion", tool=call, questions=questions)
        tool = self._events.tool_of(call)
        if tool is None:
            tool = AcpToolCall(text_in(request, "toolName"), call or text_in(told, "id"))
            tool.title, tool.arguments = tool.name, input_of(fields_in(request, "display"))
        return await permission_ask("", tool, self._events.action(tool), {"toolCall": request}, PRESET, self._cwd)
