"""What the bot says: texts, files, asks. The next attempt of a delivery goes on where the last one stopped."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from aiogram import Bot
from aiogram.types import FSInputFile, InlineKeyboardMarkup, LinkPreviewOptions, Message, MessageEntity

from ...envelopes import AttachmentRef
from ..base import AskNote, Envelope
from .ask_card import buttons, card, token_of
from .bot_api import TelegramError, tried
from .formatting import rendered
from .message_index import REMEMBERED, MessageIndex
from .settings import TelegramConfig
from .text_split import split, units

NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
"""A link in an agent's answer is not fetched by anybody without a click."""


K = TypeVar("K")
V = TypeVar("V")


class SentParts:
    """What a chat was told last."""

    __slots__ = ("at", "envelope", "text")

    def __init__(self, envelope: Envelope, text: str) -> None:
        self.at = time.monotonic()
        self.envelope = envelope
        self.text = text


class Outbound:
    def __init__(self, bot: Bot, config: TelegramConfig, memory: MessageIndex) -> None:
        self._bot = bot
        self._config = config
        self._memory = memory
        self._progress: OrderedDict[str, int] = OrderedDict()  # envelope → parts of it that were said
        self._last: OrderedDict[int, SentParts] = OrderedDict()

    def last(self, chat: int) -> SentParts | None:
        return self._last.get(chat)

    # --- saying ----------------------------------------------------------------------------------------

    async def send(self, chat: int, envelope: Envelope, *, instead_of: int = 0) -> None:
        """A whole envelope: its text in as many messages as it takes, then its files. Raises Trouble.

        `instead_of`: the message in which the answer was shown while it was written; the first part takes its place."""
        payload = envelope.payload
        pieces = split(payload.as_text())
        done = self._progress.get(envelope.id, 0)
        for number, piece in enumerate(pieces[done:], done):
            if number == 0 and instead_of:
                try:
                    await self.edit(chat, instead_of, piece)
                    self._keep(self._progress, envelope.id, number + 1)
                    await self._remember_sent(chat, instead_of, envelope, piece)
                    continue
                except TelegramError as error:
                    if error.again:
                        raise
            sent = await self.text(chat, piece)
            self._keep(self._progress, envelope.id, number + 1)
            await self._remember_sent(chat, sent.message_id, envelope, piece)
        for number, file in enumerate(payload.attachments, len(pieces)):
            if number >= done:
                sent = await self._file(chat, file)
                self._keep(self._progress, envelope.id, number + 1)
                await self._remember_sent(chat, sent.message_id, envelope, "")
        self._progress.pop(envelope.id, None)

    async def ask(self, chat: int, note: AskNote, envelope: Envelope) -> None:
        """An ask, whole, with its buttons at the end; when it is over, its card says how and has none."""
        made = card(note, content=self._config.content)
        keyboard = buttons(note, allow=made.allow)
        await self._memory.asked(token_of(note), note)  # its buttons mean something from the moment that they are seen
        if known := await self._memory.shown(chat, note.id):
            await self._edit(chat, known, made.text, _code(*made.code), keyboard)
            return
        done = self._progress.get(envelope.id, 0)
        for number, text in enumerate(made.before[done:], done):
            mark = units(text.partition("\n")[0]) + 1  # its number is no part of the ask
            await self._send(chat, text, _code(mark, units(text) - mark))
            self._keep(self._progress, envelope.id, number + 1)
        sent = await self._send(chat, made.text, _code(*made.code), keyboard)
        await self._memory.showed(chat, note.id, sent.message_id)
        await self._remember_sent(chat, sent.message_id, envelope, made.text)
        self._progress.pop(envelope.id, None)

    async def text(self, chat: int, piece: str) -> Message:
        return await self._send(chat, *rendered(piece))

    async def edit(self, chat: int, message: int, piece: str) -> None:
        await self._edit(chat, message, *rendered(piece))

    async def _send(
        self, chat: int, text: str, entities: list[MessageEntity], keyboard: InlineKeyboardMarkup | None = None
    ) -> Message:
        return await tried(
            self._bot.send_message(
                chat, text, entities=entities or None, reply_markup=keyboard, link_preview_options=NO_PREVIEW
            )
        )

    async def _edit(
        self,
        chat: int,
        message: int,
        text: str,
        entities: list[MessageEntity],
        keyboard: InlineKeyboardMarkup | None = None,
    ) -> None:
        try:
            await tried(
                self._bot.edit_message_text(
                    text,
                    chat_id=chat,
                    message_id=message,
                    entities=entities or None,
                    reply_markup=keyboard,
                    link_preview_options=NO_PREVIEW,
                )
            )
        except TelegramError as error:
            if "not modified" not in error.message:
                raise

    async def typing(self, chat: int) -> None:
        await tried(self._bot.send_chat_action(chat, "typing"))

    async def _file(self, chat: int, file: AttachmentRef) -> Message:
        if urlsplit(file.url).scheme in ("http", "https"):
            return await tried(self._bot.send_document(chat, file.url))  # Telegram fetches it, not we
        path = await asyncio.to_thread(self._may_send, file)
        if path is None:
            # Saying so is the honest thing: it may be there, and yet be none of the chat's business.
            return await self.text(chat, f"[a file that is not sent: {file.name or 'without a name'}]")
        return await tried(self._bot.send_document(chat, FSInputFile(path, file.name or path.name)))

    def _may_send(self, file: AttachmentRef) -> Path | None:
        """A file in one of the folders that files may be sent from, links followed."""
        parts = urlsplit(file.url)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            return None
        try:
            path = Path(unquote(parts.path)).resolve(strict=True)
            folders: Sequence[Path] = [Path(each).expanduser().resolve() for each in self._config.files]
            fits = path.is_file() and path.stat().st_size <= self._config.max_file
        except (OSError, ValueError):
            return None
        return path if fits and any(path.is_relative_to(folder) for folder in folders) else None

    async def _remember_sent(self, chat: int, message: int, envelope: Envelope, text: str) -> None:
        self._keep(self._last, chat, SentParts(envelope, text))
        await self._memory.remember_sent(chat, message, envelope)

    @staticmethod
    def _keep(where: OrderedDict[K, V], key: K, value: V) -> None:
        where[key] = value
        where.move_to_end(key)
        while len(where) > REMEMBERED:
            where.popitem(last=False)


def _code(offset: int, length: int) -> list[MessageEntity]:
    return [MessageEntity(type="pre", offset=offset, length=length)] if length > 0 else []
