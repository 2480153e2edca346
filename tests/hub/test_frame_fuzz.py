"""The reader of WebSocket frames, fed with whatever a stranger may send, in whatever pieces."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from uvicorn.config import Config
from uvicorn.server import ServerState

from tieline.hub.security import unauthenticated_limits
from tieline.hub.security.unauthenticated_limits import UnauthenticatedLimits
from tieline.hub.stream.uvicorn_websocket import PreencodedWebSocketProtocol

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)
pytestmark = pytest.mark.slow

MASK = b"\x01\x02\x03\x04"
AFTER = 100_000
"""Bytes of a message after signing in."""


class Wire(asyncio.Transport):
    """The other side of a connection, which only remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def _app(scope: Any, receive: Any, send: Any) -> None:
    await asyncio.Event().wait()


class Reader:
    """A connection right after its upgrade."""

    def __init__(self) -> None:
        config = Config(
            _app, ws=PreencodedWebSocketProtocol, ws_max_size=AFTER, ws_per_message_deflate=False, log_config=None
        )
        config.load()
        self.strangers = UnauthenticatedLimits()
        self.wire = Wire()
        self.protocol = PreencodedWebSocketProtocol(config, ServerState(), {"strangers": self.strangers})
        self.protocol.connection_made(self.wire)
        self.protocol.data_received(UPGRADE)
        self.protocol.conn.send_response(self.protocol.response)
        self.protocol.handshake_complete = True
        self.protocol.conn.data_to_send()
        self.protocol.queue.get_nowait()  # it is connected
        for task in self.protocol.tasks:
            task.cancel()

    def feed(self, data: bytes, cuts: list[int]) -> None:
        begin = 0
        for end in [*sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]:
            if not self.wire.closed and data[begin:end]:
                self.protocol.data_received(data[begin:end])
            begin = end

    def heard(self) -> list[Any]:
        messages: list[Any] = []
        while not self.protocol.queue.empty():
            message: Any = self.protocol.queue.get_nowait()
            if message["type"] == "websocket.receive":
                messages.append(message.get("text") if message.get("text") is not None else message.get("bytes"))
        return messages

    def end(self) -> None:
        self.protocol.connection_lost(None)
        assert len(self.strangers) == 0


def frame(opcode: int, payload: bytes, *, fin: bool = True, masked: bool = True, says: int | None = None) -> bytes:
    size = len(payload) if says is None else says
    head = bytes([opcode | (0x80 if fin else 0)])
    bit = 0x80 if masked else 0
    if size < 126:
        head += bytes([bit | size])
    elif size < 1 << 16:
        head += bytes([bit | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([bit | 127]) + size.to_bytes(8, "big")
    if not masked:
        return head + payload
    return head + MASK + bytes(byte ^ MASK[index % 4] for index, byte in enumerate(payload))


cuts = some.lists(some.integers(0, 1 << 16), max_size=12)
odd_frames = some.builds(
    frame,
    some.integers(0, 127),
    some.binary(max_size=600),
    fin=some.booleans(),
    masked=some.booleans(),
    says=some.none() | some.integers(0, 1 << 40),
)
noise = some.lists(odd_frames | some.binary(max_size=300), max_size=30).map(b"".join)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=150)
@given(noise, cuts)
async def test_whatever_a_stranger_sends_is_bounded(data: bytes, pieces: list[int]) -> None:
    reader = Reader()
    reader.feed(data, pieces)
    assert sum(len(message) for message in reader.heard()) <= unauthenticated_limits.MAX_BYTES
    assert len(reader.protocol.conn.reader.buffer) <= unauthenticated_limits.MAX_BYTES
    if len(data) > unauthenticated_limits.MAX_BYTES:
        assert reader.wire.closed
    reader.end()


@settings(max_examples=80)
@given(some.lists(some.text("aé€🦊 \x00", max_size=40), max_size=20), cuts)
async def test_what_is_small_arrives_whole_in_whatever_pieces(texts: list[str], pieces: list[int]) -> None:
    reader = Reader()
    reader.feed(b"".join(frame(1, text.encode()) for text in texts), pieces)
    assert reader.heard() == texts
    reader.end()


@settings(max_examples=60)
@given(
    some.integers(unauthenticated_limits.MAX_FRAME - 20, unauthenticated_limits.MAX_FRAME + 20), some.booleans(), cuts
)
async def test_a_strangers_frame_has_four_kilobytes(size: int, in_two: bool, pieces: list[int]) -> None:
    assert unauthenticated_limits.MAX_FRAME == 4096
    reader = Reader()
    data = b"x" * size
    whole = frame(2, data[:1000], fin=False) + frame(0, data[1000:]) if in_two else frame(2, data)
    reader.feed(whole, pieces)
    assert reader.wire.closed == (size > unauthenticated_limits.MAX_FRAME)
    assert reader.heard() == ([data] if size <= unauthenticated_limits.MAX_FRAME else [])
    reader.end()


@settings(max_examples=30)
@given(some.integers(0, AFTER + 50), cuts)
async def test_who_is_known_has_the_usual_size(size: int, pieces: list[int]) -> None:
    reader = Reader()
    reader.protocol.mark_authenticated()
    assert reader.wire not in reader.strangers
    reader.feed(frame(2, bytes(size)), pieces)
    assert reader.heard() == ([bytes(size)] if size <= AFTER else [])
    reader.end()
