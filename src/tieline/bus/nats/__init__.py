"""The bus on NATS JetStream. `docs/bus.md` says how it keeps its promises."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import nats.errors
from nats.aio.msg import Msg

from ...errors import BusClosed, BusUnavailable
from ..announcement_listeners import AnnouncementListener
from ..base import (
    Announcement,
    Record,
    Stats,
    check_data,
    check_headers,
    check_id,
    check_trim,
)
from ..subjects import check_pattern, check_subject
from .connection import NO_MESSAGE, NO_STREAM, NatsConnection, NatsRefused, connected
from .pull_consumer import ordered, record
from .streams import PREFIX, JetStreams, stream_name
from .tables import NatsTable
from .url import NatsUrl

LIVE = "_tieline."
"""The prefix of announced subjects. No family begins with _, so no stream stores them."""


@asynccontextmanager
async def open_bus(url: str) -> AsyncGenerator["NatsBus"]:
    async with connected(NatsUrl.parse(url)) as link:
        yield NatsBus(link)


class NatsBus:
    """Made by `open_bus`."""

    def __init__(self, link: NatsConnection) -> None:
        self._link = link
        self._streams = JetStreams(link)

    async def publish(
        self, subject: str, data: bytes, *, id: str | None = None, headers: Mapping[str, str] | None = None
    ) -> int:
        check_subject(subject)
        check_data(data)
        if id is not None:
            check_id(id)
        own: dict[str, str] | None = None
        if headers:
            check_headers(headers)
            own = dict(headers)
        return await self._streams.publish(subject, bytes(data), id, own)

    def publish_nowait(
        self, subject: str, data: bytes, *, id: str | None = None, headers: Mapping[str, str] | None = None
    ) -> "asyncio.Future[int]":
        return asyncio.ensure_future(self.publish(subject, data, id=id, headers=headers))

    async def read(self, pattern: str, *, after: int = 0, follow: bool = True) -> AsyncGenerator[Record, None]:
        check_pattern(pattern)
        self._check_open()
        stream = await self._streams.of(pattern) if follow else stream_name(pattern)
        messages = ordered(self._link, stream, pattern, after=after, follow=follow)
        try:
            async for message, about in messages:
                yield record(message, about)
        finally:
            await messages.aclose()

    def table(self, name: str) -> NatsTable:
        return NatsTable(self._link, self._streams, name)

    async def trim(self, pattern: str, *, keep: int | None = None, before: int | None = None) -> int:
        check_pattern(pattern)
        check_trim(keep, before)
        what: dict[str, Any] = {"filter": pattern}
        if keep:
            what["keep"] = keep
        elif before is not None:
            if before <= 1:  # the server would take 0 for everything
                return 0
            what["seq"] = before
        try:
            return (await self._link.api(f"STREAM.PURGE.{stream_name(pattern)}", what, _Purged)).purged
        except NatsRefused as error:
            if error.code == NO_STREAM:
                return 0
            raise

    async def first(self, pattern: str) -> int:
        return await self._cursor(pattern, {"seq": 1, "next_by_subj": check_pattern(pattern)})

    async def last(self, pattern: str) -> int:
        return await self._cursor(pattern, {"last_by_subj": check_pattern(pattern)})

    async def _cursor(self, pattern: str, which: dict[str, Any]) -> int:
        try:
            return (await self._link.api(f"STREAM.MSG.GET.{stream_name(pattern)}", which, _MessageReply)).message.seq
        except NatsRefused as error:
            if error.code in (NO_STREAM, NO_MESSAGE):
                return 0
            raise

    async def announce(self, subject: str, data: bytes) -> None:
        check_subject(subject)
        check_data(data)
        self._check_open()
        if self._link.client.is_connected:  # an announcement is not queued for later
            with suppress(OSError, BusUnavailable):
                await self._link.send(LIVE + subject, bytes(data))

    async def listen(self, pattern: str) -> AsyncGenerator[Announcement, None]:
        listener = AnnouncementListener(check_pattern(pattern))
        self._check_open()

        async def arrived(message: Msg) -> None:
            listener.put(Announcement(message.subject.removeprefix(LIVE), message.data))

        try:
            subscription = await self._link.subscribe(LIVE + pattern, arrived)
        except OSError as error:
            raise BusUnavailable(f"NATS at {self._link.target.shown}: {error}", hint="Listen again later.") from None
        self._link.closing.add(listener.close)
        try:
            while True:
                yield await listener.next()
        finally:
            self._link.closing.discard(listener.close)
            if not self._link.closed:
                with suppress(nats.errors.Error, OSError):
                    await subscription.unsubscribe()

    async def stats(self) -> Stats:
        records = subjects = size = last = offset = 0
        while True:
            page = await self._link.api("STREAM.LIST", {"offset": offset, "subject": ">"}, _Streams)
            for stream in page.streams or ():
                if stream.config.name.startswith(PREFIX):
                    records += stream.state.messages
                    subjects += stream.state.num_subjects
                    size += stream.state.bytes
                    last = max(last, stream.state.last_seq)
            offset += len(page.streams or ())
            if offset >= page.total or not page.streams:
                return Stats(records, subjects, size, last)

    def _check_open(self) -> None:
        if self._link.closed:
            raise BusClosed


# --- what the server answers, as far as we look at it ---


class _Purged(msgspec.Struct):
    purged: int = 0


class _StoredMessage(msgspec.Struct):
    seq: int


class _MessageReply(msgspec.Struct):
    message: _StoredMessage


class _StreamConfig(msgspec.Struct):
    name: str


class _StreamState(msgspec.Struct):
    messages: int = 0
    bytes: int = 0
    last_seq: int = 0
    num_subjects: int = 0


class _Stream(msgspec.Struct):
    config: _StreamConfig
    state: _StreamState


class _Streams(msgspec.Struct):
    total: int = 0
    streams: list[_Stream] | None = None
