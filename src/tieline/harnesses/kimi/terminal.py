"""A Kimi Code session in a person's terminal, attached: its record is followed, which tells all of it as it happens,
also what is asked and what became of that; what its subagents ask, hooks tell. Kimi takes nothing from elsewhere: what
is asked is answered at the terminal, and shown as long as it is asked."""

from collections import deque
from collections.abc import Iterable

from ...drivers.acp.permissions import permission_ask, questions_of
from ...events import Ask
from ...sessions.attached_session import AttachedSession
from ...wire.json_object import JsonDict, JsonObject
from ..terminals.acp_transcript import fields_in, members, text_in
from ..terminals.hooked_terminal import HookNote
from ..terminals.recorded_asks_terminal import RecordedAsksTerminal, TerminalDecision
from ..terminals.transcript_file import TranscriptCursor, TranscriptLine
from .transcript import MAIN, PRESET, KimiEvents, KimiTranscriptFile, is_allowed, new_call

ASKED = ("approval", "question")
"""What people are asked. The rest is for the program that has given Kimi a tool."""
MAX_DECIDED = 100
"""Asks of subagents that are known to be decided: Kimi waits for neither hook, so that of the end may come first."""


class KimiTerminal(RecordedAsksTerminal[KimiEvents]):
    harness = "kimi"
    how = "Kimi Code takes nothing from other programs"

    def _set_up(self) -> None:
        super()._set_up()
        self._decided = deque[str](maxlen=MAX_DECIDED)

    def _new_events(self, cursor: TranscriptCursor) -> KimiEvents:
        return KimiEvents(self._session, self._cwd, cursor)

    def _new_file(self, cursor: TranscriptCursor) -> KimiTranscriptFile:
        return KimiTranscriptFile(self._path, cursor)

    def _begins(self, line: TranscriptLine) -> bool:
        return line.message.get("type") == "turn.prompt"

    def _asked_in(self, line: TranscriptLine) -> Iterable[tuple[str, JsonDict]]:
        message = line.message
        if message.get("type") == "interaction.request" and message.get("kind") in ASKED:
            yield text_in(message, "id"), message

    def _decided_in(self, line: TranscriptLine) -> Iterable[tuple[str, TerminalDecision | None]]:
        message = line.message
        if message.get("type") == "interaction.resolved":
            yield text_in(message, "id"), _decision(fields_in(message, "response"))

    async def _build_ask(self, record: JsonDict) -> Ask:
        request, call = fields_in(record, "request"), text_in(record, "toolCallId")
        if record.get("kind") == "question":
            questions = questions_of(members(request.get("questions")))
            return Ask("", "question", "AskUserQuestion", tool=call, questions=questions)
        tool = self._events.tool_of(call) or new_call(call, text_in(request, "toolName"), request)
        return await permission_ask("", tool, self._events.action(tool), {"toolCall": request}, PRESET, self._cwd)

    # --- what subagents ask ----------------------------------------------------------------------------------

    async def _on_note(self, attached: AttachedSession, note: HookNote) -> None:
        details = note.input
        if details.get("agent_id") in (None, MAIN):
            return
        id = text_in(details, "id")
        if note.event == "PermissionResult":
            self._decided.append(id)
            await self._close(attached, id, _decision(details))
        elif note.event == "PermissionRequest" and id not in self._decided:
            request = {"display": note.fields("display")}
            tool = new_call(id, text_in(details, "tool_name"), request, note.fields("tool_input"))
            action = self._events.action(tool)
            await self._show(attached, await permission_ask("", tool, action, {"toolCall": request}, PRESET, self._cwd))


def _decision(response: JsonObject) -> TerminalDecision | None:
    """None: it is not asked any more."""
    if response.get("cancelled") is True or response.get("decision") in ("cancelled", "error"):
        return None
    return "allow" if is_allowed(response) else "deny"
