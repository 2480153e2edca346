"""Anything may be sent to the stream's door: nothing falls over, nothing is left behind."""

import asyncio
import contextlib
import gc
import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import websockets
from tests.hub.streaming import BOUND_S, Served, client, on_sqlite

from tieline.events import Text
from tieline.sessions.event_log import EventLog
from tieline.testing.wait_for import eventually

ROUND = 60
"""Connections per round, each with its own nonsense."""
GROWTH = 100_000
"""Bytes that may be held more after the second round of the same: caches, counters, the allocator's own."""

ENDS = {None, 1000, 1001, 1002, 1003, 1006, 1007, 1009, 4400, 4401, 4426}


def nonsense(chance: random.Random, served: Served) -> str | bytes:
    """One message: sometimes right, mostly not."""
    values: list[Any] = [None, True, -1, 0, 2**70, 1.5, 1e308, "", "x" * 1000, "\x00", "𝄞", [], [[]], {}, {"a": {}}]
    value = chance.choice(values)
    names = ("type", "token", "protocol", "after", "epoch", "sessions", "events", "deltas", "visible", "at", "more")
    kinds = ("authenticate", "subscribe", "visible", "beat", "welcome", "event", "", 7, None)
    frame: dict[str, Any] = {"type": chance.choice(kinds)}
    for _ in range(chance.randrange(4)):
        frame[chance.choice(names)] = value
    text = json.dumps(frame)
    good = {"type": "subscribe", "after": chance.randrange(50), "epoch": served.hub.fanout.epoch, "sessions": ["s1"]}
    return chance.choice(
        [
            text,
            text[: chance.randrange(len(text) + 1)],
            text.encode(),
            chance.randbytes(chance.randrange(200)),
            "[" * 5000,
            '{"type":"beat","more":' + "[" * 3000 + "]" * 3000 + "}",
            "x" * 300_000,
            json.dumps({"type": "authenticate", "token": served.token}),
            json.dumps(good),
            json.dumps({"type": "visible", "visible": chance.choice((True, False))}),
            json.dumps({"type": "subscribe", "sessions": [value] * 3}),
            '{"type":"beat"}',
        ]
    )


async def knock(served: Served, chance: random.Random) -> int | None:
    """One connection with its nonsense. How it ended."""
    async with client(served, token=chance.choice((None, ""))) as stream:
        try:
            for _ in range(chance.randrange(1, 8)):
                await stream.socket.send(nonsense(chance, served))
            if chance.random() < 0.3:
                stream.socket.transport.abort()
                return None
            await stream.say("subscribe", after="the end")  # whatever came before: this ends it
            return await stream.closed()
        except websockets.ConnectionClosed as error:
            return error.rcvd.code if error.rcvd else None


async def shout(served: Served, chance: random.Random) -> None:
    """Bytes that are no WebSocket, or are one only at first."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
    head = (
        b"GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    with contextlib.suppress(ConnectionError):
        writer.write(chance.choice((b"", head, head[: chance.randrange(len(head))])))
        writer.write(chance.randbytes(chance.randrange(1, 2000)))
        await writer.drain()
        writer.write_eof()
        async with asyncio.timeout(BOUND_S):
            await reader.read()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def one_round(served: Served, seed: int) -> set[int | None]:
    chance = random.Random(seed)
    ends: set[int | None] = set()
    for _ in range(ROUND // 10):
        codes = await asyncio.gather(
            *(knock(served, random.Random(chance.random())) for _ in range(8)),
            *(shout(served, random.Random(chance.random())) for _ in range(2)),
        )
        ends |= set(codes)
    return ends


@pytest.mark.slow
async def test_nonsense_breaks_nothing_and_leaves_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with on_sqlite(tmp_path) as served, client(served) as healthy:
        await healthy.subscribe()
        for seed in range(3):
            assert await one_round(served, seed) <= ENDS
        await settled(served)
        sizes: list[int] = []
        tracemalloc.start(1)
        try:
            for _ in range(3):
                await one_round(served, 99)
                await settled(served)
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        assert sizes[2] - sizes[1] < GROWTH, sizes
        seq = await EventLog(served.bus).append("s1", Text("still there"))
        await healthy.until_seq(seq)
    assert not [record for record in caplog.records if record.levelname == "ERROR"], caplog.text


async def settled(served: Served) -> None:
    """Only the healthy one is left."""
    await eventually(lambda: len(served.hub.fanout.subscribers) == 1, "subscribers are left", timeout=BOUND_S)
