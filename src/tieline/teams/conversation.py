"""The state of a conversation, folded from its log entry by entry. Pure: the same log gives the same state."""

import hashlib
import re
from collections import deque
from collections.abc import Collection, Iterable
from itertools import takewhile
from typing import NamedTuple, assert_never

from msgspec.structs import replace

from ..errors import UsageError
from ..protocol.teams import (
    LOWEST_PRIORITY,
    AnyEntry,
    ConversationLimits,
    Dropped,
    Held,
    Markers,
    MemberAdded,
    MemberCalled,
    MemberRemoved,
    MemberWork,
    NextSpeaker,
    PersonSpoke,
    PolicyChanged,
    Reordered,
    Resumed,
    Started,
    Team,
    TeamEnded,
    TeamMember,
    TeamMemberView,
    TeamRecord,
    TeamStatus,
    TeamView,
    TurnBegan,
    TurnEnded,
    VoteCall,
)
from .markers import ALL, without_markers
from .speaking_queue import MAX_PER_MESSAGE, SpeakingQueue
from .votes import Vote

MAX_MESSAGES = 500
"""Messages that are kept for members that have not seen them."""
MAX_REASON = 500
"""Characters that members are told of why a turn failed."""
COORDINATOR = "tieline"
"""What the conversation itself tells its members is from this name."""


def session_of(team: str, member: TeamMember) -> str:
    """The id of a member's session: always the same."""
    if member.session:
        return member.session
    return "t" + hashlib.sha256(f"{team}.{member.name.casefold()}".encode()).hexdigest()[:23]


def branch_of(team: Team, id: str, member: TeamMember) -> str:
    """The branch of a member's worktree: always the same."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", team.name).strip("-")[:40] or "team"
    return f"team/{name}/{id[-8:].strip('-_') or id}/{member.name}"


class TeamMessage(NamedTuple):
    number: int
    sender: str
    text: str
    to: tuple[str, ...] = ()  # for these alone; empty: for all


class Participant:
    """A member, and what became of it so far."""

    def __init__(self, member: TeamMember, joined: int) -> None:
        self.member = member
        self.seen = joined  # the number of the last message that it was given
        self.turns = 0
        self.prompts = 0  # of these turns, those that its session took
        self.cost_usd = 0.0
        self.reviewed: dict[str, str] = {}  # by member: up to which commit it was shown what changed
        self.worktree = ""  # its path
        self.work: MemberWork | None = None  # what it has committed last
        self.policy_changes = 0
        self.policy_changes_held = 0  # those that its session has
        self._before_turn = (joined, self.reviewed)
        self.told_unknown = False  # that it addressed somebody who is not there

    @property
    def name(self) -> str:
        return self.member.name

    def give(self, began: TurnBegan) -> None:
        """Its turn begins, with all that this entry says."""
        self._before_turn = (self.seen, self.reviewed)
        self.seen, self.reviewed = began.seen, self.reviewed | began.reviewed
        self.turns += 1
        self.worktree = began.worktree or self.worktree
        self.policy_changes_held = max(self.policy_changes_held, began.policy_changes)

    def take_back(self) -> None:
        """Its session did not take the prompt: what was in it goes with the next one."""
        self.seen, self.reviewed = self._before_turn

    def over_budget(self) -> str:
        if self.member.max_turns and self.turns >= self.member.max_turns:
            return f"{self.name} has used its {self.member.max_turns} turns"
        if self.member.max_cost_usd and self.cost_usd >= self.member.max_cost_usd:
            return f"{self.name} has used its {self.member.max_cost_usd:g} USD"
        return ""


class TeamConversation:
    """`apply` every entry of the log in order; the rest only reads."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.team = Team(name="")
        self.task = ""
        self.limits = ConversationLimits()
        self.participants: dict[str, Participant] = {}  # by case-folded name, in the order of the file
        self.left: dict[str, Participant] = {}  # those who are no members any more
        self.queue = SpeakingQueue()
        self.messages: deque[TeamMessage] = deque(maxlen=MAX_MESSAGES)
        self.running: dict[str, TurnBegan] = {}  # by member
        self.called: dict[str, list[MemberCalled]] = {}  # by member, in the turn that runs
        self.waiting_for: dict[str, str] = {}  # people, with who addressed them last
        self.vote: Vote | None = None
        self.to_merge: list[int] = []  # the messages about work for the merging member's next turn
        self.rounds = 0
        self.cost_usd = 0.0
        self.working_s = 0.0  # time in which somebody worked
        self.held = False
        self.done_by = ""
        self.ended: TeamEnded | None = None
        self.ended_seq = 0  # of that entry
        self.created_at = self.active_at = 0.0
        self.seq = 0  # of the last entry
        self.count = 0  # of messages

    # --- reading ---

    @property
    def status(self) -> TeamStatus:
        if self.ended is not None:
            return "ended"
        if self.held:
            return "held"
        return "running" if self.running or self.queue or not self.waiting_for else "waiting"

    def agents(self) -> list[Participant]:
        return [each for each in self.participants.values() if not each.member.human]

    def find(self, name: str) -> Participant | None:
        return self.participants.get(name.strip().lstrip("@").casefold())

    def get(self, name: str) -> Participant:
        if (participant := self.find(name)) is None:
            names = ", ".join(each.name for each in self.participants.values())
            raise UsageError(f"no member is called {name}", field="member", hint=f"Members: {names}.")
        return participant

    def limit_reached(self) -> str:
        """Which limit of the conversation lets no further turn begin; empty: none."""
        limits = self.limits
        if self.rounds >= limits.max_rounds:
            return f"the limit of {limits.max_rounds} rounds is reached"
        if limits.max_cost_usd and self.cost_usd >= limits.max_cost_usd:
            return f"the limit of {limits.max_cost_usd:g} USD is reached"
        if limits.max_minutes and self.working_s >= limits.max_minutes * 60:
            return f"the limit of {limits.max_minutes:g} minutes is reached"
        return ""

    def next_speakers(self) -> list[Participant]:
        """Agents whose turn may begin now, in order."""
        if self.ended is not None or self.held or self.done_by:
            return []
        free = self.limits.parallel - len(self.running)
        speakers: list[Participant] = []
        for waiting in self.queue:
            if free > 0 and waiting.name not in self.running:
                speakers.append(self.participants[waiting.name.casefold()])
                free -= 1
        return speakers

    def next_turns(self, starting: Collection[str] = ()) -> list[Participant]:
        """Agents whose turn is to begin now, within all limits. `starting`: those whose turn is already about to."""
        if self.limit_reached():
            return []
        free = min(self.limits.parallel - len(self.running), self.limits.max_rounds - self.rounds) - len(starting)
        return [each for each in self.next_speakers() if each.name not in starting][: max(0, free)]

    def ending(self, at: float) -> TeamEnded | None:
        """The entry that ends it, if it is to end now."""
        return TeamEnded(reason=reason, at=at) if (reason := self.over()) else None

    def over(self) -> str:
        """Why the conversation is to end now; empty: it goes on, or waits."""
        if self.ended is not None or self.running:
            return ""
        if self.done_by:
            return f"done, says {self.done_by}"
        if self.queue and (reason := self.limit_reached()) and not self.held:
            return reason
        if not self.queue and not self.waiting_for and not self.held:
            return "nobody is left to speak"
        return ""

    def unseen(self, participant: Participant) -> list[TeamMessage]:
        """What it was not given yet, oldest first."""
        newer = list(takewhile(lambda message: message.number > participant.seen, reversed(self.messages)))
        return [
            message
            for message in reversed(newer)
            if message.sender != participant.name and (not message.to or participant.name in message.to)
        ]

    def forgotten(self, participant: Participant) -> int:
        """Messages that it was not given and that are not kept any more."""
        return max(0, self.messages[0].number - participant.seen - 1) if self.messages else 0

    def record(self) -> TeamRecord:
        last = next((message.text for message in reversed(self.messages) if message.text), "")
        return TeamRecord(
            id=self.id,
            name=self.team.name,
            task=self.task,
            status=self.status,
            members=tuple(each.name for each in self.participants.values()),
            waiting_for=tuple(self.waiting_for),
            speaking=tuple(self.running),
            rounds=self.rounds,
            max_rounds=self.limits.max_rounds,
            cost_usd=self.cost_usd,
            reason=self.ended.reason if self.ended else "",
            ended_by=self.ended.by if self.ended else "",
            sessions=tuple(session_of(self.id, each.member) for each in self.agents()),
            created_at=self.created_at,
            active_at=self.active_at,
            last_line=last.strip().partition("\n")[0][:200],
        )

    def view(self) -> TeamView:
        record = self.record()
        people = tuple(each.name for each in self.participants.values() if each.member.human)
        return TeamView(
            **{name: getattr(record, name) for name in record.__struct_fields__},
            people=people,
            who=tuple(
                TeamMemberView(
                    name=each.name,
                    agent=each.member.agent,
                    human=each.member.human,
                    role=each.member.role,
                    session="" if each.member.human else session_of(self.id, each.member),
                    policy=each.member.policy,
                    turns=each.turns,
                    cost_usd=each.cost_usd,
                    worktree=each.worktree,
                    work=each.work,
                )
                for each in self.participants.values()
            ),
            queue=tuple(NextSpeaker(each.name, each.rank) for each in self.queue),
            limits=self.limits,
        )

    # --- the fold ---

    def apply(self, entry: AnyEntry, seq: int) -> None:
        """Never fails: two people act at once, so that an entry may name a member who has just left."""
        if self.running and entry.at > self.active_at:
            self.working_s += entry.at - self.active_at
        self.active_at = max(self.active_at, entry.at)
        self.seq = seq
        match entry:
            case Started():
                self._start(entry)
            case TurnBegan():
                self._turn_began(entry)
            case MemberCalled():
                if (began := self.running.get(entry.member)) and began.turn == entry.turn:
                    self.called.setdefault(entry.member, []).append(entry)
            case TurnEnded():
                self._turn_ended(entry)
            case PersonSpoke():
                self._person_spoke(entry)
            case Held():
                self.held = True
            case Resumed():
                self._resumed(entry)
            case Reordered():
                self._reorder([each for name in entry.next if (each := self.find(name)) is not None])
            case Dropped():
                self._drop(entry.members)
                self._close_vote()
                self._ask_if_silent("")
            case MemberAdded():
                self._add(entry.member)
            case MemberRemoved():
                self._remove(entry.member)
            case PolicyChanged():
                if (participant := self.find(entry.member)) is not None:
                    participant.member = replace(participant.member, policy=entry.policy)
                    participant.policy_changes += 1
            case TeamEnded():
                self.ended, self.ended_seq = entry, seq
            case _:
                assert_never(entry)

    def _start(self, entry: Started) -> None:
        self.team, self.task, self.limits = entry.team, entry.task, entry.team.conversation
        self.created_at = entry.at
        for member in entry.team.members:
            self.participants[member.name.casefold()] = Participant(member, 0)
        first = self.limits.first or next(
            each.name for each in entry.team.members if not each.human and each.responds != "never"
        )
        self._say(entry.by or COORDINATOR, entry.task)
        self._address([NextSpeaker(first)], entry.by or COORDINATOR)

    def _turn_began(self, entry: TurnBegan) -> None:
        self.rounds += 1
        self.running[entry.member] = entry  # also of one who has just left: the coordinator ends it
        self.queue.take(entry.member)
        if (participant := self.find(entry.member)) is not None:
            participant.give(entry)

    def _turn_ended(self, entry: TurnEnded) -> None:
        began = self.running.pop(entry.member, None)
        calls = self.called.pop(entry.member, [])
        self.cost_usd += entry.cost_usd
        participant = self.find(entry.member)
        if participant is None:  # it was removed meanwhile
            self._queue_merging()
            self._close_vote()
            self._ask_if_silent(entry.member)
            return
        participant.cost_usd += entry.cost_usd
        if entry.status == "refused":
            participant.take_back()
        else:
            participant.prompts += 1
        if (spent := participant.over_budget()) and self.queue.drop(participant.name):  # it was addressed meanwhile
            self._say(COORDINATOR, f"{spent} and does not speak any more.")
        if entry.work is not None:
            self._worked(participant, entry.work)
        self._queue_merging()
        if self.vote is not None and entry.status != "indeterminate":
            self._voted(self.vote, participant, entry.markers.ballot, seen=began.seen if began else 0)
        if entry.status == "success":
            self._spoke(participant, *_with_calls(entry, calls))
        elif entry.status == "indeterminate":  # again and again, if need be: rounds are limited
            self._tell(participant.name, "Your last turn was cut off by a restart. See what is done of it, and go on.")
            self._queue_again(participant)
        else:
            what = {"interrupted": "was interrupted", "timeout": "took too long"}.get(entry.status, "failed")
            why = entry.error.strip().partition("\n")[0][:MAX_REASON]  # the rest is an agent's last output
            self._say(COORDINATOR, f"The turn of {participant.name} {what}{': ' + why if why else ''}")
            self._close_vote()
            self._ask_if_silent(participant.name)

    def _person_spoke(self, entry: PersonSpoke) -> None:
        if (participant := self.find(entry.member)) is None:
            self._say(entry.member, entry.text)
            return
        asked_by = self.waiting_for.pop(participant.name, "")
        self.queue.drop(participant.name)
        participant.seen = self.count
        markers = entry.markers
        voted = self.vote is not None and bool(markers.ballot) and self.vote.take(participant.name, markers.ballot)
        if markers.next or markers.done or markers.drop or markers.vote or voted:
            self._spoke(participant, entry.text, entry.markers)
            return
        self._say(participant.name, entry.text)
        answers = self.find(asked_by) or self._first_agent()
        if answers is not None:
            self._address([NextSpeaker(answers.name)], participant.name)
        self._address_always(participant.name)

    def _resumed(self, entry: Resumed) -> None:
        self.held, self.done_by, ended, self.ended = False, "", self.ended, None
        limits = self.limits
        self.limits = replace(
            limits,
            max_rounds=limits.max_rounds + entry.more_rounds,
            max_cost_usd=limits.max_cost_usd and limits.max_cost_usd + entry.more_cost_usd,  # 0 is no limit
            max_minutes=limits.max_minutes and limits.max_minutes + entry.more_minutes,
        )
        if ended is not None and not self.queue and not self.waiting_for:
            first = self._first_agent()
            if first is not None:
                self._tell(first.name, "The conversation goes on.")
                self._address([NextSpeaker(first.name)], COORDINATOR)

    def _reorder(self, participants: list[Participant]) -> None:
        agents = [each for each in participants if not each.member.human]
        for spent in filter(None, (each.over_budget() for each in agents)):
            self._say(COORDINATOR, f"{spent} and does not speak any more.")
        self.queue.put_first([each.name for each in agents if not each.over_budget()])
        for participant in participants:
            if participant.member.human:
                self.waiting_for.setdefault(participant.name, "")

    def _add(self, member: TeamMember) -> None:
        if self.find(member.name) is not None:
            return
        self.participants[member.name.casefold()] = Participant(member, self.count)
        what = "a person" if member.human else member.role or member.agent
        self._say(COORDINATOR, f"{member.name} ({what}) has joined the team.")

    def _remove(self, name: str) -> None:
        if (participant := self.find(name)) is None:
            return
        if self.vote is not None:
            self.vote.waits_for.discard(participant.name)
        self.left[participant.name.casefold()] = self.participants.pop(participant.name.casefold())
        self.queue.drop(participant.name)
        self.waiting_for.pop(participant.name, None)
        self._say(COORDINATOR, f"{participant.name} has left the team.")
        self._close_vote()
        self._ask_if_silent("")

    def _worked(self, participant: Participant, work: MemberWork) -> None:
        """Tells the merging member, which speaks after the others; without a merging member, tells all members."""
        before, participant.work = participant.work, work
        if work.problem:
            self._say(COORDINATOR, f"The work of {participant.name} was not committed: {work.problem}")
        if work.commit == (before.commit if before else "") or not work.stat:
            return
        text = f"The work of {participant.name} is on the branch {work.branch}:\n{work.stat}"
        if work.conflicts:
            text += f"\nIt does not merge by itself, there are conflicts in: {', '.join(work.conflicts)}"
        merging = self.find(self.limits.merge) if self.limits.merge else None
        if merging is None or merging is participant:
            self._say(COORDINATOR, text)
            return
        self._tell(merging.name, f"{text}\nMerge it: `git merge {work.branch}`")
        self.to_merge.append(self.count)

    def _queue_merging(self) -> None:
        """Lets the merging member speak once no turn in a worktree runs."""
        merging = self.find(self.limits.merge) if self.limits.merge else None
        if self.to_merge and not any(turn.worktree for turn in self.running.values()):
            if merging is not None and not merging.over_budget():
                for message in self.to_merge:
                    self.queue.add(merging.name, LOWEST_PRIORITY, message)
            self.to_merge.clear()

    # --- what a message does ---

    def _spoke(self, speaker: Participant, text: str, markers: Markers) -> None:
        if markers.task:
            self.task = markers.task
        number = self._say(speaker.name, without_markers(text))
        self._drop(markers.drop)
        if markers.done:
            self.done_by = speaker.name
        if markers.vote is not None:
            self._call_vote(speaker, markers.vote)
        self._address(markers.next, speaker.name, number)
        self._address_always(speaker.name)
        self._close_vote()
        self._ask_if_silent(speaker.name)

    def _call_vote(self, caller: Participant, call: VoteCall) -> None:
        """Asks every other agent that speaks, before anybody else. People are told, and not waited for."""
        if self.vote is not None:
            self._tell(caller.name, f"A vote is open already: {self.vote.call.question}")
            return
        self.vote = vote = Vote(call, caller.name, self.count + 1)
        self._say(COORDINATOR, vote.question())
        for each in self.participants.values():
            speaks = not each.member.human and each.member.responds != "never" and not each.over_budget()
            if each is not caller and speaks and self.queue.add(each.name, 1, vote.message):
                vote.asked.append(each.name)
        vote.waits_for.update(vote.asked)

    def _voted(self, vote: Vote, voter: Participant, ballot: str, *, seen: int) -> None:
        """A turn that began before the vote is none of it, unless it has a ballot."""
        if vote.take(voter.name, ballot) or seen >= vote.message:
            vote.waits_for.discard(voter.name)

    def _close_vote(self) -> None:
        """Once nobody is left who will vote: the result is told, and whoever called for it speaks next."""
        vote = self.vote
        if vote is None or any(name in self.queue or name in self.running for name in vote.waits_for):
            return
        self.vote = None
        self._say(COORDINATOR, vote.result())
        caller = self.find(vote.caller)
        if caller is not None and not self.done_by:
            self._address([NextSpeaker(caller.name, 1)], COORDINATOR)

    def _address(self, speakers: Iterable[NextSpeaker], by: str, message: int = 0) -> None:
        """Queue them. Unknown names go back to the speaker once, then to a person."""
        unknown: list[str] = []
        addressed: list[tuple[Participant, int]] = []
        speakers = list(speakers)
        for late in speakers[MAX_PER_MESSAGE:]:
            self._say(
                COORDINATOR, f"One message addresses at most {MAX_PER_MESSAGE} members: {late.name} was not asked."
            )
        for speaker in speakers[:MAX_PER_MESSAGE]:
            participant = self.find(speaker.name)
            if participant is None or participant.member.responds == "never":
                unknown.append(speaker.name)
            elif problem := participant.over_budget():
                self._say(COORDINATOR, f"{problem} and does not speak any more.")
            else:
                addressed.append((participant, speaker.priority))
        for participant, priority in sorted(addressed, key=lambda each: each[0].member.order):
            if participant.member.human:
                self.waiting_for.pop(participant.name, None)
                self.waiting_for[participant.name] = by
            elif not self.queue.add(participant.name, priority, message or self.count):
                self._say(COORDINATOR, f"The queue is full: {participant.name} was not asked.")
        speaker_of = self.find(by)
        if not unknown:
            if speaker_of is not None:
                speaker_of.told_unknown = False
        elif speaker_of is not None and not speaker_of.member.human and not speaker_of.told_unknown:
            speaker_of.told_unknown = True
            names = ", ".join(each.name for each in self.participants.values() if each.member.responds != "never")
            self._tell(by, f"Nobody who speaks is called {', '.join(unknown)}. Members: {names}.")
            self._queue_again(speaker_of)
        else:
            self._ask_fallback(by)

    def _queue_again(self, participant: Participant) -> None:
        """It speaks once more, about what it was just told."""
        if spent := participant.over_budget():
            self._say(COORDINATOR, f"{spent} and does not speak any more.")
            self._close_vote()
            self._ask_if_silent(participant.name)
        else:
            self.queue.add(participant.name, 1, self.count)

    def _address_always(self, speaker: str) -> None:
        for participant in self.participants.values():
            member = participant.member
            responds = member.responds == "always" and not member.human and participant.name != speaker
            if responds and not participant.over_budget():
                self.queue.add(participant.name, LOWEST_PRIORITY, self.count)

    def _ask_if_silent(self, by: str) -> None:
        if not (self.queue or self.running or self.waiting_for or self.done_by):
            self._ask_fallback(by)

    def _ask_fallback(self, by: str) -> None:
        """Nobody was addressed: the member that the team names for that, else the first person."""
        fallback = self.find(self.limits.fallback) if self.limits.fallback else None
        if fallback is None or fallback.name == by:
            fallback = next((each for each in self.participants.values() if each.member.human), None)
        if fallback is None:
            return
        if fallback.member.human:
            self.waiting_for[fallback.name] = by
        elif not fallback.over_budget():
            self.queue.add(fallback.name, message=self.count)

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            if name == ALL:
                self.queue.clear()
            elif participant := self.find(name):
                self.queue.drop(participant.name)

    def _first_agent(self) -> Participant | None:
        return next(
            (each for each in self.participants.values() if not each.member.human and each.member.responds != "never"),
            None,
        )

    def _say(self, sender: str, text: str) -> int:
        self.count += 1
        self.messages.append(TeamMessage(self.count, sender, text))
        return self.count

    def _tell(self, name: str, text: str) -> None:
        self.count += 1
        self.messages.append(TeamMessage(self.count, COORDINATOR, text, (name,)))


def _with_calls(entry: TurnEnded, calls: list[MemberCalled]) -> tuple[str, Markers]:
    """What a member said in its turn: in its final text, and by calls of the team's tools."""
    texts = (without_markers(entry.text), *(call.text for call in calls))
    all_markers = (*(call.markers for call in calls), entry.markers)
    speakers: dict[str, NextSpeaker] = {}
    for speaker in (speaker for markers in all_markers for speaker in markers.next):
        speakers.setdefault(speaker.name.casefold(), speaker)
    markers = replace(entry.markers, next=tuple(speakers.values()), done=any(markers.done for markers in all_markers))
    return "\n\n".join(filter(None, texts)), markers
