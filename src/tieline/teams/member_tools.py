"""What members say by a tool instead of a marker: an entry of the log, which holds when their turn has ended. And what
they look at: each other's diffs."""

import time
from typing import Protocol

from ..bus.base import Bus
from ..errors import UsageError
from ..protocol.mesh import MemberDiff, TeamCall
from ..protocol.teams import USUAL_PRIORITY, Markers, MemberCalled, NextSpeaker, TeamRecord, TurnBegan
from .conversation import TeamConversation, branch_of, session_of
from .records import MAX_TEXT, encode_entry, subject
from .reviews import MAX_FILE_LIST, quotation
from .turn_commits import TeamWorktrees

MAX_CALLS = 20
"""Of one turn."""
MAX_SHOWN = 20_000
"""Characters of a diff that one call shows."""


class FoldedTeams(Protocol):
    """The conversations, as far as this needs them: `teams.Teams` is one."""

    async def records(self) -> list[TeamRecord]: ...

    async def folded(self, id: str) -> TeamConversation: ...


class NotYourTurn(UsageError):
    def __init__(self, team: str) -> None:
        hint = "Wait until the team gives you your turn; send_message reaches members at any time."
        super().__init__(f"it is not your turn in the team {team}", field="", hint=hint)


class MemberTools:
    """By the id of the session that calls, which the transport knows. Each call is kept when it returns; the same `key`
    again is the same call."""

    def __init__(self, bus: Bus, teams: FoldedTeams, worktrees: TeamWorktrees | None = None) -> None:
        self._bus = bus
        self._teams = teams
        self._worktrees = worktrees

    async def is_member(self, session: str) -> bool:
        try:
            await self._turn_of(session)
        except NotYourTurn:
            return True
        except UsageError:
            return False
        return True

    async def hand_over(self, session: str, to: str, message: str = "", priority: int = 0, *, key: str) -> TeamCall:
        conversation, began = await self._turn_of(session)
        speakers = tuple(
            NextSpeaker(conversation.get(name).name, priority or USUAL_PRIORITY)
            for name in to.split(",")
            if name.strip()
        )
        if not speakers:
            raise UsageError("no member is named", field="to", hint=_names(conversation))
        return await self._keep(conversation, began, message, Markers(next=speakers), key)

    async def ask_person(self, session: str, question: str, person: str = "", *, key: str) -> TeamCall:
        conversation, began = await self._turn_of(session)
        people = [each.name for each in conversation.participants.values() if each.member.human]
        name = conversation.get(person).name if person else next(iter(people), "")
        if name not in people:
            problem = f"{name} is not a person" if name else "the team has no person"
            raise UsageError(problem, field="person", hint=_names(conversation))
        return await self._keep(conversation, began, question, Markers(next=(NextSpeaker(name),)), key)

    async def done(self, session: str, summary: str, *, key: str) -> TeamCall:
        conversation, began = await self._turn_of(session)
        return await self._keep(conversation, began, summary, Markers(done=True), key)

    async def show_diff(self, session: str, member: str, file: str = "", offset: int = 0) -> MemberDiff:
        """The diff from the base of the member's worktree to its last commit."""
        conversation, _ = await self._turn_of(session)
        reviewed = conversation.get(member)
        work = reviewed.work
        if not reviewed.member.worktree or self._worktrees is None:
            names = ", ".join(each.name for each in conversation.participants.values() if each.member.worktree)
            hint = f"These have one: {names}." if names else ""
            raise UsageError(f"{reviewed.name} has no worktree", field="member", hint=hint)
        branch = branch_of(conversation.team, conversation.id, reviewed.member)
        if work is None or not work.commit:
            return MemberDiff(member=reviewed.name, branch=branch)
        tree = self._worktrees.find(conversation.id, reviewed.name, branch, reviewed.member.cwd)
        diff = await self._worktrees.diff(tree, tree.base, work.commit, file)
        end = offset + MAX_SHOWN
        return MemberDiff(
            member=reviewed.name,
            branch=branch,
            files="" if offset else quotation(diff.files[:MAX_FILE_LIST]),
            diff=quotation(diff.patch[offset:end]),
            next_offset=end if end < len(diff.patch) else 0,
        )

    async def _turn_of(self, session: str) -> tuple[TeamConversation, TurnBegan]:
        """The turn that runs in this session."""
        waits = ""
        for record in await self._teams.records():
            if record.status == "ended":
                continue
            conversation = await self._teams.folded(record.id)
            if conversation.ended is not None:  # its summary is behind its log
                continue
            for began in conversation.running.values():
                if began.session == session:
                    return conversation, began
            if any(session_of(record.id, each.member) == session for each in conversation.participants.values()):
                waits = record.name
        if waits:
            raise NotYourTurn(waits)
        raise UsageError(
            "you are not a member of a running team", field="", hint="These tools are for teams; use send_message."
        )

    async def _keep(
        self, conversation: TeamConversation, began: TurnBegan, text: str, markers: Markers, key: str
    ) -> TeamCall:
        if len(text) > MAX_TEXT:
            raise UsageError(f"a message has at most {MAX_TEXT:,} characters", field="message")
        if len(conversation.called.get(began.member, ())) >= MAX_CALLS:
            raise UsageError(f"one turn has at most {MAX_CALLS} such calls", field="", hint="End your turn.")
        call = MemberCalled(turn=began.turn, member=began.member, text=text.strip(), markers=markers, at=time.time())
        id = f"{conversation.id}.{began.turn}.{key}"
        await self._bus.publish(subject(conversation.id), encode_entry(call), id=id)
        after = await self._teams.folded(conversation.id)
        if (now := after.running.get(began.member)) is None or now.turn != began.turn:
            raise UsageError("your turn has just ended", field="", hint="Say it in your next turn.")
        return TeamCall(
            team=conversation.team.name,
            turn=began.turn,
            next=tuple(speaker.name for speaker in markers.next),
            done=markers.done,
        )


def _names(conversation: TeamConversation) -> str:
    return f"Members: {', '.join(each.name for each in conversation.participants.values())}."
