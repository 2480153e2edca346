"""Messages of a JetStream pull consumer: the server sends what was requested, so memory is bounded."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from typing import Any, NamedTuple

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from ...errors import BusClosed, BusUnavailable
from ..base import MAX_RECORD, Record
from .cancellation import apart
from .connection import ANSWER_S, BOUND_S, NO_STREAM, NatsConnection, NatsRefused, status, unique

BATCH = 256
BATCH_BYTES = 8 * MAX_RECORD
EXPIRES_S = 30
BEAT_S = 5
"""The interval of the server's heartbeats. After two missed ones the pull is lost and begun anew."""

LINGER_S = 60
"""A reader's consumer on the server goes away by itself when nobody has pulled for so long."""

_HIDDEN = ("Nats-", "Status", "Description")


class Meta(NamedTuple):
    """What the server says of a message, from its reply subject."""

    seq: int
    consumer_seq: int  # in the consumer's own count: a gap in it is a lost message
    at: float
    pending: int


def meta(message: Msg) -> Meta:
    tokens = message.reply.split(".")
    if len(tokens) > 9:  # with a domain and an account in front
        tokens = tokens[2:]
    return Meta(int(tokens[5]), int(tokens[6]), int(tokens[7]) / 1e9, int(tokens[8]))


def record(message: Msg, about: Meta) -> Record:
    headers = message.headers
    own = {name: value for name, value in headers.items() if not name.startswith(_HIDDEN)} if headers else {}
    return Record(message.subject, about.seq, message.data, own, about.at)


class PullConsumer:
    """An inbox for pulled messages, with one request under way at most."""

    def __init__(self, link: NatsConnection, stream: str, consumer: str) -> None:
        self._link = link
        self._ask = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._inbox = link.client.new_inbox()
        self._number = 0
        self._left = 0  # messages that the running request may still bring
        self._messages: deque[Msg] = deque()
        self._wake = asyncio.Event()
        self._subscription: Subscription | None = None
        self._broken = False

    async def __aenter__(self) -> "PullConsumer":
        self._subscription = await self._link.subscribe(f"{self._inbox}.*", self._arrived)
        self._link.listeners.add(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._link.listeners.discard(self)
        assert self._subscription is not None
        if self._link.closed:
            return
        with contextlib.suppress(Exception):
            await apart(self._subscription.drain(), BEAT_S)

    def interrupted(self) -> None:
        self._broken = True
        self._wake.set()

    async def next(self, request: Mapping[str, Any]) -> Msg | None:
        """The next message; asks for more when there is none. None: nothing is there now, for a request that does not
        wait; ConnectionError: the pull is lost and must be begun anew."""
        patience = BEAT_S * 2 if "idle_heartbeat" in request else BEAT_S
        while True:
            while self._messages:
                message = self._messages.popleft()
                code = status(message)
                if not code:
                    self._left -= 1
                    return message
                if code == "100" or not message.subject.endswith(f".{self._number}"):
                    continue  # a beat, or the end of an earlier request
                self._left = 0
                if code == "404":
                    return None
                if code == "503" or (code == "409" and "eleted" in (message.headers or {}).get("Description", "")):
                    raise ConnectionError("the consumer is gone")
                if request.get("no_wait"):
                    return None
            if self._link.closed:
                raise BusClosed
            if self._broken:
                raise ConnectionError("the connection was lost")
            if self._left <= 0:
                self._number += 1
                self._left = int(request["batch"])
                payload = msgspec.json.encode(request)
                await self._link.send(self._ask, payload, reply=f"{self._inbox}.{self._number}")
            self._wake.clear()
            try:
                async with asyncio.timeout(patience):
                    await self._wake.wait()
            except TimeoutError:
                raise ConnectionError("the server is silent") from None

    async def _arrived(self, message: Msg) -> None:
        self._messages.append(message)
        self._wake.set()


def request(batch: int, *, wait: bool) -> dict[str, Any]:
    if not wait:
        return {"batch": batch, "no_wait": True}
    return {
        "batch": batch,
        "max_bytes": BATCH_BYTES,
        "expires": EXPIRES_S * 10**9,
        "idle_heartbeat": BEAT_S * 10**9,
    }


async def ordered(
    link: NatsConnection,
    stream: str,
    pattern: str,
    *,
    after: int,
    follow: bool,
    latest: bool = False,
    bare: bool = False,
) -> AsyncGenerator[tuple[Msg, Meta], None]:
    """Every matching message after a cursor, in order, each once, also across lost connections.
    `latest`: begin with the last message of each subject. `bare`: without the data."""
    cursor = after
    begun = False
    patience = asyncio.get_running_loop().time() + BOUND_S
    while True:
        # A new consumer name for each try: the server that held the last consumer may be gone, and would not answer.
        consumer = f"reader-{unique()}"
        start = (
            {"deliver_policy": "last_per_subject"}
            if latest and cursor == after
            else {
                "deliver_policy": "by_start_sequence",
                "opt_start_seq": cursor + 1,
            }
        )
        config = {
            "name": consumer,
            "filter_subject": pattern,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": LINGER_S * 10**9,
            "mem_storage": True,
            "num_replicas": 1,
            "headers_only": bare,
            **start,
        }
        try:
            body = {"stream_name": stream, "config": config, "action": "create"}
            made = await link.api(f"CONSUMER.CREATE.{stream}.{consumer}", body, Made, ANSWER_S)
            begun = True
        except BusUnavailable:
            if begun or asyncio.get_running_loop().time() < patience:  # a follower waits until the bus is back
                continue
            raise
        except NatsRefused as error:
            if error.code == NO_STREAM and not follow:
                return
            raise
        if not follow and made.num_pending == 0:
            await _forget(link, stream, consumer)
            return
        last_consumer_seq = 0
        try:
            async with PullConsumer(link, stream, consumer) as pull:
                while True:
                    message = await pull.next(request(BATCH, wait=follow))
                    if message is None:
                        return
                    about = meta(message)
                    if about.consumer_seq != last_consumer_seq + 1:
                        raise ConnectionError("a message was lost")
                    last_consumer_seq = about.consumer_seq
                    if about.seq > cursor:
                        cursor = about.seq
                        yield message, about
                    if not follow and about.pending == 0:
                        return
        except ConnectionError:
            continue
        finally:
            await _forget(link, stream, consumer)


class Made(msgspec.Struct):
    num_pending: int = 0


async def _forget(link: NatsConnection, stream: str, consumer: str) -> None:
    """Best effort, nobody waits for it: the server forgets an unused reader by itself."""
    if not link.closed:
        with contextlib.suppress(Exception):
            await link.send(f"$JS.API.CONSUMER.DELETE.{stream}.{consumer}", b"")
