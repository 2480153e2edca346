"""The lines by which a member of a team says who speaks next, read from what it said.

    [NEXT: developer, reviewer !P1]   they speak next; P1 comes before P2 (the usual) and P3
    [DROP: reviewer]  [DROP: ALL]     they do not speak after all
    [TEAM_TASK: …]                    the team's task from here on
    [DONE]                            the task is done
    [VOTE: question | option | option]   all agents are asked
    [BALLOT: option]                  a vote

Markers are the last lines of a message, each a whole line. One counts neither in a code block nor in a quotation, and
not if a tool's output of the same turn has the same marker, wherever in a line: agents number the lines of a file, or
put them in JSON. Before the last words nothing counts at all, for some agents do not show what their tools told them.
What a file says must not steer the team.
"""

import re
from collections.abc import Collection, Iterator

from ..protocol.teams import USUAL_PRIORITY, Markers, NextSpeaker, VoteCall

ALL = "ALL"
MAX_OPTIONS = 10
"""Of one vote."""

_MARKER = re.compile(r"\[(NEXT|DROP|TEAM_TASK|DONE|VOTE|BALLOT)(?:\s*:\s*(.*?))?\s*\]", re.IGNORECASE)
_RESERVED = re.compile(
    r"\s*\[\s*(SYSTEM|CONTEXT|MESSAGE|FROM|DIFF|NEXT|DROP|TEAM_TASK|DONE|VOTE|BALLOT)\s*[\]:]", re.IGNORECASE
)
_NAME = re.compile(r"(?P<name>[^!]+?)\s*(?:!\s*P(?P<priority>[1-3]))?", re.IGNORECASE)
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)")
_INDENTED = re.compile(r"(?: {4}|\t)")


def read_markers(text: str, printed: Collection[str] = ()) -> Markers:
    """`printed`: what tools of the same turn printed, by `lines_with_markers`."""
    speakers: dict[str, NextSpeaker] = {}
    drop: list[str] = []
    task, done, ballot = "", False, ""
    vote: VoteCall | None = None
    for marker in _last_markers(text):
        if any(_normal(marker[0]) in other for other in printed):
            continue
        kind, value = marker[1].upper(), (marker[2] or "").strip()
        if kind == "NEXT":
            for speaker in _speakers(value):
                speakers.setdefault(speaker.name.casefold(), speaker)
        elif kind == "DROP":
            drop += [ALL if name.upper() == ALL else name for name in _names(value)]
        elif kind == "TEAM_TASK" and value:
            task = value
        elif kind == "DONE" and not value:
            done = True
        elif kind == "VOTE":
            vote = _vote(value) or vote
        elif kind == "BALLOT":
            ballot = value or ballot
    return Markers(next=tuple(speakers.values()), drop=tuple(drop), task=task, done=done, vote=vote, ballot=ballot)


def lines_with_markers(output: str) -> Iterator[str]:
    """The lines of a tool's output that may hold a marker."""
    return (_normal(line) for line in output.splitlines() if _MARKER.search(line))


def _last_markers(text: str) -> list[re.Match[str]]:
    markers: list[re.Match[str]] = []
    for line, plain in reversed(list(_lines(text))):
        marker = _MARKER.fullmatch(line.strip()) if plain else None
        if marker is not None:
            markers.append(marker)
        elif line.strip():
            break
    return markers[::-1]


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is neither in a code block nor quoted."""
    fence = ""
    for line in text.splitlines():
        fence_match = _FENCE.fullmatch(line)
        plain = not fence and not fence_match and not _INDENTED.match(line) and not line.lstrip().startswith(">")
        if fence:
            if fence_match and fence_match["fence"].startswith(fence) and not fence_match["info"].strip():
                fence = ""
        elif fence_match:
            fence = fence_match["fence"]
        yield line, plain


def quoted(text: str) -> str:
    """A message as another member is given it: lines that look like ours are quoted, so that they mean nothing."""
    return "\n".join(f"> {line}" if _RESERVED.match(line) else line for line in text.splitlines())


def without_markers(text: str) -> str:
    """What was said, for people and other members to read."""
    lines = text.splitlines()
    left = len(_last_markers(text))
    while left or (lines and not lines[-1].strip()):
        left -= bool(lines.pop().strip())
    return "\n".join(lines).strip()


def _normal(marker: str) -> str:
    return "".join(marker.split()).casefold()


def _speakers(value: str) -> Iterator[NextSpeaker]:
    for name in _names(value):
        match = _NAME.fullmatch(name)
        if match:
            yield NextSpeaker(match["name"].strip(), int(match["priority"] or USUAL_PRIORITY))


def _vote(value: str) -> VoteCall | None:
    question, *options = (part.strip() for part in value.split("|"))
    named = {option.casefold(): option for option in reversed(options) if option}
    if not question or not 2 <= len(named) <= MAX_OPTIONS:
        return None
    return VoteCall(question, tuple(reversed(named.values())))


def _names(value: str) -> list[str]:
    names = (name.strip().lstrip("@") for name in value.split(","))
    return [name for name in names if name]
