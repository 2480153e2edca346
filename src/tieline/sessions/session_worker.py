"""Runs one session's prompts, one after the other, and writes what happens into its log."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from ..background_tasks import cancel_and_wait
from ..backoff import EXACT, Backoff
from ..drivers.base import Driver, Prompt, Spec
from ..errors import BusClosed, BusError, TielineError, UsageError
from ..events import Answer, Ask, Done, Error, Event, Init, Status, Text, TurnStarted, Warning
from . import crash_recovery, workspace_diff
from .ask_decisions import ByRules, OnAsk
from .event_log import EventLog
from .prompt_queue import PromptQueue
from .records import KeepRecord, PromptRecord, SessionRecord, SessionStatus, after_turn, last_line, title_of
from .safe_git import GitFailed
from .session import Session
from .warm_pool import Pool

BACKOFF = Backoff(0.2, 30.0, EXACT)
"""Between two tries when the bus does not take what must be written."""
NO_SNAPSHOT = "the diff of this session shows only what the agent itself reports"

SOON_S = 10.0
"""An agent that dies within this time of its start is not brought back until somebody wants it."""

log = logging.getLogger("tieline.sessions")

A = TypeVar("A")
T = TypeVar("T")


class SessionWorker:
    def __init__(
        self,
        record: SessionRecord,
        driver: Driver,
        spec: Spec,
        *,
        log: EventLog,
        prompts: PromptQueue,
        pool: Pool,
        on_ask: OnAsk,
        by_rules: ByRules | None = None,
        keep: KeepRecord,
        env: Mapping[str, str],
        quiet_s: float,
        timeout_s: float | None = None,
        idle: Callable[[], None] = lambda: None,
        lost: Callable[[], None] = lambda: None,
        opened: Callable[[], None] = lambda: None,
    ) -> None:
        """`env` is the hub's own, not the agent's. `timeout_s` is for a prompt without a limit of its own. `idle` is
        called whenever nothing waits any more, `lost` whenever the agent died or did not open,
        `opened` when it did."""
        self.record = record
        self.session: Session | None = None
        self._driver = driver
        self._spec = spec
        self._log = log
        self._prompts = prompts
        self._pool = pool
        self._on_ask = on_ask
        self._by_rules = by_rules
        self._keep = keep
        self._env = env
        self._quiet_s = quiet_s
        self._timeout_s = timeout_s
        self._idle = idle
        self._lost = lost
        self._tell_opened = opened
        self._opened = 0.0
        self._task: asyncio.Task[None] | None = None
        self._heard = 0.0
        self._asks = 0
        self._remembered: dict[bytes, Answer] = {}
        self._stop = False
        self._ending = False
        self._refill: Spec | None = None
        self._no_snapshot: GitFailed | None = None
        self._saving: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """Work on what waits, if nobody does yet."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    def stop_starting(self) -> None:
        """No other turn begins: what waits, waits on."""
        self._ending = True

    @property
    def resting(self) -> bool:
        """Its agent is there and has nothing to do, and could come back by resume."""
        return self.session is not None and not self.busy and self._driver.features.resume

    def rest(self) -> None:
        """End the agent for now; the next prompt brings it back."""
        if self.resting:
            self._task = asyncio.create_task(self._rest())

    async def _rest(self) -> None:
        await self._close_agent()
        await self._work()  # what came meanwhile

    def revive(self) -> None:
        """Its agent died while it had nothing to do: bring it back now, so that the next prompt need not wait for it.
        One that died right after its start would only die again: then the next prompt tries."""
        if self.resting and self.session is not None and not self.session.alive:
            lived = time.monotonic() - self._opened >= SOON_S
            self._task = asyncio.create_task(self._revive() if lived and not self._ending else self._rest())
            self._lost()

    async def _revive(self) -> None:
        await self._close_agent()
        with suppress(TielineError, OSError):  # the next prompt says why not
            await self._ensure_open()
        await self._work()

    @property
    def busy(self) -> bool:
        return self._task is not None and not self._task.done()

    async def steer(self, text: str) -> None:
        """Say something to the agent in the middle of its turn."""
        if self.session is None or not self.busy:
            raise UsageError(f"no turn is running in {self.record.id!r}", field="session", hint="Send it as a prompt.")
        await self.session.steer(text)

    async def abort(self) -> bool:
        """Interrupt the running turn. Whether there was one."""
        if self._prompts.running(self.record.id) is None:
            return False
        await self.interrupt()
        return True

    async def interrupt(self) -> None:
        """End the running turn, also when its agent is only just starting."""
        self._stop = True
        if self.session is not None:
            await self.session.interrupt()

    def asking(self, waits: bool) -> None:
        """Somebody is being asked, or no longer."""
        self._asks += 1 if waits else -1
        self._heard = time.monotonic()
        if self.record.status in ("working", "waiting"):
            self._set("waiting" if self._asks else "working")

    async def close(self) -> None:
        """End the agent; a running turn ends as interrupted, and is written down as such. What waits, waits on."""
        self.stop_starting()
        if self.busy:
            await self.interrupt()
        if self._task is not None:
            done, _ = await asyncio.wait({self._task}, timeout=15.0)
            if not done:
                self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(*self._saving, return_exceptions=True)
        await self._close_agent()

    async def _work(self) -> None:
        while not self._ending and (prompt := await self._retry(self._prompts.start, self.record.id)):
            if self._ending:  # it was only just taken
                await self._retry(self._prompts.give_back, prompt)
                return
            problem = ""
            try:
                await self._turn(prompt)
            except BusError:
                problem = crash_recovery.UNWRITTEN
            except Exception as error:  # a fault of ours: the prompt ends all the same, and the next one runs
                log.exception("the turn of a prompt failed")
                problem = f"Tieline failed in this turn: {type(error).__name__}: {error}"
            if problem:
                await self._retry(partial(self._repair, problem=problem), prompt)
        self._idle()

    async def _repair(self, prompt: PromptRecord, problem: str) -> None:
        """The turn was cut short by us. It gets its truthful end, as after a crash."""
        await self._close_agent()
        ended = await crash_recovery.close_turn(self._log, self._prompts, prompt, self.record, problem)
        self._stop = False
        await self._change(**{name: getattr(ended, name) for name in crash_recovery.CHANGED}, active_at=time.time())

    async def _retry(self, work: Callable[[A], Awaitable[T]], what: A) -> T:
        """Until the bus takes it: what was accepted must go on when the disk has room, or the server is back."""
        failures = 0
        while True:
            try:
                return await work(what)
            except BusClosed:
                raise
            except BusError:
                failures += 1
                await asyncio.sleep(BACKOFF.delay(failures))

    async def _turn(self, prompt: PromptRecord) -> None:
        writer = self._log.writer(self.record.id)
        done = Done("error", error="the turn ended without a result")
        title = self.record.title or ("" if self.record.team else title_of(prompt.text))
        await self._change(status="working", problem="", active_at=time.time(), title=title)
        self._heard = time.monotonic()
        watchdog = asyncio.create_task(self._watch(writer.write))
        try:
            session = await self._ensure_open()
            driver_prompt = Prompt(prompt.text, prompt.attachments, prompt.system)
            async with aclosing(session.turn(driver_prompt, timeout=prompt.timeout_s)) as events:
                async for event in events:
                    if isinstance(event, TurnStarted):
                        event = replace(event, id=prompt.id)
                        if self._stop:  # the interrupt came before the turn had begun
                            await session.interrupt()
                    self._heard = time.monotonic()
                    self._note(event)
                    if isinstance(event, Done):
                        done = event
                    await writer.write(event)
                    if isinstance(event, TurnStarted) and (failed := self._no_snapshot):
                        self._no_snapshot = None
                        await writer.write(Warning(f"{NO_SNAPSHOT}: {failed}"))
        except BusError:
            raise
        except TielineError as error:
            done = Done("error", error=str(error))
            started = TurnStarted(prompt.text, prompt.id, tuple(each.describe() for each in prompt.attachments))
            for event in (started, Error(str(error), type(error).__name__), done):
                await writer.write(event)
        finally:
            await cancel_and_wait(watchdog)
            seq = await writer.close()
        await self._finish(done, seq)

    async def _finish(self, done: Done, seq: int) -> None:
        if done.status == "error" and self._driver.features.resume:
            await self._close_agent()  # whatever state it is in, the next prompt begins with a fresh one, by resume
        self.record = after_turn(self.record, done, seq)
        await self._keep(self.record)
        await self._prompts.finish(self.record.id, done.status, done.error)
        self._stop = False
        if (
            self._refill is not None and not self._ending
        ):  # not earlier: an agent that starts takes time from the one that works
            self._pool.prepare(self._driver, self._refill)
            self._refill = None

    async def _ensure_open(self) -> Session:
        """The open conversation; else a warm one from the pool; else a new one, by resume if there was one before."""
        if self.session is not None and not self.session.alive and self._driver.features.resume:
            self._lost()
            await self._close_agent()  # it died since its last turn: by resume it goes on
        if self.session is not None:
            return self.session
        record = self.record
        if not record.began and not record.turns:
            began = ""
            try:
                began = await workspace_diff.snapshot(record.cwd, self._env)
            except GitFailed as error:  # a repository that cannot be read keeps nobody from working in it
                self._no_snapshot = error
            await self._change(began=began, branch=workspace_diff.branch(record.cwd))
        spec = self._spec
        if record.native_id and self._driver.features.resume:
            spec = replace(spec, resume=record.native_id)
        elif record.fork_of:
            spec = replace(spec, resume=record.fork_of, fork=True)
        session = None if spec.resume else await self._pool.take(self._driver, spec)
        if session is None:
            session = Session(self._driver, spec, ask_expiry_s=None)
            try:
                await session.__aenter__()
            except BaseException:
                self._lost()
                raise
            self._opened = time.monotonic()
        session.on_ask = self._on_ask
        session.by_rules = self._by_rules
        session.timeout_s = self._timeout_s
        session.remember(self._remembered)
        self.session = session
        self._tell_opened()
        if not spec.resume:
            self._refill = spec
        return session

    async def _close_agent(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            await session.close()

    def _note(self, event: Event) -> None:
        """What the record should say while the turn goes on; made durable with its next change."""
        match event:
            case Init(native_id=native, model=model):
                self.record = replace(
                    self.record, native_id=native or self.record.native_id, model=self.record.model or model
                )
            case Text(text=text) if text.strip():
                self.record = replace(self.record, last_line=last_line(text))
            case Ask():
                pass  # `asking` hears of it
            case _:
                if self.record.status == "stuck":
                    self._set("working")

    async def _watch(self, write: Callable[[Event], Awaitable[None]]) -> None:
        """Says when the agent gives no sign of life."""
        while True:
            quiet = time.monotonic() - self._heard
            if quiet >= self._quiet_s and not self._asks and self.record.status != "stuck":
                await write(Status("stuck", f"no output for {quiet:.0f} s"))
                self._set("stuck")
            await asyncio.sleep(max(0.05, self._quiet_s - quiet if quiet < self._quiet_s else self._quiet_s))

    def _set(self, status: SessionStatus) -> None:
        self.record = replace(self.record, status=status)
        task = asyncio.create_task(self._save())
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)

    async def _save(self) -> None:
        await self._keep(self.record)  # as it is by now: a change that is under way must not be undone

    async def _change(self, **changes: Any) -> None:
        self.record = replace(self.record, **changes)
        await self._keep(self.record)
