"""A session in an OpenCode terminal, read along: what its plugin tells, as turns of an attached session by the driver's
own normaliser, and what people decide or say elsewhere, as requests that the plugin makes.

A turn begins with a message of its person, and is over when the session is idle. After a gap the plugin tells the
history again, message by message; what was told before is not told again.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from ...background_tasks import background, cancel_and_wait
from ...drivers.base import Prompt
from ...drivers.opencode.asks import OpenCodeAsks, OpenRequest
from ...drivers.opencode.events import OpenCodeNormaliser
from ...drivers.opencode.policy import Rules
from ...drivers.opencode.protocol import SOURCE, error_message, message_model
from ...drivers.opencode.server import OpenCodeError, ServerUnreachable
from ...drivers.opencode.session_api import read_diff
from ...drivers.opencode.turn_state import TurnState
from ...drivers.turn_stream import Turn
from ...events import Answer, Ask, Done, Error, Event, Init, Other, Status, TurnStarted
from ...mesh.plugin_connector import PluginConnector
from ...mesh.push import HarnessSession, Unreachable
from ...sessions.attached_session import AT_THE_TERMINAL, MODE, SAID, AttachedSession, TerminalUnreachable
from ...sessions.records import Remote
from ...wire.json_lines import decode_line
from ...wire.json_object import JsonObject
from ..terminals.attached_plugin_connector import TerminalBehind

FLUSH_S = 30.0
"""For what the plugin has told to be written. Then it is told again, when there is room."""
UNFINISHED = ("tool-calls", "unknown")
"""How a model call finishes that is not the last of its turn."""

_RESULT = msgspec.json.Decoder()


class OpenCodeTerminal:
    remote: tuple[Remote, ...] = ("prompt", "steer", "abort", "answer", "question", "model")

    def __init__(self, connector: PluginConnector, native_id: str, cwd: str) -> None:
        self.native_id = native_id
        self.cwd = cwd
        self.rules: Rules = []  # OpenCode minds its person's own
        self.normaliser = OpenCodeNormaliser(native_id, mcp=("tieline",))
        self.link = ""  # by which its plugin was told to tell
        self._connector = connector
        self._session: AttachedSession | None = None
        self._asks = _TerminalAsks(self, cwd)
        self._turn: _TerminalTurn | None = None
        self._known: set[str] = set()  # prompts
        self._state = TurnState(native_id, self._known)
        self._pending_prompts: dict[str, dict[str, str]] = {}  # a prompt without a turn → its texts by part
        self._midway: dict[str, set[str]] = {}  # a message in the middle of the turn → its parts that were told
        self._since = 0.0
        self._model = self._mode = ""
        self._cursor = ""  # the last message of the last turn
        self._last_answer: JsonObject = {}
        self._ending = False
        self._taking = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Read no further. The session is told of its end by `detach`, where it is one."""
        await cancel_and_wait(*self._tasks)

    # --- for the attached session ------------------------------------------------------------------------

    @property
    def process(self) -> int:
        link = self._connector.link_of(self.native_id)
        return link.process if link is not None else 0

    async def prompt(self, text: str, *, model: str = "", effort: str = "") -> None:
        session = HarnessSession(harness=self._connector.harness, session=self.native_id)
        try:
            await self._connector.push(session, text, sender="", model=model, effort=effort)
        except Unreachable as error:
            raise TerminalUnreachable(str(error)) from None

    async def steer(self, text: str) -> None:
        state = self._state
        state.steering += 1
        try:
            await self.prompt(text)
        except TerminalUnreachable:
            state.steering -= 1
            raise

    async def abort(self) -> None:
        try:
            await self.request("POST", f"/session/{self.native_id}/abort")
        except (OpenCodeError, ServerUnreachable) as error:
            raise TerminalUnreachable(str(error)) from None

    # --- for the asks ------------------------------------------------------------------------------------

    @property
    def current(self) -> Turn | None:
        return self._turn if not self._ending else None

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = background(work, f"opencode-{self.native_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        """Of OpenCode's own interface. Raises OpenCodeError, ServerUnreachable."""
        try:
            answer = await self._connector.request(self.native_id, method, path, body)
        except Unreachable as error:
            raise ServerUnreachable(str(error)) from None
        if answer.error:
            raise OpenCodeError(answer.status, answer.error)
        return decode_line(_RESULT, bytes(answer.result)) if bytes(answer.result) else None

    def settle(self, ask: str, decision: Literal["allow", "deny"]) -> None:
        if self._session is not None:
            self.spawn(self._session.settle(ask, decision))

    def announce(self, answer: Answer, title: str) -> None:
        """Tell the person at the terminal who decided."""
        decision = "Allowed" if answer.decision == "allow" else "Denied"
        who = f" by {answer.by}" + (f" ({answer.via})" if answer.via else "")
        message = f"{decision}: {title}: {answer.reason}" if answer.rule else f"{decision}{who}: {title}"
        self.spawn(self._show(message))

    async def _show(self, message: str) -> None:
        with suppress(OpenCodeError, ServerUnreachable):  # it is in the log as well
            await self.request("POST", "/tui/show-toast", {"message": message[:300], "variant": "info"})

    # --- what the plugin tells ---------------------------------------------------------------------------

    def begin(self, session: AttachedSession, since: float) -> str:
        """Tell this session from now on, without turns that began before `since`. The last message that needs not be
        told."""
        self._since = since
        if self._session is not session:
            self._session, self._cursor = session, session.record.cursor
        return self._cursor

    async def take(self, events: Sequence[dict[str, Any]]) -> None:
        """They are written when it returns. Raises TerminalBehind, TimeoutError."""
        session = self._session
        if session is None:
            return
        async with self._taking:
            try:
                for event in events:
                    self._on_event(event)
                    if self._ending:
                        await self._end()
                async with asyncio.timeout(FLUSH_S):
                    await session.flush()
            except (TerminalBehind, TimeoutError):
                self._forget_turn()
                raise

    def _on_event(self, event: dict[str, Any]) -> None:
        try:
            properties: JsonObject = event.get("properties") or {}
            match event.get("type"):
                case "tieline.reading":
                    self.normaliser.mark_gap()
                case "tieline.message" if not self._is_over(properties):
                    self._read(properties["info"], properties["parts"])
                case "tieline.read":
                    self._on_read(properties)
                case _ if not self._is_over(properties):
                    self._on_live(event, properties)
                case _:
                    pass
        except (KeyError, TypeError, AttributeError):  # not as we know it: kept, not fatal
            if self._turn is not None:
                self._turn.emit(Other(event, SOURCE))

    def _is_over(self, properties: JsonObject) -> bool:
        """Whether it is about a message of a turn that is over, or one that may not be read."""
        info: JsonObject = properties.get("info") or {}
        if info and info["time"]["created"] / 1000 < self._since:
            return True
        part: JsonObject = properties.get("part") or {}
        message = info.get("id") or part.get("messageID") or properties.get("messageID")
        return isinstance(message, str) and message <= self._cursor

    def _on_live(self, event: dict[str, Any], properties: JsonObject) -> None:
        kind = event["type"]
        if kind == "message.updated":
            self._message(properties["info"])
        elif kind == "message.part.updated":
            self._note_prompt(properties["part"])
        elif kind == "session.status":
            self._status(properties["sessionID"], properties["status"]["type"])
        if (turn := self._turn) is None:
            return
        for emitted in self.normaliser.feed(event):
            turn.emit(emitted)
        if self._asks.deferred:
            self._asks.start_deferred()
        if kind == "session.idle":
            self._status(properties["sessionID"], "idle")
        elif kind == "session.error":
            self._error(properties)
        elif hook := self._asks.hooks.get(kind):
            hook(properties)

    def _read(self, info: JsonObject, parts: Sequence[dict[str, Any]]) -> None:
        """A message of the history, whole."""
        if info["role"] == "user" and self._turn is not None and self._begins_turn(info, parts):
            self._finish(self._turn)
        self._message(info)
        for part in parts:
            self._note_prompt(part)
            if self._turn is not None:
                for event in self.normaliser.feed_part(part):
                    self._turn.emit(event)

    def _begins_turn(self, info: JsonObject, parts: Sequence[JsonObject]) -> bool:
        """Whether a message came after the end of the turn before it, and not in its midst."""
        last = self._last_answer
        if info["sessionID"] != self.native_id or info["id"] in self._known or not last:
            return False
        if not any(part["type"] == "text" and not part.get("synthetic") for part in parts):
            return False
        over = last.get("error") or last.get("finish", "") not in UNFINISHED
        return bool(over) and info["time"]["created"] >= last["time"].get("completed", float("inf"))

    def _on_read(self, properties: JsonObject) -> None:
        """The history is told; this is how the session is now."""
        idle = properties["status"] == "idle"
        if not idle and self._pending_prompts:
            self._start()
        if self._turn is not None:
            self._asks.start_deferred()
            for path in ("/permission", "/question"):
                self._asks.withdraw_except(set(properties[path.strip("/")]), path)
            self._state.busy = True
            if idle:
                self._ending = True
        if self._session is not None:
            self._session.activity("idle" if idle and self._turn is None else "working")

    # --- a turn's course -----------------------------------------------------------------------------------

    def _message(self, info: JsonObject) -> None:
        if info["role"] == "user":
            self.normaliser.users.add(info["id"])
        if self._turn is not None:
            self._turn.note(info)
        if info["sessionID"] != self.native_id:
            return
        if info["role"] == "user" and self._turn is None:
            if info["id"] not in self._known:
                self._known.add(info["id"])
                self._pending_prompts[info["id"]] = {}
                self._model, self._mode = message_model(info), str(info.get("agent") or "")
            return
        if info["role"] == "user":
            if info["id"] not in self._known:
                self._midway[info["id"]] = set()
        else:
            self._last_answer = info
            if self._turn is None:
                self._start()
                if self._turn is not None:
                    self._turn.note(info)
        self._state.message(info)

    def _note_prompt(self, part: JsonObject) -> None:
        if (texts := self._pending_prompts.get(part["messageID"])) is not None:
            if part["type"] == "text" and not part.get("synthetic"):
                texts[part["id"]] = part["text"]
            elif part["type"] == "compaction":
                texts[part["id"]] = "/compact"
            return
        known_parts = self._midway.get(part["messageID"])
        if self._turn is None or known_parts is None or part["id"] in known_parts:
            return
        if part["type"] == "text" and not part.get("synthetic"):
            known_parts.add(part["id"])
            self._turn.emit(Status(SAID, part["text"]))

    def _start(self) -> None:
        """The session works on what its person said."""
        session = self._session
        if not self._pending_prompts or session is None:
            return
        ids = list(self._pending_prompts)
        text = "\n\n".join(text for texts in self._pending_prompts.values() for text in texts.values())
        self._pending_prompts.clear()
        self.normaliser.start_turn()
        self._state = TurnState(self.native_id, self._known)
        self._state.prompt = ids[0]
        self._turn = turn = _TerminalTurn(text, ids, session)
        turn.emit(Init(self._connector.harness, self.native_id, self.cwd, self._model))
        if self._mode:
            turn.emit(Status(MODE, self._mode))

    def _status(self, session: str, kind: str) -> None:
        if session != self.native_id:
            return
        if kind != "idle" and self._pending_prompts and self._turn is None:
            self._start()
        if self._state.status(session, kind) and self._turn is not None:
            self._ending = True
        elif self._session is not None:
            self._session.activity("idle" if kind == "idle" and self._turn is None else "working")

    def _error(self, properties: JsonObject) -> None:
        error: JsonObject = properties.get("error") or {}
        name, message = str(error.get("name", "")), error_message(error)
        if self._turn is not None and self._state.error(properties.get("sessionID", ""), name, message):
            self._turn.emit(Error(message, name, recoverable=True))

    async def _end(self) -> None:
        turn = self._turn
        if turn is not None:
            await asyncio.gather(*self._asks.end(turn), return_exceptions=True)
            diff = None
            if self.normaliser.patched:
                path = f"/session/{self.native_id}/diff?messageID={self._state.prompt}"
                diff = await read_diff(lambda: self.request("GET", path))
            if diff := diff or self.normaliser.composed_diff():
                turn.emit(diff)
            self._finish(turn)
        if self._session is not None:
            self._session.activity("idle")

    def _finish(self, turn: "_TerminalTurn") -> None:
        self._asks.end(turn)
        self._cursor = turn.last
        self._state.end(turn, self.normaliser)
        self._turn = None
        self._ending = False
        self._last_answer = {}
        self._midway.clear()

    def _forget_turn(self) -> None:
        """It is told again from its beginning."""
        if self._turn is not None:
            self._asks.end(self._turn)
            self._known.difference_update(self._turn.prompts, self._midway)
        self._known.difference_update(self._pending_prompts)
        self._pending_prompts.clear()
        self._midway.clear()
        self._turn, self._ending, self._last_answer = None, False, {}


class _TerminalTurn(Turn):
    """A turn that is told as it happens, without a reader in between."""

    def __init__(self, prompt: str, ids: Sequence[str], session: AttachedSession) -> None:
        self.prompts = ids
        self.last = ids[-1]  # message
        self.session = session
        self._times: list[float] = []
        super().__init__(Prompt(prompt), self._ask_session)

    def note(self, info: JsonObject) -> None:
        """A message of it."""
        self.last = max(self.last, info["id"])
        self._times += [info["time"]["created"], info["time"].get("completed", 0)]

    async def _ask_session(self, ask: Ask, emit: Any) -> Answer:
        return await self.session.ask(ask, ask.id)

    def _put(self, event: Event) -> None:
        cursor = ""
        if isinstance(event, TurnStarted):
            event = replace(event, id=self.prompts[0])
        elif isinstance(event, Done):
            cursor = self.last
            if self._times:  # it may be told long after
                event = replace(event, duration_s=max(0.0, (max(self._times) - self._times[0]) / 1000))
        if not self.session.tell(event, cursor):
            raise TerminalBehind


class _TerminalAsks(OpenCodeAsks):
    """They are shown at the terminal as well: whoever is first decides."""

    scope = "in all sessions of this OpenCode"

    def __init__(self, terminal: OpenCodeTerminal, cwd: str) -> None:
        super().__init__(terminal, cwd)
        self._terminal = terminal

    def decided_elsewhere(self, turn: Turn, each: OpenRequest, *, allowed: bool) -> None:
        self._terminal.settle(each.ask.id, "allow" if allowed else "deny")

    async def allow(self, each: OpenRequest, answer: Answer) -> None:
        await self.reply(each, "reply", {"reply": "once" if answer.remember == "once" else "always"})

    async def reply(self, each: OpenRequest, verb: str, body: Any) -> None:
        if each.answer is not None and each.answer.by != AT_THE_TERMINAL:
            self._terminal.announce(each.answer, each.ask.title)
        await super().reply(each, verb, body)
