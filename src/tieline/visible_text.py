"""Text in which everything can be seen: the one rule for terminal, page, Telegram and notifications.

Whoever decides must see what will happen. Controls move a terminal's cursor, bidi controls turn the order of what is
read, zero-width characters and look-alike spaces make two different commands look the same. Here each becomes a mark
such as ⟨U+202E⟩. Unicode's categories decide: everything "other" (Cc, Cf, Cs, Co, Cn) and every separator but the
space (Zl, Zp, Zs); and the few with a category of letters or signs that are blank all the same. What this Python's
Unicode does not know yet is marked too, since nobody can say what it looks like.
"""

import re

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

KEPT = "\n\t"
"""Controls that are layout; whoever shows one line folds them."""

_blank = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _BLANK) + "]")
_suspect = re.compile(r"[^\x20-\x7e\n\t]")


def marked(text: str) -> str:
    """The text with a visible mark for every character that cannot be seen; line breaks and tabs stay."""
    bare = text.replace("\n", "").replace("\t", "")
    if bare.isprintable() and (bare.isascii() or not _blank.search(bare)):  # the common case
        return text
    return _suspect.sub(_sign, text)


def hidden(character: str) -> bool:
    """Whether a character is shown as a mark. `isprintable` is false for exactly the categories C* and Z*."""
    return character not in KEPT and (not character.isprintable() or _blank.match(character) is not None)


def mark(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


def ranges() -> list[tuple[int, int]]:
    """Every code point that is marked, as ranges with both ends in them: the page's copy of the rule is made of it."""
    found: list[tuple[int, int]] = []
    for code in filter(lambda code: hidden(chr(code)), range(0x110000)):
        if found and found[-1][1] == code - 1:
            found[-1] = (found[-1][0], code)
        else:
            found.append((code, code))
    return found


def _sign(found: re.Match[str]) -> str:
    return mark(found[0]) if hidden(found[0]) else found[0]
