"""What a member that reviews others is given with its turn: their changes since its last one.

Every line of a diff is quoted, so that what a file says is nobody's word: neither a member's nor a marker.
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..sessions.worktrees import BranchDiff
from .markers import lines_with_markers

HEADING = "[DIFF: "
MAX_FILE_LIST = 100_000
"""Characters of the list of files, of all diffs of a turn: some thousand files."""


class Review(NamedTuple):
    """Changes of one member, from one commit to another. `problem`: why they cannot be shown."""

    member: str
    branch: str
    top: str = ""  # of the repository
    since: str = ""
    commit: str = ""
    again: bool = False  # it was shown earlier ones
    diff: BranchDiff | None = None
    problem: str = ""


def as_context(reviews: Sequence[Review], budget: int, *, elsewhere: bool) -> str:
    """All files of every diff, and the diffs themselves within so many characters. `elsewhere`: the reviewer works on
    another machine."""
    parts: list[str] = []
    left, names_left = budget, MAX_FILE_LIST
    for index, review in enumerate(reviews):
        heading = f"{HEADING}{review.member}]\nThe branch {review.branch}"
        if review.diff is None:
            parts.append(f"{heading} cannot be shown: {' '.join(review.problem.split())}")
            continue
        command = f"git -C {shlex.quote(review.top)} diff {review.since} {review.commit}"
        where = " (on the hub's machine)" if elsewhere else ""
        lines = [f"{heading}, since {'what you were shown last' if review.again else 'it began'}:"]
        files = review.diff.files[:names_left]
        lines.append(quotation(files))
        if len(files) < len(review.diff.files):
            lines.append(f"(the list of files is longer: `{command} --stat`{where})")
        names_left -= len(files)
        shown = _whole_lines(review.diff.patch, left // (len(reviews) - index))
        lines += filter(None, (quotation(shown),))
        if missing := len(review.diff.patch) - len(shown):
            more = f"{missing:,}" if review.diff.whole else f"more than {missing:,}"
            lines.append(f"({more} characters of this diff are left out; `{command}`{where} shows them)")
        left -= len(shown)
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def markers_in_diffs(prompt: str) -> Iterator[str]:
    """Markers in the diffs of a prompt. Whoever repeats one has not said it, as with a tool's output."""
    inside = False
    for line in prompt.splitlines():
        inside = line.startswith(HEADING) or (inside and bool(line))
        if inside and line.startswith(">"):
            yield from lines_with_markers(line)


def quotation(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())


def _whole_lines(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit].rpartition("\n")[0]
