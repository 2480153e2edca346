"""The lines by which a member of a team says who speaks next, read from what it said.

    [NEXT: developer, reviewer !P1]   they speak next; P1 comes before P2 (the usual) and P3
    [DROP: reviewer]  [DROP: ALL]     they do not speak after all
    [TEAM_TASK: …]                    the team's task from here on
    [DONE]                            the task is done

A marker is a whole line. It counts neither in a code block nor in a quotation, and not if a tool's output of the same
turn has the very same line: what a file says must not steer the team.
"""

import re
from collections.abc import Collection, Iterator

from ..protocol.teams import USUAL_PRIORITY, Markers, NextSpeaker

ALL = "ALL"

_MARKER = re.compile(r"\[(NEXT|DROP|TEAM_TASK|DONE)(?:\s*:\s*(.*?))?\s*\]", re.IGNORECASE)
_RESERVED = re.compile(r"\s*\[\s*(SYSTEM|CONTEXT|MESSAGE|FROM|NEXT|DROP|TEAM_TASK|DONE)\s*[\]:]", re.IGNORECASE)
_NAME = re.compile(r"(?P<name>[^!]+?)\s*(?:!\s*P(?P<priority>[1-3]))?", re.IGNORECASE)
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)")
_INDENTED = re.compile(r"(?: {4}|\t)")


def read_markers(text: str, tool_output: Collection[str] = ()) -> Markers:
    """`tool_output`: lines that tools of the same turn printed, without white space around them."""
    speakers: dict[str, NextSpeaker] = {}
    drop: list[str] = []
    task, done = "", False
    for line in plain_lines(text):
        found = _MARKER.fullmatch(line)
        if found is None or line in tool_output:
            continue
        kind, value = found[1].upper(), (found[2] or "").strip()
        if kind == "NEXT":
            for speaker in _speakers(value):
                speakers.setdefault(speaker.name.casefold(), speaker)
        elif kind == "DROP":
            drop += [ALL if name.upper() == ALL else name for name in _names(value)]
        elif kind == "TEAM_TASK" and value:
            task = value
        elif kind == "DONE" and not value:
            done = True
    return Markers(next=tuple(speakers.values()), drop=tuple(drop), task=task, done=done)


def plain_lines(text: str) -> Iterator[str]:
    """The lines that are neither in a code block nor quoted, without white space around them."""
    fence = ""
    for line in text.splitlines():
        found = _FENCE.fullmatch(line)
        if fence:
            if found and found["fence"].startswith(fence) and not found["info"].strip():
                fence = ""
        elif found:
            fence = found["fence"]
        elif not _INDENTED.match(line) and not line.lstrip().startswith(">"):
            yield line.strip()


def quoted(text: str) -> str:
    """A message as another member is given it: lines that look like ours are quoted, so that they mean nothing."""
    return "\n".join(f"> {line}" if _RESERVED.match(line) else line for line in text.splitlines())


def without_markers(text: str) -> str:
    """What was said, for people and other members to read."""
    markers = {line for line in plain_lines(text) if _MARKER.fullmatch(line)}
    return "\n".join(line for line in text.splitlines() if line.strip() not in markers).strip()


def _speakers(value: str) -> Iterator[NextSpeaker]:
    for name in _names(value):
        found = _NAME.fullmatch(name)
        if found:
            yield NextSpeaker(found["name"].strip(), int(found["priority"] or USUAL_PRIORITY))


def _names(value: str) -> list[str]:
    names = (name.strip().lstrip("@") for name in value.split(","))
    return [name for name in names if name]
