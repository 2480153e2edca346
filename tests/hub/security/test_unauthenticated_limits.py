"""Before sign-in: small frames, a short time, few connections of an address. Memory does not grow with strangers."""

import asyncio
import re
import resource
import socket
import time
from collections.abc import Generator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli.hub_process import HubProcess
from tests.hub.conftest import Running, caller
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tieline.client.stream_transports import WebSocketTransport
from tieline.hub.http import server
from tieline.hub.security import access_rules, unauthenticated_limits
from tieline.hub.security.unauthenticated_limits import UnauthenticatedLimits
from tieline.protocol.stream_frames import Authenticate, Ready, Subscribe, encode
from tieline.testing.cli_process import CliProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

UPGRADE = (
    b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)


def stream(hub: Running) -> str:
    return f"ws{hub.url.removeprefix('http')}/api/v1/stream"


@pytest.mark.parametrize(
    "frame",
    ["x" * (unauthenticated_limits.MAX_FRAME + 1), "x" * 1_000_000, ["x" * 3000, "x" * 3000], [b"x"] * 5000],
    ids=["one too large", "one much too large", "in fragments", "many small ones"],
)
async def test_a_stranger_says_little(shared: Running, frame: Any) -> None:
    async with connect(stream(shared), proxy=None, compression=None) as socket:
        with pytest.raises(ConnectionClosed):
            await socket.send(frame)
            async with asyncio.timeout(30):
                while True:
                    await socket.recv()
        assert socket.close_code in (1009, 1006)


async def test_one_frame_that_is_too_large_is_told_so(shared: Running) -> None:
    async with connect(stream(shared), proxy=None, compression=None) as socket:
        await socket.send("x" * (unauthenticated_limits.MAX_FRAME + 1))
        with pytest.raises(ConnectionClosed):
            async with asyncio.timeout(30):
                await socket.recv()
        assert socket.close_code == 1009


@pytest.mark.parametrize("by_header", [True, False])
async def test_after_signing_in_the_usual_limits_hold(shared: Running, by_header: bool) -> None:
    large = Subscribe(sessions=tuple(f"session{number}" for number in range(2000)))
    head = shared.headers() if by_header else {}
    async with connect(stream(shared), proxy=None, compression=None, additional_headers=head) as socket:
        await socket.send(encode(Authenticate(token="" if by_header else shared.token)), text=True)
        async with asyncio.timeout(30):
            assert '"welcome"' in str(await socket.recv())
            await socket.send(encode(large), text=True)
            assert '"ready"' in str(await socket.recv())


async def test_our_own_client_waits_with_what_is_large(shared: Running) -> None:
    large = Subscribe(sessions=tuple(f"session{number}" for number in range(2000)))
    async with asyncio.timeout(30), WebSocketTransport(shared.url, shared.token).open(large) as frames:
        assert isinstance(await anext(frames), Ready)


async def test_bodies_with_a_secret_are_small(shared: Running) -> None:
    assert access_rules.body_limits("/api/v1/login", stranger=True) == (4096, 10.0)
    reply = await shared.client.post("/api/v1/login", json={"secret": "x" * 5000}, headers={"Authorization": ""})
    assert reply.status_code == 413


async def test_an_address_has_so_many(shared: Running) -> None:
    """Those that say nothing make room for the next, so nobody is kept out by them."""
    async with AsyncExitStack() as stack:
        writers: list[asyncio.StreamWriter] = []
        readers: list[asyncio.StreamReader] = []
        for _ in range(unauthenticated_limits.PER_ADDRESS * 2):
            reader, writer = await asyncio.open_connection("127.0.0.1", shared.serving.port)
            stack.callback(writer.close)
            writers.append(writer)
            readers.append(reader)
        async with asyncio.timeout(30):
            ended = asyncio.as_completed([reader.read() for reader in readers])
            for number, reading in enumerate(ended):
                with suppress(ConnectionResetError):
                    assert await reading == b""
                if number + 1 >= unauthenticated_limits.PER_ADDRESS:
                    break
        await asyncio.sleep(0)
    reply = await shared.client.get("/api/v1/me")  # who is known is no stranger
    assert reply.status_code == 200


class Line:
    """A connection as the registry sees it."""

    def __init__(self, host: str, busy: bool = False) -> None:
        self.host = host
        self.busy = busy
        self.aborted = False

    def get_extra_info(self, name: str) -> Any:
        return (self.host, 1) if name == "peername" else None

    def abort(self) -> None:
        self.aborted = True


def came(registry: UnauthenticatedLimits, host: str, *, busy: bool = False) -> Line | None:
    line = Line(host, busy)
    return line if registry.add(line, line) else None  # type: ignore[arg-type]


async def test_who_makes_room_for_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = UnauthenticatedLimits(per_address=2, together=5)
    busy, idle = came(registry, "192.0.2.1", busy=True), came(registry, "192.0.2.1")
    assert busy and idle
    assert came(registry, "192.0.2.1") is None, "both are as young as a greeting"
    assert came(registry, "192.0.2.2") is not None, "another address"
    now = time.monotonic()
    monkeypatch.setattr(unauthenticated_limits.time, "monotonic", lambda: now + 5)
    assert came(registry, "192.0.2.1") is not None
    assert (busy.aborted, idle.aborted) == (False, True)
    assert len(registry) == 3
    registry.discard(busy)  # type: ignore[arg-type]
    assert came(registry, "192.0.2.1") is not None
    # One subscriber has more addresses of IPv6 than there are sockets.
    assert came(registry, "2001:db8::1") and came(registry, "2001:db8::2")
    assert came(registry, "2001:db8::3") is None


async def test_who_is_busy_makes_no_room_however_old(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = UnauthenticatedLimits(per_address=2, together=3)
    busy = [came(registry, "192.0.2.1", busy=True), came(registry, "192.0.2.1", busy=True)]
    other = came(registry, "192.0.2.2", busy=True)
    now = time.monotonic()
    monkeypatch.setattr(unauthenticated_limits.time, "monotonic", lambda: now + 5)
    assert came(registry, "192.0.2.1") is None and came(registry, "192.0.2.3") is None
    assert other and not other.aborted and not any(line is None or line.aborted for line in busy)
    other.busy = False
    assert came(registry, "192.0.2.1") is None, "another address makes no room for one that has all of its own"
    assert came(registry, "192.0.2.3") is not None and other.aborted, "it does where all together are too many"


async def test_whom_a_connection_counts_for() -> None:
    registry = UnauthenticatedLimits(per_address=1, together=10)
    assert came(registry, "192.0.2.1") and came(registry, "::ffff:192.0.2.1") is None, "the same address, mapped"
    assert came(registry, "fe80::1%eth0") and came(registry, "fe80::2%eth1") is None, "the same network"
    assert came(registry, "2001:db8::1") and came(registry, "2001:db8::8000:0:0:1") is None, "up to its middle"
    assert came(registry, "2001:db8:0:1::1"), "the network beside it"
    assert came(registry, "fe81::1") and came(registry, "no address") and came(registry, "no address") is None


async def test_after_an_upgrade_it_is_the_same_connection() -> None:
    registry = UnauthenticatedLimits(per_address=1, together=10)
    line, upgraded = Line("192.0.2.1"), Line("192.0.2.1")
    assert registry.add(line, line) and registry.add(line, upgraded)  # type: ignore[arg-type]
    assert len(registry) == 1 and line in registry  # type: ignore[comparison-overlap]
    for _ in range(2):
        registry.discard(line)  # type: ignore[arg-type]
    assert len(registry) == 0 and came(registry, "192.0.2.1")


async def test_the_owners_socket_has_no_strangers() -> None:
    registry = UnauthenticatedLimits(per_address=1, together=1)
    with socket.socket(socket.AF_UNIX) as bound:

        class OwnersLine(Line):
            def get_extra_info(self, name: str) -> Any:
                return bound if name == "socket" else ""

        for _ in range(3):
            line = OwnersLine("")
            assert registry.add(line, line)  # type: ignore[arg-type]
    assert len(registry) == 0


async def test_of_all_addresses_together_too() -> None:
    registry = UnauthenticatedLimits(per_address=2, together=4)
    assert [came(registry, f"192.0.2.{n}") is not None for n in range(6)] == [True] * 4 + [False] * 2


async def test_requests_that_wait_in_one_connection_are_few(shared: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", shared.serving.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
    async with asyncio.timeout(30):
        with suppress(ConnectionResetError):
            response = await reader.read()
            assert response.count(b"HTTP/1.1 200") <= 50
    writer.close()


async def test_a_stranger_is_not_kept_for_another_request(shared: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.HEAD_S == unauthenticated_limits.UNAUTHENTICATED_S == 10
    monkeypatch.setattr(server, "UNAUTHENTICATED_S", 1.0)
    reader, writer = await asyncio.open_connection("127.0.0.1", shared.serving.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(30):  # those who are known have more
        assert b"200" in await reader.readline()
        await reader.read()
    writer.close()


# --- memory -------------------------------------------------------------------------------------------------


@pytest.fixture
def many_files() -> Generator[None]:
    """Two thousand sockets, and the hub's own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if 0 < hard < 8192 else 8192, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident(pid: int) -> int:
    match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match
    return int(match[1])


async def knock(port: int, stack: AsyncExitStack) -> None:
    """Most of one large frame, before a word about who it is."""
    with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
            stack.callback(lambda: writer.transport.abort())  # until then it is open
            writer.write(UPGRADE)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"\x82\xff" + (4 * 1024 * 1024).to_bytes(8, "big") + b"mask" + bytes(300_000))
            await writer.drain()


@pytest.mark.slow
@pytest.mark.usefixtures("many_files")
async def test_a_thousand_strangers_take_no_more_memory_than_a_hundred(tmp_path: Path) -> None:
    with HubProcess(CliProcess(tmp_path)) as hub:
        taken: list[int] = []
        for number in (100, 100, 100, 1000):  # at first it takes what it keeps for everybody
            async with AsyncExitStack() as stack:
                for begin in range(0, number, 50):
                    await asyncio.gather(*(knock(hub.port, stack) for _ in range(begin, begin + 50)))
                async with caller(hub.url) as stranger:
                    await stranger.get("/healthz")  # all that came before has been read
                taken.append(resident(hub.pid))
        assert taken[-1] <= 1.2 * taken[-2], taken
