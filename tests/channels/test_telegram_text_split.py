"""Long messages are broken where a reader would break them, and say the same as before."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.channels.telegram.text_split import LIMIT, split, units


def test_short_text_is_one_piece() -> None:
    assert split("hello") == ["hello"]
    assert split("  \n ") == []


def test_paragraphs_stay_whole() -> None:
    paragraphs = [letter * 30 for letter in "abcdef"]
    pieces = split("\n\n".join(paragraphs), 70)
    assert pieces == [f"{a}\n\n{b}" for a, b in zip(paragraphs[::2], paragraphs[1::2], strict=True)]


def test_lines_come_after_paragraphs() -> None:
    lines = [f"line {number} " + "x" * 20 for number in range(10)]
    pieces = split("\n".join(lines), 100)
    assert [line for piece in pieces for line in piece.split("\n")] == lines


def test_a_code_block_that_fits_is_never_cut() -> None:
    code = "```python\n" + "\n\n".join(f"print({n})" for n in range(10)) + "\n```"
    pieces = split("before " * 20 + "\n\n" + code + "\n\nafter", 200)
    assert sum(code in piece for piece in pieces) == 1


def test_a_long_code_block_is_closed_and_opened_again() -> None:
    code = [f"value_{n} = {n}" for n in range(60)]
    pieces = split("\n".join(["```python", *code, "```"]), 200)
    assert len(pieces) > 2
    for piece in pieces:
        assert piece.startswith("```python\n")
        assert piece.endswith("\n```")
    kept = [line for piece in pieces for line in piece.split("\n") if not line.startswith("```")]
    assert kept == code


def test_a_tilde_fence_holds_backticks() -> None:
    block = "~~~\n```\nnot the end\n```\n~~~"
    assert split(block) == [block]


def test_a_very_long_word_is_cut_anywhere() -> None:
    pieces = split("x" * 10_000)
    assert "".join(piece.replace("\n", "") for piece in pieces) == "x" * 10_000


def test_an_emoji_counts_twice() -> None:
    pieces = split("😀" * 3000)
    assert all(units(piece) <= LIMIT for piece in pieces)
    assert sum(piece.count("😀") for piece in pieces) == 3000


def test_a_limit_that_is_no_use_is_refused() -> None:
    with pytest.raises(ValueError, match="limit"):
        split("x", 5)


@given(st.text(alphabet=st.sampled_from("ab c.\n`~😀\t"), max_size=600), st.integers(64, 200))
def test_every_piece_fits_and_nothing_is_lost(text: str, limit: int) -> None:
    pieces = split(text, limit)
    assert all(0 < units(piece) <= limit and piece.strip() for piece in pieces)
    rest = iter("".join(pieces))
    assert all(letter in rest for letter in re.sub(r"[^abc.😀]", "", text)), "every letter, in order"
    if "```" not in text and "~~~" not in text:
        assert re.sub(r"\s", "", "".join(pieces)) == re.sub(r"\s", "", text)
