"""Unified diffs with numbered hunks, made quickly: most edits change one place."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

CONTEXT = 3
MAX_SINGLE_CHANGE = 3
"""Up to this many changed lines on a side are shown as one change; more are worth a real comparison."""
MAX_COMPARED = 2000
"""Beyond this many lines a real comparison takes too long for a loop that serves others: it is shown as one change."""

LineChange = tuple[int, int, Sequence[str]]
"""Lines from … up to … (counted from 0, the second not included), and what takes their place."""


def unified_diff(path: str, old: str | None, new: str | None, *, target: str = "", heading: str = "") -> str:
    """What a file becomes; None: there is none. `target` is its new name, where it moves; `heading` goes beside the
    number of each hunk. Empty when nothing changed."""
    if old == new and target in ("", path):
        return ""
    names = file_header(path if old is not None else "", (target or path) if new is not None else "")
    if not old or not new:  # nothing to compare, which is most of what agents write
        return names + _one_sided(old or "", new or "", heading)
    before, after = split_lines(old), split_lines(new)
    return names + _hunks(before, _changes(before, after), heading)


def unchanged_hunk(path: str, text: str, heading: str) -> str:
    """A text as one numbered hunk in which nothing changes."""
    lines = split_lines(text)
    span = _range(0, len(lines))
    return f"{file_header(path, path)}@@ -{span} +{span} @@ {one_line(heading)}\n" + "".join(
        _line(f" {x}") for x in lines
    )


def replacement_diff(path: str, text: str, old: str, new: str, *, everywhere: bool = False) -> str:
    """The diff of replacing a part of a text, at its first occurrence or at every one. Empty: the text does not have
    it."""
    positions: list[int] = []
    position = text.find(old) if old else -1
    while position >= 0 and (everywhere or not positions):
        positions.append(position)
        position = text.find(old, position + len(old))
    if not positions:
        return ""
    before = split_lines(text)
    starts = [0, *accumulate(map(len, before))]
    blocks: list[tuple[int, int, list[int]]] = []  # the first and the last line, and the positions in between
    for position in positions:
        first = bisect_right(starts, position) - 1
        last = min(bisect_right(starts, position + len(old)) - 1, len(before) - 1)
        if blocks and first <= blocks[-1][1]:
            blocks[-1] = (blocks[-1][0], last, [*blocks[-1][2], position])
        else:
            blocks.append((first, last, [position]))
    changes: list[LineChange] = []
    for first, last, here in blocks:
        parts: list[str] = []
        done = starts[first]
        for position in here:
            parts += (text[done:position], new)
            done = position + len(old)
        parts.append(text[done : starts[last + 1]])
        now = split_lines("".join(parts))
        changes += ((first + a, first + b, put) for a, b, put in _one_change(before[first : last + 1], now))
    return file_header(path, path) + _hunks(before, changes)


def split_lines(text: str) -> list[str]:
    """At newlines alone: `splitlines` also breaks at form feeds and other rarities."""
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def _one_sided(old: str, new: str, heading: str) -> str:
    """All lines of a text come, or go."""
    text, mark = (new, "+") if new else (old, "-")
    if not text:
        return ""
    body = text.removesuffix("\n")
    end = "\n" if len(body) < len(text) else "\n\\ No newline at end of file\n"
    lines = _range(0, body.count("\n") + 1)
    spans = f"-0,0 +{lines}" if new else f"-{lines} +0,0"
    tail = f" {one_line(heading)}" if heading else ""
    lined = body.replace("\n", f"\n{mark}")
    return f"@@ {spans} @@{tail}\n{mark}{lined}{end}"


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterable[LineChange]:
    changes = _one_change(before, after)
    if not changes:
        return ()
    first, end, put = changes[0]
    if (end - first <= MAX_SINGLE_CHANGE or len(put) <= MAX_SINGLE_CHANGE) or end - first + len(put) > MAX_COMPARED:
        return changes
    from difflib import SequenceMatcher  # slow to load and to run: only where the change is not in one place

    codes = SequenceMatcher(None, before[first:end], put).get_opcodes()
    return [(first + a, first + b, put[c:d]) for kind, a, b, c, d in codes if kind != "equal"]


def _one_change(before: Sequence[str], after: Sequence[str]) -> list[LineChange]:
    """From the first line that differs to the last."""
    same = min(len(before), len(after))
    start = 0
    while start < same and before[start] == after[start]:
        start += 1
    end = 0
    while end < same - start and before[-1 - end] == after[-1 - end]:
        end += 1
    if start == len(before) == len(after):
        return []
    return [(start, len(before) - end, after[start : len(after) - end])]


def _hunks(before: Sequence[str], changes: Iterable[LineChange], heading: str = "") -> str:
    groups: list[list[LineChange]] = []
    for change in changes:
        if groups and change[0] - groups[-1][-1][1] <= 2 * CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
    parts: list[str] = []
    shift = 0  # how many lines more there are so far
    tail = f" {one_line(heading)}" if heading else ""
    for group in groups:
        first, last = max(0, group[0][0] - CONTEXT), min(len(before), group[-1][1] + CONTEXT)
        grown = sum(len(put) - (end - start) for start, end, put in group)
        spans = _range(first, last - first), _range(first + shift, last - first + grown)
        parts.append(f"@@ -{spans[0]} +{spans[1]} @@{tail}\n")
        done = first
        for start, end, put in group:
            parts += (_line(f" {line}") for line in before[done:start])
            parts += (_line(f"-{line}") for line in before[start:end])
            parts += (_line(f"+{line}") for line in put)
            done = end
        parts += (_line(f" {line}") for line in before[done:last])
        shift += grown
    return "".join(parts)


def file_header(path: str, target: str) -> str:
    """The names of a file before and after; empty: there is none."""
    return f"--- {_name('a', path)}\n+++ {_name('b', target)}\n"


def _name(side: str, path: str) -> str:
    if not path:
        return "/dev/null"
    return one_line(path) if path.startswith("/") else f"{side}/{one_line(path)}"


def one_line(text: str) -> str:
    """In one line: a name must not be able to write lines of the diff."""
    if text.isprintable():  # the common case
        return text
    return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def _range(first: int, count: int) -> str:
    start = first + 1 if count else first
    return str(start) if count == 1 else f"{start},{count}"


def _line(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
