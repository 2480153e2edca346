"""What the messages of the chats are about, so that a reply and a button find their way: on the bus for a week, hence
also after a restart, and the newest at hand."""

import hashlib
from collections import OrderedDict
from contextlib import suppress

import msgspec
from msgspec import Struct

from ...errors import BusError
from ..base import AskNote, Envelope, RelayAccess

REMEMBERED = 2000
"""So many are at hand; an older one is looked up on the bus."""
KEEP_S = 7 * 86400


class MessageSubject(Struct, frozen=True, omit_defaults=True):
    """What one message of ours was about."""

    id: str = ""  # of the envelope
    to: str = ""  # where an answer to it goes
    thread: str = ""


class ShownAsk(Struct, frozen=True, omit_defaults=True):
    """What the buttons of one ask decide."""

    ask: str
    digest: str


class MessageIndex:
    def __init__(self, relay: RelayAccess) -> None:
        self._relay = relay
        self._near: OrderedDict[str, bytes] = OrderedDict()

    async def remember_sent(self, chat: int, message: int, envelope: Envelope) -> None:
        about = MessageSubject(envelope.id, envelope.reply_to or envelope.sender, envelope.thread)
        await self._keep(f"said.{chat}.{message}", msgspec.json.encode(about))

    async def about(self, chat: int, message: int) -> MessageSubject | None:
        known = abs(message) < 2**53  # what Telegram gives; anything else is none of ours
        value = await self._look(f"said.{chat}.{message}") if known else None
        return msgspec.json.decode(value, type=MessageSubject) if value else None

    async def showed(self, chat: int, ask: str, message: int) -> None:
        await self._keep(_shown(chat, ask), str(message).encode())

    async def shown(self, chat: int, ask: str) -> int:
        """The message that shows an ask in a chat; 0 for none."""
        return int(await self._look(_shown(chat, ask)) or 0)

    async def asked(self, token: str, note: AskNote) -> None:
        await self._keep(f"button.{token}", msgspec.json.encode(ShownAsk(note.id, note.digest)))

    async def button(self, token: str) -> ShownAsk | None:
        value = await self._look(f"button.{token}") if token.isalnum() and token.isascii() else None
        return msgspec.json.decode(value, type=ShownAsk) if value else None

    async def _keep(self, key: str, value: bytes) -> None:
        self._near[key] = value
        self._near.move_to_end(key)
        while len(self._near) > REMEMBERED:
            self._near.popitem(last=False)
        with suppress(BusError):  # it was said: to say it again for the sake of a note would be worse
            await self._relay.remember(key, value, ttl_s=KEEP_S)

    async def _look(self, key: str) -> bytes | None:
        return self._near.get(key) or await self._relay.recall(key)


def _shown(chat: int, ask: str) -> str:
    return f"ask.{chat}.{hashlib.sha256(ask.encode()).hexdigest()[:32]}"
