"""How an agent's words look in a chat: with their code blocks as such. Plain values of aiogram."""

from aiogram.types import MessageEntity

from .text_split import FENCE, units


def rendered(piece: str) -> tuple[str, list[MessageEntity]]:
    """Without the fences of code blocks; Telegram is told instead where the code is."""
    lines: list[str] = []
    entities: list[MessageEntity] = []
    fence = language = ""
    begin = size = 0  # of the text so far, as Telegram counts it
    for line in piece.split("\n"):
        mark = FENCE.match(line)
        if not fence and mark:
            fence, language, begin = mark[1], mark[2].strip().split(" ")[0][:32], size
            continue
        if fence and mark and mark[1].startswith(fence) and not mark[2].strip():
            fence = ""
            if size > begin:
                code = MessageEntity(type="pre", offset=begin, length=size - 1 - begin, language=language or None)
                entities.append(code)
            continue
        lines.append(line)
        size += units(line) + 1
    if fence and size - 1 > begin:  # one that was never closed
        entities.append(MessageEntity(type="pre", offset=begin, length=size - 1 - begin, language=language or None))
    text = "\n".join(lines)
    if not text.strip():
        return piece, []
    return text, [each for each in entities if each.length > 0]
