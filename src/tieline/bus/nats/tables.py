"""Tables as NATS key-value buckets, readable by other NATS clients."""

from base64 import b64decode
from collections.abc import AsyncGenerator

import msgspec

from ...errors import Conflict, UsageError
from ..base import Change, Entry, check_put
from ..subjects import check_key, check_key_pattern, check_name
from .connection import NO_MESSAGE, WRONG_LAST, NatsConnection, NatsRefused
from .pull_consumer import Msg, ordered
from .streams import PREFIX, JetStreams

MARKER_S = 3600
"""How long the server remembers that a key went away: a watcher that was cut off for less is told."""

_EXPECT = "Nats-Expected-Last-Subject-Sequence"


class _Stored(msgspec.Struct):
    seq: int
    data: bytes = b""  # msgspec decodes base64
    hdrs: str = ""


class _Got(msgspec.Struct):
    message: _Stored


class NatsTable:
    def __init__(self, link: NatsConnection, streams: JetStreams, name: str) -> None:
        self.name = check_name("table", name)
        self._link = link
        self._streams = streams
        self._stream = f"KV_{PREFIX}{name}"
        self._prefix = f"$KV.{PREFIX}{name}."
        self._made = False

    async def get(self, key: str) -> Entry | None:
        check_key(key)
        await self._make()
        stored = await self._last(key)
        return None if stored is None or _gone(stored) else Entry(key, stored.data, stored.seq)

    async def put(self, key: str, value: bytes, *, expect: int | None = None, ttl: int | None = None) -> int:
        check_key(key)
        check_put(value, expect, ttl)
        await self._make()
        headers = {} if ttl is None else {"Nats-TTL": f"{ttl}s"}
        try:
            return await self._store(key, bytes(value), headers, expect)
        except NatsRefused as error:
            if error.code not in WRONG_LAST or expect is None:
                raise
        # What was deleted leaves a marker, and the marker has a revision: for us there is nothing.
        stored = await self._last(key) if expect == 0 else None
        if stored is not None and _gone(stored):
            try:
                return await self._store(key, bytes(value), headers, stored.seq)
            except NatsRefused as error:
                if error.code not in WRONG_LAST:
                    raise
        raise Conflict(self.name, key, expect)

    async def delete(self, key: str, *, expect: int | None = None) -> None:
        check_key(key)
        if expect is not None and expect < 1:
            raise UsageError("a deletion must expect a revision above 0", field="expect")
        await self._make()
        try:
            await self._store(key, b"", {"KV-Operation": "DEL", "Nats-TTL": f"{MARKER_S}s"}, expect)
        except NatsRefused as error:
            if error.code not in WRONG_LAST or expect is None:
                raise
            raise Conflict(self.name, key, expect) from None

    async def watch(self, pattern: str = ">") -> AsyncGenerator[Change, None]:
        check_key_pattern(pattern)
        await self._make()
        messages = ordered(self._link, self._stream, self._prefix + pattern, after=0, follow=True, latest=True)
        try:
            async for message, about in messages:
                value = None if _marked(message) else message.data
                yield Change(message.subject.removeprefix(self._prefix), value, about.seq)
        finally:
            await messages.aclose()

    async def keys(self, pattern: str = ">") -> list[str]:
        check_key_pattern(pattern)
        await self._make()
        messages = ordered(
            self._link, self._stream, self._prefix + pattern, after=0, follow=False, latest=True, bare=True
        )
        return sorted([m.subject.removeprefix(self._prefix) async for m, _ in messages if not _marked(m)])

    async def entries(self, pattern: str = ">") -> list[Entry]:
        check_key_pattern(pattern)
        await self._make()
        messages = ordered(self._link, self._stream, self._prefix + pattern, after=0, follow=False, latest=True)
        present = [(m, about) async for m, about in messages if not _marked(m)]
        latest = {m.subject: Entry(m.subject.removeprefix(self._prefix), m.data, about.seq) for m, about in present}
        return sorted(latest.values(), key=lambda entry: entry.key)

    async def _make(self) -> None:
        if not self._made:
            more: dict[str, object] = {
                "max_msgs_per_subject": 1,
                "allow_rollup_hdrs": True,
                "allow_msg_ttl": True,
                "subject_delete_marker_ttl": MARKER_S * 10**9,
                "deny_delete": True,
            }
            await self._streams.make(self._stream, [self._prefix + ">"], more)
            self._made = True

    async def _last(self, key: str) -> _Stored | None:
        """From the stream's leader: a replica may not have heard of what was just put."""
        try:
            request = {"last_by_subj": self._prefix + key}
            return (await self._link.api(f"STREAM.MSG.GET.{self._stream}", request, _Got)).message
        except NatsRefused as error:
            if error.code == NO_MESSAGE:
                return None
            raise

    async def _store(self, key: str, value: bytes, headers: dict[str, str], expect: int | None) -> int:
        if expect is not None:
            headers = {**headers, _EXPECT: str(expect)}
        headers = {**headers, "Nats-Msg-Id": self._streams.new_id()}
        return await self._streams.store(self._prefix + key, value, headers, None)


def _gone(stored: _Stored) -> bool:
    if not stored.hdrs:
        return False
    text = b64decode(stored.hdrs).decode(errors="replace")
    return "\nKV-Operation:" in text or "\nNats-Marker-Reason:" in text


def _marked(message: Msg) -> bool:
    headers = message.headers or {}
    return "KV-Operation" in headers or "Nats-Marker-Reason" in headers
