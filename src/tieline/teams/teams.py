"""The team conversations of a hub: started, run, resumed after a crash, and changed by people."""

import asyncio
import logging
import time
from collections import OrderedDict, deque
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import msgspec

from ..background_tasks import background, cancel_and_wait
from ..bus.active_lease import ActiveLease
from ..bus.base import Bus, Record
from ..channels.base import SessionService
from ..errors import BusClosed, BusError, UsageError
from ..ids import new_id
from ..protocol import teams as p
from ..sessions.safe_git import GitFailed
from ..sessions.turn_follower import TurnFollower
from .conversation import TeamConversation, branch_of
from .coordinator import RETRY_S, Coordinator
from .markers import read_markers
from .records import MAX_TEXT, TEAMS, UnknownTeam, decode_entry, decode_record, encode_entry, subject
from .team_file import check_addition, check_member, check_team
from .turn_commits import TeamWorktrees

log = logging.getLogger("tieline.teams")

LEASE_S = 30
UPKEEP_S = 3600.0
MAX_RUNNING = 100
"""Conversations of one bus that are not over."""
MAX_TASK = 100_000
MAX_FOLDED = 50
"""Conversations that people look at whose state is kept, so that only what is new is read of their logs."""
LOOK_BACK = 4


class Teams:
    """`async with Teams(bus, sessions) as teams`. Of several hubs on a bus, one runs the conversations; people may act
    through any of them."""

    def __init__(
        self, bus: Bus, sessions: SessionService, *, worktrees: TeamWorktrees | None = None, keep_days: float = 0.0
    ) -> None:
        """`worktrees`: those of this machine. `keep_days`: how long a conversation that has ended is kept. 0: for
        good."""
        self._bus = bus
        self._keep_days = keep_days
        self._sessions = sessions
        self._worktrees = worktrees
        self._turns = TurnFollower(bus)
        self._table = bus.table(TEAMS)
        self._lease = ActiveLease(bus.table("teams-lease"), LEASE_S)
        self._coordinators: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()  # conversations that changed while their coordinator may have been ending
        self._folded_ones: OrderedDict[str, TeamConversation] = OrderedDict()
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Teams":
        await self._stack.enter_async_context(self._turns)
        leading = asyncio.create_task(self._lease.run(self._activate, self._deactivate, lambda: None))
        self._stack.push_async_callback(self._lease.release)
        self._stack.push_async_callback(cancel_and_wait, leading)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    # --- what people see ---

    async def records(self) -> list[p.TeamRecord]:
        """The last active first."""
        records = [decode_record(entry.value) for entry in await self._table.entries()]
        return sorted(records, key=lambda record: record.active_at, reverse=True)

    async def view(self, id: str) -> p.TeamView:
        return (await self.folded(id)).view()

    async def entries(self, id: str, *, after: int = 0, limit: int = 100, wait_s: float = 0.0) -> p.TeamEntries:
        """Entries of the log after a cursor; with `wait_s`, waits that long for the first."""
        await self._known(id)
        entries: list[p.TeamEntry] = []
        more = False
        if wait_s > 0 and await self._bus.last(subject(id)) <= after:
            try:
                async with asyncio.timeout(wait_s), aclosing(self._bus.read(subject(id), after=after)) as records:
                    await anext(records)
            except TimeoutError:
                pass
        async with aclosing(self._bus.read(subject(id), after=after, follow=False)) as records:
            async for record in records:
                if len(entries) >= limit:
                    more = True
                    break
                entries.append(p.TeamEntry(seq=record.seq, entry=decode_entry(record.data)))
        return p.TeamEntries(entries=tuple(entries), status=(await self._known(id)).status, more=more)

    async def entries_before(self, id: str, *, before: int, limit: int = 100) -> p.TeamEntries:
        """The last entries before a cursor. The bus reads forward only: looks back a little, then further, until there
        are enough."""
        status = (await self._known(id)).status
        first, end = await self._bus.first(subject(id)), min(before, await self._bus.last(subject(id)) + 1)
        back = limit
        while True:
            back *= LOOK_BACK
            start = max(0, end - 1 - back)
            newest: deque[Record] = deque(maxlen=limit + 1)
            async with aclosing(self._bus.read(subject(id), after=start, follow=False)) as records:
                async for record in records:
                    if record.seq >= end:
                        break
                    newest.append(record)
            if len(newest) > limit or start < max(first, 1):
                break
        page = [p.TeamEntry(seq=record.seq, entry=decode_entry(record.data)) for record in list(newest)[-limit:]]
        return p.TeamEntries(entries=tuple(page), status=status, more=len(newest) > limit)

    # --- what people do ---

    async def start(self, new: p.NewTeam, *, by: str, key: str = "") -> p.TeamView:
        """Begin a conversation. The same id or key again is the same one."""
        id = new.id or key or new_id()
        if await self._table.get(id) is not None:
            return await self.view(id)
        if problem := next(check_team(new.team), None):
            raise UsageError(problem.problem, field=".".join(map(str, problem.path)), hint=problem.hint)
        for index, member in enumerate(new.team.members):
            _check_resolved(member, f"members.{index}")
        task = (new.task or new.team.task).strip()
        if not task:
            raise UsageError("the team has no task", field="task", hint="Say what it shall do.")
        if len(task) > MAX_TASK:
            raise UsageError(f"a task has at most {MAX_TASK:,} characters", field="task")
        running = sum(record.status != "ended" for record in await self.records())
        if running >= MAX_RUNNING:
            raise UsageError(f"{running} conversations run already", field="team", hint="End some of them first.")
        entry = p.Started(team=new.team, task=task, by=by, at=time.time())
        conversation = TeamConversation(id)
        seq = await self._bus.publish(subject(id), encode_entry(entry), id=f"{id}.started")
        conversation.apply(entry, seq)
        await self._table.put(id, msgspec.json.encode(conversation.record()))  # the watch begins it
        return conversation.view()

    async def act(self, id: str, action: p.AnyTeamAction, *, by: str, key: str = "") -> p.TeamView:
        """What a person does becomes an entry of the log, which whoever runs the conversation reads. The same key again
        is the same action."""
        conversation = await self.folded(id)
        entry = self._entry(conversation, action, by)
        seq = await self._bus.publish(subject(id), encode_entry(entry), id=f"{id}.{key}" if key else None)
        conversation = await self.folded(id)
        if isinstance(entry, p.Resumed):  # its coordinator may have ended with it
            await self._table.put(id, msgspec.json.encode(conversation.record()))
        elif conversation.ended is not None and conversation.ended_seq < seq:
            raise _ended(conversation)  # just before; an end that follows may be what was wanted, as of `[DONE]`
        return conversation.view()

    def _entry(self, conversation: TeamConversation, action: p.AnyTeamAction, by: str) -> p.AnyEntry:
        now = time.time()
        if conversation.ended is not None and not isinstance(action, p.Resume):
            raise _ended(conversation)
        match action:
            case p.Speak():
                return self._spoken(conversation, action, by)
            case p.Hold():
                return p.Held(by=by, at=now)
            case p.Resume(more_rounds=rounds, more_cost_usd=cost, more_minutes=minutes):
                resumed = p.Resumed(more_rounds=rounds, more_cost_usd=cost, more_minutes=minutes, by=by, at=now)
                _check_goes_on(conversation, resumed)
                return resumed
            case p.Reorder(next=names):
                return p.Reordered(next=tuple(conversation.get(name).name for name in names), by=by, at=now)
            case p.Drop(members=names):
                return p.Dropped(members=tuple(conversation.get(name).name for name in names), by=by, at=now)
            case p.AddMember(member=member):
                _check_resolved(member, "member")
                others = tuple(each.member for each in conversation.participants.values())
                if problem := next(check_addition(others, member, parallel=conversation.limits.parallel), None):
                    field = ".".join(["member", *map(str, problem.path)])
                    raise UsageError(problem.problem, field=field, hint=problem.hint)
                return p.MemberAdded(member=member, by=by, at=now)
            case p.RemoveMember(member=name):
                return p.MemberRemoved(member=conversation.get(name).name, by=by, at=now)
            case p.ChangePolicy(member=name, policy=policy):
                member = conversation.get(name).member
                if not member.agent:
                    hint = "Change it at the terminal." if member.session else ""
                    raise UsageError(f"{member.name} has no policy of the team's", field="member", hint=hint)
                if problem := next(check_member(msgspec.structs.replace(member, policy=policy)), None):
                    raise UsageError(problem.problem, field=".".join(map(str, problem.path)), hint=problem.hint)
                return p.PolicyChanged(member=member.name, policy=policy, by=by, at=now)
            case p.EndTeam(reason=reason):
                return p.TeamEnded(reason=reason or f"ended by {by}", by=by, at=now)

    def _spoken(self, conversation: TeamConversation, action: p.Speak, by: str) -> p.PersonSpoke:
        people = [each.name for each in conversation.participants.values() if each.member.human]
        name = conversation.get(action.member).name if action.member else next(iter(people), "")
        if name not in people:
            raise UsageError(
                "only a person of the team can speak", field="member", hint="Add a member with human = true."
            )
        if not action.text.strip() or len(action.text) > MAX_TEXT:
            raise UsageError(f"a message has 1 to {MAX_TEXT:,} characters", field="text")
        markers = read_markers(action.text)
        speakers = action.to or markers.next
        for speaker in speakers:
            conversation.get(speaker.name)
        markers = msgspec.structs.replace(markers, next=speakers)
        return p.PersonSpoke(member=name, text=action.text, markers=markers, by=by, at=time.time())

    async def clean(self, id: str, *, force: bool) -> p.CleanedTeam:
        """Removes the worktrees of a conversation that has ended."""
        conversation = await self.folded(id)
        if conversation.ended is None:
            raise UsageError("the conversation goes on", field="team", hint="End it first: `tieline team end`.")
        removed: list[str] = []
        kept: dict[str, str] = {}
        merging = conversation.find(conversation.limits.merge)
        into = (merging.worktree or merging.member.cwd) if merging else ""
        for each in (*conversation.participants.values(), *conversation.left.values()):
            if not each.worktree or self._worktrees is None or not Path(each.worktree).exists():
                continue
            branch = branch_of(conversation.team, id, each.member)
            try:
                tree = self._worktrees.find(id, each.name, branch, each.member.cwd)
                unsaved = await self._worktrees.unsaved(tree, "" if into == each.worktree else into)
                if unsaved and not force:
                    kept[each.worktree] = unsaved
                    continue
                await self._worktrees.remove(tree, branch_too=not unsaved)
                removed.append(each.worktree)
            except GitFailed as error:
                kept[each.worktree] = error.message
        return p.CleanedTeam(removed=tuple(removed), kept=kept)

    async def _known(self, id: str) -> p.TeamRecord:
        entry = None
        if id and id.replace("-", "").replace("_", "").isalnum() and id.isascii():
            entry = await self._table.get(id)
        if entry is None:
            raise UnknownTeam(id)
        return decode_record(entry.value)

    async def folded(self, id: str) -> TeamConversation:
        """Its state, for reading: it is shared, and changes with the next await."""
        await self._known(id)
        conversation = self._folded_ones.setdefault(id, TeamConversation(id))
        self._folded_ones.move_to_end(id)
        if len(self._folded_ones) > MAX_FOLDED:
            self._folded_ones.popitem(last=False)
        async with aclosing(self._bus.read(subject(id), after=conversation.seq, follow=False)) as records:
            async for record in records:
                if record.seq > conversation.seq:  # another reader may have been quicker
                    conversation.apply(decode_entry(record.data), record.seq)
        return conversation

    # --- running them ---

    async def _activate(self) -> None:
        self._tasks = [background(self._watch(), "teams-watch"), background(self._keep_up(), "teams-upkeep")]

    async def _deactivate(self) -> None:
        await cancel_and_wait(*self._tasks)
        await cancel_and_wait(*self._coordinators.values())
        self._coordinators.clear()

    async def _watch(self) -> None:
        """Runs every conversation that is not over."""
        while True:
            try:
                async with aclosing(self._table.watch()) as changes:
                    async for change in changes:
                        if change.value is None:
                            continue
                        record = decode_record(change.value)
                        if record.status == "ended" and not record.speaking:
                            continue
                        if record.id in self._coordinators:
                            self._again.add(record.id)
                        else:
                            task = background(self._coordinate(record.id), f"team-{record.id}")
                            self._coordinators[record.id] = task
            except BusClosed:
                return
            except BusError:
                await asyncio.sleep(RETRY_S)

    async def _keep_up(self) -> None:
        while self._keep_days > 0:
            try:
                await self.remove_old(time.time() - self._keep_days * 86400)
            except BusClosed:
                return
            except BusError as error:  # the next round does it
                log.warning("old team conversations stay for now: %s", error)
            await asyncio.sleep(UPKEEP_S)

    async def remove_old(self, before: float) -> list[str]:
        """Removes conversations that ended before a time."""
        old = [each.id for each in await self.records() if each.status == "ended" and each.active_at < before]
        if self._worktrees is not None:  # only `clean` says what is in them
            old = [id for id in old if not self._worktrees.folder(id).exists()]
        for id in old:
            await self._bus.trim(subject(id), keep=0)
            await self._table.delete(id)
            self._folded_ones.pop(id, None)
        return old

    async def _coordinate(self, id: str) -> None:
        while True:
            self._again.discard(id)
            try:
                await Coordinator(id, self._bus, self._sessions, self._turns, self._worktrees).run()
            except BusClosed:
                return
            except BusError:
                await asyncio.sleep(RETRY_S)
                continue
            if id not in self._again:  # no await from here on, so that no change is missed
                del self._coordinators[id]
                return


def _check_resolved(member: p.TeamMember, field: str) -> None:
    """A hub has no team file beside it: paths are absolute, and instructions are given as text."""
    if member.instructions_file:
        raise UsageError(
            "a hub does not read instruction files", field=f"{field}.instructions_file", hint="Give `instructions`."
        )
    if member.agent and not Path(member.cwd).is_absolute():
        raise UsageError(f"{member.cwd} is not an absolute path", field=f"{field}.cwd", hint="Give the whole path.")


def _ended(conversation: TeamConversation) -> UsageError:
    hint = f"`tieline team resume {conversation.id}` goes on with it."
    return UsageError("the conversation has ended", field="team", hint=hint)


def _check_goes_on(conversation: TeamConversation, resumed: p.Resumed) -> None:
    """Refuses a resume that would end at once."""
    limits, reason = conversation.limits, conversation.limit_reached()
    if conversation.ended is None or not reason:
        return
    more = {"rounds": resumed.more_rounds, "USD": resumed.more_cost_usd, "minutes": resumed.more_minutes}
    if not any(value for unit, value in more.items() if unit in reason):
        raise UsageError(reason, field="more_rounds", hint=f"Give more, for instance --rounds {limits.max_rounds}.")
