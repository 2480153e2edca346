"""The base of terminals whose record tells all of a session as it happens, also what is asked and what became of that.
What they ask is answered at the terminal, and shown as long as it is asked."""

from collections.abc import Iterable
from typing import Literal

from ...events import Ask
from ...sessions.attached_session import AttachedSession
from ...wire.json_object import JsonDict
from .hooked_terminal import Events, HookedTerminal, HookNote
from .transcript_file import TranscriptLine

TerminalDecision = Literal["allow", "deny"]


class RecordedAsksTerminal(HookedTerminal[Events]):
    def _set_up(self) -> None:
        super()._set_up()
        self._asked_about: dict[str, str] = {}  # what is asked → the call that it is about
        self._unshown: dict[str, JsonDict] = {}  # what is asked and not shown yet
        self._caught_up = False

    # --- what a subclass says --------------------------------------------------------------------------------

    def _begins(self, line: TranscriptLine) -> bool:
        """Whether a turn begins with it."""
        raise NotImplementedError

    def _asked_in(self, line: TranscriptLine) -> Iterable[tuple[str, JsonDict]]:
        """The ids of what is asked there, each with what it is."""
        raise NotImplementedError

    def _decided_in(self, line: TranscriptLine) -> Iterable[tuple[str, TerminalDecision | None]]:
        """The ids of what was decided there, each with how. None in its place: it is not asked any more."""
        raise NotImplementedError

    async def _build_ask(self, record: JsonDict) -> Ask:
        raise NotImplementedError

    # --- what the record tells -------------------------------------------------------------------------------

    async def stop(self) -> None:
        await super().stop()
        self._unshown.clear()
        self._caught_up = False  # an open turn is read once more when its terminal has ended

    def _is_prompt(self, note: HookNote) -> bool:
        return False

    async def _is_over(self) -> bool:
        return False

    async def _on_note(self, attached: AttachedSession, note: HookNote) -> None:
        """The record tells all that the hooks tell."""

    async def _tell_line(self, attached: AttachedSession, line: TranscriptLine) -> None:
        for id, decision in self._decided_in(line):  # before what becomes of it
            if (told := self._unshown.pop(id, None)) and self._caught_up:
                await self._show_asked(attached, id, told)
            if (call := self._asked_about.pop(id, None)) is not None:
                await self._close(attached, call, decision)
        await super()._tell_line(attached, line)
        if self._begins(line):
            self._asked_about.clear()
            self._unshown.clear()
        elif self._events.turn is not None:
            self._unshown.update(self._asked_in(line))

    async def _settle(self, attached: AttachedSession) -> None:
        """What was asked and decided before we came, or is read once more, is not asked again."""
        self._caught_up = True
        for id in list(self._unshown):
            await self._show_asked(attached, id, self._unshown.pop(id))

    async def _show_asked(self, attached: AttachedSession, id: str, record: JsonDict) -> None:
        ask = await self._build_ask(record)
        self._asked_about[id] = ask.tool
        await self._show(attached, ask)
