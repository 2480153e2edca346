"""A team's conversation in words: who said what, what happened beside it, how it stands."""

from typing import NamedTuple

from ...policy import CAPABILITIES, Policy
from ...protocol import teams as p
from ...teams.markers import without_markers
from ..terminal.sanitize import one_line


class SpokenWords(NamedTuple):
    """What somebody said, as it was written: whoever shows it cleans it."""

    name: str
    text: str
    next: tuple[str, ...] = ()
    work: str = ""  # what it has committed

    @property
    def route(self) -> str:
        return f"→ {', '.join(self.next)}" if self.next else ""

    @property
    def whole(self) -> str:
        return "\n".join(part for part in (self.text, self.route, self.work) if part)


def spoken(entry: p.AnyEntry) -> SpokenWords | None:
    match entry:
        case p.Started(task=task, by=by):
            return SpokenWords(by or "task", task)
        case p.TurnEnded(status="success", member=member, text=text, markers=markers, work=work):
            return _words(member, text, markers)._replace(work=work_text(work))
        case p.MemberCalled(member=member, text=text, markers=markers):
            return _words(member, text or ("The task is done." if markers.done else ""), markers)
        case p.PersonSpoke(member=member, text=text, markers=markers):
            return _words(member, text, markers)
        case _:
            return None


def _words(name: str, text: str, markers: p.Markers) -> SpokenWords:
    vote = f"Vote: {markers.vote.question} ({' | '.join(markers.vote.options)})" if markers.vote else ""
    ballot = f"Votes for {markers.ballot}" if markers.ballot else ""
    words = "\n".join(part for part in (without_markers(text), vote, ballot) if part)
    return SpokenWords(name, words, tuple(speaker.name for speaker in markers.next))


def work_text(work: p.MemberWork | None) -> str:
    """What a member with a worktree has committed, for those who read along."""
    if work is None:
        return ""
    lines = [f"[{work.branch}]\n{work.stat}"] if work.stat else []
    if work.conflicts:
        lines.append(f"conflicts in: {', '.join(work.conflicts)}")
    if work.problem:
        lines.append(f"not committed: {work.problem}")
    return "\n".join(lines)


def event_note(entry: p.AnyEntry) -> str:
    """One line about what happened, where nobody said anything; empty: nothing to tell."""
    by = f", by {entry.by}" if entry.by else ""
    match entry:
        case p.TurnEnded(status=status, member=member, error=error) if status != "success":
            return one_line(f"the turn of {member} ended: {status}{f': {error}' if error else ''}", 400)
        case p.Held():
            return one_line(f"held{by}")
        case p.Resumed():
            return one_line(f"goes on{by}")
        case p.Reordered(next=names):
            return one_line(f"next: {', '.join(names)}{by}")
        case p.Dropped(members=names):
            return one_line(f"dropped: {', '.join(names)}{by}")
        case p.MemberAdded(member=member):
            return one_line(f"{member.name} joined{by}")
        case p.MemberRemoved(member=member):
            return one_line(f"{member} was taken out{by}")
        case p.PolicyChanged(member=member, policy=policy):
            return one_line(f"{member} has the policy {policy_text(policy)} from its next turn{by}")
        case _:
            return ""


def policy_text(policy: Policy | str) -> str:
    """A preset's name, or its three levels."""
    if isinstance(policy, str):
        return policy
    return ", ".join(f"{capability} {policy.level(capability)}" for capability in CAPABILITIES)


def failed(entry: p.AnyEntry) -> bool:
    """Whether what happened is a problem."""
    return isinstance(entry, p.TurnEnded) and entry.status != "success"


def state_text(record: p.TeamRecord) -> str:
    match record.status:
        case "ended":
            return f"ended: {one_line(record.reason, 100)}"
        case "waiting":
            return f"waits for {', '.join(record.waiting_for)}"
        case "running" if record.speaking:
            return f"{', '.join(record.speaking)} works"
        case status:
            return status


def cost_text(usd: float) -> str:
    return f"{usd:.2f} USD" if usd else ""
