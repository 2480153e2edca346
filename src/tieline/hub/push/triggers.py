"""What to push for what happened: a pure function.

An ask that waits, a turn that finished, a machine that stays away, messages that an agent does not take, a team that
waits for a person or has ended: each is pushed once, to every subscription, and only when it is news and nobody is
looking. What the agent does is nobody's business on a locked screen: a notification tells that somebody is needed and
by whom; more only where the subscription says so. It can be allowed from there only where all of it is there to be
read.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ...ask_parts import ask_parts, parts_text
from ...events import Outcome
from ...protocol.push import Notice, NoticeAction
from ...sessions.records import AskRecord
from ...visible_text import marked

ASK_TTL_S = 600
"""An ask is worth waking a phone for, not for long; one that expires earlier is not kept beyond that."""
TURN_TTL_S = 600
NODE_TTL_S = 600
MESSAGE_TTL_S = 600
TEAM_TTL_S = 600
TEST_TTL_S = 60
SHORTEST_TTL_S = 15
LINE = 160
"""Characters of content in a notification."""
LINES = 4
"""As many are seen of a notification that is opened up."""


# --- what happened -------------------------------------------------------------------------------------------


class AskPending(Struct, frozen=True, kw_only=True):
    ask: AskRecord
    agent: str = ""
    machine: str = ""
    title: str = ""  # of the session

    @property
    def id(self) -> str:
        return f"ask.{self.ask.id}"


class TurnFinished(Struct, frozen=True, kw_only=True):
    session: str
    seq: int  # of its `done`
    status: Outcome | str
    text: str = ""
    agent: str = ""
    machine: str = ""
    title: str = ""

    @property
    def id(self) -> str:
        return f"turn.{self.session}.{self.seq}"


class NodeWentOffline(Struct, frozen=True, kw_only=True):
    """After the grace: it was given the time to come back."""

    node: str
    name: str = ""
    since: float = 0.0

    @property
    def id(self) -> str:
        return f"node.{self.node}.{int(self.since * 1000)}"


class MessagesUnread(Struct, frozen=True, kw_only=True):
    """An agent in a harness has not taken its messages for a while."""

    member: str
    title: str
    last: str  # id of the newest message
    sender: str = ""  # its sender's name
    machine: str = ""

    @property
    def id(self) -> str:
        return f"message.{self.last}"


class TeamWaits(Struct, frozen=True, kw_only=True):
    """A team's conversation has come to people."""

    team: str
    name: str
    people: tuple[str, ...]
    round: int
    line: str = ""  # what was said last

    @property
    def id(self) -> str:
        return f"team.{self.team}.{self.round}.{'.'.join(self.people)}"


class TeamOver(Struct, frozen=True, kw_only=True):
    team: str
    name: str
    reason: str
    round: int

    @property
    def id(self) -> str:
        return f"team.{self.team}.{self.round}.over"


PushTrigger = AskPending | TurnFinished | NodeWentOffline | MessagesUnread | TeamWaits | TeamOver

# --- what is pushed ------------------------------------------------------------------------------------------


class Subscription(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A browser that wants to be told."""

    id: str
    device: str
    endpoint: str
    p256dh: str
    auth: str
    content: bool = False  # also what is asked and answered
    created_at: float = 0.0


Urgency = Literal["low", "normal", "high"]


class Push(Struct, frozen=True, kw_only=True):
    subscription: Subscription
    notice: Notice
    ttl_s: int
    urgency: Urgency


def decide(
    fact: PushTrigger,
    *,
    subscriptions: Sequence[Subscription],
    visible: bool,
    live: bool,
    pushed: bool,
    now: float,
) -> tuple[Push, ...]:
    """`visible`: a person looks at a client. `live`: it happens now. `pushed`: a hub decided about it before."""
    if visible or not live or pushed:
        return ()
    match fact:
        case AskPending(ask=ask):
            left = ask.expires_at - now if ask.expires_at else ASK_TTL_S
            if ask.status != "pending" or left <= 0:
                return ()
            ttl, urgency = max(SHORTEST_TTL_S, min(ASK_TTL_S, int(left))), "high"
        case TurnFinished(status=status):
            if status == "interrupted":  # by a person, who knows
                return ()
            ttl, urgency = TURN_TTL_S, "normal"
        case NodeWentOffline():
            ttl, urgency = NODE_TTL_S, "normal"
        case MessagesUnread():
            ttl, urgency = MESSAGE_TTL_S, "normal"
        case TeamWaits():
            ttl, urgency = TEAM_TTL_S, "high"
        case TeamOver():
            ttl, urgency = TEAM_TTL_S, "normal"
    return tuple(
        Push(
            subscription=subscription,
            notice=notice(fact, content=subscription.content, now=now),
            ttl_s=ttl,
            urgency=urgency,
        )
        for subscription in subscriptions
    )


def notice(fact: PushTrigger, *, content: bool, now: float) -> Notice:
    match fact:
        case AskPending(ask=record):
            ask = record.ask
            wants = {"permission": "asks for permission", "question": "has a question", "plan": "has a plan"}[ask.kind]
            body, whole = _ask_text(record) if content else ("", False)
            decided = ask.kind == "permission" and not ask.at_terminal  # by its buttons
            allow = decided and whole and not ask.withheld
            actions = (*([NoticeAction("allow", "Allow")] if allow else []), NoticeAction("deny", "Deny"))
            return Notice(
                kind="ask",
                tag=f"ask-{record.id}",
                title=_line(f"{fact.agent or 'An agent'} {wants}"),
                body=_lines(_where(fact.machine, fact.title if content else ""), ask.at_terminal, body),
                session=record.session,
                ask=record.id,
                digest=record.digest,
                actions=actions if decided else (),
                allow=allow,
                at=record.created_at or now,
                expires_at=record.expires_at,
            )
        case TurnFinished():
            how = "is done" if fact.status == "success" else f"stopped: {fact.status.replace('_', ' ')}"
            return Notice(
                kind="turn",
                tag=f"session-{fact.session}",
                title=_line(f"{fact.agent or 'An agent'} {how}"),
                body=_lines(_where(fact.machine, fact.title if content else ""), _line(fact.text) if content else ""),
                session=fact.session,
                at=now,
            )
        case NodeWentOffline():
            return Notice(
                kind="node",
                tag=f"node-{fact.node}",
                title=_line(f"{fact.name or fact.node} is offline"),
                body="Its sessions cannot be reached until it is back.",
                node=fact.node,
                at=fact.since or now,
            )
        case MessagesUnread():
            return Notice(
                kind="message",
                tag=f"member-{fact.member}",
                title=_line(fact.title),
                body=_lines(_where(fact.machine, f"from {fact.sender}" if fact.sender else "")),
                at=now,
            )
        case TeamWaits():
            return Notice(
                kind="team",
                tag=f"team-{fact.team}",
                title=_line(f"{fact.name} waits for {', '.join(fact.people)}"),
                body=_line(fact.line) if content else "",
                team=fact.team,
                at=now,
            )
        case TeamOver():
            return Notice(
                kind="team",
                tag=f"team-{fact.team}",
                title=_line(f"{fact.name} has ended"),
                body=_line(fact.reason) if content else "",
                team=fact.team,
                at=now,
            )


def test_notice(now: float) -> Notice:
    return Notice(kind="test", tag="test", title="Tieline", body="Pushes arrive on this device.", at=now)


def _ask_text(record: AskRecord) -> tuple[str, bool]:
    """What is asked, and whether that is all of it. Else it says how much is not there."""
    text = parts_text(record.parts or ask_parts(record.ask))
    if len(text) <= LINE and text.count("\n") < LINES:
        return text, True
    shown = text[: LINE // 2]
    return f"{_line(shown)}…\n{len(text) - len(shown)} more characters: open it to see all.", False


def _where(machine: str, title: str) -> str:
    return _line(" · ".join(word for word in (machine, title) if word))


def _line(text: str) -> str:
    words = " ".join(marked(text[: LINE * 8]).split())
    return words if len(words) <= LINE else words[: LINE - 1] + "…"


def _lines(*lines: str) -> str:
    return "\n".join(line for line in lines if line)
