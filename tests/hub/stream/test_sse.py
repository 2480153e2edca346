"""The stream as server-sent events: the same frames, resumed by `Last-Event-ID`."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from tests.hub.streaming import BOUND_S, Served, client, on_sqlite, served

from tieline.bus import open_bus
from tieline.events import Text, TextDelta, encode
from tieline.hub.http import server
from tieline.hub.http.problems import RequestRefused
from tieline.hub.stream import snapshot_parts
from tieline.hub.stream.sse import subscription
from tieline.sessions.event_log import EventLog
from tieline.sessions.records import SESSIONS, SessionRecord
from tieline.testing.wait_for import eventually


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncGenerator[Served]:
    async with on_sqlite(tmp_path) as hub:
        yield hub


class Source:
    """What an EventSource does: frames, and the last id."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self.last = ""
        self.frames: list[dict[str, Any]] = []
        self._lines = response.aiter_lines()

    async def hear(self) -> dict[str, Any]:
        async with asyncio.timeout(BOUND_S):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if name == "id":
                    self.last = value
                elif name == "data":
                    self.frames.append(json.loads(value))
                    return self.frames[-1]
        raise EOFError

    async def until(self, **fields: Any) -> dict[str, Any]:
        while True:
            frame = await self.hear()
            if all(frame.get(name) == value for name, value in fields.items()):
                return frame


@asynccontextmanager
async def source(
    hub: Served, query: str = "", last: str = "", token: str | None = None
) -> AsyncGenerator[Source, None]:
    headers = {"Authorization": f"Bearer {hub.token if token is None else token}"}
    if last:
        headers["Last-Event-ID"] = last
    url = f"{hub.url}/api/v1/stream/sse{query}"
    async with (
        httpx2.AsyncClient(trust_env=False, verify=False, timeout=BOUND_S) as web,
        web.stream("GET", url, headers=headers) as response,
    ):
        yield Source(response)


async def write(hub: Served, *words: str, session: str = "s1") -> list[int]:
    log = EventLog(hub.bus)
    return [await log.append(session, Text(word)) for word in words]


async def test_it_says_the_same_as_the_socket_and_resumes(hub: Served) -> None:
    first = await write(hub, "one", "two")
    async with source(hub) as stream:
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        assert stream.response.headers["cache-control"] == "no-store"
        ready = await stream.until(type="ready")
        assert (ready["state"], stream.last) == ("reset", str(first[-1]))
        await hub.bus.announce("deltas.s1", encode(TextDelta("th", item="i1")))
        await stream.until(type="delta")
        (seq,) = await write(hub, "three")
        assert (await stream.until(type="event"))["seq"] == seq
        assert stream.last == str(seq)
    more = await write(hub, "four", "five")
    async with source(hub, last=stream.last) as again:
        assert (await again.until(type="ready"))["state"] == "ok"
        await again.until(seq=more[-1])
        assert [frame["seq"] for frame in again.frames if frame["type"] == "event"] == more
    await eventually(lambda: not hub.hub.fanout.subscribers, "a follower is left", timeout=BOUND_S)


async def test_a_reader_of_an_empty_log_misses_nothing(hub: Served) -> None:
    async with source(hub) as stream:
        await stream.until(type="ready")
    seqs = await write(hub, "one", "two")
    async with source(hub, last=stream.last) as again:
        await again.until(seq=seqs[-1])
        assert [frame["seq"] for frame in again.frames if frame["type"] == "event"] == seqs


async def test_the_query_says_what_is_wanted(hub: Served) -> None:
    seqs = await write(hub, "one") + await write(hub, "two", session="s2")
    query = f"?after=0&epoch={hub.hub.fanout.epoch}&sessions=s2&deltas=false&visible=false"
    async with source(hub, query) as stream:
        await stream.until(seq=seqs[1])
        assert [frame["session"] for frame in stream.frames if frame["type"] == "event"] == ["s2"]
        assert hub.hub.fanout.visible == 0


async def test_a_revoked_device_is_cut_off(hub: Served) -> None:
    device, key = await hub.hub.devices.add("page", "phone")
    async with source(hub, token=key) as stream:
        await stream.until(type="ready")
        await hub.hub.devices.revoke(device.id)
        with pytest.raises(EOFError):
            while True:
                await stream.hear()


async def test_whoever_follows_does_not_hold_up_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers under way have their time when a hub ends; a stream would take all of it."""
    monkeypatch.setattr(server, "GRACE_S", 3600)
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus, AsyncExitStack() as stack:
        hub = await stack.enter_async_context(served(bus, tmp_path))
        async with source(hub) as stream, client(hub) as other:
            await stream.until(type="ready")
            await other.subscribe()
            async with asyncio.timeout(BOUND_S):
                await stack.aclose()
            assert await other.closed() == 1012
            with pytest.raises(httpx2.RemoteProtocolError):  # in the middle: whoever follows comes back
                while True:
                    await stream.hear()


async def test_bad_requests_are_refused(hub: Served) -> None:
    for query, status, field in (
        ("?after=x", 400, "after"),
        ("?more=1", 400, "more"),
        ("?events=maybe", 400, "events"),
    ):
        async with source(hub, query) as stream:
            assert stream.response.status_code == status
            assert json.loads(await stream.response.aread())["field"] == field
    async with source(hub, token="wrong") as stream:
        assert stream.response.status_code == 401
    async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=BOUND_S) as web:
        headers = {"Authorization": f"Bearer {hub.token}"}
        assert (await web.post(f"{hub.url}/api/v1/stream/sse", headers=headers)).status_code == 400
        assert (await web.get(f"{hub.url}/api/v1/stream", headers=headers)).status_code == 426


async def test_its_sessions_come_in_parts_too(hub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_parts, "FIRST", 1)
    for id in ("s1", "s2", "s3"):
        record = SessionRecord(id=id, agent="scripted", cwd="/", active_at=float(id[1]))
        await hub.bus.table(SESSIONS).put(id, msgspec.json.encode(record))
    await eventually(lambda: len(hub.hub.state.sessions) == 3, "not known", timeout=BOUND_S)
    async with source(hub, "?snapshot=parts") as stream:
        ready = await stream.until(type="ready")
        assert [each["id"] for each in ready["snapshot"]["sessions"]] == ["s3"]
        assert [each["id"] for each in (await stream.until(type="sessions", left=0))["sessions"]] == ["s1", "s2"]


@pytest.mark.parametrize(
    ("query", "last", "field"),
    [
        (b"after=-1", "", "after"),
        (b"after=99999999999999999999", "", "after"),
        (b"", "x", "Last-Event-ID"),
        (b"sessions=a%20b", "", "sessions"),
        (b"sessions=%ff", "", "query"),
        (b"\xff", "", "query"),
        (b"after=1" * 5000, "", "query"),
        (b"visible=2", "", "visible"),
        (b"snapshot=half", "", "snapshot"),
    ],
)
def test_bad_queries_are_named(query: bytes, last: str, field: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        subscription(query, last, "e")
    assert caught.value.field == field


def test_the_last_id_wins_over_the_query() -> None:
    wanted = subscription(b"after=3&sessions=a,b", "7", "e")
    assert (wanted.after, wanted.epoch, wanted.sessions) == (7, "e", ("a", "b"))
    assert subscription(b"", "", "e").epoch == ""
