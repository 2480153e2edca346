"""Diffs: nothing is lost in them, and their numbers are those of the file."""

import re

from hypothesis import given
from hypothesis import strategies as st

from tieline.drivers.unified_diff import MAX_COMPARED, replacement_diff, unchanged_hunk, unified_diff
from tieline.events import changed_paths

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")

LINES = st.lists(st.sampled_from(["a", "b", "c", "d", "", "\x0c", "\r"]), max_size=30).map("\n".join)


@given(LINES, LINES)
def test_diffs_can_be_applied(old: str, new: str) -> None:
    diff = unified_diff("x", old, new)
    assert (diff == "") == (old == new)
    assert applied(old, diff) == new


def test_distant_changes_are_kept_apart() -> None:
    old = "".join(f"{number}\n" for number in range(40))
    new = old.replace("2\n", "two\nand more\n", 1).replace("37\n", "thirty-seven\n")
    diff = unified_diff("x", old, new)
    assert HUNK.findall(diff) == [("1", "6", "1", "7"), ("35", "6", "36", "6")]
    assert applied(old, diff) == new


def applied(text: str, diff: str) -> str:
    """What a text becomes by a unified diff, whose every line is checked against it."""
    if not diff:
        return text
    *whole, last = text.split("\n")
    before = [f"{line}\n" for line in whole] + ([last] if last else [])
    after: list[str] = []
    done = 0
    lines = diff.split("\n")[2:-1]
    for index, line in enumerate(lines):
        ending = "" if index + 1 < len(lines) and lines[index + 1].startswith("\\") else "\n"
        match line[:1]:
            case "@":
                first, now = (_start(span) for span in line.split()[1:3])
                after += before[done:first]
                done = first
                assert now == len(after)
            case " ":
                assert before[done] == line[1:] + ending
                after.append(before[done])
                done += 1
            case "-":
                assert before[done] == line[1:] + ending
                done += 1
            case "+":
                after.append(line[1:] + ending)
            case _:
                assert line.startswith("\\")
    return "".join(after + before[done:])


def _start(span: str) -> int:
    """The lines before a hunk, from its `-5,3` or `+5,3`."""
    start, _, count = span[1:].partition(",")
    return int(start) - (0 if count == "0" else 1)


TEXT = st.lists(
    st.sampled_from(["a", "b", "ab", "aba", "", "--- x", "+++ y", "@@ -1 +1 @@", "\\ No", "\r"]), max_size=12
).map("\n".join)


@given(TEXT, st.text("ab\n", min_size=1, max_size=4), TEXT, st.booleans())
def test_what_is_replaced_can_be_applied(text: str, old: str, new: str, everywhere: bool) -> None:
    diff = replacement_diff("x", text, old, new, everywhere=everywhere)
    assert bool(diff) == (old in text)
    if diff:
        assert applied(text, diff) == (text.replace(old, new) if everywhere else text.replace(old, new, 1))


@given(TEXT, TEXT)
def test_every_hunk_is_numbered_and_counted(old: str, new: str) -> None:
    diff = unified_diff("x", old, new)
    lines = diff.split("\n")[2:-1]
    index = 0
    while index < len(lines):
        match = HUNK.match(lines[index])
        assert match, lines[index]
        left, right = int(match[2] or 1), int(match[4] or 1)
        index += 1
        while left or right:
            sign = lines[index][0]
            left -= sign in " -"
            right -= sign in " +"
            assert sign in " -+\\"
            index += 1
        if index < len(lines) and lines[index].startswith("\\"):
            index += 1


def test_every_place_of_a_replacement_is_shown_with_its_number() -> None:
    text = "".join(f"line {number}\n" if number % 100 else "here\n" for number in range(1, 501))
    diff = replacement_diff("x", text, "here", "there", everywhere=True)
    assert [match[1] for match in HUNK.finditer(diff)] == ["97", "197", "297", "397", "497"]
    assert diff.count("\n-here\n+there\n") == 5


def test_a_huge_rewrite_is_shown_without_a_comparison() -> None:
    old = "".join(f"{number}\n" for number in range(MAX_COMPARED))
    new = "".join(f"{number * 2 + 1}\n" for number in range(MAX_COMPARED))
    diff = unified_diff("x", old, new)
    assert applied(old, diff) == new
    assert len(HUNK.findall(diff)) == 1
    assert [line[0] for line in diff.split("\n")[3:-1]] == ["-"] * MAX_COMPARED + ["+"] * MAX_COMPARED, (
        "not even the lines in common"
    )


def test_new_emptied_moved_and_deleted_files_are_told_apart() -> None:
    assert unified_diff("x", None, "a\n").startswith("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n")
    assert unified_diff("x", "", "a\n").startswith("--- a/x\n+++ b/x\n")
    assert unified_diff("x", "a\n", "").startswith("--- a/x\n+++ b/x\n@@ -1 +0,0 @@\n")
    assert unified_diff("x", "a\n", None).startswith("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n")
    assert unified_diff("x", "a\n", "a\n", target="y") == "--- a/x\n+++ b/y\n"
    assert unchanged_hunk("x", "a\nb\n", "the same") == "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ the same\n a\n b\n"


def test_a_name_writes_no_lines_of_the_diff() -> None:
    diff = unified_diff("x\n+++ b/harmless\n@@ -1 +1 @@\n", "a\n", "b\n", heading="one\ntwo")
    assert diff.split("\n")[2:] == ["@@ -1 +1 @@ one\\ntwo", "-a", "+b", ""]
    assert len(changed_paths(diff)) == 1
