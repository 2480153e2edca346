"""Our block in Markdown files, and files that are ours as a whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.harnesses.editors.base import CannotEdit
from tieline.harnesses.editors.marked_block import MarkedBlock
from tieline.harnesses.editors.whole_file import MARK, WholeFile

NOTES = MarkedBlock("codex", "# Ours\n\nwords")
OTHER = MarkedBlock("opencode", "# Ours\n\nwords")


@given(st.text())
def test_any_text_is_as_it_was(text: str) -> None:
    once = NOTES.install(text)
    assert NOTES.install(once) == once and "words" in once
    assert NOTES.uninstall(once) == text
    assert NOTES.uninstall(text) == text


@given(st.text())
def test_the_last_of_two_harnesses_takes_the_block_away(text: str) -> None:
    both = OTHER.install(NOTES.install(text))
    assert both.count("words") == NOTES.install(text).count("words")
    remaining = NOTES.uninstall(both)
    assert remaining is not None and remaining == OTHER.install(text)
    assert NOTES.uninstall(remaining) == remaining
    assert OTHER.uninstall(remaining) == text


def test_a_file_that_we_made_goes_again() -> None:
    assert NOTES.uninstall(NOTES.install(None)) is None
    assert NOTES.uninstall(NOTES.install("")) == ""


def test_a_block_that_a_person_moved_is_still_ours() -> None:
    block = NOTES.install(None)
    assert NOTES.uninstall(f"# first\n\n{block}\n# later\n") == "# first\n\n# later\n"


LINES_OF_OTHERS = st.lists(st.sampled_from(["mine", "", "- a list", "## A heading", "words"]), min_size=1, max_size=4)


@given(st.text(), LINES_OF_OTHERS, st.integers(0, 3), st.sampled_from(["\n", "\r\n"]))
def test_what_a_person_wrote_into_it_stays(before: str, lines: list[str], offset: int, newline: str) -> None:
    before += newline
    installed = NOTES.install(before)
    block = installed[len(before) :].split("\n")
    first = next(number for number, line in enumerate(block) if line.startswith("<!-- tieline ["))
    ends = "\r" if block[first].endswith("\r") else ""
    block[first + 1 + offset : first + 1 + offset] = [f"{line}{ends}" for line in lines]
    written = before + "\n".join(block)
    assert NOTES.install(written) == written
    assert NOTES.uninstall(OTHER.install(written)) == written.replace("tieline [codex]", "tieline [opencode]")
    left = NOTES.uninstall(written)
    assert left is not None and left.startswith(before)
    assert sorted(left[len(before) :].splitlines()) == sorted(lines)


def test_a_newer_text_takes_the_place_of_an_older_one_that_nobody_touched() -> None:
    newer = MarkedBlock("codex", "# Ours\n\nother words")
    assert newer.install(NOTES.install("a\n")) == newer.install("a\n")
    assert newer.uninstall(NOTES.install("a\n")) == "a\n"


def test_a_newer_text_keeps_what_a_person_wrote_into_the_older_one() -> None:
    newer = MarkedBlock("codex", "# Ours\n\nother words")
    written = NOTES.install("a\n").replace("words", "words\nmine")
    renewed = newer.install(written)
    assert "mine" in renewed and "other words" in renewed
    assert newer.install(renewed) == renewed
    assert "mine" in (newer.uninstall(written) or "")


def test_lines_before_and_after_it_stay_two_lines() -> None:
    assert NOTES.uninstall(f"{NOTES.install('first')}later\n") == "first\nlater\n"


def test_a_whole_file_is_ours_only_with_our_mark() -> None:
    skill, other = (WholeFile(name, f"---\n# {MARK}\n---\nwords\n") for name in ("codex", "opencode"))
    both = other.install(skill.install(None))
    assert "[codex opencode]" in both
    remaining = skill.uninstall(both)
    assert remaining is not None and remaining == other.install(None)
    assert other.uninstall(remaining) is None
    assert skill.uninstall("# mine") == "# mine"
    with pytest.raises(CannotEdit):
        skill.install("# mine")
