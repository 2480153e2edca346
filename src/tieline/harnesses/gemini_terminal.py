"""A Gemini CLI session in a person's terminal, attached: its record is followed; its hooks tell when a tool begins, a
permission prompt is shown and a turn is over. Gemini takes nothing from elsewhere: what it asks is answered at
the terminal, and shown as long as it is asked."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

from ..background_tasks import cancel_and_wait
from ..drivers.acp.permissions import permission_ask
from ..drivers.acp.tools import AcpToolCall
from ..events import Done, Event, ToolResult
from ..processes.process_table import descendants
from ..sessions.attached_session import UNFINISHED, AttachedSession, TerminalUnreachable
from ..sessions.records import Remote
from .gemini_transcript import PRESET, GeminiEvents, GeminiTranscriptFile, changes, parse_time
from .transcript_file import TranscriptCursor

LOOK_S = 0.5
"""How often the record of a session that works is looked at: no hook tells that it was interrupted."""
PROMPT_S = 30.0
"""A prompt of which a hook told is in the record within this time, unless another hook refused it."""
QUIET_S = 5.0
"""A record that ends with an answer, and stays as it is for so long, is of a turn that is over: its hook may have found
no hub."""
SETTLE_S = 10.0
"""For what was decided at the terminal to be written down."""
MAX_HOOKS = 1000
"""Hooks that wait until the record is read."""
HOW = "Gemini CLI takes nothing from other programs"

log = logging.getLogger("tieline.sessions")


class HookNote(Struct, frozen=True):
    event: str
    input: Mapping[str, Any]

    @property
    def at(self) -> float:
        return parse_time(str(self.input.get("timestamp")))

    def fields(self, name: str) -> dict[str, Any]:
        value: Any = self.input.get(name)
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


class _Prompt:
    """A permission prompt that the terminal shows."""

    def __init__(self, call: str, command: str, asking: asyncio.Task[Any]) -> None:
        self.call = call
        self.command = command
        self.asking = asking


class GeminiTerminal:
    remote: tuple[Remote, ...] = ()

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
        """`since`: turns that began before that time are not read; None: nothing may be read now. `reading` is held for
        each part of a record."""
        self.process = process
        self._session = session
        self._cwd = cwd
        self._path = path
        self._since = since
        self._reading = reading
        self._attached: AttachedSession | None = None
        self._events = GeminiEvents(session, cwd, TranscriptCursor())
        self._hooks: deque[HookNote] = deque(maxlen=MAX_HOOKS)
        self._prompted_at = -PROMPT_S  # when a hook told of a prompt that the record has not yet
        self._prompts: dict[str, _Prompt] = {}
        self._asked = 0
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    # --- what people say elsewhere -------------------------------------------------------------------------

    async def prompt(self, text: str) -> None:
        raise TerminalUnreachable(HOW)

    async def steer(self, text: str) -> None:
        raise TerminalUnreachable(HOW)

    async def abort(self) -> None:
        raise TerminalUnreachable(HOW)

    # --- its life ------------------------------------------------------------------------------------------

    def follow(self, attached: AttachedSession) -> None:
        self._attached = attached
        self._following = asyncio.create_task(self._follow(attached), name=f"gemini-{self._session}")

    def on_hook(self, note: HookNote) -> None:
        self._hooks.append(note)
        if note.event == "BeforeAgent":
            self._prompted_at = time.monotonic()
        self._changed.set()

    async def stop(self) -> None:
        """We stop reading; the terminal may go on."""
        if self._following is not None:
            await cancel_and_wait(self._following)
        await cancel_and_wait(*(prompt.asking for prompt in self._prompts.values()))
        self._prompts.clear()

    async def ended(self) -> None:
        """The terminal is gone: what it wrote last is told."""
        await self.stop()
        if (attached := self._attached) is None:
            return
        await attached.flush()
        with suppress(OSError):
            cursor = TranscriptCursor.parse(attached.record.cursor)
            self._events = GeminiEvents(self._session, self._cwd, cursor)
            await self._read(attached, GeminiTranscriptFile(self._path, cursor))
        if self._events.turn is not None and self._events.may_be_over:
            await self._tell(attached, self._events.end_turn())
        await attached.detach()

    async def let_go(self, reason: str) -> None:
        """Read nothing more, though the terminal is there."""
        await self.stop()
        if self._attached is not None:
            await self._attached.detach(reason)

    async def _follow(self, attached: AttachedSession) -> None:
        cursor = TranscriptCursor.parse(attached.record.cursor)
        self._events = GeminiEvents(self._session, self._cwd, cursor)
        file, grew_at = GeminiTranscriptFile(self._path, cursor), time.monotonic()
        while True:
            self._changed.clear()
            notes = len(self._hooks)  # what they tell of is in the record by now
            try:
                if await self._read(attached, file):
                    grew_at = time.monotonic()
            except FileNotFoundError:
                pass  # it comes with the first prompt
            except OSError as error:
                log.info("the record of %s cannot be read: %s", self._session, error)
            for _ in range(notes):
                await self._on_note(attached, self._hooks.popleft())
            if self._events.may_be_over and time.monotonic() - grew_at >= QUIET_S:
                await self._tell(attached, self._events.end_turn())
            await self._settle(attached)
            works = self._events.turn is not None
            attached.activity("working" if works else "idle")
            expects = works or bool(self._prompts) or time.monotonic() - self._prompted_at < PROMPT_S
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S if expects else None):
                    await self._changed.wait()

    async def _read(self, attached: AttachedSession, file: GeminiTranscriptFile) -> bool:
        """Tell what was added; whether anything was."""
        more, grew = True, False
        while more:
            async with self._reading:
                added, more = await self._read_part(attached, file)
            grew = grew or added
        return grew

    async def _read_part(self, attached: AttachedSession, file: GeminiTranscriptFile) -> tuple[bool, bool]:
        """Whether anything was added, and whether there is more. What is read is in memory until this returns: not
        while the next part waits for its turn among those of other sessions."""
        if (since := self._since()) is None:  # it is let go of in a moment
            return False, False
        self._events.since = since
        lines, more = await asyncio.to_thread(file.read)
        for line in lines:
            before = self._events.turn
            await self._tell(attached, self._events.feed(line))
            if self._events.turn is not before:
                self._prompted_at = -PROMPT_S
        if more:
            await attached.flush()
        return bool(lines), more

    async def _tell(self, attached: AttachedSession, events: list[tuple[Event, str]]) -> None:
        for event, cursor in events:
            if isinstance(event, ToolResult):
                decision = "deny" if event.status == "denied" else "allow"
                await self._close(attached, event.id, None if event.output == UNFINISHED else decision)
            elif isinstance(event, Done):
                for call in {prompt.call for prompt in self._prompts.values()}:
                    await self._close(attached, call, None)
            attached.tell(event, cursor)

    async def _on_note(self, attached: AttachedSession, note: HookNote) -> None:
        """Of a turn that is open: a hook may come late, when the next one has begun."""
        events = self._events
        if events.turn is None or note.at < events.began_at or self._since() is None:
            return
        match note.event:
            case "BeforeTool":
                name = str(note.input.get("tool_name"))
                await self._tell(attached, events.announce(name, note.fields("tool_input")))
            case "AfterAgent" if not events.open_calls:  # else it is a subagent's
                await self._tell(attached, events.end_turn())
            case "Notification" if note.input.get("notification_type") == "ToolPermission":
                await self._ask(attached, note.fields("details"))
            case _:
                pass

    # --- permission prompts --------------------------------------------------------------------------------

    async def _ask(self, attached: AttachedSession, details: dict[str, Any]) -> None:
        asked = {prompt.call for prompt in self._prompts.values()}
        waiting = {id: tool for id, tool in self._events.open_calls.items() if id not in asked}
        found = next((tool for tool in waiting.values() if _is_about(details, tool, self._cwd)), None)
        tool = found or AcpToolCall(str(details.get("title") or "tool"), "")
        tool.merge_permission_request({"content": changes(details)})
        if found is None:
            tool.arguments = details
        ask = await permission_ask("", tool, self._events.action(tool), {"toolCall": details}, PRESET, self._cwd)
        self._asked += 1
        key = f"{self._session}-{self._asked}"
        asking = asyncio.create_task(attached.ask(ask, key), name=f"ask-{key}")
        self._prompts[key] = _Prompt(tool.id, str(details.get("command") or ""), asking)
        await asyncio.sleep(0)  # now it is asked, and can be settled

    async def _settle(self, attached: AttachedSession) -> None:
        """A command that runs was allowed; of all others the end tells."""
        if not any(prompt.command for prompt in self._prompts.values()):
            return
        running = await asyncio.to_thread(_commands_below, self.process)
        for prompt in list(self._prompts.values()):
            if prompt.command and any(prompt.command in each for each in running):
                await self._close(attached, prompt.call, "allow")

    async def _close(self, attached: AttachedSession, call: str, decision: Literal["allow", "deny"] | None) -> None:
        """What it asked about this call was decided at the terminal; None: it is not asked any more. The log has that
        before what follows."""
        for key in [key for key, prompt in self._prompts.items() if prompt.call == call]:
            asking = self._prompts.pop(key).asking
            if decision is not None:
                await attached.settle(key, decision)
                await asyncio.wait({asking}, timeout=SETTLE_S)
            await cancel_and_wait(asking)


def _is_about(details: Mapping[str, Any], tool: AcpToolCall, cwd: str) -> bool:
    """Whether a prompt asks about this call: it has no id of it."""
    match details:
        case {"type": "exec", "command": str(command)}:
            return tool.argument("command") == command
        case {"type": "edit", "filePath": str(path)}:
            return Path(cwd, tool.argument("file_path")) == Path(path)
        case {"type": "mcp", "serverName": str(server), "toolName": str(name)}:
            return tool.name == f"mcp_{server}_{name}"
        case {"type": "exec" | "edit" | "mcp"}:
            return False
        case _:
            return True


def _commands_below(process: int) -> list[str]:
    """The command lines of all that a process has started."""
    found: list[str] = []
    for pid in descendants(process) if process else ():
        with suppress(OSError):
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found
