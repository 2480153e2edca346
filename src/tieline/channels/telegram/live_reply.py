"""An answer while it is written: "typing", then one message that is edited as the agent goes on, no flood of them.

It follows what a person sent until the answer is delivered (which then takes the message's place), and tells the person
if none will come.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import msgspec

from ...background_tasks import cancel_and_wait
from ...bus.base import Bus
from ...envelopes import MessageReceipt
from ...errors import TielineError
from ...events import Text, TextDelta, TurnStarted
from ...relay.request_reply import NO_ANSWER_TEXTS, no_answer_reason
from ...sessions.event_log import EventLog
from ...sessions.records import SESSIONS, SessionRecord
from ..base import RelayAccess
from .bot_api import TelegramError
from .outbound import Outbound
from .settings import TelegramConfig
from .text_split import LIMIT, units

LOOK_S = 1.0
"""Between two looks at where the message is."""
TYPING_S = 4.5
"""Telegram shows "typing" for five seconds."""
HANDOVER_S = 120.0
"""An answer that is stored is delivered in this time, or it comes as a message of its own."""
MAX_TEXT = 200_000
"""Characters of an answer that are kept to be shown; its end is what is on the screen."""

_record = msgspec.json.Decoder(SessionRecord).decode


class LiveReply:
    """One per message that a person sent and that waits for its answer."""

    def __init__(
        self,
        chat: int,
        sent: MessageReceipt,
        *,
        outbound: Outbound,
        relay: RelayAccess,
        bus: Bus | None,
        config: TelegramConfig,
    ) -> None:
        self.chat = chat
        self.message = 0  # the one that is edited
        self._sent = sent
        self._outbound = outbound
        self._relay = relay
        self._bus = bus
        self._config = config
        self._text = ""
        self._shown = ""
        self._done = asyncio.Event()
        self._changed = asyncio.Event()
        self._speaking = asyncio.Lock()

    async def finish(self) -> int:
        """The answer is there. The message that it takes the place of; 0 for none."""
        self._done.set()
        self._changed.set()
        async with self._speaking:  # an edit on its way would come after the answer
            return self.message

    async def run(self) -> None:
        """Until the answer is delivered, or none will come, or it is too late for one."""
        listener: asyncio.Task[None] | None = None
        typed = 0.0
        try:
            while not self._done.is_set() and time.time() < self._sent.expires_at:
                receipt = await self._relay.status(self._sent.id)
                if receipt.over:
                    if why := no_answer_reason(receipt):
                        await self._tell(receipt, why)
                    elif receipt.answer:
                        await self._pause(HANDOVER_S)  # its delivery takes our message's place
                    return
                if self._bus and self._config.stream and receipt.session and receipt.state == "seen" and not listener:
                    listener = asyncio.create_task(self._listen(self._bus, receipt.session))
                if self._config.typing and time.monotonic() - typed > TYPING_S:
                    typed = time.monotonic()
                    await self._try(lambda: self._outbound.typing(self.chat))
                await self._show()
                await self._pause(self._config.stream_s if listener else LOOK_S)
        except TielineError as error:
            self._relay.report(f"an answer could not be streamed: {error.message}")
        finally:
            if listener is not None:
                await cancel_and_wait(listener)

    async def _listen(self, bus: Bus, session: str) -> None:
        """The turn of our message, from its beginning: what was said before we listened is in the log."""
        known = await bus.table(SESSIONS).get(session)
        after = _record(known.value).seq if known is not None else 0
        whole: list[str] = []
        partial = ""
        ours = False
        async with aclosing(EventLog(bus).read(session, after=after, deltas=True)) as entries:
            async for entry in entries:
                match entry.event:
                    case TurnStarted(id=id):
                        ours = id == self._sent.id
                    case TextDelta(text=text, parent="") if ours:
                        partial += text
                    case Text(text=text, parent="") if ours:
                        whole.append(text.strip())
                        partial = ""
                    case _:
                        continue
                self._text = "\n\n".join(part for part in (*whole, partial.strip()) if part)[-MAX_TEXT:]

    async def _show(self) -> None:
        text = self._text.strip()
        if not text or text == self._shown:
            return
        self._shown = text
        shown = (text if units(text) <= LIMIT - 2 else "…" + text[-(LIMIT // 2 - 2) :]) + " …"

        async def speak() -> None:
            async with self._speaking:
                if self._done.is_set():
                    return
                if self.message:
                    await self._outbound.edit(self.chat, self.message, shown)
                else:
                    self.message = (await self._outbound.text(self.chat, shown)).message_id

        await self._try(speak)

    async def _tell(self, receipt: MessageReceipt, reason: str) -> None:
        why = next((step.detail for step in reversed(receipt.steps) if step.detail), "")
        outcome = "It could not be delivered" if receipt.state in ("expired", "dead") else "No answer will come"
        words = f"{outcome}: {why[:500] or NO_ANSWER_TEXTS.get(reason, reason)}"
        await self._try(lambda: self._outbound.text(self.chat, words))

    async def _try(self, speak: Callable[[], Awaitable[object]]) -> None:
        """What is shown on the way is not worth more than one try; when told to slow down, we do."""
        try:
            await speak()
        except TelegramError as error:
            await self._pause(min(error.wait_s or 0.0, 60.0))

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
