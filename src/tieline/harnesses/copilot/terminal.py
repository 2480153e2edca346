"""A Copilot CLI session in a person's terminal, attached: its record is followed, which tells all of it, also what is
asked and what became of that. Copilot takes nothing from elsewhere: what it asks is answered at the terminal, and shown
as long as it is asked."""

from typing import Any

from msgspec.structs import replace

from ...drivers.acp.permissions import parse_questions, permission_ask
from ...drivers.acp.tools import AcpToolCall
from ...events import Ask, Edit
from ...sessions.attached_session import AttachedSession
from ..terminals.acp_transcript import fields_in, text_in
from ..terminals.hooked_terminal import HookedTerminal, HookNote
from ..terminals.transcript_file import TranscriptCursor, TranscriptLine
from .transcript import KINDS, PRESET, CopilotEvents, CopilotTranscriptFile

QUESTION = "ask_user"
"""Its tool for that, which takes a form. The call's result tells that it was answered."""
SHOWN = {"fullCommandText": "command", "fileName": "path", "url": "url", "path": "path"}
"""What a request says → what an input has it as."""


class CopilotTerminal(HookedTerminal[CopilotEvents]):
    harness = "copilot"
    how = "Copilot CLI takes nothing from other programs"

    def _new_events(self, cursor: TranscriptCursor) -> CopilotEvents:
        return CopilotEvents(self._session, self._cwd, cursor)

    def _new_file(self, cursor: TranscriptCursor) -> CopilotTranscriptFile:
        return CopilotTranscriptFile(self._path, cursor)

    def _is_prompt(self, note: HookNote) -> bool:
        return note.event == "userPromptSubmitted"

    async def _on_note(self, attached: AttachedSession, note: HookNote) -> None:
        """The record tells all that the hooks tell."""

    async def _tell_line(self, attached: AttachedSession, line: TranscriptLine) -> None:
        await super()._tell_line(attached, line)
        data = fields_in(line.message, "data")
        if self._events.turn is None:
            return
        match line.message.get("type"):
            case "assistant.message":
                for tool in self._unasked():
                    if tool.name == QUESTION:
                        await self._show(attached, _question(tool))
            case "permission.requested":
                await self._show(attached, await self._build_ask(fields_in(data, "permissionRequest")))
            case "permission.completed":
                allowed = text_in(fields_in(data, "result"), "kind").startswith("approved")
                await self._close(attached, text_in(data, "toolCallId"), "allow" if allowed else "deny")
            case _:
                pass

    async def _build_ask(self, request: dict[str, Any]) -> Ask:
        id = text_in(request, "toolCallId")
        tool = self._events.open_calls.get(id)
        if tool is None:  # a subagent's
            tool = AcpToolCall(text_in(request, "kind") or "tool", id)
            tool.merge_permission_request({"kind": KINDS.get(tool.name, "other"), "rawInput": _input(request)})
        ask = await permission_ask("", tool, self._events.action(tool), {"toolCall": request}, PRESET, self._cwd)
        if isinstance(ask.action, Edit) and (diff := text_in(request, "diff")):
            ask = replace(ask, action=replace(ask.action, diff=diff))
        return ask


def _question(tool: AcpToolCall) -> Ask:
    questions = parse_questions(tool.arguments, PRESET.traits)
    return Ask("", "question", tool.argument("message") or tool.name, tool=tool.id, questions=questions)


def _input(request: dict[str, Any]) -> dict[str, Any]:
    """What is asked about, of a call that the record does not have."""
    return {SHOWN[name]: value for name, value in request.items() if name in SHOWN and isinstance(value, str)}
