"""A thread of Codex that a person runs in a terminal, read along over the connection to its daemon.

As a subscriber of the thread we hear what its terminal hears, and are asked what it is asked: the first answer counts.
"""

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from itertools import takewhile
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ...background_tasks import cancel_and_wait
from ...drivers.base import Prompt
from ...drivers.codex.asks import parse_request
from ...drivers.codex.events import CodexNormaliser
from ...drivers.codex.items import turn_outcome
from ...drivers.codex.rollout_file import RolloutFile
from ...drivers.codex.thread_params import content
from ...drivers.codex.usage import CodexUsageMeter
from ...drivers.current_file import note_links
from ...drivers.denial_reasons import PendingReasons, refusal_message
from ...events import (
    Ask,
    Done,
    Error,
    Event,
    Init,
    Other,
    Status,
    Text,
    ToolResult,
    ToolUse,
    TurnStarted,
    Usage,
    Warning,
)
from ...ids import new_id
from ...policy import Policy
from ...sessions.attached_session import AT_THE_TERMINAL, MODE, SAID, AttachedSession, TerminalUnreachable
from ...sessions.attacher import Attacher
from ...sessions.records import Remote
from ...wire.json_object import JsonObject
from ...wire.jsonrpc import NoResponse, Peer, PeerGone, RpcError

HARNESS = "codex"
REQUEST_S = 10.0
DECIDED_S = 0.5
"""A call that was declined at the terminal ends at once; one that has not ended by then was allowed."""
WITHDRAWN_S = 2.0
"""Asks of a turn that is over are over within this time."""
STARTING_S = 0.1
"""How soon a thread is tried again that has begun its first turn, and is not written down yet."""
PAGE = 4
"""Turns that are read at once: one may be megabytes."""
MAX_MISSED = 10_000
"""Turns of the time in which we were away; earlier ones are left out."""
MAX_HELD = 10_000
"""Notifications that come while history is told."""
MAX_OVER = 16
"""Turns that ended while history was told, and are notified after it once more."""
MAX_EARLY = 100
"""Events of a turn that come before its prompt."""

CallDecision = Literal["allow", "deny"]

log = logging.getLogger("tieline.mesh")


class ThreadStatus(Struct, frozen=True, rename="camel"):
    type: str = ""
    active_flags: tuple[str, ...] = ()


class Thread(Struct, frozen=True, rename="camel"):
    id: str
    cwd: str = ""
    ephemeral: bool = False
    status: ThreadStatus = ThreadStatus()
    parent_thread_id: str | None = None
    thread_source: str | None = None
    created_at: float = 0.0
    path: str | None = None
    name: str | None = None
    model: str | None = None
    cli_version: str | None = None

    @property
    def of_a_person(self) -> bool:
        """Codex has threads of its own too: for titles, for subagents."""
        return not self.ephemeral and not self.parent_thread_id and self.thread_source in (None, "user")

    @property
    def may_be_left(self) -> bool:
        """It does not work, or nobody is there whom it asks: without a terminal it is over."""
        return self.status.type != "active" or bool(self.status.active_flags)


class _Loaded(Struct, frozen=True):
    data: list[str]


async def loaded_threads(peer: Peer) -> list[str]:
    """Those that the daemon has open. Raises RpcError, PeerGone, TimeoutError."""
    return msgspec.convert(await peer.request("thread/loaded/list", {}, timeout=REQUEST_S), _Loaded).data


class CodexTerminal:
    """Lives from the terminal's start to its end, over several connections: `follow` is one of them."""

    remote: tuple[Remote, ...] = ("prompt", "steer", "abort", "answer", "question", "model")

    def __init__(self, attacher: Attacher, thread: Thread, reading: asyncio.Semaphore | None = None) -> None:
        """`reading` is held for each part of a history: of many long ones only few are in memory at once."""
        self.process = 0
        self._reading = reading or asyncio.Semaphore(1)
        self.thread = thread
        self._attacher = attacher
        self._peer: Peer | None = None
        self._session: AttachedSession | None = None
        self._meter = CodexUsageMeter()
        self._normaliser = CodexNormaliser(
            self._tell, started=self._on_turn, ended=self._on_turn_ended, meter=self._meter, cwd=thread.cwd
        )
        self._rollout: RolloutFile | None = None
        self._turn = ""  # the id of the one that runs
        self._began = False  # its prompt was told
        self._heard: set[str] = set()  # what was said in it, by item
        self._over: deque[str] = deque(maxlen=MAX_OVER)  # turns that were told to their end
        self._early: list[Event] = []  # of a turn whose prompt was not told yet
        self._open_calls: dict[str, None] = {}
        self._refused: dict[str, str] = {}  # tool call → why
        self._last_text = ""
        self._pending_reasons = PendingReasons()
        self._sent_reasons: deque[str] = deque(maxlen=MAX_OVER)  # of denials: their answers have them
        self._live = asyncio.Event()  # what is notified is told at once
        self._held: deque[tuple[str, JsonObject]] = deque()
        self._behind = asyncio.Event()  # something could not be told: begin again where the log ends
        self._stirred = asyncio.Event()
        self._asks: dict[asyncio.Task[Any], str] = {}  # whoever waits for a decision, and the tool call it is about
        self._outcomes: dict[str, asyncio.Future[CallDecision]] = {}  # by tool call
        self._ending: asyncio.Task[None] | None = None
        self._connection = asyncio.Lock()  # one after the other

    # --- one connection --------------------------------------------------------------------------------

    async def follow(self, peer: Peer, process: int) -> None:
        """Read along until cancelled. Raises RpcError, PeerGone, TimeoutError."""
        async with self._connection:
            await self._follow(peer, process)

    async def _follow(self, peer: Peer, process: int) -> None:
        self._peer, self.process, thread = peer, process, self.thread
        self._live.clear()
        self._held.clear()
        try:
            session = self._session = await self._attacher.attach(
                HARNESS,
                thread.id,
                cwd=thread.cwd,
                terminal=self,
                working=self._activity == "working",
                title=thread.name or "",
            )
            session.activity(self._activity)  # its turn may have ended while the session was made
            session.tell(Init(HARNESS, thread.id, thread.cwd, thread.model or "", thread.cli_version or ""))
            await self._subscribe(peer)
            while True:
                self._behind.clear()
                await self._tell_history(peer)
                self._go_on()
                await self._behind.wait()
                self._live.clear()
                self._held.clear()
                await session.flush()
        finally:
            self._peer = None
            self._live.clear()
            if self._ending is not None:
                await cancel_and_wait(self._ending)

    def changed(self, thread: Thread) -> None:
        """What it is now, as the daemon tells everybody."""
        self.thread = thread
        if self._session is not None:
            self._session.activity(self._activity)
        self._stirred.set()

    @property
    def _activity(self) -> Literal["idle", "working"]:
        return "working" if self.thread.status.type == "active" else "idle"

    async def leave(self, *reason: str) -> None:
        """Its terminal is gone, or it may not be read; nothing follows it any more."""
        if (session := self._session) is not None:
            await session.detach(*reason)
            if self._turn:  # it has its end in the log: what else comes of it is not told
                session.tell(Done("interrupted"), cursor=self._turn)
                await session.flush()

    async def _subscribe(self, peer: Peer) -> None:
        while True:
            self._stirred.clear()
            try:
                self._note_settings(await self._request(peer, "thread/resume", excludeTurns=True))
                return
            except RpcError as error:
                if "no rollout" not in error.message:
                    raise
            # Before its first turn nothing can be subscribed to, and nothing happens.
            with suppress(TimeoutError):
                async with asyncio.timeout(STARTING_S if self.thread.status.type == "active" else None):
                    await self._stirred.wait()

    async def _tell_history(self, peer: Peer) -> None:
        path, running = self.thread.path, ""
        self._rollout = RolloutFile(path) if path else None
        since = self._attacher.on_since(self.thread.cwd)
        async with aclosing(self._missed_turns(peer)) as turns:
            async for turn in turns:
                if since and _began_at(turn) < since:
                    self._over.append(turn["id"])
                    continue
                self._tell_turn(turn)
                running = turn["id"] if turn["status"] == "inProgress" else ""
        if path and running:
            self._rollout = await asyncio.to_thread(RolloutFile, path, running)

    async def _missed_turns(self, peer: Peer) -> AsyncGenerator[JsonObject]:
        """The turns after the last one whose end was emitted, oldest first. Emitted events are written before the next
        page is read."""
        last = self._session.record.cursor if self._session else ""
        if not last:
            async for turn in self._turns(peer, sortDirection="asc"):
                yield turn
            return
        # First look for the last turn, from the newest page on; the content of the turns is read after that. Mostly no
        # turn is missing, which the newest page shows.
        newest = await self._page(peer, itemsView="notLoaded", sortDirection="desc", limit=1)
        if not _after(last, newest):
            return
        pages: list[str] = []
        cursor, reached_last = newest.get("nextCursor"), False
        while cursor and not reached_last and len(pages) * PAGE < MAX_MISSED:
            pages.append(cursor)
            page = await self._page(peer, itemsView="notLoaded", sortDirection="desc", cursor=cursor)
            cursor, reached_last = page.get("nextCursor"), len(_after(last, page)) < len(page["data"])
        while pages:
            async with self._reading:
                page = await self._page(peer, sortDirection="desc", cursor=pages.pop())
                for turn in reversed(_after(last, page)):
                    yield turn
                await self._flush()
        async for turn in self._turns(peer, sortDirection="asc", cursor=newest["backwardsCursor"]):
            yield turn

    async def _turns(self, peer: Peer, **page: Any) -> AsyncGenerator[JsonObject]:
        while True:
            async with self._reading:
                response = await self._page(peer, **page)
                for turn in response["data"]:
                    yield turn
                await self._flush()
            if not (cursor := response.get("nextCursor")):
                return
            page["cursor"] = cursor

    async def _page(self, peer: Peer, **page: Any) -> Any:
        return await self._request(peer, "thread/turns/list", **{"limit": PAGE, "itemsView": "full", **page})

    async def _flush(self) -> None:
        if self._session is not None:
            await self._session.flush()

    def _tell_turn(self, turn: JsonObject) -> None:
        feed = self._normaliser.feed
        feed("turn/started", {"turn": turn})
        self._began = False  # its beginning is told again, if it was told
        self._heard.clear()
        for item in turn["items"]:
            if item["type"] == "userMessage":
                self._hear(item)
            else:
                running = item.get("status") == "inProgress"
                feed("item/started" if running else "item/completed", {"item": item})
        if turn["status"] != "inProgress":
            feed("turn/completed", {"turn": turn})

    # --- what the daemon says --------------------------------------------------------------------------

    def notified(self, method: str, params: JsonObject) -> None:
        if method == "thread/settings/updated":
            self._note_settings(params.get("threadSettings") or {})
            return
        if not self._live.is_set():
            if len(self._held) == MAX_HELD:
                self._behind.set()
            else:
                self._held.append((method, params))
            return
        about: JsonObject = params.get("turn") or {}
        turn = str(params.get("turnId") or about.get("id") or "")
        if turn in self._over:
            return
        if turn and turn != self._turn and method != "turn/started":  # its beginning was before ours
            self._normaliser.feed("turn/started", {"turn": {"id": turn}})
        item: JsonObject = params.get("item") or {}
        if method == "item/completed" and item.get("type") == "userMessage":
            self._hear(item)
        self._normaliser.feed(method, params)

    def _note_settings(self, settings: JsonObject) -> None:
        if (session := self._session) is None:
            return
        if isinstance(model := settings.get("model"), str):
            self.thread = msgspec.structs.replace(self.thread, model=model)
            session.tell(Init(HARNESS, self.thread.id, self.thread.cwd, model, self.thread.cli_version or ""))
        collaboration: JsonObject = settings.get("collaborationMode") or {}
        if isinstance(mode := collaboration.get("mode"), str):
            session.tell(Status(MODE, mode))

    async def requested(self, method: str, params: JsonObject, resolved: asyncio.Event) -> Any:
        """Handle an ask that the terminal also shows. If the terminal answers first, `resolved` is set."""
        await self._live.wait()
        session, normaliser = self._session, self._normaliser
        self._read_rollout()
        if method == "item/fileChange/requestApproval":  # the request does not say which change it is about
            normaliser.show_call(str(params.get("itemId")))
        try:
            parsed_request = parse_request(method, params, normaliser, Policy())
        except (LookupError, TypeError, AttributeError):
            parsed_request = None  # another version of Codex has another shape
        if parsed_request is None or session is None or params.get("threadId") != self.thread.id:
            await resolved.wait()  # the terminal answers it
            raise NoResponse
        ask, respond = parsed_request
        normaliser.show_call(ask.tool)
        ask = await note_links(ask, self.thread.cwd)
        self._begin("")
        task, key = asyncio.current_task(), new_id()
        assert task is not None
        self._asks[task] = ask.tool
        settling = asyncio.create_task(self._settle(session, ask, key, resolved))
        try:
            answer = await session.ask(ask, key)
        finally:
            self._asks.pop(task, None)
            await cancel_and_wait(settling)
        if answer.by == AT_THE_TERMINAL:
            raise NoResponse
        if resolved.is_set():
            self._tell(Warning(f"The terminal had decided before {answer.by or 'the answer'} did: that counts."))
            raise NoResponse
        if answer.decision == "deny" and ask.tool:
            self._refused[ask.tool] = answer.reason or f"denied by {answer.by}"
        if reason := refusal_message(ask, answer):
            await self._send_reason(reason, params)
        return respond(answer)

    async def _settle(self, session: AttachedSession, ask: Ask, key: str, resolved: asyncio.Event) -> None:
        """Somebody has answered, which is not us; what, is told by what becomes of the call."""
        outcome = self._outcomes[ask.tool or key] = asyncio.get_running_loop().create_future()
        try:
            await resolved.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(DECIDED_S):
                    await asyncio.shield(outcome)
            await session.settle(key, outcome.result() if outcome.done() else "allow")
        finally:
            self._outcomes.pop(ask.tool or key, None)
            outcome.cancel()

    async def _send_reason(self, reason: str, params: JsonObject) -> None:
        """A refusal has no place for its reason: that is said before, so that the model hears both at once."""
        self._sent_reasons.append(reason)
        try:
            await self._steer(str(params.get("turnId")), reason)
        except TerminalUnreachable:
            self._pending_reasons.add(reason)

    # --- what goes back --------------------------------------------------------------------------------

    async def prompt(self, text: str, *, model: str = "", effort: str = "") -> None:
        chosen = {name: value for name, value in (("model", model), ("effort", effort)) if value}
        await self._ask_codex("turn/start", input=content(self._pending_reasons.prepend_to(Prompt(text))), **chosen)

    async def steer(self, text: str) -> None:
        await self._steer(self._turn, text)

    async def abort(self) -> None:
        await self._ask_codex("turn/interrupt", turnId=self._turn)

    async def _steer(self, turn: str, text: str) -> None:
        await self._ask_codex("turn/steer", expectedTurnId=turn, input=content(Prompt(text)))

    async def _ask_codex(self, method: str, **params: Any) -> None:
        peer = self._peer
        if peer is None:
            raise TerminalUnreachable("Codex's daemon is not running")
        try:
            await self._request(peer, method, **params)
        except (RpcError, PeerGone, TimeoutError) as error:
            raise TerminalUnreachable(f"Codex did not accept it: {str(error) or 'no answer in time'}") from None

    async def _request(self, peer: Peer, method: str, **params: Any) -> Any:
        return await peer.request(method, {"threadId": self.thread.id, **params}, timeout=REQUEST_S)

    # --- inside ----------------------------------------------------------------------------------------

    def _on_turn(self, turn: str) -> None:
        if turn != self._turn:
            self._turn, self._began, self._last_text = turn, False, ""
            self._heard.clear()
            self._early.clear()
            self._open_calls.clear()
            self._refused.clear()
            self._meter.start_turn()

    def _hear(self, item: JsonObject) -> None:
        """The first words are the turn's prompt; others came in the middle of it."""
        words, id = _words(item), item["id"]
        if id in self._heard:
            return
        self._heard.add(id)
        if not self._began:
            self._begin(words)
        elif words not in self._sent_reasons:
            self._tell(Status(SAID, words))

    def _begin(self, prompt: str) -> None:
        if not self._began and self._turn:
            self._began = True
            self._put(TurnStarted(prompt, self._turn))
            for event in self._early:
                self._put(event)
            self._early.clear()

    def _on_turn_ended(self, ended_turn: JsonObject) -> None:
        if ended_turn["id"] != self._turn:
            return
        self._read_rollout()
        for outcome in self._outcomes.values():
            _decide(outcome, "deny")  # it waited until the end
        if self._asks:  # first their ends, then the turn's
            self._live.clear()
            self._ending = asyncio.create_task(self._end_after_asks(ended_turn))
        else:
            self._end(ended_turn)

    async def _end_after_asks(self, ended_turn: JsonObject) -> None:
        if self._asks:  # the asks may have ended before this task began
            await asyncio.wait(list(self._asks), timeout=WITHDRAWN_S)
        await cancel_and_wait(*self._asks)
        self._end(ended_turn)
        self._go_on()

    def _end(self, ended_turn: JsonObject) -> None:
        status, message, code = turn_outcome(ended_turn)
        if status in ("error", "max_budget") and not self._normaliser.failure:
            self._tell(Error(message or "the turn failed", code))
        self._begin("")
        for call in list(self._open_calls):
            self._tell(ToolResult(call, "error", f"the turn ended: {status}"))
        tokens = self._meter.tokens
        done = Done(
            status,
            text=self._last_text,
            error=message,
            tokens=tokens,
            usage="unknown" if tokens is None else "complete" if status == "success" else "partial",
            native_id=self.thread.id,
            duration_s=(ended_turn.get("durationMs") or 0) / 1000,
            turns=self._meter.calls or None,
        )
        self._over.append(self._turn)
        self._put(done, cursor=self._turn)
        self._turn = ""

    def _tell(self, event: Event) -> None:
        """What is told between turns belongs to none."""
        if not self._turn:
            return
        if not self._began and isinstance(event, Warning | Status | Usage | Other):
            self._early = [*self._early[: MAX_EARLY - 1], event]
            return
        self._begin("")
        match event:
            case ToolUse(id=id):
                self._open_calls[id] = None
            case ToolResult(id=id, status=status):
                self._open_calls.pop(id, None)
                if status == "denied" and not event.output:
                    event = ToolResult(id, status, self._refused.get(id, ""), event.parent)
                if outcome := self._outcomes.get(id):
                    _decide(outcome, "deny" if status == "denied" else "allow")
            case Text(text=text):
                self._last_text = text
            case _:
                pass
        self._put(event)

    def _put(self, event: Event, cursor: str = "") -> None:
        if self._session is not None and not self._session.tell(event, cursor):
            self._live.clear()
            self._behind.set()

    def _go_on(self) -> None:
        """History is told: what came meanwhile follows, then what comes."""
        self._live.set()
        while self._held and self._live.is_set():
            self.notified(*self._held.popleft())

    def _read_rollout(self) -> None:
        """The model's own calls, which a subscriber is not told."""
        for item in self._rollout.read_new() if self._rollout is not None else ():
            self._normaliser.feed("rawResponseItem/completed", {"item": item})


def _decide(outcome: "asyncio.Future[CallDecision]", decision: CallDecision) -> None:
    if not outcome.done():
        outcome.set_result(decision)


def _began_at(turn: JsonObject) -> float:
    """0: it does not say."""
    return _time_of(turn["id"]) or float(turn.get("startedAt") or 0)


def _after(last: str, page: JsonObject) -> list[JsonObject]:
    """The turns of a page, newest first, that came after that one. It may be taken back since."""

    def is_after(turn: JsonObject) -> bool:
        return turn["id"] != last and not 0 < _time_of(turn["id"]) < _time_of(last)

    return list(takewhile(is_after, page["data"]))


def _time_of(turn: str) -> float:
    """0: its id does not say."""
    with suppress(ValueError):
        if (id := uuid.UUID(turn)).version == 7:  # its first bits are milliseconds
            return (id.int >> 80) / 1000
    return 0.0


def _words(item: JsonObject) -> str:
    parts = (str(part.get("text") or f"[{part.get('type')}]") for part in item.get("content") or ())
    return "\n".join(parts)
