"""Text from an agent, made safe to show.

A terminal obeys control codes: an agent's words could move the cursor over what a person is asked to allow, hide a
part of a command, or set the clipboard. Here they become visible signs instead.
"""

import re

_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
_PICTURES[0x7F] = 0x2421
_MARKED = {
    code: f"<U+{code:04X}>"  # C1 controls, and those that change the direction of text or cannot be seen
    for code in (*range(0x80, 0xA0), 0x200B, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), 0x2060, 0xFEFF)
} | {code: f"<U+{code:04X}>" for code in range(0x2066, 0x206A)}
_TABLE: dict[int, int | str] = {**_PICTURES, **_MARKED}
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


def clean(text: str) -> str:
    """The text with line breaks and tabs; everything else that a terminal would obey is shown, not done."""
    if text.isprintable():  # the common case; it also holds no line break
        return text
    return text.replace("\r\n", "\n").translate(_TABLE)


def output(text: str) -> str:
    """What a command printed: its colours are left out, and a progress bar's last state is what counts."""
    text = _COLOUR.sub("", text).replace("\r\n", "\n")
    lines = (line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n"))
    return "\n".join(lines).translate(_TABLE)


def one_line(text: str, limit: int = 200) -> str:
    """Folded: whitespace collapsed, cut with an ellipsis."""
    folded = " ".join(clean(text[: limit * 8]).split())
    return folded if len(folded) <= limit else folded[: limit - 1] + "…"
