"""Long text as several messages: broken where a reader would break it, with code blocks kept whole where they fit.

Pure. The pieces joined say the same as the text: what is cut is white space at a break, and a code block that is longer
than a message is closed at the end of one and opened again, with its language, at the start of the next.
"""

import re

LIMIT = 4096
"""Characters of a Telegram message, counted as UTF-16 code units: an emoji counts as two."""

FENCE = re.compile(r"^ {0,3}(`{3,16}(?!`)|~{3,16}(?!~))(.*)$")
_SENTENCE = re.compile(r"(?<=[.!?…])\s+")


def split(text: str, limit: int = LIMIT) -> list[str]:
    """At least one piece for text that is not blank; none for blank text."""
    if limit < 32:
        raise ValueError("too small a limit to say anything")
    pieces: list[str] = []
    current = ""
    for block in _blocks(text):
        joined = f"{current}\n\n{block}" if current else block
        if units(joined) <= limit:
            current = joined
            continue
        if current:
            pieces.append(current)
            current = ""
        *full, current = _cut(block, limit) if units(block) > limit else [block]
        pieces += full
    return [piece for piece in (*pieces, current) if piece.strip()]


def units(text: str) -> int:
    """Length as Telegram counts it."""
    return len(text) + sum(character > "\uffff" for character in text)


def _blocks(text: str) -> list[str]:
    """Paragraphs and whole code blocks, in order."""
    blocks: list[list[str]] = [[]]
    fence = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        mark = FENCE.match(line)
        if fence:
            blocks[-1].append(line)
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
                blocks.append([])
        elif mark:
            fence = mark[1]
            if blocks[-1] and units("\n".join(blocks[-1])) > LIMIT // 4:
                blocks.append([])  # a long paragraph need not stay with the code below it; a short lead-in does
            blocks[-1].append(line)
        elif not line.strip():
            blocks.append([])
        else:
            blocks[-1].append(line)
    return ["\n".join(block) for block in blocks if any(line.strip() for line in block)]


def _cut(block: str, limit: int) -> list[str]:
    """A block that is too long: by lines; within a code block each piece is one of its own."""
    pieces: list[str] = []
    current: list[str] = []
    fence = opening = ""
    for line in block.split("\n"):
        room = limit - (
            units(opening) + len(fence) + 2 if fence else 0
        )  # what every piece of a code block has around it
        for part in _parts(line, room):
            closing = f"\n{fence}" if fence else ""
            if current and units("\n".join([*current, part])) + len(closing) > limit:
                pieces.append("\n".join(current) + closing)
                current = [opening] if fence else []
            current.append(part)
        if mark := FENCE.match(line):
            if not fence:
                fence, opening = mark[1], line if units(line) <= limit // 4 else mark[1]
            elif mark[1].startswith(fence) and not mark[2].strip():
                fence = opening = ""
    return [*pieces, "\n".join(current)]


def _parts(line: str, limit: int) -> list[str]:
    """A line that is too long by sentences, then words, then anywhere."""
    if units(line) <= limit:
        return [line]
    parts: list[str] = []
    current = ""
    for sentence in _SENTENCE.split(line):
        for word in [sentence] if units(sentence) <= limit else sentence.split(" "):
            joined = f"{current} {word}" if current else word
            if units(joined) <= limit:
                current = joined
                continue
            if current:
                parts.append(current)
            *full, current = _chunks(word, limit)
            parts += full
    return [*parts, current] if current else parts


def _chunks(word: str, limit: int) -> list[str]:
    size = limit // 2 if any(character > "\uffff" for character in word) else limit
    return [word[start : start + size] for start in range(0, len(word), size)] or [""]
