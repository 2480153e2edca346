"""How things look in a chat: text with its code blocks as such, asks with their buttons. Plain values of aiogram."""

import hashlib

from aiogram.types import InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity

from ..base import AskNote
from .split import FENCE, LIMIT, split, units

ALLOW, DENY = "a", "d"
MAX_CONTENT = 2500


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


def ask_text(note: AskNote, *, content: bool) -> str:
    head = f"{note.agent or 'An agent'} asks: {note.title}"
    if note.place:
        head += f"\n{note.place}"
    if note.status != "pending":
        return f"{head}\n\n{note.outcome or note.status}"[:LIMIT]
    if content and note.content:
        head += f"\n\n```\n{note.content[:MAX_CONTENT]}\n```"
    return split(head)[0]


def token_of(note: AskNote) -> str:
    """What a button carries: it is bound to the ask and to what was shown, and fits into 64 bytes."""
    return hashlib.sha256(f"{note.id}:{note.digest}".encode()).hexdigest()[:32]


def buttons(note: AskNote) -> InlineKeyboardMarkup | None:
    """Approve and deny. A question is answered elsewhere: two buttons cannot say it."""
    if note.status != "pending" or note.kind == "question":
        return None
    row = [
        InlineKeyboardButton(text=text, callback_data=f"{word}:{token_of(note)}")
        for text, word in (("Approve", ALLOW), ("Deny", DENY))
    ]
    return InlineKeyboardMarkup(inline_keyboard=[row])


def pressed(data: str | None) -> tuple[bool, str] | None:
    """Whether to allow, and the button's token; None for what is no button of ours."""
    word, _, token = (data or "").partition(":")
    return (word == ALLOW, token) if word in (ALLOW, DENY) and token else None
