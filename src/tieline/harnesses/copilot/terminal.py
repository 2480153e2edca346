"""A Copilot CLI session in a person's terminal, attached: its record is followed, which tells all of it, also what is
asked and what became of that. A hook that runs before the terminal asks takes what a rule says; else what it asks is
answered at the terminal, and shown as long as it is asked. Prompts go in by our extension, where Copilot loads it."""

import asyncio
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from ...drivers.acp.permissions import parse_questions, permission_ask
from ...drivers.acp.tools import AcpToolCall
from ...events import Answer, Ask, Command, Edit
from ...mesh.plugin_connector import PluginConnector
from ...mesh.push import HarnessSession, Unreachable
from ...sessions.attached_session import AttachedSession, TerminalUnreachable
from ...sessions.records import Remote
from ...wire.json_object import JsonDict
from ..terminals.acp_transcript import fields_in, members, text_in
from ..terminals.hooked_terminal import HookNote
from ..terminals.recorded_asks_terminal import RecordedAsksTerminal, TerminalDecision
from ..terminals.transcript_file import TranscriptCursor, TranscriptLine
from .permission_hook_input import find_call, hook_diff, in_sandbox, may_be_ruled, ruled_call
from .transcript import KINDS, PRESET, CopilotEvents, CopilotTranscriptFile

QUESTION = "ask_user"
"""Its tool for that, which takes a form. The call's result tells that it was answered."""
RECORD_LOOK_S = 0.05
SHOWN = {"fullCommandText": "command", "fileName": "path", "url": "url", "path": "path"}
"""What a request says → what an input has it as."""


class CopilotTerminal(RecordedAsksTerminal[CopilotEvents]):
    harness = "copilot"
    how = "Copilot CLI takes nothing from other programs, unless it runs with --experimental"

    def _new_events(self, cursor: TranscriptCursor) -> CopilotEvents:
        return CopilotEvents(self._session, self._cwd, cursor)

    def _new_file(self, cursor: TranscriptCursor) -> CopilotTranscriptFile:
        return CopilotTranscriptFile(self._path, cursor)

    def _is_prompt(self, note: HookNote) -> bool:
        return note.event == "userPromptSubmitted"

    def _set_up(self) -> None:
        super()._set_up()
        self._extension: PluginConnector | None = None
        self._hooked: set[str] = set()  # calls of this turn that a hook has asked about
        self._ruled: set[str] = set()  # those that a rule has decided

    async def _tell_line(self, attached: AttachedSession, line: TranscriptLine) -> None:
        await super()._tell_line(attached, line)
        if self._begins(line):
            self._hooked.clear()
            self._ruled.clear()

    # --- what people say elsewhere -------------------------------------------------------------------------

    async def reach(self, extension: PluginConnector, remote: tuple[Remote, ...]) -> None:
        """What can be done from elsewhere now, by our extension in it."""
        self._extension = extension
        if remote != self.remote and self._attached is not None:
            self.remote = remote
            await self._attached.remote_changed()

    async def prompt(self, text: str, *, model: str = "", effort: str = "") -> None:
        if self._extension is None:
            raise TerminalUnreachable(self.how)
        try:
            await self._extension.push(HarnessSession(harness=self.harness, session=self._session), text, sender="")
        except Unreachable as error:
            raise TerminalUnreachable(str(error)) from None

    async def steer(self, text: str) -> None:
        await self.prompt(text)

    async def abort(self) -> None:
        if self._extension is None:
            raise TerminalUnreachable(self.how)
        try:
            await self._extension.request(self._session, "POST", "abort")
        except Unreachable as error:
            raise TerminalUnreachable(str(error)) from None

    # --- what it asks ----------------------------------------------------------------------------------------

    def _begins(self, line: TranscriptLine) -> bool:
        turn = self._events.turn
        return line.message.get("type") == "user.message" and turn is not None and turn.id == line.id

    def _asked_in(self, line: TranscriptLine) -> Iterable[tuple[str, JsonDict]]:
        data = fields_in(line.message, "data")
        match line.message.get("type"):
            case "permission.requested":
                request = fields_in(data, "permissionRequest")
                ruled = text_in(request, "toolCallId") in self._ruled and data.get("resolvedByHook") is True
                if not ruled:  # which is told already
                    yield text_in(data, "requestId"), request
            case "assistant.message" if not text_in(data, "parentToolCallId"):
                for call in members(data.get("toolRequests")):
                    if text_in(call, "name") == QUESTION:
                        yield text_in(call, "toolCallId"), call
            case _:
                pass

    def _decided_in(self, line: TranscriptLine) -> Iterable[tuple[str, TerminalDecision | None]]:
        data = fields_in(line.message, "data")
        match line.message.get("type"):
            case "permission.completed":
                allowed = text_in(fields_in(data, "result"), "kind").startswith("approved")
                yield text_in(data, "requestId"), "allow" if allowed else "deny"
            case "tool.execution_complete":  # of a question
                yield text_in(data, "toolCallId"), "allow" if data.get("success") is True else "deny"
            case "abort":
                for id in (*self._unshown, *self._asked_about):
                    yield id, "deny"
            case _:
                pass

    async def _build_ask(self, record: JsonDict) -> Ask:
        id = text_in(record, "toolCallId")
        tool = self._events.open_calls.get(id)
        if text_in(record, "name") == QUESTION and tool is not None:
            return _question(tool)
        if tool is None:  # a subagent's
            tool = AcpToolCall(text_in(record, "kind") or "tool", id)
            tool.merge_permission_request({"kind": KINDS.get(tool.name, "other"), "rawInput": _input(record)})
        ask = await permission_ask("", tool, self._events.action(tool), {"toolCall": record}, PRESET, self._cwd)
        if isinstance(ask.action, Edit) and (diff := text_in(record, "diff")):
            ask = replace(ask, action=replace(ask.action, diff=diff))
        return ask

    # --- before it asks ----------------------------------------------------------------------------------------

    async def answer_by_rule(self, note: HookNote) -> Answer | None:
        answer = await super().answer_by_rule(note)
        if answer is not None and self._attached is not None:
            self._ruled.add(answer.tool)
            self._attached.tell(answer)
        return answer

    async def _hooked_ask(self, note: HookNote) -> Ask | None:
        if not may_be_ruled(note.input):
            return None
        while (tool := find_call(note.input, self._unhooked())) is None:  # the record may be a moment behind
            self._changed.set()
            await asyncio.sleep(RECORD_LOOK_S)
        self._hooked.add(tool.id)  # what is asked about this call once more is more than this
        ruled, mcp = ruled_call(tool, note.input)
        action, cwd = mcp or self._events.action(ruled), text_in(note.input, "cwd")
        if isinstance(action, Command) and cwd != self._cwd:  # a rule for one directory must not hold in another
            action = replace(action, cwd=cwd)
        elif isinstance(action, Edit):
            action = replace(action, diff=hook_diff(note.input))
        ask = await permission_ask("", ruled, action, {"toolCall": ruled.arguments}, PRESET, self._cwd)
        wider = await asyncio.to_thread(in_sandbox, self._path, note.process, self.process)
        return replace(ask, wider=ask.wider or wider)

    def _unhooked(self) -> list[AcpToolCall]:
        return [tool for tool in self._unasked() if tool.id not in self._hooked]


def _question(tool: AcpToolCall) -> Ask:
    questions = parse_questions(tool.arguments, PRESET.traits)
    return Ask("", "question", tool.argument("message") or tool.name, tool=tool.id, questions=questions)


def _input(request: JsonDict) -> dict[str, Any]:
    """What is asked about, of a call that the record does not have."""
    return {SHOWN[name]: value for name, value in request.items() if name in SHOWN and isinstance(value, str)}
