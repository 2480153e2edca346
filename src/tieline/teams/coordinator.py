"""Runs one conversation: follows its log, and lets those speak whose turn it is.

Every step is an entry of the log before it has an effect, and only the log changes the state. So a hub that is killed
between any two steps goes on where it was: a turn that had begun has a prompt with an id, which runs once however often
it is sent.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec

from ..background_tasks import background, cancel_and_wait
from ..bus.base import Bus
from ..channels.base import SessionNodeOffline, SessionRequest, SessionService
from ..errors import BusClosed, BusError, TielineError, UsageError
from ..events import AnyEvent, Done, ToolResult
from ..policy import Policy
from ..protocol.teams import AnyEntry, Markers, MemberWork, TurnBegan, TurnEnded, TurnStatus
from ..sessions.event_log import subject as log_subject
from ..sessions.records import SESSIONS, SessionRecord
from ..sessions.safe_git import GitFailed
from ..sessions.turn_follower import TurnEnd, TurnFollower
from ..sessions.worktrees import Worktree
from .conversation import Participant, TeamConversation, branch_of, session_of
from .markers import lines_with_markers, read_markers
from .records import TEAMS, decode_entry, encode_entry, subject, within_limit
from .reviews import Review, markers_in_diffs
from .team_file import policy_of
from .turn_commits import TeamWorktrees
from .turn_prompt import instructions, turn_prompt

log = logging.getLogger("tieline.teams")

RETRY_S = 2.0
BUSY_S, BUSY_TRIES = 0.1, 100
MAX_PRINTED = 100_000
"""Lines of tools' output in one turn that are kept, to see whether a marker was only repeated."""

_session = msgspec.json.Decoder(SessionRecord).decode


class Coordinator:
    """`run` returns when the conversation has ended."""

    def __init__(
        self, id: str, bus: Bus, sessions: SessionService, turns: TurnFollower, worktrees: TeamWorktrees | None = None
    ) -> None:
        self.conversation = TeamConversation(id)
        self._bus = bus
        self._sessions = sessions
        self._turns = turns
        self._worktrees = worktrees
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting: set[str] = set()  # members whose turn is about to begin, until that was read from the log
        self._followed: set[str] = set()  # prompts whose turns are followed, until their end is in the log
        self._deciding = asyncio.Lock()
        self._turn = 0
        self._behind = 0  # nothing is decided before the log was read so far
        self._stored = b""

    async def run(self) -> None:
        """Raises BusError; then it may be run anew, by another coordinator."""
        conversation, log = self.conversation, subject(self.conversation.id)
        self._behind = await self._bus.last(log)
        try:
            async with aclosing(self._bus.read(log)) as records:
                async for record in records:
                    conversation.apply(decode_entry(record.data), record.seq)
                    await self._advance()
                    over = conversation.ended is not None and not conversation.running
                    if over and conversation.seq >= self._behind:
                        return
        finally:
            await cancel_and_wait(*self._tasks)

    async def _advance(self) -> None:
        """Does whatever the state asks for, once all that was written has been read."""
        conversation = self.conversation
        async with self._deciding:
            if conversation.seq < self._behind:
                return
            self._starting.difference_update(conversation.running)
            for began in conversation.running.values():
                if began.prompt not in self._followed:
                    self._spawn(self._run_turn(began), began.prompt)
                if conversation.ended is not None or conversation.find(began.member) is None:
                    await self._withdraw(began)
            for participant in conversation.next_turns(self._starting):
                self._starting.add(participant.name)
                self._spawn(self._begin_turn(participant), participant.name)
            if not self._starting and (ended := conversation.ending(time.time())) is not None:
                await self._append(ended)
            await self._store_record()

    async def _withdraw(self, began: TurnBegan) -> None:
        try:
            await self._sessions.withdraw(began.session, began.prompt)
        except BusError:
            raise
        except TielineError as error:  # its machine is away: the turn ends there by itself
            log.info("the turn of %s could not be ended: %s", began.member, error)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = background(work, f"team-{self.conversation.id}-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _append(self, entry: AnyEntry, id: str | None = None) -> None:
        seq = await self._bus.publish(subject(self.conversation.id), encode_entry(entry), id=id)
        self._behind = max(self._behind, seq)

    async def _append_for_sure(self, entry: TurnBegan | TurnEnded, step: str) -> None:
        """However long the bus is away: a turn that was never begun or ended would hold the team up. The same step
        again is the same entry."""
        while True:
            try:
                return await self._append(entry, id=f"{self.conversation.id}.{entry.turn}.{step}")
            except BusClosed:
                raise
            except BusError as error:
                log.warning("the turn of %s waits for the bus: %s", entry.member, error)
                await asyncio.sleep(RETRY_S)

    async def _store_record(self) -> None:
        """The summary in lists; a put is saved where nothing has changed."""
        data = msgspec.json.encode(self.conversation.record())
        if data != self._stored:
            await self._bus.table(TEAMS).put(self.conversation.id, data)
            self._stored = data

    # --- a turn ---

    async def _begin_turn(self, participant: Participant) -> None:
        """Writes down that its turn begins, and what it is sent."""
        conversation, problem, system, policy_changes = self.conversation, "", "", 0
        session = session_of(conversation.id, participant.member)
        while True:
            try:
                policy_changes = participant.policy_changes
                system = await self._prepare_session(session, participant)
                break
            except (SessionNodeOffline, BusError):
                await asyncio.sleep(RETRY_S)  # its machine is away: the turn waits for it
            except TielineError as error:
                problem, policy_changes = error.message, 0
                break
            except Exception as error:  # a fault of ours, or of the disk, must not hold the team up
                log.exception("the turn of %s could not begin", participant.name)
                problem, policy_changes = _fault(error), 0
                break
        reviews = [] if problem else await self._reviews(participant)
        if participant not in conversation.next_speakers():  # a person changed their mind meanwhile
            self._starting.discard(participant.name)
            await self._advance()
            return
        self._turn = turn = max(self._turn, conversation.rounds) + 1
        began = TurnBegan(
            turn=turn,
            member=participant.name,
            session=session,
            prompt=f"{conversation.id}-{turn}",
            text=turn_prompt(conversation, participant, system=system, reviews=reviews),
            seen=conversation.count,
            worktree="" if problem else self._worktree_path(participant),
            policy_changes=policy_changes,
            reviewed={review.member: review.commit for review in reviews if review.diff is not None},
            at=time.time(),
        )
        self._followed.add(began.prompt)
        await self._append_for_sure(began, "began")
        await self._run_turn(began, problem)

    async def _prepare_session(self, session: str, participant: Participant) -> str:
        """Makes its session, with its instructions by the agent's own way. Returns them where it has none: then they go
        with its first prompt."""
        member = participant.member
        text = instructions(self.conversation, participant)
        first = participant.prompts == 0
        if member.session:
            return text if first else ""
        request = SessionRequest(
            agent=member.agent,
            cwd=await self._cwd(participant),
            node=member.node,
            title=f"{self.conversation.team.name}: {member.name}",
            team=self.conversation.id,
            **member.agent_options(policy=policy_of(member), system=text),
        )
        entry = await self._bus.table(SESSIONS).get(session)
        if entry is None:
            try:
                await self._sessions.create(session, request)
            except (SessionNodeOffline, BusError):
                raise
            except TielineError:
                await self._sessions.create(session, msgspec.structs.replace(request, system=""))
            entry = await self._bus.table(SESSIONS).get(session)
        changed = participant.policy_changes > participant.policy_changes_held
        if changed and (entry is None or _session(entry.value).policy != request.policy):
            await self._change_policy(session, request.policy)
        return text if first and entry is not None and not _session(entry.value).system else ""

    def _worktree(self, participant: Participant) -> Worktree | None:
        """Raises GitFailed."""
        member = participant.member
        if not member.worktree or self._worktrees is None:
            return None
        id = self.conversation.id
        return self._worktrees.find(id, member.name, branch_of(self.conversation.team, id, member), member.cwd)

    def _worktree_path(self, participant: Participant) -> str:
        if not participant.member.worktree or self._worktrees is None:
            return ""
        return str(self._worktrees.folder(self.conversation.id) / participant.name)

    async def _cwd(self, participant: Participant) -> str:
        """The directory in which a member works; its worktree is made with its first turn."""
        tree = self._worktree(participant)
        if tree is None or self._worktrees is None:
            return participant.member.cwd
        await self._worktrees.make(tree)
        directory = tree.inside(participant.member.cwd)
        await asyncio.to_thread(Path(directory).mkdir, parents=True, exist_ok=True)
        return directory

    async def _reviews(self, participant: Participant) -> list[Review]:
        """What the members that it reviews have committed since it was last shown their changes."""
        reviews: list[Review] = []
        for name in participant.member.reviews:
            reviewed = self.conversation.find(name)
            work = reviewed.work if reviewed is not None else None
            if reviewed is None or work is None or not work.commit or self._worktrees is None:
                continue
            shown, review = participant.reviewed.get(reviewed.name, ""), Review(reviewed.name, work.branch)
            try:
                tree = self._worktree(reviewed)
                if tree is None or (since := shown or tree.base) == work.commit:
                    continue
                review = review._replace(
                    top=tree.repository.top,
                    since=since,
                    commit=work.commit,
                    again=bool(shown),
                    diff=await self._worktrees.diff(tree, since, work.commit),
                )
            except GitFailed as error:
                review = review._replace(problem=error.message)
            except Exception as error:  # the turn begins without the diff
                log.exception("the changes of %s cannot be shown", reviewed.name)
                review = review._replace(problem=_fault(error))
            reviews.append(review)
        return reviews

    async def _commit(self, began: TurnBegan) -> MemberWork | None:
        """What its turn changed, on the branch of its worktree. The same again changes nothing."""
        participant = self.conversation.find(began.member)
        if participant is None or not began.worktree or self._worktrees is None:
            return None
        branch = branch_of(self.conversation.team, self.conversation.id, participant.member)
        before = participant.work.commit if participant.work else ""
        merging = self.conversation.find(self.conversation.limits.merge)
        try:
            tree = self._worktree(participant)
            if tree is None:
                return None
            return await self._worktrees.commit_turn(
                tree,
                author=began.member,
                message=f"{self.conversation.team.name}: turn {began.turn}, {began.member}",
                since=before,
                merge_into=(merging.worktree or merging.member.cwd) if merging else "",
            )
        except GitFailed as error:
            return MemberWork(branch=branch, commit=before, problem=error.message)
        except Exception as error:  # the turn has ended all the same
            log.exception("the work of %s could not be committed", began.member)
            return MemberWork(branch=branch, commit=before, problem=_fault(error))

    async def _change_policy(self, session: str, policy: Policy) -> None:
        """A session is still busy for a moment after its turn has ended in the log."""
        for left in range(BUSY_TRIES, -1, -1):
            try:
                await self._sessions.change_policy(session, policy)
                return
            except UsageError as error:
                if error.field != "session" or not left:
                    raise
                await asyncio.sleep(BUSY_S)

    async def _run_turn(self, began: TurnBegan, problem: str = "") -> None:
        """To its end in the log. `problem`: why it cannot run."""
        self._followed.add(began.prompt)
        try:
            events = _TurnEvents()
            end, status = await self._turn_end(began, events) if not problem else (_refused(problem), "refused")
            await self._end_turn(began, status, end, events)
        finally:
            self._followed.discard(began.prompt)

    async def _turn_end(self, began: TurnBegan, events: "_TurnEvents") -> tuple[TurnEnd, TurnStatus]:
        while True:
            try:
                end = await self._prompt(began, events)
                return end, end.status
            except (SessionNodeOffline, BusError):
                await asyncio.sleep(RETRY_S)
            except TielineError as error:
                return _refused(error.message), "refused"
            except Exception as error:  # a fault of ours must not leave the team waiting for ever
                log.exception("a turn of %s failed", began.member)
                return TurnEnd("error", error=_fault(error)), "error"

    async def _prompt(self, began: TurnBegan, events: "_TurnEvents") -> TurnEnd:
        known = await self._turns.known(began.session, began.prompt)
        after = 0 if known else await self._bus.last(log_subject(began.session))
        limit = self.conversation.limits.turn_minutes * 60 or None
        terminal = limit is not None and await self._in_terminal(began.session)  # a terminal keeps no time
        by = f"team {self.conversation.team.name}"
        await self._sessions.prompt(
            began.session, began.prompt, began.text, timeout_s=None if terminal else limit, by=by
        )
        try:
            async with asyncio.timeout(limit if terminal else None):
                return await self._turns.end(began.session, began.prompt, after=after, on_event=events.hear)
        except TimeoutError:
            await self._withdraw(began)
            return TurnEnd("timeout")

    async def _in_terminal(self, session: str) -> bool:
        entry = await self._bus.table(SESSIONS).get(session)
        return entry is not None and _session(entry.value).kind == "attached"

    async def _end_turn(self, began: TurnBegan, status: TurnStatus, end: TurnEnd, events: "_TurnEvents") -> None:
        events.printed.update(markers_in_diffs(began.text))
        markers = read_markers(end.text, events.printed) if status == "success" else Markers()
        work = await self._commit(began)
        ended = TurnEnded(
            turn=began.turn,
            member=began.member,
            status=status,
            text=within_limit(end.text),
            error=end.error,
            cost_usd=events.cost_usd,
            markers=markers,
            work=work,
            at=time.time(),
        )
        await self._append_for_sure(ended, "ended")


def _refused(problem: str) -> TurnEnd:
    return TurnEnd("error", error=problem)


def _fault(error: Exception) -> str:
    return f"a fault in Tieline, which its log tells: {error!r}"


class _TurnEvents:
    """What is kept of a turn's events."""

    def __init__(self) -> None:
        self.printed: set[str] = set()
        self.cost_usd = 0.0

    def hear(self, event: AnyEvent) -> None:
        match event:
            case ToolResult(output=output) if len(self.printed) < MAX_PRINTED:
                self.printed.update(lines_with_markers(output))
            case Done(tokens=tokens) if tokens is not None:
                self.cost_usd = tokens.cost_usd or 0.0
            case _:
                pass
