"""Teams, as they cross a wire: what a team is, the entries of its conversation's log, and what people do in it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from ..config import setting
from ..drivers.base import AgentOptions
from ..events import Outcome
from ..policy import Policy

USUAL_PRIORITY = 2
LOWEST_PRIORITY = 3

Responds = Literal["addressed", "always", "never"]

TeamStatus = Literal["running", "held", "waiting", "ended"]
"""running: a member speaks, or will · held: a person holds it · waiting: for a person · ended: over."""

TurnStatus = Outcome | Literal["cancelled", "indeterminate", "refused"]
"""refused: the session did not take the prompt."""


class NextSpeaker(Struct, frozen=True, omit_defaults=True):
    name: str
    priority: int = USUAL_PRIORITY


class VoteCall(Struct, frozen=True):
    question: str
    options: tuple[str, ...]


class Markers(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the markers of one message say. Names are as they were written."""

    next: tuple[NextSpeaker, ...] = ()
    drop: tuple[str, ...] = ()  # names, or ALL
    task: str = ""
    done: bool = False
    vote: VoteCall | None = None
    ballot: str = ""  # an option, as it was written


class MemberWork(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the branch of a member's worktree has. `problem`: why what is in its files was not committed."""

    branch: str
    commit: str = ""
    stat: str = ""  # what is new on it, file by file
    conflicts: tuple[str, ...] = ()  # files in which it does not merge by itself
    problem: str = ""


class TeamMember(AgentOptions, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An agent, with the options of its session, or a person."""

    name: Annotated[str, setting("Name by which the others address it.", "architect")]
    agent: Annotated[str, setting("Agent, as `tieline agents` lists it.", "claude-code")] = ""
    human: Annotated[bool, setting("It is a person.", True)] = False
    session: Annotated[str, setting("A session that exists, for instance a terminal's, instead of a new one.", "")] = ""
    role: Annotated[str, setting("What it does, in a few words; the others are told.", "designs")] = ""
    system: Annotated[str, setting("Its system instruction.", "You write no code.")] = field(
        default="", name="instructions"
    )
    instructions_file: Annotated[str, setting("File with its system instruction.", "architect.md")] = ""
    cwd: Annotated[str, setting("Directory that it works in. Relative: to the team file.", "/home/me/shop")] = "."
    worktree: Annotated[bool, setting("It works in a git worktree of its own, made from its directory's.", True)] = (
        False
    )
    reviews: Annotated[
        tuple[str, ...],
        setting("Members with worktrees whose changes it is shown with each of its turns.", ("developer",)),
    ] = ()
    node: Annotated[str, setting("Id of the machine that runs it. Empty: the hub's own.", "laptop-4f2a")] = ""
    env: Annotated[Mapping[str, str], setting("Variables added to its environment.", {"DEBUG": "1"})] = {}
    policy: Annotated[Policy | str | None, setting("Policy: a preset's name, or its three levels.", "edits")] = None
    responds: Annotated[
        Responds, setting("When it speaks: when it is addressed, after every message, or never.", "addressed")
    ] = "addressed"
    order: Annotated[int, setting("Those with a lower number speak first when several are due at once.", 1)] = 0
    max_turns: Annotated[int, setting("Turns that it may take. 0: as many as the conversation.", 10), Meta(ge=0)] = 0
    max_cost_usd: Annotated[
        float, setting("What it may cost, in US dollars. 0: no limit of its own.", 1.5), Meta(ge=0)
    ] = 0.0

    def agent_options(self, **changes: Any) -> dict[str, Any]:
        """The options of its session. `max_turns` is none of them: it counts the conversation's turns."""
        variables = (*self.environment, *(f"{name}={value}" for name, value in self.env.items()))
        return super().agent_options(max_turns=None, environment=variables) | changes


class ConversationLimits(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How far a conversation goes by itself, and who speaks first."""

    max_rounds: Annotated[int, setting("Turns of agents, in all.", 30), Meta(ge=1, le=10_000)] = 30
    max_cost_usd: Annotated[float, setting("Cost, in US dollars. 0: no limit.", 5.0), Meta(ge=0)] = 0.0
    max_minutes: Annotated[float, setting("Time, without that of people. 0: no limit.", 60.0), Meta(ge=0)] = 0.0
    turn_minutes: Annotated[float, setting("Time that one turn may take. 0: no limit.", 20.0), Meta(ge=0)] = 0.0
    parallel: Annotated[
        int, setting("Agents that work at the same time; they need directories of their own.", 1), Meta(ge=1, le=16)
    ] = 1
    first: Annotated[str, setting("Who speaks first. Empty: the first agent.", "architect")] = ""
    fallback: Annotated[str, setting("Who is asked when nobody is addressed. Empty: the first person.", "alice")] = ""
    merge: Annotated[
        str, setting("Who is told what members with worktrees have committed, and merges it.", "architect")
    ] = ""
    context_chars: Annotated[
        int,
        setting("Characters of what others said that a member is given with its turn.", 20_000),
        Meta(ge=1000, le=200_000),
    ] = 20_000


class Team(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A team, as its file says."""

    name: Annotated[str, setting("The team's name.", "shop")]
    task: Annotated[str, setting("Its task, when none is given.", "Keep the tests green.")] = ""
    members: Annotated[tuple[TeamMember, ...], setting("Its members.")] = ()
    conversation: Annotated[ConversationLimits, setting("Limits of its conversation.")] = ConversationLimits()

    def member(self, name: str) -> TeamMember | None:
        return next((member for member in self.members if member.name.casefold() == name.casefold()), None)


class TeamLogEntry(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=""):
    at: float = 0.0
    by: str = ""  # the person or program that did it; empty: the team itself


class Started(TeamLogEntry, tag="started", frozen=True, kw_only=True):
    team: Team
    task: str


class TurnBegan(TeamLogEntry, tag="turn_began", frozen=True, kw_only=True):
    """Written before the prompt is sent: after a crash the very same prompt is sent again, and runs once."""

    turn: int
    member: str
    session: str
    prompt: str  # its id
    text: str
    seen: int  # the number of the last message that it was given
    worktree: str = ""  # where it works, if that is its own
    policy_changes: int = 0  # of its own so far, which its session has
    reviewed: dict[str, str] = {}  # members whose changes it is shown → up to which commit


class MemberCalled(TeamLogEntry, tag="member_called", frozen=True, kw_only=True):
    """A member said by a tool, in its turn, how the conversation goes on. It holds when the turn has ended well, beside
    what its last words say."""

    turn: int
    member: str
    text: str = ""
    markers: Markers = Markers()


class TurnEnded(TeamLogEntry, tag="turn_ended", frozen=True, kw_only=True):
    turn: int
    member: str
    status: TurnStatus
    text: str = ""
    error: str = ""
    cost_usd: float = 0.0
    markers: Markers = Markers()
    work: MemberWork | None = None  # of a member with a worktree


class PersonSpoke(TeamLogEntry, tag="person_spoke", frozen=True, kw_only=True):
    member: str
    text: str
    markers: Markers = Markers()


class Held(TeamLogEntry, tag="held", frozen=True, kw_only=True):
    """No further turn begins."""


class Resumed(TeamLogEntry, tag="resumed", frozen=True, kw_only=True):
    """It goes on, also after its end; what is added to the limits holds from here on."""

    more_rounds: int = 0
    more_cost_usd: float = 0.0
    more_minutes: float = 0.0


class Reordered(TeamLogEntry, tag="reordered", frozen=True, kw_only=True):
    """These speak next, in this order."""

    next: tuple[str, ...]


class Dropped(TeamLogEntry, tag="dropped", frozen=True, kw_only=True):
    """These do not speak after all."""

    members: tuple[str, ...]


class MemberAdded(TeamLogEntry, tag="member_added", frozen=True, kw_only=True):
    member: TeamMember


class MemberRemoved(TeamLogEntry, tag="member_removed", frozen=True, kw_only=True):
    member: str


class PolicyChanged(TeamLogEntry, tag="policy_changed", frozen=True, kw_only=True):
    """It holds from the member's next turn."""

    member: str
    policy: Policy | str


class TeamEnded(TeamLogEntry, tag="ended", frozen=True, kw_only=True):
    reason: str


AnyEntry = (
    Started | TurnBegan | MemberCalled | TurnEnded | PersonSpoke | Held | Resumed | Reordered | Dropped
    | MemberAdded | MemberRemoved | PolicyChanged | TeamEnded
)  # fmt: skip


class TeamRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation, in a list."""

    id: str
    name: str
    task: str
    status: TeamStatus
    members: tuple[str, ...] = ()
    waiting_for: tuple[str, ...] = ()  # people
    speaking: tuple[str, ...] = ()
    rounds: int = 0
    max_rounds: int = 0
    cost_usd: float = 0.0
    reason: str = ""  # why it ended
    ended_by: str = ""  # the person who ended it
    sessions: tuple[str, ...] = ()  # of its agents
    created_at: float = 0.0
    active_at: float = 0.0
    last_line: str = ""


class TeamMemberView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    agent: str = ""
    human: bool = False
    role: str = ""
    session: str = ""
    policy: Policy | str | None = None  # as the team says; its session's may have been changed there
    turns: int = 0
    cost_usd: float = 0.0
    worktree: str = ""  # its path
    work: MemberWork | None = None


class TeamView(TeamRecord, frozen=True, kw_only=True):
    """A conversation, whole but for its log."""

    people: tuple[str, ...] = ()
    who: tuple[TeamMemberView, ...] = ()
    queue: tuple[NextSpeaker, ...] = ()
    limits: ConversationLimits = ConversationLimits()


class TeamEntry(Struct, frozen=True, kw_only=True):
    seq: int
    entry: AnyEntry


class TeamEntries(Struct, frozen=True, kw_only=True):
    """Entries of the log, oldest first. `more`: there are further ones that way."""

    entries: tuple[TeamEntry, ...]
    status: TeamStatus
    more: bool = False


class NewTeam(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    team: Team
    task: str = ""  # empty: the team's own
    id: str = ""  # the same again is the same conversation


class TeamFileText(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A team file, as its text."""

    text: Annotated[str, Meta(max_length=64_000)]
    cwd: str = ""  # the directory of the hub's machine that members' relative ones count from


class TeamFileMistake(Struct, frozen=True, kw_only=True, omit_defaults=True):
    line: int
    problem: str
    key: str = ""  # as `members[1].agent`; empty: it is no TOML
    hint: str = ""


class CheckedTeamFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The team, with absolute directories; or everything that is wrong in its file."""

    team: Team | None = None
    mistakes: tuple[TeamFileMistake, ...] = ()


class CleanTeam(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Remove the worktrees of a conversation that has ended. `force`: also where something is not merged, or not
    committed; what is committed stays on its branch."""

    force: bool = False


class CleanedTeam(Struct, frozen=True, kw_only=True):
    removed: tuple[str, ...]  # paths
    kept: dict[str, str]  # path → why


class TeamAction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", tag=""):
    """What a person does in a conversation."""


class Speak(TeamAction, tag="speak", frozen=True, kw_only=True):
    """Say something, as a person of the team. `to`: who shall answer; empty: whoever asked, or the first agent."""

    text: str
    to: tuple[NextSpeaker, ...] = ()
    member: str = ""  # empty: the first person of the team


class Hold(TeamAction, tag="hold", frozen=True, kw_only=True):
    """Let no further turn begin."""


class Resume(TeamAction, tag="resume", frozen=True, kw_only=True):
    """Go on, also after the end; what is given here is added to the limits."""

    more_rounds: Annotated[int, Meta(ge=0, le=10_000)] = 0
    more_cost_usd: Annotated[float, Meta(ge=0)] = 0.0
    more_minutes: Annotated[float, Meta(ge=0)] = 0.0


class Reorder(TeamAction, tag="reorder", frozen=True, kw_only=True):
    """These speak next, in this order."""

    next: tuple[str, ...]


class Drop(TeamAction, tag="drop", frozen=True, kw_only=True):
    """These do not speak after all."""

    members: tuple[str, ...]


class AddMember(TeamAction, tag="add_member", frozen=True, kw_only=True):
    member: TeamMember


class RemoveMember(TeamAction, tag="remove_member", frozen=True, kw_only=True):
    member: str


class ChangePolicy(TeamAction, tag="change_policy", frozen=True, kw_only=True):
    """Hold a member to another policy from its next turn."""

    member: str
    policy: Policy | str


class EndTeam(TeamAction, tag="end", frozen=True, kw_only=True):
    reason: str = ""


AnyTeamAction = Speak | Hold | Resume | Reorder | Drop | AddMember | RemoveMember | ChangePolicy | EndTeam
