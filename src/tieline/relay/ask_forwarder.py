"""Asks as mail: a channel that shows asks to people sends them to its own addresses through the relay, so that they are
stored, tried again and accounted for like every other message."""

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from ..backoff import EXACT, Backoff
from ..channels.base import AskNote, AskService, Sender
from ..envelopes import Envelope, Payload, Refused
from ..errors import BusError, TielineError

ASK_CONTENT_TYPE = "application/vnd.tieline.ask+json"
"""The content type of such a message; its JSON is an AskNote."""
MAX_WAITING = 1000
"""Changes of asks that wait to be sent; beyond them the oldest is left out, and the page still has it."""
BACKOFF = Backoff(0.5, 10.0, EXACT)
"""The first and the longest pause before a bus that failed is tried again."""


class AskForwarder:
    """`async with AskMail(asks, sender, addresses, report)`: each change of an ask, once to each address."""

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
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

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
        """Until it is stored: a bus that is away, or too much mail at once, may be over in time for whoever decides."""
        failures = 0
        while True:
            try:
                await self._sender.send(address, payload, key=key)
                return
            except TielineError as error:
                failures += 1
                wait = BACKOFF.delay(failures) if isinstance(error, BusError) else _retry_delay(error)
                if wait is None:
                    self._report(f"an ask could not be passed on: {error.message}")
                    return
                self._report(f"an ask could not be passed on yet: {error.message}")
                await asyncio.sleep(wait)


def _retry_delay(error: TielineError) -> float | None:
    """How long until it may be sent after all; None where waiting would only keep other addresses waiting too."""
    return error.retry_after_s if isinstance(error, Refused) and error.reason == "rate_limited" else None


def forwarder_address(prefix: str) -> str:
    """Who alone sends asks to a channel: the relay stamps senders, and gives this address to nobody else."""
    return f"{prefix}.asks"


def decode_ask(envelope: Envelope, prefix: str) -> AskNote | None:
    """The ask in a message to a channel; None if there is none. What somebody else made look like one is a message."""
    payload = envelope.payload
    if payload.content_type != ASK_CONTENT_TYPE or envelope.sender != forwarder_address(prefix):
        return None
    try:
        return msgspec.convert(payload.json, AskNote)
    except msgspec.ValidationError:
        return None
