"""An ask in a chat: all of it, in as many messages as it takes, and its buttons below the last one.

What does not fit into so many messages is counted and said, and then nothing can be approved there. The text is sent
as it is, never as Markdown: a fence in it would be left out.
"""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from ...ask_parts import withheld_text
from ...events import Remember
from ...visible_text import marked
from ..base import AskNote
from .text_split import LIMIT, units

if TYPE_CHECKING:
    from aiogram.types import InlineKeyboardButton, InlineKeyboardMarkup

MAX_MESSAGES = 8
"""Of one ask, before its card: half a minute's reading, and far from what Telegram permits in a minute."""
ROOM = LIMIT - 16
"""Of a message, beside its number."""
MAX_HEAD = 1000
MAX_OFFERS = 800
"""Of the foot of a card, for what its buttons permit."""
MAX_BUTTON = 60

ALLOW, DENY = "a", "d"
LASTING: dict[str, Remember] = {"s": "session", "w": "always"}
"""What a button says that approves more than this once."""


class AskCard(Struct, frozen=True):
    before: tuple[str, ...]  # the ask itself, where it does not fit on its card
    text: str
    code: tuple[int, int] = (0, 0)  # where on the card the ask is, as Telegram counts
    allow: bool = False


def card(note: AskNote, *, content: bool) -> AskCard:
    title = f"{note.agent or 'An agent'} asks: {note.title}"
    head = _cut("\n".join(marked(line).replace("\n", " ") for line in (title, note.place) if line), MAX_HEAD)
    if note.status != "pending":
        return AskCard((), f"{head}\n\n{_cut(marked(note.outcome or note.status), MAX_HEAD)}")
    foot = _foot(note)
    see = f"All of it: tieline asks {note.id[-6:]}, or the page."
    if not content:
        hidden = len(note.content) + note.missing
        return AskCard((), f"{head}\n\n{hidden} characters of it are not shown here. {see}{foot}")
    whole = f"{head}\n\n{note.content}{foot}"
    may = not note.withheld and not note.at_terminal and not note.missing and note.kind != "question"
    if units(whole) <= LIMIT and not note.missing:
        return AskCard((), whole, (units(head) + 2, units(note.content)), may)
    all_pieces = pieces(note.content, ROOM)
    shown = all_pieces[:MAX_MESSAGES]
    numbered = tuple(f"{number}/{len(all_pieces)}\n{piece}" for number, piece in enumerate(shown, 1))
    left = sum(map(len, all_pieces[MAX_MESSAGES:])) + note.missing
    if not left:
        return AskCard(numbered, f"{head}\n\nAll of it is above, in {len(all_pieces)} messages.{foot}", allow=may)
    follows = "" if note.at_terminal else ", so it can only be denied here"
    notice = f"{left} characters of it are not shown here{follows}. {see}"
    return AskCard(numbered, f"{head}\n\n{notice}{foot}")


def pieces(text: str, limit: int) -> list[str]:
    """The text in pieces that joined are the text: broken after a line where there is one, else anywhere."""
    finished: list[str] = []
    current, size = "", 0
    for line in text.splitlines(keepends=True):
        if size + units(line) <= limit:
            current, size = current + line, size + units(line)
            continue
        if current:
            finished.append(current)
        *full, current = _chunks(line, limit)
        finished += full
        size = units(current)
    return [*finished, current] if current else finished


def _chunks(line: str, limit: int) -> list[str]:
    size = limit // 2 if any(character > "\uffff" for character in line) else limit
    return [line[start : start + size] for start in range(0, len(line), size)]


def _foot(note: AskNote) -> str:
    names = {"session": "for the session", "always": "always"}
    lines = [f"Approve {names.get(level, level)}: {words}" for level, words in _offers(note).items()]
    if note.at_terminal:  # first: what follows may be cut
        lines.append(note.at_terminal)
    if note.withheld:
        lines.append(withheld_text(note.withheld, note.at_terminal))
    if note.kind == "question" and not note.at_terminal:
        lines.append(f"Answer it: tieline answer {note.id[-6:]}, or the page.")
    return _cut(marked("".join(f"\n\n{line}" for line in lines)), MAX_HEAD)


def _offers(note: AskNote) -> Mapping[Remember, str]:
    """What a button can approve for more than once: none where the card has no room to say all that it permits."""
    fits = sum(units(marked(words)) for words in note.offers.values()) <= MAX_OFFERS
    return note.offers if fits else {}


def _cut(text: str, limit: int) -> str:
    """What is not the ask itself: names, places, outcomes."""
    return text if units(text) <= limit else text[: limit // 2] + "…"


def token_of(note: AskNote) -> str:
    """What a button carries: it is bound to the ask and to what was shown, and fits into 64 bytes."""
    return hashlib.sha256(f"{note.id}:{note.digest}".encode()).hexdigest()[:32]


def buttons(note: AskNote, *, allow: bool) -> "InlineKeyboardMarkup | None":
    """Approve and deny, where it can be decided here. A question is answered elsewhere: two buttons cannot say it."""
    from aiogram.types import InlineKeyboardButton, InlineKeyboardMarkup  # takes seconds; the text of a card needs none

    if note.status != "pending" or note.kind == "question" or note.at_terminal:
        return None
    token = token_of(note)

    def button(text: str, word: str) -> "InlineKeyboardButton":
        return InlineKeyboardButton(text=text, callback_data=f"{word}:{token}")

    rows = [[*([button("Approve", ALLOW)] if allow else []), button("Deny", DENY)]]
    if allow:
        offers = _offers(note)
        rows += [
            [button(_cut(marked(f"Approve {offers[level]}").replace("\n", " "), MAX_BUTTON), word)]
            for word, level in LASTING.items()
            if level in offers
        ]
    return InlineKeyboardMarkup(inline_keyboard=rows)


class Press(Struct, frozen=True):
    allow: bool
    remember: Remember
    token: str


def pressed(data: str | None) -> Press | None:
    """What a button means; None for what is no button of ours."""
    word, _, token = (data or "").partition(":")
    if not token or word not in (ALLOW, DENY, *LASTING):
        return None
    return Press(word != DENY, LASTING.get(word, "once"), token)
