"""Forwards asks to a channel as messages, so that they are stored, retried and have receipts like every message."""

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from ..background_tasks import cancel_and_wait
from ..backoff import EXACT, Backoff
from ..channels.base import AskNote, AskService, Sender
from ..envelopes import Envelope, Payload, Refused
from ..errors import BusError, TielineError

ASK_CONTENT_TYPE = "application/vnd.tieline.ask+json"
"""Content type of a forwarded ask; its JSON is an AskNote."""
MAX_WAITING = 1000
"""Most changes that wait to be sent; beyond that, the oldest is dropped (the page still shows it)."""
BACKOFF = Backoff(0.5, 10.0, EXACT)
"""First and longest pause before a retry after a bus error."""


class AskForwarder:
    """`async with AskForwarder(asks, sender, addresses, report)` sends each change of an ask to each address."""

    def __init__(
        self, asks: AskService, sender: Sender, addresses: Callable[[], Iterable[str]], report: Callable[[str], None]
    ) -> None:
        self._asks = asks
        self._sender = sender
        self._addresses = addresses
        self._report = report
        self._waiting: asyncio.Queue[AskNote] = asyncio.Queue(MAX_WAITING)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "AskForwarder":
        self._task = asyncio.create_task(self._run())
        self._unsubscribe = self._asks.subscribe(self._enqueue)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._unsubscribe()
        if self._task is not None:
            await cancel_and_wait(self._task)

    def _enqueue(self, note: AskNote) -> None:
        if self._waiting.full():
            self._waiting.get_nowait()
        self._waiting.put_nowait(note)

    async def _run(self) -> None:
        while True:
            note = await self._waiting.get()
            payload = Payload(note.title, msgspec.to_builtins(note), ASK_CONTENT_TYPE)
            for address in self._addresses():
                await self._send(address, payload, f"ask:{note.id}:{note.status}:{address}")

    async def _send(self, address: str, payload: Payload, key: str) -> None:
        """Retry until the message is stored: after a bus error or a rate limit there may still be time to decide."""
        failures = 0
        while True:
            try:
                await self._sender.send(address, payload, key=key)
                return
            except TielineError as error:
                failures += 1
                wait = BACKOFF.delay(failures) if isinstance(error, BusError) else _retry_delay(error)
                if wait is None:
                    self._report(f"an ask could not be forwarded: {error.message}")
                    return
                self._report(f"an ask could not be forwarded yet: {error.message}")
                await asyncio.sleep(wait)


def _retry_delay(error: TielineError) -> float | None:
    """Seconds until a retry; None: a retry would only delay the other addresses."""
    return error.retry_after_s if isinstance(error, Refused) and error.reason == "rate_limited" else None


def forwarder_address(prefix: str) -> str:
    """The only address that sends asks to a channel; the relay gives it to nobody else."""
    return f"{prefix}.asks"


def decode_ask(envelope: Envelope, prefix: str) -> AskNote | None:
    """The ask in a message to a channel; None for any other message, also for one that imitates an ask."""
    payload = envelope.payload
    if payload.content_type != ASK_CONTENT_TYPE or envelope.sender != forwarder_address(prefix):
        return None
    try:
        return msgspec.convert(payload.json, AskNote)
    except msgspec.ValidationError:
        return None
