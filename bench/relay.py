"""The relay against the bus it is built on: a message, with its checks and receipts, against a record that is
published, read and settled. Ratios in one run."""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from tieline.bus import Bus, Record, open_bus
from tieline.channels.base import DeliveryContext
from tieline.config import Config, RelayConfig
from tieline.envelopes import Envelope, MessageReceipt
from tieline.relay import Relay
from tieline.relay.longest_prefix_trie import LongestPrefixTrie

from .bus import nats_server, percentile
from .rows import Row, at_least, at_most, side_by_side, side_by_side_async

SENDERS = 64
EACH = 25
WORKERS = 64
ROUNDS = 9
TEXT = "x" * 230
TARGET = "relay.program2.sink"
PACED_S = 4.0


class Sink:
    """An endpoint in this process."""

    def __init__(self) -> None:
        self.arrived: dict[str, float] = {}
        self._more = asyncio.Event()

    async def take(self, envelope: Envelope, context: DeliveryContext) -> None:
        self.arrived[envelope.payload.text[:24]] = time.perf_counter()
        self._more.set()

    async def all_of(self, count: int) -> None:
        while len(self.arrived) < count:
            self._more.clear()
            await self._more.wait()


async def through_relay(relay: Relay) -> None:
    """Every message is sent, delivered, and its receipt durable."""
    left = SENDERS * EACH
    done = asyncio.Event()

    def heard(receipt: MessageReceipt) -> None:
        nonlocal left
        left -= receipt.over
        if not left:
            done.set()

    unsubscribe = relay.subscribe(heard)

    async def send(number: int) -> None:
        sender = relay.sender(f"relay.user.s{number}")
        for _ in range(EACH):
            await sender.send(TARGET, TEXT)

    await asyncio.gather(*map(send, range(SENDERS)))
    await done.wait()
    unsubscribe()


async def through_bus(bus: Bus) -> None:
    """Every record is published, read, and settled in a table."""
    total = SENDERS * EACH
    family = f"raw{time.perf_counter_ns()}"
    left = total
    done = asyncio.Event()
    data = f'{{"text":"{TEXT}"}}'.encode()

    async def publish(number: int) -> None:
        for n in range(EACH):
            await bus.publish(f"{family}.sink", data, id=f"{family}-{number}-{n}")

    async def settle() -> None:
        nonlocal left
        while True:
            record = await queue.get()
            await settled.put(f"{family}.{record.seq}", b"")
            left -= 1
            if not left:
                done.set()

    async def read() -> None:
        async with aclosing(bus.read(f"{family}.>")) as records:
            async for record in records:
                queue.put_nowait(record)

    queue: asyncio.Queue[Record] = asyncio.Queue()
    settled = bus.table("settled")
    tasks = [asyncio.create_task(read()), *(asyncio.create_task(settle()) for _ in range(WORKERS))]
    await asyncio.gather(*map(publish, range(SENDERS)))
    await done.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def relaying(bus: Bus) -> AsyncGenerator[tuple[Relay, Sink], None]:
    config = Config(relay=RelayConfig(rate_per_minute=0, mailbox=10**6))
    async with Relay(bus, config) as relay:
        sink = Sink()
        relay.serve(TARGET, sink.take)
        yield relay, sink


async def paced(relay: Relay, sink: Sink, rate: float) -> list[float]:
    """Seconds from the call of `send` to the endpoint's hands, at a steady rate."""
    sink.arrived.clear()
    began: dict[str, float] = {}
    sender = relay.sender("relay.user.paced")
    tasks: set[asyncio.Task[None]] = set()

    async def send(name: str) -> None:
        began[name] = time.perf_counter()
        await sender.send(TARGET, name + TEXT)

    start = time.perf_counter()
    for n in range(int(rate * PACED_S)):
        wait = start + n / rate - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        task = asyncio.create_task(send(f"{n:024d}"))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    async with asyncio.timeout(60):
        await sink.all_of(len(began))
    return [sink.arrived[name] - at for name, at in list(began.items())[len(began) // 4 :]]


async def on(name: str, bus: Bus, other: Bus) -> list[Row]:
    async with relaying(bus) as (relay, sink):
        kinds = [lambda: through_relay(relay), lambda: through_bus(other)]
        await side_by_side_async(kinds, 2)
        ours, reference = await side_by_side_async(kinds, ROUNDS)
        total = SENDERS * EACH
        times = await paced(relay, sink, total / ours / 2)
    return [
        at_least(
            f"{name}: send to delivered, 64 senders",
            total / ours,
            total / reference,
            0.4,
            "messages/s with receipts, against records/s published, read and settled in a table by 64",
        ),
        at_most(
            f"{name}: send to delivered at half that rate, p99",
            percentile(times, 0.99),
            statistics.median(times),
            5,
            f"seconds, against p50, at {total / ours / 2:,.0f} messages/s",
        ),
    ]


async def buses(directory: Path) -> list[Row]:
    rows: list[Row] = []
    async with (
        open_bus(f"sqlite://{directory}/relay.db") as bus,
        open_bus(f"sqlite://{directory}/raw.db") as other,
    ):
        rows += await on("sqlite", bus, other)
    async with (
        nats_server(directory) as port,
        open_bus(f"nats://127.0.0.1:{port}") as bus,
        open_bus(f"nats://127.0.0.1:{port}") as other,
    ):
        rows += await on("nats", bus, other)
    return rows


def matching() -> Row:
    def filled(count: int) -> LongestPrefixTrie[int]:
        trie: LongestPrefixTrie[int] = LongestPrefixTrie()
        for number in range(count):
            trie.add(f"relay.agent.p{number % 100}.a{number}", number + 1, prefix=number % 2 == 0)
        return trie

    many, few = filled(10_000), filled(10)

    def look(endpoints: LongestPrefixTrie[int], count: int) -> None:
        subjects = [f"relay.agent.p{n % 100}.a{n}" for n in (k * 7 % count for k in range(10))]
        for _ in range(2000):
            for subject in subjects:
                endpoints.match(subject)

    ours, reference = side_by_side([lambda: look(many, 10_000), lambda: look(few, 10)], 21)
    return at_most("matching among 10,000 endpoints", ours / 20_000, reference / 20_000, 2, "seconds, against among 10")


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        return [*asyncio.run(buses(Path(directory))), matching()]


if __name__ == "__main__":
    for row in measure():
        verdict = "holds" if row.holds else "FAILS"
        print(f"{row.name}: {row.ours:.6g} / {row.reference:.6g} = {row.ratio:.2f} (limit {row.limit}) {verdict}")
    sys.exit(0)
