"""Consumers: durable pull consumers, one message at a time, so that no lease runs while a message waits in a buffer."""

import contextlib
import hashlib
from collections.abc import AsyncGenerator

import msgspec
from nats.aio.msg import Msg

from ...errors import BusUnavailable
from ..base import Delivery, Record
from ..dead_letters import dead_headers, dead_subject
from .connection import NatsConnection
from .pull_consumer import Meta, PullConsumer, ensure_consumer, meta, record, request
from .streams import JetStreams

NANO = 10**9


def durable(group: str, pattern: str) -> str:
    """A group is known by its name and pattern together; a consumer's name has no dots."""
    return f"{group}-{hashlib.sha256(pattern.encode()).hexdigest()[:12]}"


SETTLE_S = 10.0
"""How long a delivery insists on being settled. A server that was killed forgets deliveries of its last moments and
does not answer for them: they come again, and insisting longer would only hold the consumer."""


async def consume(
    link: NatsConnection,
    streams: JetStreams,
    pattern: str,
    group: str,
    lease_s: float,
    max_deliveries: int,
    max_pending: int,
) -> AsyncGenerator[Delivery, None]:
    stream = await streams.of(pattern)
    name = durable(group, pattern)
    config = {
        "filter_subject": pattern,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": int(lease_s * NANO),
        "max_deliver": -1,  # we count ourselves: the server would drop what was delivered too often
        "max_ack_pending": max_pending,
        "metadata": {"tieline-group": group},
    }
    begun = False
    while True:
        try:
            await ensure_consumer(link, stream, name, config)
            begun = True
        except BusUnavailable:
            if begun:  # it waits until the server is back
                continue
            raise
        pull = PullConsumer(link, stream, name)
        try:
            async with pull:
                while True:
                    message = await pull.next(request(1, wait=True))
                    if message is None:
                        continue
                    about = meta(message)
                    lease = NatsLease(link, streams, group, message, about)
                    if about.attempt > max_deliveries:
                        await lease.reject(f"not settled in {max_deliveries} deliveries", max_deliveries)
                        continue
                    yield Delivery(lease.record, about.attempt, lease, last=about.attempt >= max_deliveries)
        except ConnectionError:
            continue
        finally:
            for message in pull.leftovers():
                with contextlib.suppress(Exception):
                    await link.send(message.reply, b"-NAK")


class NatsLease:
    def __init__(self, link: NatsConnection, streams: JetStreams, group: str, message: Msg, about: Meta) -> None:
        self.record: Record = record(message, about)
        self._link = link
        self._streams = streams
        self._group = group
        self._reply = message.reply
        self._attempt = about.attempt

    async def ack(self) -> None:
        await self._say(b"+ACK")

    async def retry(self, delay_s: float) -> None:
        await self._say(b"-NAK " + msgspec.json.encode({"delay": int(delay_s * NANO)}) if delay_s else b"-NAK")

    async def reject(self, reason: str, attempt: int | None = None) -> None:
        """The copy first: should we die in between, it is delivered again and the copy's id makes it one."""
        headers = dead_headers(self.record, self._group, attempt or self._attempt, reason)
        id = f"dead-{self._group}-{self.record.subject}-{self.record.seq}"
        await self._streams.publish(dead_subject(self._group, self.record.subject), self.record.data, id, headers)
        await self._say(b"+TERM")

    async def extend(self) -> None:
        await self._say(b"+WPI")

    async def _say(self, word: bytes) -> None:
        await self._link.request_until_answered(self._reply, word, lambda answer: None, bound=SETTLE_S)
