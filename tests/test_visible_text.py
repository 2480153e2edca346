"""Every code point, by its category: what cannot be seen is marked, what can be seen is left alone."""

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.cli.terminal.sanitize import clean, one_line, output, prose
from tieline.visible_text import hidden, mark, marked
from tieline.visible_text import ranges as all_ranges

ranges = cache(all_ranges)

BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180f\u2800\u2d7f\u3164\ufe00\ufe0e\ufe0f\uffa0\U000e0100\U000e01ef"
"""Blank or without a look of their own, though their category says nothing of it."""


def unmarked(shown: str) -> str:
    return re.sub("⟨U\\+([0-9A-F]{4,6})⟩", lambda sign: chr(int(sign[1], 16)), shown)


def test_the_category_of_every_code_point_decides() -> None:
    marks = {code for first, last in ranges() for code in range(first, last + 1)}
    for code in range(0x110000):
        character = chr(code)
        category = unicodedata.category(character)
        invisible = category[0] == "C" or (category[0] == "Z" and character != " ")
        if character in "\n\t":
            assert code not in marks
        elif invisible or character in BLANK:
            assert code in marks, f"U+{code:04X} {category}"
        elif code in marks and category[0] in "LNP":
            assert "FILLER" in unicodedata.name(character, ""), f"U+{code:04X} {category}"


def test_ranges_are_in_order_and_apart() -> None:
    pairs = ranges()
    assert all(first <= last for first, last in pairs)
    assert all(lower[1] + 1 < upper[0] for lower, upper in pairwise(pairs))


@pytest.mark.parametrize("surface", [marked, clean, output, prose], ids=lambda surface: surface.__name__)
def test_no_surface_lets_one_of_them_pass(surface: Callable[[str], str]) -> None:
    """In one text, between letters: what comes out has nothing of it left but line breaks and tabs."""
    for first, last in ranges():
        codes = [code for code in (first, last, (first + last) // 2) if surface is not output or code not in (0x0D,)]
        shown = surface("".join(f"a{chr(code)}b" for code in codes))
        assert not any(hidden(character) for character in shown), f"U+{first:04X}"
        assert all(mark(chr(code)) in shown for code in codes), f"U+{first:04X}"


def test_what_an_attacker_would_write_is_seen() -> None:
    assert marked("rm -rf /\u202e gpj.exe") == "rm -rf /⟨U+202E⟩ gpj.exe"
    assert marked("a\u061cb\u00adc\u2061d\u200be") == "a⟨U+061C⟩b⟨U+00AD⟩c⟨U+2061⟩d⟨U+200B⟩e"
    assert marked("\x1b[2Kx\r\n") == "⟨U+001B⟩[2Kx⟨U+000D⟩\n"
    assert marked("ls\u00a0-l\u3000.") == "ls⟨U+00A0⟩-l⟨U+3000⟩."
    assert marked("\ud800") == "⟨U+D800⟩"
    assert one_line("a\u2028b\tc\n d") == "a⟨U+2028⟩b c d"


def test_what_can_be_seen_is_left_alone() -> None:
    seen = "plain\n\ttext, Ünïcödé, 日本語, हिन्दी, العربية, 🎉 ≤ → ─ ⠁"
    assert marked(seen) == seen


def test_an_emoji_stays_one_in_prose_and_is_told_where_something_is_decided() -> None:
    assert prose("⚠\ufe0f care") == "⚠\ufe0f care"
    assert prose("a\ufe0f") == "a⟨U+FE0F⟩"
    assert marked("⚠\ufe0f") == "⚠⟨U+FE0F⟩"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("curl https://gіthub.com/x", "curl https://g⟨U+0456⟩thub.com/x"),
        ("аррӏе.com", "⟨U+0430⟩⟨U+0440⟩⟨U+0440⟩⟨U+04CF⟩⟨U+0435⟩.com"),
        ("rm сор.txt", "rm ⟨U+0441⟩⟨U+043E⟩⟨U+0440⟩.txt"),
        ("Ꭺpple a𝐛c paypaⅼ", "⟨U+13AA⟩pple a⟨U+1D41B⟩c paypa⟨U+217C⟩"),
        ("npm i reаct\u200b", "npm i re⟨U+0430⟩ct⟨U+200B⟩"),
        ("git_stаsh", "git_st⟨U+0430⟩sh"),
    ],
)
def test_letters_that_pose_as_others_are_told(text: str, shown: str) -> None:
    assert marked(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "Привет, сделай git push с ключом",
        "сайт.com отчет.pdf файл-2.txt",
        "10μs Δt λx x=с Σ",
        "ΑΒΓ αβγ",
        "été naïve",
        "о о",
    ],
)
def test_other_alphabets_are_left_alone(text: str) -> None:
    assert marked(text) == text


@given(st.text(st.characters()))
def test_nothing_hidden_remains_and_nothing_is_lost(text: str) -> None:
    shown = marked(text)
    assert not any(hidden(character) for character in shown)
    assert unmarked(shown) == text
