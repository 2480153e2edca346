"""Frames that are made once, at a real client of another library."""

import asyncio
from typing import Any

import pytest
from uvicorn.protocols.utils import ClientDisconnected
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tieline.hub.http.server import serve
from tieline.hub.stream.uvicorn_websocket import text_frame

BOUND_S = 30


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 1_000_000])
async def test_every_size_arrives(size: int) -> None:
    text = "é" * (size // 2) + "x" * (size % 2)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "framed": text_frame(text.encode())})
        await send({"type": "websocket.send", "text": "as ever"})
        await receive()

    async with (
        asyncio.timeout(BOUND_S),
        serve(app) as serving,
        connect(serving.url.replace("http", "ws"), max_size=None) as socket,
    ):
        assert await socket.recv() == text
        assert await socket.recv() == "as ever"


async def test_it_waits_for_a_client_that_takes_nothing_and_says_when_it_is_gone() -> None:
    sent = 0
    ended: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    message = {"type": "websocket.send", "framed": text_frame(b"x" * 1_000_000)}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        nonlocal sent
        try:
            while True:
                await send(message)
                sent += 1
                await asyncio.sleep(0)
        except Exception as error:
            ended.set_result(error)

    async with asyncio.timeout(BOUND_S), serve(app) as serving:
        reader, writer = await asyncio.open_connection("127.0.0.1", serving.port, limit=1024)
        head = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        writer.write(f"{head}Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(1000):
            await asyncio.sleep(0)
        assert 0 < sent < 100, "they pile up"
        assert not ended.done()
        writer.transport.abort()
        assert isinstance(await ended, ClientDisconnected)


async def test_nothing_is_said_after_the_last_words() -> None:
    failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": 4000})
        try:
            await send({"type": "websocket.send", "framed": text_frame(b"too late")})
        except Exception as error:
            failure.set_result(error)

    async with asyncio.timeout(BOUND_S), serve(app) as serving:
        async with connect(serving.url.replace("http", "ws")) as socket:
            with pytest.raises(ConnectionClosed):
                await socket.recv()
            assert socket.close_code == 4000
        assert isinstance(await failure, ClientDisconnected)
