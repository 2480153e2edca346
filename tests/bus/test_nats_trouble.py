"""The same promises on a real nats-server that is restarted, cut off, or loses one of three."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from tieline.bus import Bus, BusError, BusUnavailable, RecordTooLarge, open_bus
from tieline.testing.bus_contract.base import all_of

from .conftest import NatsServer, free_port
from .load import Load


class Proxy:
    """A loopback TCP proxy that can stop forwarding, as a cut cable does: nothing arrives, nothing is closed."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        self._open.clear()

    def mend(self) -> None:
        self._open.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.ensure_future(self._forward(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError):
                while data := await source.read(65536):
                    await self._open.wait()
                    sink.write(data)
                    await sink.drain()
        finally:
            sink.close()


@pytest.fixture
async def proxy(nats_server: NatsServer) -> AsyncGenerator[Proxy]:
    async with Proxy(nats_server.port) as proxy:
        yield proxy


@pytest.mark.slow
async def test_restarted_under_load(nats_server: NatsServer) -> None:
    async def restart() -> None:
        await nats_server.kill()
        await nats_server.start()

    async with open_bus(nats_server.url) as bus:
        await Load(bus, each=300, bound=90).run(restart)


@pytest.mark.slow
async def test_calls_at_once_keep_their_order_across_a_restart(nats_server: NatsServer) -> None:
    """Many are on their way when the server is killed: what is asked again does not come behind later calls."""
    async with open_bus(nats_server.url) as bus, asyncio.timeout(100):
        calls = [asyncio.create_task(bus.publish(f"order.{n % 4}", str(n).encode())) for n in range(4000)]
        await asyncio.wait({calls[1000]})
        await nats_server.kill()
        await nats_server.start()
        await asyncio.gather(*calls)
        for subject in range(4):
            numbers = [int(record.data) for record in await all_of(bus.read(f"order.{subject}", follow=False))]
            assert numbers == list(range(subject, 4000, 4))


@pytest.mark.slow
async def test_cut_off_for_ten_seconds(proxy: Proxy) -> None:
    async def cut() -> None:
        proxy.cut()
        await asyncio.sleep(10)  # what is tested: a partition of that length
        proxy.mend()

    async with open_bus(f"nats://127.0.0.1:{proxy.port}") as bus:
        await Load(bus, each=200, bound=100).run(cut)


@pytest.mark.slow
async def test_one_of_three_is_killed(nats_cluster: list[NatsServer]) -> None:
    url = "nats://" + ",".join(f"127.0.0.1:{server.port}" for server in nats_cluster)
    async with open_bus(url) as bus:
        table = bus.table("t")  # made while all are there: a new one of three copies needs three servers
        revision = await table.put("k", b"v", expect=0)
        await Load(bus, each=100, bound=100).run(nats_cluster[0].kill)
        assert await table.put("k", b"w", expect=revision) > revision
        new = asyncio.create_task(insist(bus, "another.a"))
        await nats_cluster[0].start()
        assert await new > 0


async def insist(bus: Bus, subject: str) -> int:
    """A new family's stream waits for the third server; nothing worse than that is raised meanwhile."""
    async with asyncio.timeout(90):
        while True:
            try:
                return await bus.publish(subject, b"")
            except BusUnavailable:
                continue


@pytest.mark.slow
async def test_nobody_there() -> None:
    with pytest.raises(BusUnavailable, match=r"cannot reach NATS at 127\.0\.0\.1:\d+") as caught:
        async with open_bus(f"nats://user:secret@127.0.0.1:{free_port()}"):
            pass
    assert "secret" not in str(caught.value)


async def test_a_server_with_the_default_payload(nats_server: NatsServer) -> None:
    """It carries 1 MiB with headers: what is over is refused, with what to set, and everything else works."""
    await nats_server.kill()
    nats_server.configure(max_payload="1MB")
    await nats_server.start()
    async with open_bus(nats_server.url) as bus:
        with pytest.raises(RecordTooLarge, match="max_payload"):
            await bus.publish("a.b", bytes(1024 * 1024))
        await bus.publish("a.b", bytes(1000 * 1000))
        assert len(await all_of(bus.read("a.b", follow=False))) == 1


async def test_without_jetstream(nats_server: NatsServer) -> None:
    await nats_server.kill()
    nats_server.configure(jetstream=False)
    await nats_server.start()
    with pytest.raises(BusError, match="no JetStream"):
        async with open_bus(nats_server.url):
            pass
