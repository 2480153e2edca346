"""A unified diff of two texts, made quickly: most edits change one place."""

CONTEXT = 3
FEW = 3
"""Up to this many changed lines on a side are shown as one change; more are worth a real comparison."""


def unified(path: str, old: str, new: str) -> str:
    """Empty when nothing changed. A file that was empty before is shown as new, one that is empty now as deleted."""
    if old == new:
        return ""
    head = f"--- {_name('a', path) if old else '/dev/null'}\n+++ {_name('b', path) if new else '/dev/null'}\n"
    if not old:
        return f"{head}@@ -0,0 +{_range(0, _count(new))} @@\n{_marked('+', new)}"
    if not new:
        return f"{head}@@ -{_range(0, _count(old))} +0,0 @@\n{_marked('-', old)}"
    before, after = _lines(old), _lines(new)
    same = min(len(before), len(after))
    start = 0
    while start < same and before[start] == after[start]:
        start += 1
    end = 0
    while end < same - start and before[-1 - end] == after[-1 - end]:
        end += 1
    gone, come = before[start : len(before) - end], after[start : len(after) - end]
    if len(gone) > FEW and len(come) > FEW:
        import difflib  # slow to load and to run: only where the change is not in one place

        lines = difflib.unified_diff(before, after, n=CONTEXT)
        return head + "".join(map(_line, list(lines)[2:]))
    first = max(0, start - CONTEXT)
    lead = before[first:start]
    trail = before[len(before) - end : len(before) - end + CONTEXT]
    shared = len(lead) + len(trail)
    hunk = [f"@@ -{_range(first, len(gone) + shared)} +{_range(first, len(come) + shared)} @@\n"]
    hunk += [_line(f" {line}") for line in lead]
    hunk += [_line(f"-{line}") for line in gone]
    hunk += [_line(f"+{line}") for line in come]
    hunk += [_line(f" {line}") for line in trail]
    return head + "".join(hunk)


def _count(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def _marked(mark: str, text: str) -> str:
    """Every line with a mark in front."""
    body = text.removesuffix("\n")
    end = "\n" if len(body) < len(text) else "\n\\ No newline at end of file\n"
    return mark + body.replace("\n", f"\n{mark}") + end


def _lines(text: str) -> list[str]:
    """At newlines alone: `splitlines` also breaks at form feeds and other rarities."""
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def _name(side: str, path: str) -> str:
    return path if path.startswith("/") else f"{side}/{path}"


def _range(first: int, count: int) -> str:
    start = first + 1 if count else first
    return str(start) if count == 1 else f"{start},{count}"


def _line(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
