"""JetStream streams, one per family of subjects, and publishing to them."""

import asyncio
from itertools import count

import msgspec

from ...errors import BusFull, RecordTooLarge
from ..base import DEDUPE_S
from ..subjects import family
from .connection import ApiError, NatsConnection, NatsRefused, unique

PREFIX = "tieline_"
NAME_IN_USE = 10058


class Acked(msgspec.Struct):
    seq: int = 0
    error: ApiError | None = None


class Nothing(msgspec.Struct):
    pass


_decode_ack = msgspec.json.Decoder(Acked).decode


def stream_name(subject: str) -> str:
    return PREFIX + family(subject)


class StreamQueue:
    """Publishers of one subject take turns."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class JetStreams:
    def __init__(self, link: NatsConnection) -> None:
        self._link = link
        self._known: set[str] = set()
        self._own = unique()
        self._numbers = count()
        self._queues: dict[str, StreamQueue] = {}

    async def of(self, subject: str) -> str:
        """The stream that a subject or pattern belongs to; made when it is not there."""
        name = stream_name(subject)
        if name not in self._known:
            await self.make(name, [family(subject), f"{family(subject)}.>"], {})
        return name

    async def make(self, name: str, subjects: list[str], more: dict[str, object]) -> None:
        config = {
            "name": name,
            "subjects": subjects,
            "retention": "limits",
            "storage": "file",
            "num_replicas": self._link.target.replicas,
            "duplicate_window": DEDUPE_S * 10**9,
            "discard": "new",  # should somebody limit it, publishing fails and nothing is dropped
            "max_msg_size": -1,
            **more,
        }
        try:
            await self._link.api(f"STREAM.CREATE.{name}", config, Nothing)
        except NatsRefused as error:
            if error.code != NAME_IN_USE:  # it is there, with other settings that somebody chose
                raise
        self._known.add(name)

    async def publish(self, subject: str, data: bytes, id: str | None, headers: dict[str, str] | None = None) -> int:
        # One at a time per subject: what is asked again, after a lost answer, would come behind what was called later.
        queue = self._queues.get(subject)
        if queue is None:
            queue = self._queues[subject] = StreamQueue()
        queue.users += 1
        try:
            async with queue.lock:
                await self.of(subject)
                return await self.store(subject, data, {**(headers or {}), "Nats-Msg-Id": id or self.new_id()}, subject)
        finally:
            queue.users -= 1
            if not queue.users:
                del self._queues[subject]

    def new_id(self) -> str:
        """For what has no id of its own: so that asking again is safe."""
        return f"{self._own}{next(self._numbers)}"

    async def store(self, subject: str, data: bytes, headers: dict[str, str], owner: str | None) -> int:
        size = len(data) + sum(len(name) + len(value.encode()) + 4 for name, value in headers.items()) + 16
        most = self._link.client.max_payload
        if size > most:
            raise RecordTooLarge(
                size, most, hint=f"With headers. The server's max_payload is {most:,} bytes; 2 MB carries every record."
            )

        async def repair() -> None:
            # Nobody answers on the subject: the stream was removed, or has no leader yet.
            if owner is not None:
                self._known.discard(stream_name(owner))
                await self.of(owner)

        return await self._link.request_until_answered(
            subject, data, lambda answer: _seq(answer.data), headers=headers, repair=repair if owner else None
        )


def _seq(answer: bytes) -> int:
    acked = _decode_ack(answer)
    if acked.error is not None:
        raise NatsRefused(acked.error)
    return acked.seq


__all__ = ["BusFull", "JetStreams", "stream_name"]
