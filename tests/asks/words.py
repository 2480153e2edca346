"""What the rows of the matrix say: markers at the beginning, in the middle and at the end, and what is easily lost."""

SPOKEN = ("first-marker", "middle-marker", "last-marker")
BIDI = "\u202e"
BIDI_MARK = "⟨U+202E⟩"

KINDS: dict[str, tuple[str, ...]] = {
    "claude-code": ("edit", "command"),
    "codex": ("command",),
    "opencode": ("command",),
    "gemini": ("command",),
    "scripted": ("edit", "command"),
    "shell": (),  # a command line is told what to do and asks nothing
}
"""Every kind of ask that an agent can make."""


def spoken(between: str = " ", *, bidi: bool = True) -> str:
    """One text with all markers, and a character in it that would turn the rest around."""
    first, middle, last = SPOKEN
    return f"{first}{between}{middle}{BIDI if bidi else ''}{between}{last}"


def lines(count: int) -> str:
    """Many lines, with the markers in the first, the middle and the last one."""
    first, middle, last = SPOKEN
    text = [f"line {number} of what is written" for number in range(count)]
    text[0], text[count // 2], text[-1] = first, middle, last
    return "\n".join(text) + "\n"


def long(size: int = 20_000) -> str:
    """One line of so many characters, with the markers in it."""
    first, middle, last = SPOKEN
    half = "x" * ((size - len(first + middle + last)) // 2)
    return f"{first}{half}{middle}{half}{last}"
