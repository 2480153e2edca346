"""Text from an agent, made safe to show.

A terminal obeys control codes: an agent's words could move the cursor over what a person is asked to allow, hide a
part of a command, or set the clipboard. `marked` makes them visible signs instead; here is what a terminal needs beside
that.
"""

import re

from ...visible_text import mark, marked

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_MARK_AT_BEGINNING = re.compile(r"^\s*(?:#{1,6}\s+|>\s?|[-*+]\s+(?:\[[ xX]\]\s+)?|\d+[.)]\s+|```\w*\s*)")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_PAIRED_MARKS = re.compile(r"(\*\*|__|~~|`+)(.+?)\1")
_EMPHASIS = re.compile(r"(^|\W)[*_](\S(?:.*?\S)?)[*_](?=\W|$)")
_EMOJI = re.compile(f"(?<=[\u203c-\u3299\U0001f000-\U0001faff]){re.escape(mark(chr(0xFE0F)))}")


def clean(text: str) -> str:
    """The text with line breaks and tabs; everything else that a terminal would obey is shown, not done."""
    return marked(text.replace("\r\n", "\n"))


def prose(text: str) -> str:
    """What an agent says, where nothing is decided: the sign that makes a symbol an emoji stays with its symbol."""
    return _EMOJI.sub("\ufe0f", clean(text))


def output(text: str) -> str:
    """What a command printed: its colours are left out, and a progress bar's last state is what counts."""
    text = _COLOUR.sub("", text).replace("\r\n", "\n")
    return marked("\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n")))


def plain_line(text: str, limit: int = 200) -> str:
    """`one_line` of Markdown, without its marks."""
    line = _MARK_AT_BEGINNING.sub("", text)
    line = _PAIRED_MARKS.sub(r"\2", _LINK.sub(r"\1", line))
    return one_line(_EMPHASIS.sub(r"\1\2", line), limit)


def one_line(text: str, limit: int = 200) -> str:
    """Folded: whitespace collapsed, cut with an ellipsis."""
    folded = " ".join(clean(text[: limit * 8]).split())
    return folded if len(folded) <= limit else folded[: limit - 1] + "…"
