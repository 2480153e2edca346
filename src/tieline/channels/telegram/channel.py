"""The Telegram channel: receives updates by long polling or a webhook, and sends what is delivered to its chats."""

import asyncio
import hashlib
import hmac
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

import msgspec
from aiogram.types import Update

from ...background_tasks import cancel_and_wait
from ...backoff import EXACT, Backoff
from ...envelopes import OUTCOME_UNKNOWN, MessageReceipt
from ...errors import TielineError, UsageError
from ...relay.ask_forwarder import AskForwarder, decode_ask, forwarder_address
from ..base import (
    ChannelContext,
    ChannelStatus,
    DeliveryContext,
    DeliveryResult,
    Envelope,
    RelayAccess,
    dead,
    delivered,
    failed,
    time_left,
)
from ..inbound_http import HookRefused, HookRequest, InboundReply
from .allowed_chats import AllowedChats
from .attachments import Attachments
from .bot_api import UPDATES, RawUpdates, TelegramError, make_bot, read_update, tried
from .inbound import UpdateHandler
from .live_reply import LiveReply
from .message_index import MessageIndex
from .outbound import Outbound
from .settings import TelegramConfig

POLL_S = 25
BACKOFF = Backoff(1.0, 60.0, EXACT)
"""Between two polls while Telegram cannot be reached: at first, and at most."""
MAX_TRIES = 5
"""So often one update is tried, a file that cannot be fetched for example; then its sender is told."""
MAX_LIVE = 100
"""Answers that are shown while they are written; further ones only come when they are whole."""
SECRET_HEADER = "x-telegram-bot-api-secret-token"


class Telegram:
    max_concurrent = 8
    people = True
    max_body = 256 * 1024

    def __init__(self, id: str, config: TelegramConfig, context: ChannelContext) -> None:
        self.id = id
        self.subject_prefix = f"relay.telegram.{id}"
        self.display_name = f"Telegram {id}"
        self._config = config
        self._context = context
        self._folder = Path(context.state_dir) / id if context.state_dir else None
        self._chats = AllowedChats(config.chats, config.pairing, self._folder)
        self._secret = config.secret or hashlib.sha256(f"tieline webhook {config.token}".encode()).hexdigest()
        self._hook = config.webhook_url or (
            f"{context.public_url.rstrip('/')}/hooks/in/{id}" if context.public_url else ""
        )
        if config.mode == "webhook" and not self._hook:
            hint = "Give webhook_url, or set hub.public_url."
            raise UsageError("a webhook needs a URL", field="webhook_url", hint=hint)
        self._state: Literal["starting", "running", "stopped"] = "starting"
        self._problem = ""
        self._name = ""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._live: dict[str, LiveReply] = {}
        self._tries: dict[int, int] = {}  # of updates that could not be taken yet
        self._updates: UpdateHandler | None = None
        self._stack = AsyncExitStack()

    # --- its life --------------------------------------------------------------------------------------

    async def start(self, relay: RelayAccess) -> None:
        self._relay = relay
        self._bot = make_bot(self._config.token, self._config.api, self._config.timeout_s)
        self._stack.push_async_callback(self._bot.session.close)
        memory = MessageIndex(relay)
        self._outbound = Outbound(self._bot, self._config, memory)
        keep = self._config.keep_files_days
        files = Attachments(self._bot, self._folder, max_file=self._config.max_file, keep_days=keep)
        asks = self._context.asks
        self._updates = UpdateHandler(
            self.id,
            self.subject_prefix,
            self._config,
            bot=self._bot,
            chats=self._chats,
            outbound=self._outbound,
            memory=memory,
            files=files,
            relay=relay,
            asks=asks,
            sent=self._follow,
        )
        if self._config.asks and asks is not None:
            sender = relay.sender(forwarder_address(self.subject_prefix))
            mail = AskForwarder(asks, sender, self._addresses, relay.report)
            await self._stack.enter_async_context(mail)
        self._spawn(self._poll() if self._config.mode == "polling" else self._announce())
        self._state = "running"

    async def stop(self) -> None:
        self._state = "stopped"
        await cancel_and_wait(*self._tasks)
        await self._stack.aclose()

    def status(self) -> ChannelStatus:
        detail: dict[str, str | int | float | bool] = {"mode": self._config.mode, "chats": len(self._chats.all())}
        if self._name:
            detail["bot"] = f"@{self._name}"
        if code := self._chats.code():
            detail["pairing"] = f"/start {code}"
        if self._updates is not None and self._updates.unheard:
            detail["unheard"] = self._updates.unheard
        state = "failing" if self._state == "running" and self._problem else self._state
        return ChannelStatus(state=state, problem=self._problem, detail=detail)

    # --- out -------------------------------------------------------------------------------------------

    async def deliver(self, subject: str, envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        chat = self._chat(subject)
        if chat is None:
            return dead("bad_address", f"an address is {self.subject_prefix}.<id of a chat>")
        if not self._chats.allowed(chat):
            return dead("denied", "this chat is not allowed")
        try:
            async with asyncio.timeout(max(0.1, time_left(context))):
                if note := decode_ask(envelope, self.subject_prefix):
                    await self._outbound.ask(chat, note, envelope)
                    return delivered()
                live = self._live.get(envelope.in_reply_to)
                shown = await live.finish() if live is not None and live.chat == chat else 0
                await self._outbound.send(chat, envelope, instead_of=shown)
        except TelegramError as error:
            if error.again:
                return failed("delivery_failed", error.message, retry_after_s=error.wait_s)
            return dead("rejected", error.message)
        except TimeoutError:
            return failed("timeout", "Telegram did not take it in time")
        return delivered()

    def _chat(self, subject: str) -> int | None:
        rest = subject.removeprefix(self.subject_prefix).lstrip(".")
        if not rest:  # the channel itself: whoever is the only one
            chats = self._chats.all()
            return chats[0] if len(chats) == 1 else None
        return int(rest) if rest.removeprefix("-").isdigit() and len(rest) < 20 else None

    def _addresses(self) -> Sequence[str]:
        return [f"{self.subject_prefix}.{chat}" for chat in self._chats.all()]

    def _follow(self, chat: int, sent: MessageReceipt) -> None:
        """Show the answer to what a person sent, while it is written."""
        if len(self._live) >= MAX_LIVE or not (self._config.stream or self._config.typing) or sent.id in self._live:
            return
        sessions = self._context.sessions
        bus = sessions.bus if sessions is not None else None
        live = LiveReply(chat, sent, outbound=self._outbound, relay=self._relay, bus=bus, config=self._config)
        self._live[sent.id] = live
        task = self._spawn(live.run())
        task.add_done_callback(lambda _: self._live.pop(sent.id, None))

    # --- in --------------------------------------------------------------------------------------------

    async def receive(self, request: HookRequest) -> InboundReply:
        """An update that Telegram posts."""
        if self._config.mode != "webhook" or self._updates is None or self._state != "running":
            raise HookRefused(404, "no_webhook", f"the channel {self.id} does not receive webhooks")
        shown = request.headers.get(SECRET_HEADER, "").encode(errors="replace")
        if not hmac.compare_digest(shown, self._secret.encode()):
            raise HookRefused(401, "bad_secret", "the secret token is missing or wrong", field=SECRET_HEADER)
        try:
            raw: object = msgspec.json.decode(request.body)
        except (msgspec.DecodeError, RecursionError):
            raise HookRefused(400, "bad_json", "the body is not JSON", field="body") from None
        update = read_update(raw, self._bot)
        if update is None:
            raise HookRefused(400, "bad_update", "the body is not an update of the Bot API", field="body")
        try:
            await self._updates.handle(update)
        except TelegramError as error:
            raise HookRefused(503, "unavailable", error.message, retry_after_s=5.0) from None
        return InboundReply(status=200)

    async def _announce(self) -> None:
        """Tell Telegram where to post to; until it knows."""
        failures = 0
        while True:
            try:
                await tried(self._bot.set_webhook(self._hook, secret_token=self._secret, allowed_updates=UPDATES))
                self._problem = ""
                return
            except TelegramError as error:
                failures += 1
                await self._wait_after(error, failures)

    async def _poll(self) -> None:
        offset = failures = 0
        while True:
            try:
                if not self._name:
                    await tried(self._bot.delete_webhook())  # with one set, Telegram refuses to be polled
                    self._name = (await tried(self._bot.get_me())).username or "bot"
                request = RawUpdates(offset=offset, timeout=POLL_S, allowed_updates=UPDATES)
                raw_updates = await tried(self._bot(request, request_timeout=POLL_S + int(self._config.timeout_s)))
                await self._hear_all(raw_updates)
                # Only now does the offset confirm them: updates that were not stored come again.
                offset = max([offset, *(each["update_id"] + 1 for each in raw_updates if _numbered(each))])
                failures = 0
                self._problem = ""
                if raw_updates and not any(map(_numbered, raw_updates)):
                    raise TelegramError("Telegram sent an update without an id", again=True)
            except (TelegramError, *OUTCOME_UNKNOWN) as error:
                failures += 1
                await self._wait_after(error, failures)
            except Exception as error:  # whatever it is, the bot must not fall silent for good
                failures += 1
                await self._wait_after(TelegramError(f"polling failed: {type(error).__name__}", again=True), failures)

    async def _hear_all(self, raw_updates: list[dict[str, Any]]) -> None:
        """Handles the updates of each chat in order, and the chats at the same time."""
        by_chat: dict[int, list[Update]] = {}
        for raw in raw_updates:
            update = read_update(raw, self._bot)
            if update is None:
                continue  # nothing that we understand: skipped, or it would come again for ever
            message = update.message or (update.callback_query.message if update.callback_query else None)
            by_chat.setdefault(message.chat.id if message else 0, []).append(update)
        results = await asyncio.gather(
            *(self._hear_in_order(each) for each in by_chat.values()), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _hear_in_order(self, updates: list[Update]) -> None:
        assert self._updates is not None
        for update in updates:
            try:
                await self._updates.handle(update)
            except TelegramError as error:
                self._tries[update.update_id] = self._tries.get(update.update_id, 0) + 1
                if error.again and self._tries[update.update_id] < MAX_TRIES:
                    raise  # it is given again
                await self._updates.give_up(update, error.message)
            except OUTCOME_UNKNOWN:
                raise
            except Exception as error:  # one message that trips us must not keep the others from being heard
                self._relay.report(f"an update could not be read: {type(error).__name__}")
            self._tries.pop(update.update_id, None)

    async def _wait_after(self, error: TielineError, failures: int) -> None:
        self._problem = error.message
        self._relay.report(error.message)
        wait = error.wait_s if isinstance(error, TelegramError) else None
        await asyncio.sleep(min(max(BACKOFF.delay(failures), wait or 0.0), BACKOFF.longest_s))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _numbered(raw: dict[str, Any]) -> bool:
    return isinstance(raw.get("update_id"), int)
