"""The session manager: creates, lists, prompts, resumes, forks and closes the sessions of one node.

Everything that the manager acknowledges is on the bus first; after a crash the next one
goes on from there: what was running is indeterminate, what was asked is expired, what waited runs.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, Unpack

from msgspec.structs import replace

from ..background_tasks import cancel_and_wait
from ..bus.base import Bus
from ..config import Config
from ..drivers import registry
from ..drivers.base import AgentOptions, AgentOptionsDict, Driver, Prompt, Spec, check_prompt, check_spec
from ..drivers.options import resolve_options
from ..errors import TielineError, Unsupported, UsageError
from ..events import Answer, Ask
from ..ids import new_id
from . import crash_recovery, workspace_diff
from .agent_options import quiet_s, spec_of, warm_spec
from .ask_decisions import DEFAULT_EXPIRY_S
from .event_log import EventLog, LogEntry
from .pending_asks import PendingAsks
from .prompt_queue import PromptQueue
from .prompt_runner import PromptRunner
from .records import AskRecord, PromptRecord, SessionRecord
from .running_sessions import Ending, RunningSessions
from .store import SessionStore
from .transcript import MAX_MESSAGES, TranscriptItem, fold, last_diff
from .warm_pool import Pool


class SessionManager:
    """`async with SessionManager(bus, config) as manager`: agents live inside the block, sessions outlive it."""

    def __init__(
        self,
        bus: Bus,
        config: Config,
        *,
        node: str = "local",
        drivers: Mapping[str, Driver] | None = None,
        ask_expiry_s: float = DEFAULT_EXPIRY_S,
        ending: Ending = lambda turns: None,
    ) -> None:
        self.log = EventLog(bus)
        self.prompts = PromptQueue(bus)
        self.runners = RunningSessions()
        self.asks = PendingAsks(bus, expiry_s=ask_expiry_s, changed=self.runners.asking)
        self.pool = Pool(config.pool)
        self._config = config
        self._node = node
        self._roster = SessionStore(bus, node)
        self._drivers: dict[str, Driver] = dict(drivers or {})
        self._ending = ending
        self.lost: list[Callable[[str], None]] = []  # told the agent that died or did not open
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "SessionManager":
        warm = [warm_spec(entry, place, self._config) for place, entry in enumerate(self._config.pool.warm)]
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.pool)
            stack.push_async_callback(self._end_runners)
            await self._recover()
            for agent, spec in warm:
                with suppress(TielineError):  # told when somebody really wants it
                    check_spec(self.driver(agent), spec)
                    self.pool.prepare(self.driver(agent), spec, always=True)
            tending = asyncio.create_task(self.runners.tend())
            stack.push_async_callback(cancel_and_wait, tending)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def stop_starting(self) -> None:
        """The end has begun: what runs goes on until it is interrupted, what waits waits for the next start."""
        self.runners.stop_starting()
        self.pool.stop_opening()

    async def _end_runners(self) -> None:
        self.stop_starting()
        await self.runners.end(self._ending)

    # --- sessions --------------------------------------------------------------------------------------

    async def create(
        self,
        agent: str = "",
        *,
        cwd: str,
        id: str = "",
        title: str = "",
        resume: str = "",
        fork: bool = False,
        **options: Unpack[AgentOptionsDict],
    ) -> SessionRecord:
        """A new session. Nothing starts before its first prompt; what cannot be is refused now."""
        if id in self._roster:
            return self.get(id)
        agent = agent or self._config.default_agent
        if not agent:
            raise UsageError("no agent is named", field="agent", hint="Name one, or set default_agent.")
        now = time.time()
        record = SessionRecord(
            id=id or new_id(),
            agent=agent,
            cwd=cwd,
            node=self._node,
            title=title,
            native_id="" if fork else resume,
            fork_of=resume if fork else "",
            created_at=now,
            active_at=now,
            **resolve_options(options, self._config, agent),
        )
        check_spec(self.driver(agent), replace(self._spec(record), resume=resume, fork=fork))
        return await self._roster.add(record)

    def sessions(self, *, archived: bool = False) -> list[SessionRecord]:
        """Every session of this node, the last active first."""
        found = [record for record in map(self.get, self._roster.ids()) if archived or not record.archived]
        return sorted(found, key=lambda record: record.active_at, reverse=True)

    def get(self, id: str) -> SessionRecord:
        runner = self.runners.get(id)
        return runner.record if runner else self._roster.get(id)

    def owns(self, id: str) -> bool:
        """Whether it is a session of this node."""
        return id in self._roster

    async def fork(self, id: str, *, title: str = "", new: str = "") -> SessionRecord:
        """Another session that begins where this one is. `new` is its id; the same one again is the same session."""
        if new in self._roster:
            return self.get(new)
        record = self.get(id)
        driver = self.driver(record.agent)
        if not driver.features.fork:
            raise Unsupported(record.agent, "fork")
        if not record.native_id:
            raise UsageError(f"session {id!r} has no conversation yet", field="session", hint="Prompt it first.")
        now = time.time()
        copy = replace(
            record,
            id=new or new_id(),
            title=title or record.title,
            status="idle",
            fork_of=record.native_id,
            native_id="",
            created_at=now,
            active_at=now,
        )
        return await self._roster.add(copy)

    async def update(self, id: str, **changes: Any) -> SessionRecord:
        """Change its title, policy, model or whether it is archived. A new policy or model holds from the next turn."""
        allowed = {"title", "policy", "model", "effort", "archived"}
        if unknown := set(changes) - allowed:
            raise UsageError(f"{', '.join(sorted(unknown))} cannot be changed", field=min(unknown))
        check_spec(self.driver(self.get(id).agent), self._spec(replace(self.get(id), **changes)))
        if set(AgentOptions.__struct_fields__) & set(changes) and id in self.runners:
            if self.prompts.running(id) is not None:
                raise UsageError("a turn is running", field="session", hint="Wait for its end, or abort it.")
            runner = self.runners.pop(id)
            await runner.close()
            await self._roster.keep(runner.record)
        record = replace(self.get(id), **changes)
        if id in self.runners:
            self.runners[id].record = record
        await self._roster.keep(record)
        return record

    async def close(self, id: str) -> SessionRecord:
        """End its agent. What it said stays; prompting it again resumes it where the agent can."""
        record = self.get(id)
        if runner := self.runners.pop(id, None):
            await runner.close()
            record = runner.record
        record = replace(record, status="closed")
        await self._roster.keep(record)
        return record

    # --- prompts and decisions -------------------------------------------------------------------------

    async def prompt(
        self,
        session: str,
        prompt: str | Prompt,
        *,
        id: str = "",
        by: str = "",
        timeout_s: float | None = None,
        system: str = "",
    ) -> PromptRecord:
        """Keep a prompt and run it when its turn comes; the same id again is harmless. `system` holds for this turn."""
        record = self.get(session)
        if isinstance(prompt, str):
            prompt = Prompt(prompt, system=system)
        elif system:
            prompt = replace(prompt, system=system)
        check_prompt(self.driver(record.agent), prompt)
        if timeout_s is not None and not timeout_s > 0:
            raise UsageError("a time limit must be more than 0 seconds", field="timeout_s")
        kept, new = await self.prompts.receive(session, prompt, id=id, by=by, timeout_s=timeout_s)
        if new:
            self.runners.wake(self._runner(session))
        return kept

    async def steer(self, session: str, text: str) -> None:
        """Say something to the agent in the middle of its turn."""
        runner = self.runners.get(session)
        if runner is None or runner.session is None or not runner.busy:
            raise UsageError(f"no turn is running in {session!r}", field="session", hint="Send it as a prompt.")
        await runner.session.steer(text)

    async def abort(self, session: str) -> bool:
        """Interrupt the running turn. Whether there was one."""
        runner = self.runners.get(session)
        if runner is None or self.prompts.running(session) is None:
            return False
        await runner.interrupt()
        return True

    async def answer(self, ask: str, answer: Answer, *, digest: str = "") -> AskRecord:
        """Decide an ask. The first answer wins; the others raise AlreadyAnswered."""
        record, _ = await self.asks.get(ask)
        self.get(record.session)  # whoever waits for another node's ask would not hear of it
        return await self.asks.answer(ask, answer, expect_digest=digest)

    # --- reading ---------------------------------------------------------------------------------------

    def events(
        self, session: str, *, after: int = 0, follow: bool = True, deltas: bool = False
    ) -> AsyncGenerator[LogEntry, None]:
        self.get(session)
        return self.log.read(session, after=after, follow=follow, deltas=deltas)

    async def messages(self, session: str, *, after: int = 0, limit: int = MAX_MESSAGES) -> list[TranscriptItem]:
        self.get(session)
        return await fold(self.log.read(session, after=after, follow=False), limit=limit)

    async def diff(self, session: str) -> str:
        """What changed since the session began: by git where there is a repository, else the agent's own diffs."""
        record = self.get(session)
        if record.began:
            return await workspace_diff.changes(record.cwd, self._config.environ, record.began)
        return await last_diff(self.log.read(session, follow=False))

    def driver(self, agent: str) -> Driver:
        """An agent's driver, made when it is first needed and kept: sessions may share what it holds."""
        if agent not in self._drivers:
            self._drivers[agent] = registry.create(agent, self._config)
        return self._drivers[agent]

    # --- inside ----------------------------------------------------------------------------------------

    def _spec(self, record: SessionRecord) -> Spec:
        return spec_of(record, self._config.for_children())

    def _runner(self, id: str) -> PromptRunner:
        if id not in self.runners:
            record = self.get(id)

            async def on_ask(ask: Ask) -> Answer:
                return await self.asks.wait(id, ask)

            self.runners[id] = PromptRunner(
                record,
                self.driver(record.agent),
                self._spec(record),
                log=self.log,
                prompts=self.prompts,
                pool=self.pool,
                on_ask=on_ask,
                keep=self._roster.keep,
                env=self._config.environ,
                quiet_s=quiet_s(self._config, record.agent),
                timeout_s=registry.turn_timeout_s(record.agent, self._config),
                idle=lambda: self.runners.rest(self._config.pool.number),
                lost=lambda: self._lost(record.agent),
            )
        return self.runners[id]

    def _lost(self, agent: str) -> None:
        for tell in self.lost:
            tell(agent)

    async def _answered(self, ask: Ask) -> Answer | None:
        with suppress(UsageError):
            record, _ = await self.asks.get(ask.id)
            return record.answer
        return None

    async def _recover(self) -> None:
        """Make the state of a crash truthful, then go on with what waited. Other nodes' state is theirs."""
        await self._roster.load()
        for ask in await self.asks.load(self._roster.__contains__):
            await crash_recovery.expire_ask(self.log, ask)
        for prompt in await self.prompts.load(self._roster.__contains__):
            record = self._roster.get(prompt.session)
            closed = await crash_recovery.close_turn(self.log, self.prompts, prompt, record, answered=self._answered)
            await self._roster.keep(closed)
        for session in self.prompts.sessions():
            with suppress(TielineError):  # its agent is not known, or off, any more: what waits, waits on
                self.runners.wake(self._runner(session))
