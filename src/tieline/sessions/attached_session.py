"""A session that a person runs in a harness's own terminal: written down, shown, answered and prompted like any other.

The terminal runs the turns. A reader of its harness tells what happens there (`tell`, `ask`), in order; each event is
written down once, however often and by however many ways it is told. What people decide or say elsewhere goes back by
the `HarnessTerminal` that the reader attaches.
"""

import asyncio
import hashlib
import logging
import time
from collections import deque
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ..background_tasks import cancel_and_wait
from ..backoff import Backoff
from ..drivers.base import Prompt
from ..errors import BusClosed, BusError, TielineError, Unsupported, UsageError
from ..events import (
    Answer,
    Ask,
    Diff,
    Done,
    Error,
    Event,
    Init,
    Plan,
    Status,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    TurnStarted,
    Usage,
)
from ..ids import new_id
from ..processes.process_table import process_key
from .ask_decisions import ByRules, deny
from .event_log import EPHEMERAL, EventLog
from .pending_asks import PendingAsks
from .prompt_queue import PromptQueue
from .records import KeepRecord, PromptRecord, Remote, SessionRecord, SessionStatus, after_turn, last_line

MAX_UNWRITTEN = 10_000
"""Events that wait for the disk. Then the reader has to begin again where the log ends."""
MAX_UNWRITTEN_DELTAS = 1000
AT_THE_TERMINAL = "terminal"
"""Who answered, where a person did so at the terminal itself."""
ANSWER_THERE = "Answer it at its terminal: the harness takes no answer from elsewhere."
"""What every surface says of an ask that nobody can answer from elsewhere."""
SAID = "said"
"""The status that shows what somebody said in the middle of a turn."""
MODE = "mode"
"""The status that tells the mode of a harness, such as its plan mode."""
ENDED = "the terminal was closed before this turn ended"
UNFINISHED = "it was not finished"
RETRY = Backoff(0.5, 15.0)


log = logging.getLogger("tieline.sessions")


class TerminalUnreachable(TielineError):
    """A terminal does not take what it was sent just now."""


class HarnessTerminal(Protocol):
    """The harness session of a person, as the reader of its harness offers it."""

    @property
    def remote(self) -> tuple[Remote, ...]:
        """What can be done from elsewhere; the rest is not called."""
        ...

    @property
    def process(self) -> int:
        """The process below which the agent's tools run: what descends from it may not answer its asks. 0: unknown."""
        ...

    async def prompt(self, text: str, *, model: str = "", effort: str = "") -> None:
        """Begin a turn in the idle session, with another model from it on where these name one. Raises
        TerminalUnreachable."""
        ...

    async def steer(self, text: str) -> None:
        """Say something in its running turn. Raises TerminalUnreachable."""
        ...

    async def abort(self) -> None:
        """Interrupt its running turn. Raises TerminalUnreachable."""
        ...


class _Asked(Struct):
    """A prompt that the terminal shows."""

    ask: Ask
    waits: bool = False  # for people; before that rules are looked at
    settled: Literal["allow", "deny"] | None = None  # at the terminal, before it waited


class AttachedSession:
    """Lives as long as the manager, with or without a terminal: `attach` when it is there, `detach` when it is gone."""

    def __init__(
        self,
        record: SessionRecord,
        *,
        events: EventLog,
        prompts: PromptQueue,
        asks: PendingAsks,
        keep: KeepRecord,
        by_rules: ByRules,
    ) -> None:
        self.record: SessionRecord = record
        self.terminal: HarnessTerminal | None = None
        self._log = events
        self._prompts = prompts
        self._asks = asks
        self._keep = keep
        self._by_rules = by_rules
        self._waiting_asks = 0
        self._asked: dict[str, _Asked] = {}  # by the reader's key
        self._ask_tasks: set[asyncio.Task[Any]] = set()
        self._written = _Written()
        self._driven: deque[str] = deque()  # the prompts of turns that we ran: the harness's history has them as well
        self._skipping = False
        self._unwritten: deque[tuple[Event, str]] = deque()
        self._news = asyncio.Event()
        self._idle = asyncio.Event()  # nothing is unwritten
        self._idle.set()
        self._writing: asyncio.Task[None] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._look_again = False  # a prompt may have come while it was looked for one
        self._activity: Literal["idle", "working"] = "idle"
        self._stopped = False
        self._unsaved = False

    # --- the reader's side -----------------------------------------------------------------------------

    async def attach(self, terminal: HarnessTerminal, *, working: bool) -> None:
        """The terminal is there; what it says from now on is told in order. After a time without it, the reader tells
        its history from `record.cursor` on: what is in the log already is not written twice."""
        await self._begin_writing()
        if self.record.kind == "driven":
            self._driven = await _prompts_since(self._log, self.record)
        self.terminal = terminal
        self._activity = "working" if working else "idle"
        status: SessionStatus = "working" if working else "idle"
        await self._change(
            kind="attached",
            remote=terminal.remote,
            process=process_key(terminal.process),
            status=status,
            problem="",
            active_at=time.time(),
        )
        self.wake()

    async def detach(self, reason: str = ENDED) -> None:
        """The terminal is gone. An open turn gets its end, asks are withdrawn; prompts that wait, wait on."""
        self.terminal = None
        await self._begin_writing()
        await self._withdraw_asks()
        await self.flush()
        if self._written.open_turn:
            for call in list(self._written.open_calls):
                self.tell(ToolResult(call, "error", UNFINISHED))
            self.tell(Error(reason, "terminal"))
            self.tell(Done("interrupted", error=reason, native_id=self.record.native_id))
            await self.flush()
        if (prompt := self._prompts.running(self.record.id)) is not None:
            await self._prompts.conclude(prompt, None, reason)
        await self._change(status="closed", process="", active_at=time.time())

    def tell(self, event: Event, cursor: str = "") -> bool:
        """Something happened at the terminal. A turn is told from its TurnStarted to its Done. `cursor` is how far the
        harness's history is read when this one is written. False: too much is unwritten; begin again from the cursor
        when there is room (`flush`)."""
        if len(self._unwritten) >= (MAX_UNWRITTEN_DELTAS if isinstance(event, EPHEMERAL) else MAX_UNWRITTEN):
            return isinstance(event, EPHEMERAL)
        self._unwritten.append((event, cursor))
        self._idle.clear()
        self._news.set()
        return True

    async def flush(self) -> None:
        """Everything told is written when it returns."""
        if self._writing is None or self._writing.done():
            return
        idle = asyncio.create_task(self._idle.wait())
        try:
            await asyncio.wait({idle, self._writing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(idle)

    def activity(self, activity: Literal["idle", "working"]) -> None:
        """The terminal works, or takes the next prompt."""
        if activity != self._activity:
            self._activity = activity
            if activity == "idle":
                if self.record.status == "working" and not self._written.open_turn:  # of the turn nothing was told
                    self._set("idle")
                self.wake()
            elif self.record.status == "idle" and self._written.open_turn:  # it began before we were there
                self._set("working")

    async def ask(self, ask: Ask, key: str) -> Answer:
        """The terminal shows a prompt. Returns the decision that counts, from wherever: `by` is AT_THE_TERMINAL when it
        was made there (`settle`), `rule` is set when a person's rule made it. Cancelled: the harness withdrew it."""
        way: Remote = "question" if ask.kind == "question" else "answer"
        there = "" if way in self.record.remote else ANSWER_THERE
        ask = replace(ask, id=new_id(), remember=() if ask.withheld or there else ask.remember, at_terminal=there)
        asked = self._asked[key] = _Asked(ask)
        task = asyncio.current_task()
        assert task is not None
        self._ask_tasks.add(task)
        try:
            answer = await self._rules_answer(ask) or await self._peoples_answer(asked)
        finally:
            self._ask_tasks.discard(task)
            if self._asked.get(key) is asked:
                del self._asked[key]
        self.tell(answer)
        return answer

    async def decide_by_rule(self, ask: Ask) -> Answer | None:
        """The terminal is about to ask, and takes an answer from elsewhere only at this moment: what a person's rule
        says, for the reader to tell. None: no rule does, and the terminal asks."""
        if self.terminal is None or ask.kind != "permission":
            return None
        return await self._by_rules(replace(ask, id=new_id(), remember=(), scopes={}))

    async def _rules_answer(self, ask: Ask) -> Answer | None:
        """Nobody is asked then. The harness has refused what it denies by itself before it showed the prompt."""
        if self.terminal is None or "answer" not in self.terminal.remote or ask.kind != "permission":
            return None
        return await self._by_rules(replace(ask, remember=(), scopes={}))

    async def _peoples_answer(self, asked: _Asked) -> Answer:
        ask = asked.ask
        self.tell(ask)
        if asked.settled is not None:
            answer = Answer(ask.id, asked.settled, by=AT_THE_TERMINAL, tool=ask.tool)
            await self._asks.keep_decided(self.record.id, ask, answer)
            return answer
        asked.waits = True
        try:
            return await self._asks.wait(self.record.id, ask, expires=False)
        except asyncio.CancelledError:
            self.tell(deny(ask, "the ask was withdrawn", by=AT_THE_TERMINAL))
            raise

    async def settle(self, key: str, decision: Literal["allow", "deny"]) -> None:
        """What was asked under this key was decided at the terminal, unless somebody else was faster."""
        if (asked := self._asked.get(key)) is None:
            return
        if asked.waits:
            ask = asked.ask
            await self._asks.settle(ask.id, Answer(ask.id, decision, by=AT_THE_TERMINAL, tool=ask.tool))
        else:
            asked.settled = decision

    async def remote_changed(self) -> None:
        """The terminal takes more from elsewhere than before, or less."""
        if self.terminal is not None and self.terminal.remote != self.record.remote:
            await self._change(remote=self.terminal.remote)
            self.wake()

    # --- the manager's side ----------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return False  # its turns are the terminal's: nobody waits for their end before Tieline stops

    @property
    def resting(self) -> bool:
        return False

    def rest(self) -> None:
        pass

    def revive(self) -> None:
        pass

    def stop_starting(self) -> None:
        self._stopped = True

    def wake(self) -> None:
        """Send the next prompt that waits, once the terminal is idle."""
        self._look_again = True
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_prompts(), name=f"prompts-{self.record.id}")

    def asking(self, waits: bool) -> None:
        self._waiting_asks += 1 if waits else -1
        if self.record.status in ("working", "waiting"):
            self._set("waiting" if self._waiting_asks else "working")

    async def steer(self, text: str) -> None:
        if not self._written.open_turn:
            raise UsageError(f"no turn is running in {self.record.id!r}", field="session", hint="Send it as a prompt.")
        await self._reach("steer").steer(text)

    async def abort(self) -> bool:
        if not self._written.open_turn:
            return False
        await self._reach("abort").abort()
        return True

    async def close(self) -> None:
        """We stop; the terminal goes on."""
        self._stopped = True
        await self._withdraw_asks()
        await self.flush()
        await cancel_and_wait(*(task for task in (self._sending, self._writing) if task is not None))

    # --- inside ----------------------------------------------------------------------------------------

    def _reach(self, way: Remote) -> HarnessTerminal:
        if self.terminal is None:
            raise UsageError(
                "the terminal of this session is closed",
                field="session",
                hint="Resume it there, or take it over with `tieline adopt`.",
            )
        if way not in self.terminal.remote:
            raise Unsupported(self.record.agent, f"{way} in a terminal", hint="Do it at the terminal.")
        return self.terminal

    async def _begin_writing(self) -> None:
        if self._writing is None:
            self._written = await _Written.of(self._log, self.record)
            self._writing = asyncio.create_task(self._write_all(), name=f"attached-{self.record.id}")

    async def _send_prompts(self) -> None:
        while self._look_again:
            self._look_again = False
            await self._send_next()

    async def _send_next(self) -> None:
        failures = 0
        while not self._stopped and (terminal := self.terminal) is not None and "prompt" in terminal.remote:
            await self.flush()
            if self._activity != "idle" or self._written.open_turn or self._prompts.running(self.record.id):
                return  # the end of the turn looks again
            try:
                prompt = await self._prompts.start(self.record.id)
                if prompt is None:
                    return
                record = self.record
                try:
                    if not record.model_unsent:
                        await terminal.prompt(prompt.text)
                        return  # its turn tells the rest
                    await terminal.prompt(prompt.text, model=record.model, effort=record.effort)
                    if (self.record.model, self.record.effort) == (record.model, record.effort):
                        await self._change(model_unsent=False, problem="")
                    return
                except (TerminalUnreachable, OSError, TimeoutError) as error:
                    log.info("the terminal of %s did not take a prompt: %s", self.record.id, error)
                    await self._prompts.give_back(prompt)
                    if record.model_unsent:  # perhaps that is why: a person can choose another
                        await self._change(problem=str(error))
            except BusClosed:
                return
            except BusError as error:
                log.warning("a prompt of %s could not be kept: %s", self.record.id, error)
            failures += 1
            await asyncio.sleep(RETRY.delay(failures))

    async def _write_all(self) -> None:
        failures = 0
        while True:
            while self._unwritten:
                event, cursor = self._unwritten[0]
                try:
                    await self._write(event, cursor)
                except BusClosed:
                    return
                except BusError as error:
                    failures += 1
                    log.warning("an event of %s could not be kept: %s", self.record.id, error)
                    await asyncio.sleep(RETRY.delay(failures))
                    continue
                failures = 0
                self._unwritten.popleft()
            if self._unsaved:
                self._unsaved = False
                try:
                    await self._keep(self.record)
                except BusClosed:
                    return
                except BusError as error:  # the next change brings it along
                    log.warning("the state of %s could not be kept: %s", self.record.id, error)
                continue
            self._idle.set()
            self._news.clear()
            await self._news.wait()

    async def _write(self, event: Event, cursor: str) -> None:
        id = self.record.id
        if isinstance(event, EPHEMERAL):
            await self._log.announce(id, event)
            return
        changes: dict[str, Any] = {"cursor": cursor} if cursor else {}
        if isinstance(event, Init) and event.model not in ("", self.record.model) and not self.record.model_unsent:
            changes["model"] = event.model  # also when it was changed at the terminal
        mode = event.detail if isinstance(event, Status) and event.state == MODE else ""
        if mode and mode != self.record.mode:
            changes["mode"] = mode
        known = bool(mode) and self.record.mode in ("", mode)  # the first mode is not a change
        if self._is_our_turn(event) or self._written.has(event) or known:
            if changes:
                await self._change(**changes)
            return
        prompt = self._prompts.running(id)
        if isinstance(event, TurnStarted):
            if self._written.open_turn:  # the end of the turn was never reported
                await self._write(Done("interrupted", native_id=self.record.native_id), "")
            started = replace(event, id=prompt.id) if prompt and _same_words(prompt, event) else event
            await self._log.append(id, started)
            self._written.add(event)
            status: SessionStatus = "waiting" if self._waiting_asks else "working"
            await self._change(status=status, problem="", active_at=time.time(), **changes)
            return
        seq = await self._log.append(id, event)
        self._written.add(event)
        match event:
            case Done():
                self.record = replace(after_turn(self.record, event, seq), **changes)
                await self._keep(self.record)
                if prompt is not None:
                    await self._prompts.finish(id, event.status, event.error)
                self.wake()
            case Text(text=text) if text.strip():
                self.record = replace(self.record, last_line=last_line(text), **changes)
            case _ if changes:
                await self._change(**changes)
            case _:
                pass

    def _is_our_turn(self, event: Event) -> bool:
        """Whether the event belongs to a turn that we ran ourselves, which the log has already in our words. These
        turns come before all others."""
        if isinstance(event, TurnStarted):
            ours = next((index for index, text in enumerate(self._driven) if text.strip() in event.prompt), None)
            self._skipping = ours is not None
            for _ in range(len(self._driven) if ours is None else ours + 1):
                self._driven.popleft()
        skipped = self._skipping
        if isinstance(event, Done):
            self._skipping = False
        return skipped

    async def _withdraw_asks(self) -> None:
        current = asyncio.current_task()
        await cancel_and_wait(*(task for task in self._ask_tasks if task is not current))

    def _set(self, status: SessionStatus) -> None:
        self.record = replace(self.record, status=status)
        self._unsaved = True
        self._idle.clear()
        self._news.set()

    async def _change(self, **changes: Any) -> None:
        self.record = replace(self.record, **changes)
        await self._keep(self.record)


class _Written:
    """What the log has of the turn that is open, or of the last one: whatever is told again is not written again."""

    def __init__(self) -> None:
        self.open_turn = False
        self.open_calls: dict[str, None] = {}
        self._known: set[tuple[str, str]] = set()
        self._latest: dict[type[Event], Event] = {}  # of what is told whole each time
        self._statuses: list[Status] = []  # the same one may come twice in a turn: its place tells
        self._retold = 0  # how many of them were passed, since the turn was last told from its beginning
        self._prompt = ""  # of an open turn that was read from the log

    @classmethod
    async def of(cls, log: EventLog, record: SessionRecord) -> "_Written":
        """As the log has it after the last turn that the record counts."""
        written = cls()
        async for entry in log.read(record.id, after=record.seq, follow=False):
            written.add(entry.event)
            if isinstance(entry.event, TurnStarted):
                written._prompt = entry.event.prompt
        if record.turns:
            written._known.add(("init", ""))
        return written

    def has(self, event: Event) -> bool:
        if isinstance(event, TurnStarted):
            self._retold = 0
            if self.open_turn and self._prompt and event.prompt == self._prompt:
                self._prompt = ""
                self._known.add(_identity(event) or ("turn", ""))
                return True
        if isinstance(event, Status):
            if event not in self._statuses[self._retold :]:
                return False
            self._retold = self._statuses.index(event, self._retold) + 1
            return True
        if isinstance(event, Plan | Diff | Usage):
            return self._latest.get(type(event)) == event
        if isinstance(event, Done):
            return not self.open_turn
        identity = _identity(event)
        return identity is not None and identity in self._known

    def add(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._known = {known for known in self._known if known[0] == "init"}
                self._latest.clear()
                self._statuses.clear()
                self._retold = 0
                self.open_turn = True
            case Done():
                self.open_turn = False
                self.open_calls.clear()
            case ToolUse(id=id):
                self.open_calls[id] = None
            case ToolResult(id=id):
                self.open_calls.pop(id, None)
            case Plan() | Diff() | Usage():
                self._latest[type(event)] = event
            case Status():
                self._statuses.append(event)
                self._retold = len(self._statuses)
            case _:
                pass
        if identity := _identity(event):
            self._known.add(identity)


async def _prompts_since(log: EventLog, record: SessionRecord) -> deque[str]:
    """Of the turns that we ran since we took the session over, or since it began."""
    entries = log.read(record.id, after=record.adopted_at, follow=False)
    return deque([entry.event.prompt async for entry in entries if isinstance(entry.event, TurnStarted)])


def attached_id(node: str, agent: str, native_id: str) -> str:
    """The same session always has the same id: also when we died before it was written down."""
    return "at-" + hashlib.sha256(f"{node} {agent} {native_id}".encode()).hexdigest()[:20]


def check_attached_prompt(record: SessionRecord, prompt: Prompt, timeout_s: float | None) -> None:
    """Refuse what a terminal does not take."""
    if not prompt.text.strip():
        raise UsageError("the prompt is empty", field="prompt", hint="Say what the agent should do.")
    if prompt.attachments or prompt.system or timeout_s is not None:
        raise UsageError(
            "a session in a terminal takes text only", field="prompt", hint="Send it without attachments and limits."
        )
    if "prompt" not in record.remote:
        raise Unsupported(record.agent, "prompts from elsewhere in a terminal", hint="Type it at the terminal.")


def _identity(event: Event) -> tuple[str, str] | None:
    """What tells an event from every other of its turn. None: it has nothing of the kind."""
    match event:
        case Init():
            return "init", ""
        case TurnStarted(id=id) if id:
            return "turn", id
        case Text(item=item) | Thinking(item=item) if item:
            return event.type, item
        case ToolUse(id=id) | ToolResult(id=id) | Ask(id=id):
            return event.type, id
        case Answer(ask=ask):
            return event.type, ask
        case _:
            return None


def _same_words(prompt: PromptRecord, event: TurnStarted) -> bool:
    """Whether a turn is the one that a prompt began: harnesses put words of their own around it."""
    return prompt.text.strip() in event.prompt
