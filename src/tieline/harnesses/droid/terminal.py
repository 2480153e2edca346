"""A Droid session in a person's terminal, attached: its record is followed, which tells all of it as it happens, and
also that Droid asked something, by the hook that ran then. Droid takes nothing from elsewhere: what it asks is answered
at the terminal, and shown as long as it is asked."""

from collections.abc import Iterable

from ...drivers.acp.permissions import permission_ask
from ...events import Ask
from ...sessions.attached_session import AttachedSession
from ...wire.json_object import JsonDict
from ..terminals.acp_transcript import text_in
from ..terminals.hooked_terminal import HookNote
from ..terminals.recorded_asks_terminal import RecordedAsksTerminal, TerminalDecision
from ..terminals.transcript_file import TranscriptCursor, TranscriptLine
from .transcript import (
    PRESET,
    QUESTION,
    DroidEvents,
    DroidTranscriptFile,
    hook_of,
    is_denied,
    questions_in,
    results_in,
)

UNASKED_KINDS = ("read", "search", "task")
UNASKED = ("TodoWrite", "TaskOutput", "TaskStop", "ToolSearch", "Skill")
"""Tools that need no permission."""


class DroidTerminal(RecordedAsksTerminal[DroidEvents]):
    harness = "droid"
    how = "Droid takes nothing from other programs"

    def _new_events(self, cursor: TranscriptCursor) -> DroidEvents:
        return DroidEvents(self._session, self._cwd, cursor)

    def _new_file(self, cursor: TranscriptCursor) -> DroidTranscriptFile:
        return DroidTranscriptFile(self._path, cursor)

    def _begins(self, line: TranscriptLine) -> bool:
        return self._events.turn is None

    def _asked_in(self, line: TranscriptLine) -> Iterable[tuple[str, JsonDict]]:
        """All calls of an answer are asked about at once, and decided at once."""
        if hook_of(line) != "Notification":
            return
        for tool in self._unasked():
            if tool.kind not in UNASKED_KINDS and tool.name not in UNASKED:
                yield tool.id, {"call": tool.id}

    def _decided_in(self, line: TranscriptLine) -> Iterable[tuple[str, TerminalDecision | None]]:
        if hook_of(line) == "PostToolUse":
            for id in (*self._asked_about, *self._unshown):
                yield id, "allow"
        for result in results_in(line):
            yield text_in(result, "tool_use_id"), "deny" if is_denied(result) else "allow"

    async def _take_note(self, attached: AttachedSession, note: HookNote) -> None:
        if isinstance(mode := note.input.get("permission_mode"), str) and self._since() is not None:
            for event in self._events.mode(mode):
                attached.tell(event)

    async def _settle(self, attached: AttachedSession) -> None:
        if not self._caught_up and await self._running(self._unshown_commands()):
            self._unshown.clear()  # they were allowed before we came
        await super()._settle(attached)
        if await self._running_prompts():
            for call in {prompt.call for prompt in self._prompts.values()}:
                await self._close(attached, call, "allow")

    def _unshown_commands(self) -> set[str]:
        calls = [self._events.open_calls.get(id) for id in self._unshown]
        return {command for call in calls if call is not None and (command := call.argument("command"))}

    async def _build_ask(self, record: JsonDict) -> Ask:
        id = text_in(record, "call")
        tool = self._events.open_calls[id]
        if tool.name == QUESTION and (questions := questions_in(tool.argument("questionnaire"))):
            return Ask("", "question", tool.name, tool=id, questions=questions)
        request = {"toolCall": {"title": tool.name, "rawInput": dict(tool.arguments)}}
        return await permission_ask("", tool, self._events.action(tool), request, PRESET, self._cwd)
