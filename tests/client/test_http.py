"""The small HTTP client: however the answer is cut, and whatever answers."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tieline.client import http as client_http
from tieline.client.http import ConnectionLost, HttpClient
from tieline.errors import UsageError

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def answering(answer: Answer) -> AsyncGenerator[str, None]:
    """A server that answers each connection so, and closes it."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await answer(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


def saying(*pieces: bytes) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    return answer


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=1\r\n world\r\n0\r\nEtag: x\r\n\r\n"


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ((b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",), b"hello"),
        ((b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",), b""),
        ((b"HTTP/1.0 200 OK\r\n\r\nuntil ", b"the end"), b"until the end"),
        ((CHUNKED,), b"hello world"),
        (tuple(CHUNKED[index : index + 1] for index in range(len(CHUNKED))), b"hello world"),
        ((b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",), b"ok"),
    ],
)
async def test_bodies(pieces: tuple[bytes, ...], body: bytes) -> None:
    async with answering(saying(*pieces)) as url, HttpClient(url, {}) as http:
        reply = await http.request("GET", "/")
        assert (reply.status, reply.body) == (200, body)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000,
    ],
)
async def test_what_is_no_answer_is_a_lost_connection(reply: bytes) -> None:
    async with answering(saying(reply)) as url, HttpClient(url, {}) as http:
        with pytest.raises(ConnectionLost):
            await http.request("GET", "/")


async def test_nobody_listens() -> None:
    async with answering(saying(b"")) as url:
        pass
    async with HttpClient(url, {}) as http:
        with pytest.raises(ConnectionLost) as lost:
            await http.request("GET", "/")
    assert not lost.value.sent


async def test_a_kept_connection_that_was_closed_meanwhile_is_made_anew() -> None:
    heard: list[bytes] = []
    over = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        over.set()  # and closed, although it could have been kept

    async with answering(answer) as url, HttpClient(url, {"Authorization": "Bearer x"}) as http:
        for _ in range(3):
            over.clear()
            assert (await http.request("POST", "/a b", query={"q": "ä&=b"}, body=b"{}")).body == b"ok"
            await over.wait()
    assert len(heard) == 3
    first, *headers = heard[0].decode().split("\r\n")
    assert first == "POST /a%20b?q=%C3%A4%26%3Db HTTP/1.1"
    assert {"Authorization: Bearer x", "Content-Length: 2", "Content-Type: application/json"} <= set(headers)


async def test_connections_are_kept() -> None:
    connections = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with answering(answer) as url, HttpClient(url, {}) as http:
        for _ in range(5):
            assert (await http.request("GET", "/")).status == 204
    assert connections == 1


async def test_a_header_cannot_begin_another() -> None:
    async with answering(saying(b"")) as url, HttpClient(url, {"Authorization": "Bearer x\r\nX-Evil: 1"}) as http:
        with pytest.raises(UsageError):
            await http.request("GET", "/")


@pytest.mark.parametrize("url", ["", "127.0.0.1:8137", "ftp://host", "http://", "http://host:99999"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        HttpClient(url, {})
    assert refused.value.field == "url"


async def test_a_machine_that_does_not_even_say_no(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(client_http, "CONNECT_S", 0.01)
    monkeypatch.setattr(asyncio, "open_connection", nothing)
    async with asyncio.timeout(30), HttpClient("http://127.0.0.1:9", {}) as http:
        with pytest.raises(ConnectionLost, match="no connection within"):
            await http.request("GET", "/")
        with pytest.raises(ConnectionLost, match="no connection within"):
            async with http.stream("/"):
                pass
