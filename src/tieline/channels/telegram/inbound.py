"""What people do in chats: messages, buttons, /start. Everything from a chat that is not allowed is left unheard."""

import time
from collections.abc import Callable
from contextlib import suppress

from aiogram import Bot
from aiogram.types import CallbackQuery, Message, Update
from aiogram.types import Message as Shown

from ...envelopes import OUTCOME_UNKNOWN, MessageReceipt, Payload
from ...errors import TielineError
from ..base import AskService, RelayAccess
from .allowed_chats import AllowedChats
from .ask_card import pressed
from .attachments import Attachments
from .bot_api import TelegramError, tried
from .message_index import MessageIndex
from .outbound import Outbound
from .settings import TelegramConfig

HELP = "What you write here is passed on, and the answer comes here. Reply to a message to answer exactly that one."


class UpdateHandler:
    def __init__(
        self,
        id: str,
        prefix: str,
        config: TelegramConfig,
        *,
        bot: Bot,
        chats: AllowedChats,
        outbound: Outbound,
        memory: MessageIndex,
        files: Attachments,
        relay: RelayAccess,
        asks: AskService | None,
        sent: Callable[[int, MessageReceipt], None],
    ) -> None:
        self._id = id
        self._prefix = prefix
        self._config = config
        self._bot = bot
        self._chats = chats
        self._outbound = outbound
        self._files = files
        self._relay = relay
        self._asks = asks
        self._sent = sent
        self._memory = memory
        self.unheard = 0

    async def handle(self, update: Update) -> None:
        """One update. Raises TelegramError or one of OUTCOME_UNKNOWN when Telegram should deliver it again."""
        if update.message is not None:
            await self._message(update.message, update.update_id)
        elif update.callback_query is not None:
            await self._button(update.callback_query)

    async def give_up(self, update: Update, problem: str) -> None:
        """It was tried often enough."""
        if update.message is not None and self._chats.allowed(update.message.chat.id):
            await self._say(update.message.chat.id, f"Not sent: {problem}.")

    # --- messages --------------------------------------------------------------------------------------

    async def _message(self, message: Message, update: int) -> None:
        chat, text = message.chat.id, (message.text or message.caption or "").strip()
        command, _, rest = text.partition(" ")
        command = command.partition("@")[0].lower()
        if not self._chats.allowed(chat):
            await self._stranger(chat, command, rest)
            return
        if command in ("/start", "/help"):
            await self._say(chat, HELP)
            return
        try:
            attachments = await self._files.of(message)
        except TelegramError as error:
            if error.again:
                raise
            await self._say(chat, f"Not sent: {error.message}.")
            return
        if not text and not attachments:
            await self._say(chat, "Not sent: only text and files can be passed on.")
            return
        await self._pass_on(chat, message, Payload(text, attachments=attachments), update)

    async def _pass_on(self, chat: int, message: Message, payload: Payload, update: int) -> None:
        answered = message.reply_to_message
        about = await self._memory.about(chat, answered.message_id) if answered else None
        if about is not None:
            to, reply = about.to, about.id
        else:
            to, reply = self._config.routes.get(str(chat)) or self._config.to, ""
        if not to:
            await self._say(chat, "Not sent: nothing is set up to receive it. Reply to a message to answer it.")
            return
        own = f"{self._prefix}.{chat}"
        try:
            receipt = await self._relay.sender(own).send(
                to,
                payload,
                reply_to=own,
                in_reply_to=reply,
                thread=about.thread if about else "",
                key=f"telegram:{self._id}:{update}",
                within=self._cause(chat, message, payload),
            )
        except OUTCOME_UNKNOWN:  # it may still arrive: an error would make the person send it twice
            raise
        except TielineError as error:
            await self._say(chat, f"Not sent: {error.message}.")
        else:
            self._sent(chat, receipt)

    def _cause(self, chat: int, message: Message, payload: Payload) -> str:
        """The message that this comes of, if a program wrote it: a person's words begin anew, a loop's do not.

        A program is a bot, or somebody who says the same as we did, or who answers faster than anybody reads."""
        last = self._outbound.last(chat)
        if last is None:
            return ""
        program = message.from_user is not None and message.from_user.is_bot
        echo = bool(payload.text) and payload.text.strip() == last.text.strip()
        quick = time.monotonic() - last.at < self._config.quick_s
        return last.envelope.id if program or echo or quick else ""

    async def _stranger(self, chat: int, command: str, rest: str) -> None:
        self.unheard += 1
        if command != "/start":
            return
        if self._chats.pair(chat, rest):
            await self._say(chat, f"This chat is paired. {HELP}")
        elif self._chats.tell(chat):
            await self._say(chat, f"This chat is not allowed here. Its id is {chat}.")

    # --- buttons ---------------------------------------------------------------------------------------

    async def _button(self, query: CallbackQuery) -> None:
        chat = query.message.chat.id if query.message else 0
        # In a group everybody sees the buttons: whoever presses must be allowed by themselves.
        if not self._chats.allowed(chat) or not self._chats.allowed(query.from_user.id):
            self.unheard += 1
            await self._answer(query, "You may not decide this.")
            return
        press = pressed(query.data)
        asked = await self._memory.button(press.token) if press else None
        if press is None or asked is None or self._asks is None:
            await self._answer(query, "This is no longer open.")
            await self._without_buttons(query)
            return
        by = f"{self._prefix}.{query.from_user.id}"
        try:
            outcome = await self._asks.decide(
                asked.ask, allow=press.allow, digest=asked.digest, by=by, remember=press.remember
            )
        except TielineError as error:
            outcome = error.message
        await self._answer(query, outcome)

    async def _without_buttons(self, query: CallbackQuery) -> None:
        if isinstance(query.message, Shown):
            with suppress(TelegramError):
                await tried(
                    self._bot.edit_message_reply_markup(
                        chat_id=query.message.chat.id, message_id=query.message.message_id, reply_markup=None
                    )
                )

    async def _answer(self, query: CallbackQuery, text: str) -> None:
        with suppress(TelegramError):  # one can answer for a short time only; the ask's own message tells how it ended
            await tried(self._bot.answer_callback_query(query.id, text=text[:200]))

    async def _say(self, chat: int, text: str) -> None:
        """What is said on the side; when it cannot be said, the message itself is not given again for it."""
        try:
            await self._outbound.text(chat, text)
        except TelegramError as error:
            self._relay.report(error.message)
