"""A Claude Code session in a person's terminal, attached: its transcript is followed, its permission prompts are
answered by a hook that waits, and prompts go in by its messaging socket."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct

from ...background_tasks import cancel_and_wait
from ...drivers.claude_code.asks import ToolPermissions, answered_input
from ...drivers.claude_code.prompt import hook_output
from ...drivers.claude_code.tools import QUESTION
from ...events import Answer, Ask, Command
from ...mesh.push import Unreachable
from ...policy import Policy
from ...sessions.attached_session import AT_THE_TERMINAL, AttachedSession, TerminalUnreachable
from ...sessions.records import Remote
from ..terminals.transcript_file import TranscriptCursor, TranscriptFile
from ..terminals.transcript_terminal import Quiet, TranscriptTerminal
from .transcript import ClaudeCodeTranscriptFile, TranscriptEvents, digest_of_call

if TYPE_CHECKING:
    from claude_agent_sdk import PermissionUpdate

PERMISSION_EVENT = "PermissionRequest"
SETTLE_S = 1.0
"""The transcript tells what was decided at the terminal within this time after the prompt is gone."""
CALL_S = 3.0
"""The transcript has the call that is asked about within this time."""
QUIET_S = 3.0
"""A session that is idle for so long, and writes nothing, has ended its turn, if it says so or not."""

log = logging.getLogger("tieline.sessions")


class _Context(Struct, frozen=True):
    """What the hook says of a request. Its suggestions are the terminal's to choose."""

    tool_use_id: str = ""
    decision_reason: str = ""
    description: str = ""
    title: str = ""
    blocked_path: str = ""
    suggestions: "tuple[PermissionUpdate, ...]" = ()


class _Wanted(Struct, frozen=True):
    """A call that is asked about. The hook does not say which one it is."""

    digest: bytes
    at: float


class _Prompt:
    """A permission prompt that the terminal shows."""

    def __init__(self, call: "_Wanted", key: str, tool: str, asking: asyncio.Task[Answer]) -> None:
        self.call = call
        self.key = key
        self.tool = tool  # empty: the transcript does not have it yet, or it is a subagent's
        self.asking = asking
        self.shown = False
        self.gone: Quiet | None = None  # since it is no longer shown


class ClaudeCodeTerminal(TranscriptTerminal[TranscriptEvents]):
    remote: tuple[Remote, ...] = ("prompt", "steer", "answer", "question")

    def __init__(
        self,
        process: int,
        session: str,
        cwd: str,
        path: Path,
        *,
        since: Callable[[], float | None],
        reading: asyncio.Semaphore,
        push: Callable[[str], Awaitable[None]],
        status: Callable[[], str],
    ) -> None:
        """`status` reads what its file says at this moment: blocking."""
        super().__init__(process, session, cwd, path, since=since, reading=reading)
        self._push = push
        self._read_status = status
        self._status = ""
        self._permissions = ToolPermissions(Policy(), cwd, user_rules=True)
        self._prompts: dict[str, _Prompt] = {}
        self._asked = 0
        self._read_again = asyncio.Condition()

    def _new_events(self, cursor: TranscriptCursor) -> TranscriptEvents:
        return TranscriptEvents(self._session, cursor)

    def _new_file(self, cursor: TranscriptCursor) -> ClaudeCodeTranscriptFile:
        return ClaudeCodeTranscriptFile(self._path, cursor)

    # --- what people say elsewhere -------------------------------------------------------------------------

    async def prompt(self, text: str, *, model: str = "", effort: str = "") -> None:
        if self._status not in ("", "idle"):
            raise TerminalUnreachable("Claude Code is not idle")
        await self.steer(text)

    async def steer(self, text: str) -> None:
        """Claude Code takes it up after the tool that runs, or as the next turn."""
        try:
            await self._push(text)
        except Unreachable as error:
            raise TerminalUnreachable(str(error)) from None

    async def abort(self) -> None:
        raise TerminalUnreachable("Claude Code can be interrupted only at its terminal")

    # --- its life ------------------------------------------------------------------------------------------

    def follow(self, attached: AttachedSession, status: str) -> None:
        self._attached, self._status = attached, status
        self._following = asyncio.create_task(self._follow(attached), name=f"claude-code-{self._session}")

    def look(self, status: str, path: Path | None = None) -> None:
        """Its file says this now, or its transcript may have grown."""
        self._status = status
        self._path = path or self._path
        self._changed.set()

    async def stop(self) -> None:
        await super().stop()
        await cancel_and_wait(*(prompt.asking for prompt in self._prompts.values()))

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
        if (turn := self._events.turn) is not None:
            attached.tell(turn, self._events.cursor)
        await attached.detach()

    async def _follow(self, attached: AttachedSession) -> None:
        cursor = TranscriptCursor.parse(attached.record.cursor)
        self._events = self._new_events(cursor)
        file, quiet = self._new_file(cursor), Quiet(SETTLE_S)
        while True:
            self._changed.clear()
            file.path = self._path
            # Before we read: the last lines of a turn and the idle terminal come in the same moment.
            idle = self._events.turn is not None and await self._is_idle()
            grew = False
            try:
                grew = await self._read(attached, file)
            except FileNotFoundError:
                pass  # it comes with the first prompt
            except OSError as error:
                log.info("the transcript of %s cannot be read: %s", self._session, error)
            quiet.look(quiet=idle and not grew)
            if idle and not grew and quiet.seconds >= QUIET_S:
                for event, after in self._events.end_turn():
                    attached.tell(event, after)
            attached.activity("idle" if self._status in ("", "idle") else "working")
            await self._settle(attached)
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_S if self._prompts or self._events.turn else None):
                    await self._changed.wait()

    async def _is_idle(self) -> bool:
        """By its file at this moment: what we saw last may be of before the turn, on a machine that has much to do."""
        return self._status == "idle" == await asyncio.to_thread(self._read_status)

    async def _read(self, attached: AttachedSession, file: TranscriptFile) -> bool:
        grew = await super()._read(attached, file)
        async with self._read_again:
            self._read_again.notify_all()
        return grew

    # --- permission prompts --------------------------------------------------------------------------------

    async def answer_prompt(self, input: Mapping[str, Any]) -> str:
        """What the hook prints; empty: it was decided at the terminal, or it is gone. Cancelled: the hook is gone."""
        attached, name, given = self._attached, input.get("tool_name"), cast("dict[str, Any]", input.get("tool_input"))
        if attached is None or not isinstance(name, str) or not isinstance(input.get("tool_input"), dict):
            return ""
        wanted = _Wanted(digest_of_call(name, given), time.time())
        call = await self._wait_for_call(wanted)
        ask = await self._build_ask(name, given, call, input.get("cwd"))
        self._asked += 1
        key = f"{self._session}-{self._asked}"
        asking = asyncio.create_task(attached.ask(ask, key), name=f"ask-{key}")
        self._prompts[key] = _Prompt(wanted, key, call, asking)
        self._changed.set()
        try:
            await asyncio.wait({asking})
        finally:
            await cancel_and_wait(asking)
            del self._prompts[key]
        if asking.cancelled() or (answer := asking.result()).by == AT_THE_TERMINAL:
            return ""
        return _decision(name, given, answer)

    async def _build_ask(self, name: str, given: dict[str, Any], call: str, cwd: object) -> Ask:
        """`cwd` is where its shell is by now: a rule for one directory must not hold in another."""
        ask = await self._permissions.build_ask(name, given, given, _Context(call))
        action = ask.action
        if isinstance(action, Command) and isinstance(cwd, str) and cwd != self._cwd:
            action = msgspec.structs.replace(action, cwd=cwd)
        return msgspec.structs.replace(ask, action=action, remember=(), scopes={})

    def _find_call(self, wanted: _Wanted) -> str:
        """As the transcript has it. Empty: it has not."""
        others = {prompt.tool for prompt in self._prompts.values()}
        for id, call in self._events.calls.items():
            is_new = call.ended_at is None or wanted.at <= call.ended_at < math.inf
            if is_new and call.digest == wanted.digest and id not in others:
                return id
        return ""

    async def _wait_for_call(self, wanted: _Wanted) -> str:
        """The id of the call. Empty: the call is a subagent's, or the transcript is late."""
        while True:
            begun = time.monotonic()
            with suppress(TimeoutError):
                async with asyncio.timeout(CALL_S), self._read_again:
                    self._changed.set()
                    await self._read_again.wait_for(lambda: bool(self._find_call(wanted)))
            call = self._find_call(wanted)
            # A longer wait means that the machine was suspended, and nothing was read: then wait once more.
            if call or time.monotonic() - begun < 2 * CALL_S:
                return call

    async def _settle(self, attached: AttachedSession) -> None:
        """What was decided at the terminal: the result of the call tells, or that the prompt is no longer shown."""
        if not self._prompts:
            return
        status = await asyncio.to_thread(self._read_status)
        waits = status == "waiting"
        for prompt in list(self._prompts.values()):
            prompt.tool = prompt.tool or self._find_call(prompt.call)
            if (allowed := self._events.results.get(prompt.tool)) is None:
                prompt.shown = prompt.shown or waits
                if waits or not prompt.shown:
                    prompt.gone = None
                    continue
                prompt.gone = prompt.gone or Quiet(SETTLE_S)
                prompt.gone.look(quiet=True)
                if prompt.gone.seconds < (SETTLE_S if status == "busy" else QUIET_S):
                    continue  # of a turn that is over already, the result of the call may be a moment behind
                allowed = status == "busy"
            await attached.settle(prompt.key, "allow" if allowed else "deny")


def _decision(name: str, given: dict[str, Any], answer: Answer) -> str:
    if answer.decision == "deny":
        decision: dict[str, Any] = {"behavior": "deny", "message": answer.reason or f"Denied by {answer.by}."}
    elif name == QUESTION:
        decision = {"behavior": "allow", "updatedInput": answered_input(given, answer)}
    else:
        decision = {"behavior": "allow"}
    return msgspec.json.encode(hook_output(PERMISSION_EVENT, decision=decision)).decode()
