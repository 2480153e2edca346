"""Who owns which session: creates, lists, prompts, decides, resumes, forks and closes them, over every driver.

One router owns the sessions of one node. Everything it acknowledges is on the bus first; after a crash the next one
goes on from there: what was running is indeterminate, what was asked is expired, what waited runs.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

import msgspec
from msgspec.structs import replace

from ..bus.base import Bus, Table
from ..config import Config
from ..drivers import registry
from ..drivers.base import Driver, Prompt, Spec, check, check_prompt
from ..errors import Unsupported, UsageError
from ..events import Answer, Ask, Diff
from ..ids import new_id
from ..policy import Policy
from . import recovery, workspace
from .asks import DEFAULT_EXPIRY_S
from .log import Entry, EventLog
from .messages import Message, fold
from .pending import PendingAsks
from .pool import Pool, PoolLimits
from .prompts import Prompts
from .records import SESSIONS, AskRecord, PromptRecord, SessionRecord
from .runner import QUIET_S, Runner

_decode = msgspec.json.Decoder(SessionRecord).decode

MAX_MESSAGES = 10_000
"""Items that `get_messages` gives at most; the log has them all."""


class Router:
    """`async with Router(bus, config) as router`: the agents live inside the block, the sessions' state outlives it."""

    def __init__(
        self,
        bus: Bus,
        config: Config,
        *,
        node: str = "local",
        drivers: Mapping[str, Driver] | None = None,
        ask_expiry_s: float = DEFAULT_EXPIRY_S,
        quiet_s: float = QUIET_S,
        pool: PoolLimits | None = None,
    ) -> None:
        self.log = EventLog(bus)
        self.prompts = Prompts(bus)
        self.asks = PendingAsks(bus, expiry_s=ask_expiry_s, changed=self._asking)
        self.pool = Pool(pool)
        self._config = config
        self._node = node
        self._table: Table = bus.table(SESSIONS)
        self._drivers: dict[str, Driver] = dict(drivers or {})
        self._records: dict[str, SessionRecord] = {}
        self._runners: dict[str, Runner] = {}
        self._ask_expiry_s = ask_expiry_s
        self._quiet_s = quiet_s
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Router":
        await self._stack.enter_async_context(self.pool)
        await self._recover()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(runner.close() for runner in self._runners.values()), return_exceptions=True)
        await self._stack.aclose()

    # --- sessions --------------------------------------------------------------------------------------

    async def create(
        self,
        agent: str = "",
        *,
        cwd: str,
        policy: Policy | None = None,
        model: str = "",
        effort: str = "",
        system: str = "",
        title: str = "",
        id: str = "",
        resume: str = "",
    ) -> SessionRecord:
        """A new session. Nothing starts before its first prompt; what cannot be is refused now."""
        agent = agent or self._config.default_agent
        if not agent:
            raise UsageError("no agent is named", field="agent", hint="Name one, or set default_agent.")
        now = time.time()
        record = SessionRecord(
            id=id or new_id(),
            agent=agent,
            cwd=cwd,
            node=self._node,
            policy=policy or Policy(),
            model=model,
            effort=effort,
            system=system,
            title=title,
            native_id=resume,
            created_at=now,
            active_at=now,
        )
        if record.id in self._records:
            return self._records[record.id]
        spec = self._spec(record)
        check(self.driver(agent), replace(spec, resume=resume) if resume else spec)
        await self._keep(record)
        return record

    def sessions(self, *, archived: bool = False) -> list[SessionRecord]:
        """Every session of this node, the last active first."""
        found = [record for record in self._records.values() if archived or not record.archived]
        return sorted(found, key=lambda record: record.active_at, reverse=True)

    def get(self, id: str) -> SessionRecord:
        runner = self._runners.get(id)
        record = runner.record if runner else self._records.get(id)
        if record is None:
            raise UsageError(f"no session {id!r}", field="session", hint="See the list of sessions.")
        return record

    async def fork(self, id: str, *, title: str = "") -> SessionRecord:
        """Another session that begins where this one is."""
        record = self.get(id)
        driver = self.driver(record.agent)
        if not driver.features.fork:
            raise Unsupported(record.agent, "fork")
        if not record.native_id:
            raise UsageError(f"session {id!r} has not said anything yet", field="session", hint="Prompt it first.")
        now = time.time()
        copy = replace(
            record,
            id=new_id(),
            title=title or record.title,
            status="idle",
            fork_of=record.native_id,
            native_id="",
            created_at=now,
            active_at=now,
        )
        await self._keep(copy)
        return copy

    async def update(self, id: str, **changes: Any) -> SessionRecord:
        """Change its title, policy, model or whether it is archived. A new policy or model holds from the next turn."""
        allowed = {"title", "policy", "model", "effort", "archived"}
        if unknown := set(changes) - allowed:
            raise UsageError(f"{', '.join(sorted(unknown))} cannot be changed", field=min(unknown))
        check(self.driver(self.get(id).agent), self._spec(replace(self.get(id), **changes)))
        if {"policy", "model", "effort"} & set(changes) and id in self._runners:
            if self.prompts.running(id) is not None:
                raise UsageError("a turn is running", field="session", hint="Wait for its end, or abort it.")
            runner = self._runners.pop(id)
            await runner.close()
            self._records[id] = runner.record
        record = replace(self.get(id), **changes)
        if id in self._runners:
            self._runners[id].record = record
        await self._keep(record)
        return record

    async def close(self, id: str) -> SessionRecord:
        """End its agent. What it said stays; prompting it again resumes it where the agent can."""
        record = self.get(id)
        if runner := self._runners.pop(id, None):
            await runner.close()
            record = runner.record
        record = replace(record, status="closed")
        await self._keep(record)
        return record

    # --- prompts and decisions -------------------------------------------------------------------------

    async def prompt(self, session: str, prompt: str | Prompt, *, id: str = "", by: str = "") -> PromptRecord:
        """Keep a prompt and run it when its turn comes. The same id again is harmless."""
        record = self.get(session)
        if isinstance(prompt, str):
            prompt = Prompt(prompt)
        check_prompt(self.driver(record.agent), prompt)
        kept, new = await self.prompts.receive(session, prompt, id=id, by=by)
        if new:
            self._runner(session).wake()
        return kept

    async def steer(self, session: str, text: str) -> None:
        """Say something to the agent in the middle of its turn."""
        runner = self._runners.get(session)
        if runner is None or runner.session is None or not runner.busy:
            raise UsageError(f"no turn is running in {session!r}", field="session", hint="Send it as a prompt.")
        await runner.session.steer(text)

    async def abort(self, session: str) -> bool:
        """Interrupt the running turn. Whether there was one."""
        runner = self._runners.get(session)
        if runner is None or self.prompts.running(session) is None:
            return False
        await runner.interrupt()
        return True

    async def answer(self, ask: str, answer: Answer, *, digest: str = "") -> AskRecord:
        """Decide an ask. The first answer wins; the others raise AlreadyAnswered."""
        return await self.asks.answer(ask, answer, expect_digest=digest)

    # --- reading ---------------------------------------------------------------------------------------

    def events(
        self, session: str, *, after: int = 0, follow: bool = True, deltas: bool = False
    ) -> AsyncGenerator[Entry, None]:
        self.get(session)
        return self.log.read(session, after=after, follow=follow, deltas=deltas)

    async def messages(self, session: str, *, after: int = 0, limit: int = MAX_MESSAGES) -> list[Message]:
        self.get(session)
        return await fold(self.log.read(session, after=after, follow=False), limit=min(limit, MAX_MESSAGES))

    async def diff(self, session: str) -> str:
        """What changed since the session began: by git where there is a repository, else the agent's own diffs."""
        record = self.get(session)
        if record.began:
            return await workspace.changes(record.cwd, self._config.environ, record.began)
        found = ""
        async for entry in self.log.read(session, follow=False):
            if isinstance(entry.event, Diff):
                found = entry.event.diff
        return found

    def driver(self, agent: str) -> Driver:
        """An agent's driver, made when it is first needed and kept: sessions may share what it holds."""
        if agent not in self._drivers:
            self._drivers[agent] = registry.create(agent, self._config)
        return self._drivers[agent]

    # --- inside ----------------------------------------------------------------------------------------

    def _spec(self, record: SessionRecord) -> Spec:
        return Spec(
            cwd=record.cwd,
            env=self._config.environ,
            policy=record.policy,
            model=record.model,
            effort=record.effort,
            system=record.system,
        )

    def _runner(self, id: str) -> Runner:
        if id not in self._runners:
            record = self.get(id)

            async def on_ask(ask: Ask) -> Answer:
                return await self.asks.wait(id, ask)

            self._runners[id] = Runner(
                record,
                self.driver(record.agent),
                self._spec(record),
                log=self.log,
                prompts=self.prompts,
                pool=self.pool,
                on_ask=on_ask,
                keep=self._keep,
                ask_expiry_s=self._ask_expiry_s,
                quiet_s=self._quiet_s,
            )
        return self._runners[id]

    def _asking(self, session: str, waits: bool) -> None:
        if runner := self._runners.get(session):
            runner.asking(waits)

    async def _keep(self, record: SessionRecord) -> None:
        self._records[record.id] = record
        await self._table.put(record.id, msgspec.json.encode(record))

    async def _recover(self) -> None:
        """Make the state of a crash truthful, then go on with what waited."""
        for key in await self._table.keys(">"):
            entry = await self._table.get(key)
            if entry is not None:
                record = _decode(entry.value)
                if record.node == self._node:
                    self._records[record.id] = record
        for ask in await self.asks.load():
            if ask.session in self._records:
                await recovery.expire_ask(self.log, ask)
        for prompt in await self.prompts.load():
            if prompt.session in self._records:
                record = self._records[prompt.session]
                await self._keep(await recovery.close_turn(self.log, self.prompts, prompt, record))
        for session in self.prompts.sessions():
            if session in self._records:
                self._runner(session).wake()
