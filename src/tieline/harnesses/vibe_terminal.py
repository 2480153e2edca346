"""A Mistral Vibe session in a person's terminal, attached: its record is followed, which tells all of it as it happens,
also what is asked and what became of that. Vibe takes nothing from elsewhere: what it asks is answered at the terminal,
and shown as long as it is asked."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from ..drivers.acp.permissions import permission_ask, questions_of
from ..drivers.acp.tools import AcpToolCall
from ..events import Ask
from ..sessions.attached_session import AttachedSession
from ..wire.json_object import JsonDict
from .acp_hooked_terminal import HookedTerminal, HookNote
from .acp_transcript import fields_in, members, text_in
from .transcript_file import TranscriptCursor, TranscriptLine
from .vibe_record import VibeRecord
from .vibe_transcript import PRESET, VibeEvents, tool_name

QUESTION = "ask_user_question"
"""Its tool for that."""


class VibeTerminal(HookedTerminal[VibeEvents]):
    harness = "vibe"
    how = "Vibe takes nothing from other programs"

    def __init__(
        self,
        process: int,
        session: str,
        cwd: str,
        path: Path,
        *,
        since: Callable[[], float | None],
        reading: asyncio.Semaphore,
    ) -> None:
        super().__init__(process, session, cwd, path, since=since, reading=reading)
        self._asked_about: dict[str, str] = {}  # what is asked → the call that it is about
        self._unshown: dict[str, JsonDict] = {}  # what is asked and not shown yet
        self._caught_up = False

    def _new_events(self, cursor: TranscriptCursor) -> VibeEvents:
        return VibeEvents(self._session, self._cwd, cursor)

    def _new_file(self, cursor: TranscriptCursor) -> VibeRecord:
        return VibeRecord(self._path, cursor)

    def look(self) -> None:
        """Its record may have grown: nothing tells that a turn begins."""
        self._changed.set()

    async def stop(self) -> None:
        await super().stop()
        self._unshown.clear()
        self._caught_up = False  # an open turn is read once more when its terminal has ended

    def _is_prompt(self, note: HookNote) -> bool:
        return False

    async def _is_over(self) -> bool:
        return False  # the record tells it

    async def _on_note(self, attached: AttachedSession, note: HookNote) -> None:
        """The record tells all that the hooks tell."""

    async def _tell_line(self, attached: AttachedSession, line: TranscriptLine) -> None:
        await super()._tell_line(attached, line)
        told = fields_in(line.message, "told")
        match line.message.get("kind"):
            case "begin":
                self._asked_about.clear()
                self._unshown.clear()
            case "asked" if self._events.turn is not None:
                self._unshown[text_in(told, "id")] = told
            case "answered":
                id = text_in(told, "id")
                if (asked := self._unshown.pop(id, None)) and self._caught_up:
                    await self._show_asked(attached, id, asked)
                if (call := self._asked_about.pop(id, None)) is not None:
                    await self._close(attached, call, "allow" if _is_allowed(fields_in(told, "output")) else "deny")
            case _:
                pass

    async def _settle(self, attached: AttachedSession) -> None:
        """What was asked and decided before we came, or is read once more, is not asked again."""
        self._caught_up = True
        for id in list(self._unshown):
            await self._show_asked(attached, id, self._unshown.pop(id))

    async def _show_asked(self, attached: AttachedSession, id: str, told: JsonDict) -> None:
        ask = await self._build_ask(told)
        self._asked_about[id] = ask.tool
        await self._show(attached, ask)

    async def _build_ask(self, told: JsonDict) -> Ask:
        detail = fields_in(told, "detail")
        if detail.get("kind") == "user_input":
            questions = questions_of(members(fields_in(detail, "request").get("questions")))
            call = next((tool.id for tool in self._unasked() if tool.name == QUESTION), text_in(told, "id"))
            return Ask("", "question", text_in(told, "title") or QUESTION, tool=call, questions=questions)
        id, effect = text_in(detail, "relatedEntryId"), fields_in(detail, "effect")
        tool = self._events.open_calls.get(id)
        if tool is None:  # a subagent's
            tool = AcpToolCall(tool_name(text_in(effect, "toolName")), id or text_in(told, "id"))
            tool.title, tool.arguments = tool.name, fields_in(effect, "input")
        return await permission_ask("", tool, self._events.action(tool), {"toolCall": told}, PRESET, self._cwd)


def _is_allowed(output: JsonDict) -> bool:
    """Of a question: whether it was answered."""
    if text_in(output, "type") == "user_input":
        return fields_in(output, "result").get("cancelled") is False
    return text_in(fields_in(output, "decision"), "type").startswith("approve")
