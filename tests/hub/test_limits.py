"""Oversized and slow requests are refused, and cost the others nothing."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.hub.conftest import Running, running
from websockets.asyncio.client import connect

from tieline.hub.security import access_rules

pytestmark = pytest.mark.asyncio(loop_scope="module")

BIG = 300 * 1024


async def answer(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(60):
        line = await reader.readline()
    return int(line.split()[1]) if line else 0


async def test_bodies_have_a_size(shared: Running) -> None:
    reply = await shared.client.post("/api/v1/rules", content=b'{"title": "' + b"x" * BIG + b'"}')
    assert (reply.status_code, reply.json()["code"]) == (413, "BodyTooLarge")
    assert reply.headers["connection"] == "close"

    async def endless() -> AsyncGenerator[bytes, None]:
        for _ in range(40):
            yield b"x" * 16384

    chunked = await shared.client.post("/api/v1/rules", content=endless())
    assert chunked.status_code == 413
    assert (await shared.client.get("/api/v1/me")).status_code == 200


async def test_a_body_that_says_it_is_too_large_is_not_waited_for(shared: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", shared.serving.port)
    head = f"Host: localhost\r\nAuthorization: Bearer {shared.token}\r\nContent-Length: 1000000000\r\n\r\n"
    writer.write(f"POST /api/v1/rules HTTP/1.1\r\n{head}".encode())
    assert await answer(reader) == 413
    writer.close()
    await writer.wait_closed()


@pytest.mark.slow
async def test_a_stranger_cannot_make_us_read(shared: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", shared.serving.port)
    head = "POST /api/v1/rules HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
    writer.write(head.encode())
    assert await answer(reader) == 401  # before a byte of the body
    async with asyncio.timeout(60):
        while await reader.read(4096):
            pass  # and the connection ends
    writer.close()
    await writer.wait_closed()


async def test_prompts_may_be_larger_up_to_one_record(shared: Running) -> None:
    session = await shared.session()
    path = f"/api/v1/sessions/{session['id']}/prompts"
    fits = await shared.client.post(path, json={"text": "x" * 600_000})
    assert fits.status_code == 201, fits.text
    large = await shared.client.post(path, json={"text": "x" * 2_000_000})
    assert (large.status_code, large.json()["code"], large.json()["field"]) == (413, "RecordTooLarge", "text")
    assert "1,044,480" in large.json()["detail"]
    assert large.json()["hint"]
    huge = await shared.client.post(path, json={"text": "x" * 9_000_000})
    assert (huge.status_code, huge.json()["code"]) == (413, "BodyTooLarge")


async def test_a_slow_body_is_refused(shared: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_rules, "BODY_S", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", shared.serving.port)
    head = f"Host: localhost\r\nAuthorization: Bearer {shared.token}\r\nContent-Length: 10\r\n\r\n"
    writer.write(f"POST /api/v1/rules HTTP/1.1\r\n{head}{{".encode())
    assert await answer(reader) == 408
    writer.close()
    await writer.wait_closed()


@pytest.mark.slow
async def test_a_request_that_does_not_arrive_is_dropped(shared: Running, tmp_path: Path) -> None:
    async with running(tmp_path, head_s=1.0) as hub:
        for data in (b"", b"GET /hea", b"GET /healthz HTTP/1.1\r\nHost: local"):
            reader, writer = await asyncio.open_connection("127.0.0.1", hub.serving.port)
            writer.write(data)
            with suppress(ConnectionResetError):
                assert await answer(reader) == 0
            writer.close()
    assert (await shared.client.get("/healthz")).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("data", [b"GET /hea", b"\r\n"])
async def test_the_second_request_of_a_connection_may_not_dawdle_either(tmp_path: Path, data: bytes) -> None:
    async with running(tmp_path, head_s=1.0) as hub:
        reader, writer = await asyncio.open_connection("127.0.0.1", hub.serving.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await answer(reader) == 200
        writer.write(data)
        async with asyncio.timeout(60):
            with suppress(ConnectionResetError):
                while await reader.read(4096):
                    pass
        writer.close()


async def test_heads_have_a_size(shared: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", shared.serving.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 100_000)
    with suppress(ConnectionResetError):
        assert await answer(reader) in (0, 400, 431)
    writer.close()


async def test_attachments_name_no_files(shared: Running) -> None:
    session = await shared.session()
    path = f"/api/v1/sessions/{session['id']}/prompts"
    for name in ("../../etc/passwd", "/etc/passwd", "a\\b", ".."):
        for attachment in ({"path": name}, {"name": name, "data": "eA==", "media_type": "text/plain"}):
            reply = await shared.client.post(path, json={"text": "look", "attachments": [attachment]})
            assert reply.status_code == 400, reply.text
            assert reply.json()["field"].startswith("attachments[0].")


async def test_browsing_stays_in_the_home(shared: Running) -> None:
    home = Path(shared.env["HOME"])
    (home / "projects").mkdir()
    (home / "link").symlink_to("/etc")
    node = (await shared.client.get("/api/v1/me")).json()["node"]
    shown = (await shared.client.get(f"/api/v1/nodes/{node}/browse")).json()
    assert "projects" in shown["names"]
    for path in ("..", "../../..", "/etc", "/", "x/../../..", "\x00", "link"):
        reply = await shared.client.get(f"/api/v1/nodes/{node}/browse", params={"path": path})
        assert (reply.status_code, reply.json()["field"]) == (400, "path"), reply.text
        assert "passwd" not in reply.text


async def test_a_whole_head_has_a_size_too(shared: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", shared.serving.port)
    many = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 1000) for number in range(100))
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n")
    with suppress(ConnectionResetError):
        assert await answer(reader) in (0, 400, 431)
    writer.close()


@pytest.mark.parametrize(("kilobytes", "expected"), [(30, 200), (34, 400)])
async def test_a_head_may_come_in_pieces(shared: Running, kilobytes: int, expected: int) -> None:
    """Each byte counts once, also behind the body of the request before it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", shared.serving.port)
    first = f"Host: localhost\r\nAuthorization: Bearer {shared.token}\r\nContent-Length: 40000\r\n\r\n"
    writer.write(f"POST /api/v1/nowhere HTTP/1.1\r\n{first}".encode())
    writer.write(b" " * 40_000 + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
    assert await answer(reader) == 404
    async with asyncio.timeout(60):
        await reader.readuntil(b"}")  # the problem
    for number in range(kilobytes):
        writer.write(b"X-%d: %s\r\n" % (number, b"x" * 1016))
        await writer.drain()
    writer.write(b"\r\n")
    assert await answer(reader) == expected
    writer.close()


async def test_a_websocket_stays_open_beyond_the_time_for_a_head(tmp_path: Path) -> None:
    async with running(tmp_path, head_s=0.2) as hub:
        url = f"ws://127.0.0.1:{hub.serving.port}/api/v1/stream"
        head = {"Authorization": f"Bearer {hub.token}"}
        async with connect(url, proxy=None, additional_headers=head) as socket:
            dawdler, writer = await asyncio.open_connection("127.0.0.1", hub.serving.port)
            async with asyncio.timeout(60):
                with suppress(ConnectionResetError):
                    assert await dawdler.read() == b"", "dropped, so the time is up"
            writer.close()
            await socket.send('{"type":"subscribe"}')
            async with asyncio.timeout(30):
                assert '"welcome"' in str(await socket.recv())
