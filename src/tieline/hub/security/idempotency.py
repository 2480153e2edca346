"""A request with an `Idempotency-Key` is carried out once: the same key again gets the first one's answer.

The key is the device's own, for one route and one body; with another body it is refused. Two at once: the second waits
for the first one's answer. What a route tells a node has an id made of the key (`command_id`), so that a hub that dies
before it could keep the answer, and another hub that is asked at the same time, do nothing twice.

Answers are kept on the bus for a day, so every hub on it knows them, and for callers that the hub knows only: a
stranger's keys cost nothing. Those that carry secrets are kept in memory alone, and only when they gave one: what is on
the bus is for many eyes. A refusal that may be another one in a moment is not kept.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
from msgspec import Struct
from starlette.types import Message as AsgiMessage
from starlette.types import Send

from ...bus.base import Bus, Table
from ...errors import BusError
from ..http.problems import RequestRefused

TTL_S = 86400
WAIT_S = 30.0
MAX_RESPONSE = 256 * 1024
MAX_CACHED = 256
"""Answers in memory."""
MAX_WRITING = 64
"""Responses being written to the bus."""
MAX_KEY = 255
TRANSIENT = frozenset({401, 403, 404, 429})
"""Statuses that are not stored, as all from 500 on: a retry may succeed."""


class StoredResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    digest: str  # of the request's body
    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


_decode = msgspec.json.Decoder(StoredResponse).decode
_encode = msgspec.json.encode


class IdempotencyStore:
    """`async with IdempotencyStore(bus) as store`."""

    def __init__(self, bus: Bus) -> None:
        self._table: Table = bus.table("answers")
        self._running: dict[str, asyncio.Event] = {}
        self._cached: OrderedDict[str, StoredResponse] = OrderedDict()
        self._writing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "IdempotencyStore":
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*self._writing, return_exceptions=True)

    @property
    def cached(self) -> int:
        """Answers in memory."""
        return len(self._cached)

    async def run(
        self, id: str, digest: str, call: Callable[[Send], Awaitable[None]], *, private: bool
    ) -> StoredResponse:
        """The response of `call`, or the stored response of an earlier call with the same id."""
        while (running := self._running.get(id)) is not None:
            await _wait_finished(running)
        mine = self._running[id] = asyncio.Event()
        try:
            stored = self._cached.get(id)
            if stored is None and not private and (entry := await self._table.get(id)) is not None:
                stored = _decode(entry.value)
            if stored is not None:
                return _replay(stored, digest)
            record = _Recording()
            await call(record.send)
            answer = StoredResponse(
                digest=digest, status=record.status, headers=record.headers, body=bytes(record.body)
            )
            if answer.status < (300 if private else 500) and answer.status not in TRANSIENT:
                self._add_to_cache(id, answer)
                if not private and len(answer.body) <= MAX_RESPONSE:
                    await self._write(id, answer)
            return answer
        finally:
            del self._running[id]
            mine.set()

    async def _write(self, id: str, answer: StoredResponse) -> None:
        """Not awaited: until the response is stored, the command's own id prevents a repetition."""
        while len(self._writing) >= MAX_WRITING:  # of those that waited, each finds room for itself
            await asyncio.wait(self._writing, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(self._put(id, _encode(answer)))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _put(self, id: str, value: bytes) -> None:
        with suppress(BusError):
            await self._table.put(id, value, ttl=TTL_S)

    def _add_to_cache(self, id: str, answer: StoredResponse) -> None:
        self._cached[id] = answer
        while len(self._cached) > MAX_CACHED:
            self._cached.popitem(last=False)


def idempotency_id(device: str, method: str, path: str, key: str) -> str:
    """The key, bound to device, method and path. Refuses invalid keys."""
    if not 1 <= len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise RequestRefused(
            "UsageError", f"an idempotency key has 1 to {MAX_KEY} printable ASCII characters", field="Idempotency-Key"
        )
    return hashlib.sha256("\0".join((device, method, path, key)).encode()).hexdigest()


def command_id(id: str, digest: str) -> str:
    """The id of the command that a request sends, the same for its repetitions."""
    return hashlib.sha256(f"{id} {digest}".encode()).hexdigest()[:32]


def digest_of(query: bytes, body: bytes) -> str:
    return hashlib.sha256(query + b"\0" + body).hexdigest()


class _Recording:
    def __init__(self) -> None:
        self.status = 0
        self.headers: tuple[tuple[str, str], ...] = ()
        self.body = bytearray()

    async def send(self, message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = tuple(
                (name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]
            )
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")


async def _wait_finished(running: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(WAIT_S):
            await running.wait()
    except TimeoutError:
        raise RequestRefused(
            "InProgress",
            "a request with this key is in progress",
            field="Idempotency-Key",
            hint="Retry with the same key.",
            retry_s=1.0,
        ) from None


def _replay(stored: StoredResponse, digest: str) -> StoredResponse:
    if stored.digest != digest:
        raise RequestRefused(
            "KeyReused",
            "this key was used for another request",
            field="Idempotency-Key",
            hint="Use a new key for each request; repeat a key only to repeat the same request.",
        )
    return msgspec.structs.replace(stored, headers=(*stored.headers, ("idempotency-replayed", "true")))
