"""The base of terminals whose record is followed, and whose hooks report what the record lacks: that a tool begins,
that a permission prompt is shown, that a turn is over. Their asks are shown for as long as they are open, and answered
at the terminal."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from msgspec import Struct

from ...background_tasks import cancel_and_wait
from ...drivers.acp.tools import AcpToolCall
from ...events import Answer, Ask, Command, Done, ToolResult
from ...processes.process_table import descendants
from ...sessions.attached_session import UNFINISHED, AttachedSession, TerminalUnreachable
from .acp_transcript import AcpTranscriptEvents, TellAfter, parse_time
from .transcript_file import TranscriptCursor, TranscriptLine
from .transcript_terminal import Quiet, TranscriptTerminal

LOOK_S = 0.5
"""How often the record of a session that works is looked at."""
PROMPT_S = 30.0
"""A prompt of which a hook told is in the record within this time, unless another hook refused it."""
QUIET_S = 5.0
"""A record that ends with an answer, and stays as it is for so long, is of a turn that is over where no hook tells
anything either: that of its end may have found no hub."""
RULES_S = 1.4
"""To find out what a hook asks about, and to look at the rules: the hook gives up after two seconds."""
SETTLE_S = 10.0
"""For what was decided at the terminal to be written down."""
MAX_HOOKS = 1000
"""Hooks that wait until the record is read."""

log = logging.getLogger("tieline.sessions")


class HookNote(Struct, frozen=True):
    event: str
    input: Mapping[str, Any]
    process: int = 0
    """The hook's. 0: unknown."""
    answer: Answer | None = None
    """What a rule has said about the permission that it asks for."""

    @property
    def at(self) -> float:
        return parse_time(str(self.input.get("timestamp")))

    def fields(self, name: str) -> dict[str, Any]:
        value: Any = self.input.get(name)
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


class ShownPrompt(Struct, frozen=True):
    """A permission prompt that the terminal shows."""

    call: str
    command: str
    asking: asyncio.Task[Any]


Events = TypeVar("Events", bound=AcpTranscriptEvents)


class HookedTerminal(TranscriptTerminal[Events]):
    """A subclass says what its record is, what its hooks mean, and what it takes from elsewhere."""

    harness: str
    how: str
    """Why nothing is taken from elsewhere that is not in `remote`."""

    def _set_up(self) -> None:
        super()._set_up()
        self._hooks: deque[HookNote] = deque(maxlen=MAX_HOOKS)
        self._quiet = Quiet(LOOK_S)
        self._prompted_at = -PROMPT_S  # when a hook told of a prompt that the record has not yet
        self._prompts: dict[str, ShownPrompt] = {}
        self._asked = 0

    # --- what a subclass says --------------------------------------------------------------------------------

    def _is_prompt(self, note: HookNote) -> bool:
        """Whether a hook tells that a turn begins."""
        raise NotImplementedError

    async def _on_note(self, attached: AttachedSession, note: HookNote) -> None:
        """A hook of the open turn."""
        raise NotImplementedError

    def _is_ready(self, note: HookNote) -> bool:
        """Whether the record has what a hook tells of. It is looked at again in a moment if not."""
        return True

    async def _is_over(self) -> bool:
        """Whether the turn is over, as far as no hook tells its end."""
        return self._events.may_be_over and self._quiet.seconds >= QUIET_S

    async def _settle(self, attached: AttachedSession) -> None:
        """Look whether what is asked was decided at the terminal, where neither hooks nor the record tell."""

    async def _hooked_ask(self, note: HookNote) -> Ask | None:
        """What the terminal is about to ask, as a hook tells before. None: that is for its person."""
        return None

    # --- what people say elsewhere ---------------------------------------------------------------------------

    async def prompt(self, text: str, *, model: str = "", effort: str = "") -> None:
        raise TerminalUnreachable(self.how)

    async def steer(self, text: str) -> None:
        raise TerminalUnreachable(self.how)

    async def abort(self) -> None:
        raise TerminalUnreachable(self.how)

    # --- its life ------------------------------------------------------------------------------------------

    def follow(self, attached: AttachedSession) -> None:
        self._attached = attached
        self._following = asyncio.create_task(self._follow(attached), name=f"{self.harness}-{self._session}")

    def on_hook(self, note: HookNote) -> None:
        self._hooks.append(note)
        self._quiet.end()
        if self._is_prompt(note):
            self._prompted_at = time.monotonic()
        self._changed.set()

    def look_again(self) -> None:
        """Its record may have grown, of which no hook tells."""
        self._changed.set()

    async def answer_by_rule(self, note: HookNote) -> Answer | None:
        """The hook of a permission prompt, which the terminal shows only when the hook is over. None: it shows now."""
        attached = self._attached
        if attached is None or self._since() is None:
            return None
        try:
            async with asyncio.timeout(RULES_S):
                ask = await self._hooked_ask(note)
                return None if ask is None else await attached.decide_by_rule(ask)
        except TimeoutError:
            return None

    async def stop(self) -> None:
        await super().stop()
        await cancel_and_wait(*(prompt.asking for prompt in self._prompts.values()))
        self._prompts.clear()

    async def ended(self) -> None:
        """The terminal is gone: what it wrote last is told, and an open turn is not told again."""
        await self.stop()
        if (attached := self._attached) is None:
            return
        await attached.flush()
        with suppress(OSError):
            cursor = TranscriptCursor.parse(attached.record.cursor)
            self._events = self._new_events(cursor)
            await self._read(attached, self._new_file(cursor))
        if self._events.may_be_over:
            await self._tell(attached, self._events.end_turn())
        elif (turn := self._events.turn) is not None:
            attached.tell(turn, self._events.cursor)
        await attached.detach()

    async def _follow(self, attached: AttachedSession) -> None:
        cursor = TranscriptCursor.parse(attached.record.cursor)
        self._events = self._new_events(cursor)
        file, self._quiet = self._new_file(cursor), Quiet(LOOK_S)
        while True:
            self._changed.clear()
            file.path = self._path
            notes = len(self._hooks)  # what they tell of is in the record by now
            grew = False
            try:
                grew = await self._read(attached, file)
            except FileNotFoundError:
                pass  # it comes with the first prompt
            except OSError as error:
                log.info("the record of %s cannot be read: %s", self._session, error)
            while notes and self._is_ready(self._hooks[0]):
                notes -= 1
                await self._take_note(attached, self._hooks.popleft())
            self._quiet.look(quiet=not grew and len(self._hooks) == 0)
            if self._events.turn is not None and await self._is_over():
                await self._tell(attached, self._events.end_turn())
            await self._settle(attached)
            works = self._events.turn is not None
            attached.activity("working" if works else "idle")
            expects = (
                works or bool(self._prompts) or bool(self._hooks) or time.monotonic() - self._prompted_at < PROMPT_S
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S if expects else None):
                    await self._changed.wait()

    async def _tell_line(self, attached: AttachedSession, line: TranscriptLine) -> None:
        before = self._events.turn
        await self._tell(attached, self._events.feed(line))
        if self._events.turn is not before:
            self._prompted_at = -PROMPT_S

    async def _tell(self, attached: AttachedSession, events: TellAfter) -> None:
        for event, cursor in events:
            if isinstance(event, ToolResult):
                decision = "deny" if event.status == "denied" else "allow"
                await self._close(attached, event.id, None if event.output == UNFINISHED else decision)
            elif isinstance(event, Done):
                for call in {prompt.call for prompt in self._prompts.values()}:
                    await self._close(attached, call, None)
            attached.tell(event, cursor)

    async def _take_note(self, attached: AttachedSession, note: HookNote) -> None:
        """Of a turn that is open: a hook may come late, when the next one has begun."""
        if self._events.turn is not None and note.at >= self._events.began_at and self._since() is not None:
            await self._on_note(attached, note)

    # --- permission prompts ----------------------------------------------------------------------------------

    def _unasked(self) -> list[AcpToolCall]:
        """Calls that run or wait, of which nothing is asked."""
        asked = {prompt.call for prompt in self._prompts.values()}
        return [tool for id, tool in self._events.open_calls.items() if id not in asked]

    async def _show(self, attached: AttachedSession, ask: Ask, command: str = "") -> None:
        if isinstance(ask.action, Command):
            command = command or ask.action.command
        self._asked += 1
        key = f"{self._session}-{self._asked}"
        asking = asyncio.create_task(attached.ask(ask, key), name=f"ask-{key}")
        self._prompts[key] = ShownPrompt(ask.tool, command, asking)
        await asyncio.sleep(0)  # now it is asked, and can be settled

    async def _running_prompts(self) -> list[ShownPrompt]:
        """Those about a command that runs: it was allowed."""
        shown = [prompt for prompt in self._prompts.values() if prompt.command]
        running = await self._running({prompt.command for prompt in shown})
        return [prompt for prompt in shown if prompt.command in running]

    async def _running(self, commands: Set[str]) -> set[str]:
        """Those that run below the terminal. Only where there is a /proc."""
        lines = await asyncio.to_thread(_commands_below, self.process) if commands else []
        return {command for command in commands if any(command in line for line in lines)}

    async def _close(self, attached: AttachedSession, call: str, decision: Literal["allow", "deny"] | None) -> None:
        """What it asked about this call was decided at the terminal; None: it is not asked any more. The log has that
        before what follows."""
        for key in [key for key, prompt in self._prompts.items() if prompt.call == call]:
            asking = self._prompts.pop(key).asking
            if decision is not None:
                await attached.settle(key, decision)
                await asyncio.wait({asking}, timeout=SETTLE_S)
            await cancel_and_wait(asking)


def _commands_below(process: int) -> list[str]:
    """The command lines of all that a process has started."""
    found: list[str] = []
    for pid in descendants(process) if process else ():
        with suppress(OSError):
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found
