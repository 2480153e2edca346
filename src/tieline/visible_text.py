"""Text in which everything can be seen: the one rule for terminal, page, Telegram and notifications.

Whoever decides must see what will happen. Controls move a terminal's cursor, bidi controls turn the order of what is
read, zero-width characters and look-alike spaces make two different commands look the same. Here each becomes a mark
such as ⟨U+202E⟩. Unicode's categories decide: everything "other" (Cc, Cf, Cs, Co, Cn) and every separator but the
space (Zl, Zp, Zs); and the few with a category of letters or signs that are blank all the same. What this Python's
Unicode does not know yet is marked too, since nobody can say what it looks like.

A letter of another alphabet that looks like one of a to z is marked where it poses as one: among such letters in a
word (`g⟨U+0456⟩thub`), and in a word of nothing else that stands in a name of theirs (`⟨U+0441⟩⟨U+043E⟩⟨U+0440⟩.com`).
"""

import re
from collections.abc import Iterable

_BLANK: tuple[tuple[int, int], ...] = (
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x115F, 0x1160),  # Hangul fillers
    (0x17B4, 0x17B5),  # Khmer inherent vowels
    (0x180B, 0x180F),  # Mongolian variation selectors
    (0x2800, 0x2800),  # braille pattern blank
    (0x2D7F, 0x2D7F),  # Tifinagh consonant joiner
    (0x3164, 0x3164),  # Hangul filler
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0x1107F, 0x1107F),  # Brahmi number joiner
    (0x16FE4, 0x16FE4),  # Khitan filler
    (0x1D159, 0x1D159),  # musical null notehead
    (0xE0000, 0xE0FFF),  # tags, variation selectors, and what is kept for their like
)
"""Not told by their category: nothing is seen of them, or they change how the character before them is seen."""

_LOOKALIKE_LETTERS = (
    "аеорсухѕіјһԁԛԝӏѵгүҽАВЕКМНОРСТУХЅІЈҮԚԜӀѴ"  # Cyrillic
    "ονιΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"  # Greek; not those that people write beside Latin ones, as in μs
    "սօհոզցյ"  # Armenian
    "ɡɑ"
)
_LOOKALIKES: tuple[tuple[int, int], ...] = (
    *((ord(letter), ord(letter)) for letter in _LOOKALIKE_LETTERS),
    (0x13A0, 0x13FF),  # Cherokee
    (0x2160, 0x217F),  # Roman numerals
    (0x2C80, 0x2CFF),  # Coptic
    (0xA4D0, 0xA4FF),  # Lisu
    (0xAB70, 0xABBF),  # Cherokee
    (0x1D400, 0x1D7FF),  # mathematical letters
)
"""Letters that one takes for a to z or A to Z."""

KEPT = "\n\t"
"""Controls that are layout; whoever shows one line folds them."""


def _class(codes: Iterable[tuple[int, int]]) -> str:
    return "[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in codes) + "]"


_blank = re.compile(_class(_BLANK))
_lookalike = re.compile(_class(_LOOKALIKES))
_latin = re.compile("[A-Za-z]")
_name = re.compile(r"\S+")
_word = re.compile(r"[^\W_]+")
_suspect = re.compile(r"[^\x20-\x7e\n\t]")


def marked(text: str) -> str:
    """The text with a visible mark for every character that cannot be seen; line breaks and tabs stay."""
    bare = text.replace("\n", "").replace("\t", "")
    if bare.isascii() and bare.isprintable():  # the common case
        return text
    if _lookalike.search(bare):
        text = _name.sub(_mark_lookalikes, text)
    return text if bare.isprintable() and not _blank.search(bare) else _suspect.sub(_sign, text)


def hidden(character: str) -> bool:
    """Whether a character is shown as a mark. `isprintable` is false for exactly the categories C* and Z*."""
    return character not in KEPT and (not character.isprintable() or _blank.match(character) is not None)


def mark(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


def ranges() -> list[tuple[int, int]]:
    """Every code point that is marked, as ranges that include both ends. The page's copy of the rule is generated from
    them."""
    spans: list[tuple[int, int]] = []
    for code in filter(lambda code: hidden(chr(code)), range(0x110000)):
        if spans and spans[-1][1] == code - 1:
            spans[-1] = (spans[-1][0], code)
        else:
            spans.append((code, code))
    return spans


def lookalikes() -> list[tuple[int, int]]:
    """The letters that look like those from a to z, as ranges with both ends in them: for the page's copy."""
    return list(_LOOKALIKES)


def _mark_lookalikes(name: re.Match[str]) -> str:
    """In a name with letters from a to z, those that pose as such."""
    if not _latin.search(name[0]) or not _lookalike.search(name[0]):
        return name[0]
    return _word.sub(_mark_posing, name[0])


def _mark_posing(word: re.Match[str]) -> str:
    posing = _latin.search(word[0]) or (len(word[0]) > 1 and not _lookalike.sub("", word[0]))
    return _lookalike.sub(lambda letter: mark(letter[0]), word[0]) if posing else word[0]


def _sign(match: re.Match[str]) -> str:
    return mark(match[0]) if hidden(match[0]) else match[0]
