"""The session manager: creates, lists, prompts, resumes, forks and closes the sessions of one node.

Everything that the manager acknowledges is on the bus first; after a crash the next one
goes on from there: what was running is indeterminate, what was asked is expired, what waited runs.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, Literal, Unpack

from msgspec.structs import replace

from ..background_tasks import cancel_and_wait
from ..bus.base import Bus
from ..config import Config
from ..drivers import registry
from ..drivers.base import AgentOptions, AgentOptionsDict, Driver, McpServer, Prompt, Spec, check_prompt, check_spec
from ..drivers.options import resolve_options
from ..errors import TielineError, Unsupported, UsageError
from ..events import Answer, Ask
from ..ids import new_id
from . import crash_recovery, git_actions, workspace_diff
from .agent_specs import quiet_s, spec_of, warm_spec
from .ask_decisions import DEFAULT_EXPIRY_S
from .ask_rules import AskOrigin
from .attached_session import AttachedSession, HarnessTerminal, attached_id, check_attached_prompt
from .event_log import EventLog, LogEntry
from .pending_asks import PendingAsks
from .prompt_queue import PromptQueue
from .records import AskRecord, PromptRecord, SessionRecord
from .rule_book import RuleBook, SessionRules
from .running_sessions import Ending, RunningSessions, SessionRunner
from .session_worker import SessionWorker
from .session_worktrees import SessionWorktrees, WorktreeOutcome, WorktreeStatus, default_branch
from .store import SessionStore
from .team_mcp_server import allowed_in_team, servers_for
from .transcript import MAX_MESSAGES, TranscriptItem, fold, last_diff
from .warm_pool import Pool
from .worktrees import Worktrees

Release = Callable[[str], Coroutine[Any, Any, None]]
"""By the harness's own id of a conversation. Raises UsageError."""
WorktreeChange = Callable[[SessionRecord], Coroutine[Any, Any, tuple[SessionRecord, WorktreeOutcome]]]

PROMPT_END_S = 10.0
"""How long a prompt may take to be over after its turn has ended."""


class SessionManager:
    """`async with SessionManager(bus, config) as manager`: agents live inside the block, sessions outlive it."""

    def __init__(
        self,
        bus: Bus,
        config: Config,
        *,
        node: str = "local",
        drivers: Mapping[str, Driver] | None = None,
        team_server: McpServer | None = None,
        ask_expiry_s: float = DEFAULT_EXPIRY_S,
        ending: Ending = lambda turns: None,
    ) -> None:
        self.log = EventLog(bus)
        self.prompts = PromptQueue(bus)
        self.runners = RunningSessions()
        self.asks = PendingAsks(bus, expiry_s=ask_expiry_s, changed=self.runners.asking)
        self.rules = RuleBook(bus)
        self.pool = Pool(config.pool)
        self._config = config
        self._node = node
        self._worktrees = SessionWorktrees(Worktrees(config.environ))
        self._worktrees_changing: set[str] = set()  # their paths
        self._team_server = team_server  # for the sessions of teams
        self._store = SessionStore(bus, node)
        self._drivers: dict[str, Driver] = dict(drivers or {})
        self._ending = ending
        self.lost: list[Callable[[str], None]] = []  # told the agent that died or did not open
        self.opened: list[Callable[[str], None]] = []  # told the agent that a session has begun to talk with
        self.releases: dict[str, Release] = {}  # harness → who has it let go of a conversation that no terminal shows
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "SessionManager":
        warm = [warm_spec(entry, index, self._config) for index, entry in enumerate(self._config.pool.warm)]
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.pool)
            stack.push_async_callback(self._end_runners)
            await self._recover()
            for agent, spec in warm:
                with suppress(TielineError):  # the error is raised when somebody opens such a session
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
        team: str = "",
        worktree: bool = False,
        branch: str = "",
        **options: Unpack[AgentOptionsDict],
    ) -> SessionRecord:
        """Create a session. Nothing starts before its first prompt; impossible options are refused now. With
        `worktree`, or the name of its `branch`, it works in a git worktree of its own."""
        if id in self._store:
            return self.get(id)
        agent = agent or self._config.default_agent
        if not agent:
            raise UsageError(
                "no agent is named", field="agent", hint="Name one (`--agent`), or set default_agent in tieline.toml."
            )
        now = time.time()
        record = SessionRecord(
            id=id or new_id(),
            agent=agent,
            cwd=cwd,
            node=self._node,
            team=team,
            title=title,
            native_id="" if fork else resume,
            fork_of=resume if fork else "",
            created_at=now,
            active_at=now,
            **resolve_options(options, self._config, agent),
        )
        check_spec(self.driver(agent), replace(self._spec(record), resume=resume, fork=fork))
        if worktree or branch:
            branch = branch or default_branch(title, record.id)
            directory, tree = await self._worktrees.create(record.id, cwd, branch)
            record = replace(record, cwd=directory, worktree=tree, branch=branch)
        return await self._store.add(record)

    async def attach(
        self, agent: str, native_id: str, *, cwd: str, terminal: HarnessTerminal, working: bool = False, title: str = ""
    ) -> AttachedSession:
        """The session that a person runs in a terminal of this machine: the one that it was before, or a new one."""
        record = self._by_native_id(agent, native_id)
        if record is None:
            now = time.time()
            record = await self._store.add(
                SessionRecord(
                    id=attached_id(self._node, agent, native_id),
                    agent=agent,
                    cwd=cwd,
                    node=self._node,
                    kind="attached",
                    remote=terminal.remote,
                    status="working" if working else "idle",
                    title=title,
                    native_id=native_id,
                    branch=workspace_diff.branch(cwd),
                    created_at=now,
                    active_at=now,
                )
            )
        runner = self.runners.get(record.id)
        if not isinstance(runner, AttachedSession):
            if runner is not None:  # we drove it, and it was resumed in a terminal: that one goes on
                del self.runners[record.id]
                await runner.close()
                record = runner.record
            runner = self._attached(record)
        await runner.attach(terminal, working=working)
        return runner

    def attached(self, agent: str) -> list[AttachedSession]:
        """The attached sessions of a harness whose terminal, as far as is known, is still open."""
        runners = [self._runner(id) for id in self._store.ids() if self.get(id).kind == "attached"]
        return [
            runner
            for runner in runners
            if isinstance(runner, AttachedSession) and runner.record.agent == agent and runner.record.status != "closed"
        ]

    def harness_processes(self) -> set[int]:
        """Below them run the agents of terminals, which decide nothing."""
        terminals = (runner.terminal for runner in self.runners.values() if isinstance(runner, AttachedSession))
        return {terminal.process for terminal in terminals if terminal is not None and terminal.process}

    async def adopt(self, id: str) -> SessionRecord:
        """Drive a session from here on whose terminal is closed: the same conversation, by resume."""
        record = self.get(id)
        if record.kind == "driven":
            return record
        driver = self.driver(record.agent)
        if not driver.features.resume:
            raise Unsupported(record.agent, "resume")
        runner = self.runners.get(id)
        if isinstance(runner, AttachedSession) and runner.terminal is not None:
            raise UsageError(
                "this session is open in a terminal",
                field="session",
                hint="Close it there first: only one may write.",
            )
        if release := self.releases.get(record.agent):
            await release(record.native_id)
        if runner is not None:
            del self.runners[id]
            await runner.close()
        record = replace(
            record,
            kind="driven",
            status="idle",
            remote=(),
            adopted_at=record.seq,
            **resolve_options(AgentOptionsDict(), self._config, record.agent),
        )
        check_spec(driver, self._spec(record))
        await self._store.keep(record)
        if self.prompts.waiting(id):
            self.runners.wake(self._runner(id))
        return record

    def sessions(self, *, archived: bool = False) -> list[SessionRecord]:
        """Every session of this node, the last active first."""
        records = [record for record in map(self.get, self._store.ids()) if archived or not record.archived]
        return sorted(records, key=lambda record: record.active_at, reverse=True)

    def get(self, id: str) -> SessionRecord:
        runner = self.runners.get(id)
        return runner.record if runner else self._store.get(id)

    def owns(self, id: str) -> bool:
        """Whether it is a session of this node."""
        return id in self._store

    async def fork(self, id: str, *, title: str = "", new: str = "") -> SessionRecord:
        """Another session that begins where this one is. `new` is its id; the same one again is the same session."""
        if new in self._store:
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
            kind="driven",
            remote=(),
            cursor="",
            adopted_at=0,
            status="idle",
            fork_of=record.native_id,
            team="",
            native_id="",
            created_at=now,
            active_at=now,
        )
        return await self._store.add(copy)

    async def update(self, id: str, **changes: Any) -> SessionRecord:
        """Change its title, policy, model or whether it is archived. A new policy or model holds from the next turn."""
        allowed = {"title", "policy", "model", "effort", "archived"}
        if unknown := set(changes) - allowed:
            raise UsageError(f"{', '.join(sorted(unknown))} cannot be changed", field=min(unknown))
        if (record := self.get(id)).kind == "attached":
            return await self._update_attached(record, changes)
        opening = set(AgentOptions.__struct_fields__) & set(changes)
        if opening:  # else its directory need not even be there
            check_spec(self.driver(self.get(id).agent), self._spec(replace(self.get(id), **changes)))
        if opening and id in self.runners:
            if self.prompts.running(id) is not None:
                raise UsageError("a turn is running", field="session", hint="Wait for its end, or abort it.")
            runner = self.runners.pop(id)
            await runner.close()
            await self._store.keep(runner.record)
        return await self._keep(replace(self.get(id), **changes))

    async def _update_attached(self, record: SessionRecord, changes: Mapping[str, Any]) -> SessionRecord:
        """A new model holds from the next prompt from elsewhere, which brings it to the terminal."""
        chosen = {"model", "effort"} & set(changes) if "model" in record.remote else set[str]()
        if theirs := set(changes) - {"title", "archived"} - chosen:
            raise UsageError(
                f"{', '.join(sorted(theirs))} of a session in a terminal cannot be changed from here",
                field=min(theirs),
                hint="Change it at the terminal.",
            )
        if chosen:
            changes = {**changes, "model_unsent": True}
        return await self._keep(replace(record, **changes))

    async def close(self, id: str) -> SessionRecord:
        """End its agent. What it said stays; prompting it again resumes it where the agent can."""
        record = self.get(id)
        if record.kind == "attached" and record.status != "closed":
            raise UsageError("this session runs in a terminal", field="session", hint="Close it there.")
        if runner := self.runners.pop(id, None):
            await runner.close()
            record = runner.record
        record = replace(record, status="closed")
        await self._store.keep(record)
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
        if record.kind == "attached":
            check_attached_prompt(record, prompt, timeout_s)
        else:
            check_prompt(self.driver(record.agent), prompt)
        if timeout_s is not None and not timeout_s > 0:
            raise UsageError("a time limit must be more than 0 seconds", field="timeout_s")
        if record.worktree is not None:
            if record.worktree.path in self._worktrees_changing:
                raise UsageError("its worktree is being changed", field="session", hint="Send it again in a moment.")
            if record.worktree.ended:
                await self._keep(await self._worktrees.make_again(record))
        kept, new = await self.prompts.receive(session, prompt, id=id, by=by, timeout_s=timeout_s)
        if new:
            self.runners.wake(self._runner(session))
        return kept

    async def steer(self, session: str, text: str) -> None:
        """Say something to the agent in the middle of its turn."""
        runner = self.runners.get(session)
        if runner is None:
            raise UsageError(f"no turn is running in {session!r}", field="session", hint="Send it as a prompt.")
        await runner.steer(text)

    async def abort(self, session: str) -> bool:
        """Interrupt the running turn. Whether there was one."""
        runner = self.runners.get(session)
        return runner is not None and await runner.abort()

    async def answer(self, ask: str, answer: Answer, *, digest: str = "") -> AskRecord:
        """Decide an ask. The first answer wins; the others raise AlreadyAnswered."""
        record, _ = await self.asks.get(ask)
        self.get(record.session)  # whoever waits for another node's ask would not hear of it
        return await self.asks.answer(ask, answer, expect_digest=digest)

    # --- worktrees -------------------------------------------------------------------------------------

    async def worktree(self, session: str) -> WorktreeStatus:
        return await self._worktrees.status(self.get(session))

    async def merge_worktree(self, session: str) -> WorktreeOutcome:
        """Raises GitFailed; then nothing is merged."""
        return await self._change_worktree(session, self._worktrees.merge)

    async def rebase_worktree(self, session: str) -> WorktreeOutcome:
        return await self._change_worktree(session, self._worktrees.rebase)

    async def discard_worktree(self, session: str) -> WorktreeOutcome:
        return await self._change_worktree(session, self._worktrees.discard)

    async def remove_unused_worktree(self, session: str) -> WorktreeOutcome:
        """If nothing was made in it; else it stays. Its turn may be just about to be over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PROMPT_END_S):
                await self.prompts.wait_none_running(session)
        return await self._change_worktree(session, self._worktrees.remove_unused)

    async def _change_worktree(self, session: str, change: WorktreeChange) -> WorktreeOutcome:
        """Forks work in the same one: none of them may be at work, and all are told."""
        worktree = self.get(session).worktree
        if worktree is None:
            hint = "A session gets one when it begins: `tieline run --worktree`."
            raise UsageError(f"session {session} has no worktree of its own", field="session", hint=hint)
        trees = {id: self.get(id).worktree for id in self._store.ids()}
        sharing = [id for id, tree in trees.items() if tree is not None and tree.path == worktree.path]
        for id in sharing:
            if self.prompts.running(id) is not None or self.prompts.waiting(id):
                hint = "Wait for its end, or abort it."
                raise UsageError(f"session {id} has work to do in this worktree", field="session", hint=hint)
        if worktree.path in self._worktrees_changing:
            raise UsageError("its worktree is being changed", field="session", hint="Try again in a moment.")
        self._worktrees_changing.add(worktree.path)
        try:
            for id in sharing:
                if runner := self.runners.pop(id, None):  # an agent does not notice that its directory goes
                    await runner.close()
                    await self._store.keep(runner.record)
            record, outcome = await change(self.get(session))
            for id in sharing:
                await self._keep(replace(self.get(id), worktree=record.worktree))
        finally:
            self._worktrees_changing.discard(worktree.path)
        return outcome

    # --- reading ---------------------------------------------------------------------------------------

    def events(
        self, session: str, *, after: int = 0, follow: bool = True, deltas: bool = False
    ) -> AsyncGenerator[LogEntry, None]:
        self.get(session)
        return self.log.read(session, after=after, follow=follow, deltas=deltas)

    async def messages(self, session: str, *, after: int = 0, limit: int = MAX_MESSAGES) -> list[TranscriptItem]:
        self.get(session)
        return await fold(self.log.read(session, after=after, follow=False), limit=limit)

    async def diff(self, session: str, *, since: Literal["session", "commit", "base"] = "session") -> str:
        """What changed since the session began, by git where there is a repository, else the agent's own diffs;
        what is not committed; or what its worktree has that its base branch has not."""
        record = self.get(session)
        if since == "commit":
            return await git_actions.uncommitted(record.cwd, self._config.environ)
        if since == "base":
            return await self._worktrees.diff(record)
        if record.began:
            return await workspace_diff.changes(record.cwd, self._config.environ, record.began)
        return await last_diff(self.log.read(session, follow=False))

    def driver(self, agent: str) -> Driver:
        """An agent's driver, made when it is first needed and kept: sessions may share what it holds."""
        if agent not in self._drivers:
            self._drivers[agent] = registry.create(agent, self._config)
        return self._drivers[agent]

    # --- inside ----------------------------------------------------------------------------------------

    async def _keep(self, record: SessionRecord) -> SessionRecord:
        if record.id in self.runners:
            self.runners[record.id].record = record
        await self._store.keep(record)
        return record

    def _spec(self, record: SessionRecord) -> Spec:
        servers = servers_for(record, self.driver(record.agent), self._team_server)
        return spec_of(record, self._config.for_children(), servers)

    def _by_native_id(self, agent: str, native_id: str) -> SessionRecord | None:
        records = (self.get(id) for id in self._store.ids())
        return next((record for record in records if (record.agent, record.native_id) == (agent, native_id)), None)

    def _attached(self, record: SessionRecord) -> AttachedSession:
        runner = self.runners[record.id] = AttachedSession(
            record,
            events=self.log,
            prompts=self.prompts,
            asks=self.asks,
            keep=self._store.keep,
            by_rules=self._rules_of(record),
        )
        return runner

    def _runner(self, id: str) -> SessionRunner:
        if id not in self.runners:
            record = self.get(id)
            if record.kind == "attached":
                return self._attached(record)

            async def on_ask(ask: Ask) -> Answer:
                return allowed_in_team(record, ask) or await self.asks.wait(id, ask)

            self.runners[id] = SessionWorker(
                record,
                self.driver(record.agent),
                self._spec(record),
                log=self.log,
                prompts=self.prompts,
                pool=self.pool,
                on_ask=on_ask,
                by_rules=self._rules_of(record),
                keep=self._store.keep,
                env=self._config.environ,
                quiet_s=quiet_s(self._config, record.agent),
                timeout_s=registry.turn_timeout_s(record.agent, self._config),
                idle=lambda: self.runners.rest(self._config.pool.number),
                lost=lambda: self._lost(record.agent),
                opened=lambda: self._opened(record.agent),
            )
        return self.runners[id]

    def _rules_of(self, record: SessionRecord) -> SessionRules:
        return SessionRules(self.rules, self.asks, record.id, AskOrigin(record.agent, self._node, record.cwd))

    def _lost(self, agent: str) -> None:
        for tell in self.lost:
            tell(agent)

    def _opened(self, agent: str) -> None:
        for tell in self.opened:
            tell(agent)

    async def _answered(self, ask: Ask) -> Answer | None:
        with suppress(UsageError):
            record, _ = await self.asks.get(ask.id)
            return record.answer
        return None

    async def _recover(self) -> None:
        """Make the state of a crash truthful, then go on with what waited. Other nodes' state is theirs."""
        await self._store.load()
        for ask in await self.asks.load(self._store.__contains__):
            await crash_recovery.expire_ask(self.log, ask, after=self._store.get(ask.session).seq)
        for prompt in await self.prompts.load(self._store.__contains__):
            record = self._store.get(prompt.session)
            if record.kind == "attached":  # its terminal goes on, and its history tells how it ended
                self.prompts.go_on(prompt)
                continue
            closed = await crash_recovery.close_turn(self.log, self.prompts, prompt, record, answered=self._answered)
            await self._store.keep(closed)
        for session in self.prompts.sessions():
            with suppress(TielineError):  # its agent is not known, or off, any more: what waits, waits on
                self.runners.wake(self._runner(session))
