"""The bus against what it is made of: raw sqlite3, raw nats-py, an asyncio.Queue. Ratios in one run."""

# pyright: reportUnknownMemberType=false
# nats-py leaves parts of its types open.

import asyncio
import contextlib
import os
import signal
import socket
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from tieline.bus import Bus, open_bus
from tieline.bus.sqlite.database_file import connect, migrate
from tieline.bus.sqlite.transactions import Transactions

from .rows import Row, at_least, at_most, side_by_side_async

TASKS = 64
EACH = 100
ROUNDS = 21
PER_SUBJECT = 100
AT_ONCE = 10
DATA = b'{"type":"text","text":"' + b"x" * 230 + b'"}'
TABLE = "CREATE TABLE records (seq INTEGER PRIMARY KEY, subject TEXT NOT NULL, at REAL, headers BLOB, data BLOB)"
INSERT = "INSERT INTO records (subject, at, headers, data) VALUES (?, ?, ?, ?)"
SERVER = Path(sys.executable).parent / "nats-server"


async def load(bus: Bus, family: str, *, ids: bool = False) -> None:
    """TASKS tasks, EACH publishes one after the other."""

    async def publisher(number: int) -> None:
        subject = f"{family}.{number}"
        for n in range(EACH):
            await bus.publish(subject, DATA, id=f"{time.perf_counter_ns()}-{number}-{n}" if ids else None)

    await asyncio.gather(*(publisher(number) for number in range(TASKS)))


def plain(path: Path) -> sqlite3.Connection:
    """SQLite as it comes, but for what durability means: the same journal and the same synchronous."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(TABLE)
    return connection


async def throughput(directory: Path) -> list[Row]:
    raw = plain(directory / "raw.db")
    subjects = [f"load.{number}" for number in range(TASKS)]

    async def batches() -> None:
        for _ in range(EACH):
            raw.execute("BEGIN IMMEDIATE")
            now = time.time()
            raw.executemany(INSERT, [(subject, now, None, DATA) for subject in subjects])
            raw.execute("COMMIT")

    async with (
        open_bus(f"sqlite://{directory}/bus.db") as bus,
        open_bus(f"sqlite://{directory}/ids.db") as with_ids,
    ):
        kinds = [lambda: load(bus, "load"), lambda: load(with_ids, "load", ids=True), batches]
        await side_by_side_async(kinds, 3)  # until all overwrite their logs instead of growing them, as from then on
        ours, ids, reference = await side_by_side_async(kinds, ROUNDS)
    raw.close()
    total = TASKS * EACH
    note = f"records/s, {len(DATA)} bytes each, against the same columns in one plain table without an index"
    return [
        at_least("sqlite: publish from 64 tasks", total / ours, total / reference, 0.5, note),
        at_least("sqlite: the same with ids", total / ids, total / reference, 0.0, "records/s, for information"),
    ]


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(int(len(times) * share), len(times) - 1)]


async def latency(directory: Path) -> list[Row]:
    """From publish to a follower's hands, and from put to get with a raw commit in between; in turns."""
    raw = plain(directory / "raw-latency.db")
    ours: list[float] = []
    reference: list[float] = []
    queue: asyncio.Queue[float] = asyncio.Queue()

    async def hop() -> None:
        while True:
            began = await queue.get()
            reference.append(time.perf_counter() - began)
            arrived.set()

    async with open_bus(f"sqlite://{directory}/latency.db") as bus:
        arrived = asyncio.Event()

        async def follow() -> None:
            async with aclosing(bus.read("load.a")) as reader:
                async for _ in reader:
                    ours.append(time.perf_counter() - began)
                    arrived.set()

        began = 0.0
        tasks = [asyncio.ensure_future(hop()), asyncio.ensure_future(follow())]
        for n in range(3300):
            arrived.clear()
            began = time.perf_counter()
            await bus.publish("load.a", DATA)
            await arrived.wait()
            arrived.clear()
            start = time.perf_counter()
            raw.execute("BEGIN IMMEDIATE")
            raw.execute(INSERT, ("load.a", start, None, DATA))
            raw.execute("COMMIT")
            queue.put_nowait(start)
            await arrived.wait()
            if n == 1299:  # both overwrite their logs by now instead of growing them
                ours.clear()
                reference.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    raw.close()
    note = "seconds, against one raw commit and an asyncio.Queue hop"
    return [
        at_most("sqlite: publish to follower, p50", statistics.median(ours), statistics.median(reference), 1.5, note),
        at_most("sqlite: publish to follower, p99", percentile(ours, 0.99), percentile(reference, 0.99), 3, note),
    ]


def subject_of(n: int, subjects: int) -> int:
    """Sessions live for a while, in the long log as in the short one: AT_ONCE of them take turns, then others do."""
    at_once = min(AT_ONCE, subjects)
    wave = n // (at_once * PER_SUBJECT)
    return (wave * at_once + n % at_once) % subjects


def fill(path: Path, records: int, subjects: int, entries: int) -> None:
    """What publishing and putting would have left, without the waiting: the same code, larger transactions."""
    connection = connect(str(path))
    migrate(connection, str(path))
    connection.execute("PRAGMA synchronous = OFF")
    store = Transactions(connection)
    for start in range(0, records, 10_000):
        store.begin()
        for n in range(start, min(start + 10_000, records)):
            store.publish([(f"events.s{subject_of(n, subjects)}", DATA, None, None)])
        store.commit()
    for start in range(0, entries, 10_000):
        store.begin()
        for n in range(start, min(start + 10_000, entries)):
            store.put("state", f"k{n}", DATA, None, None)
        store.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


class MeasuredBus:
    """One bus to be measured, small or large."""

    def __init__(self, bus: Bus, records: int, subjects: int, entries: int) -> None:
        self.bus = bus
        self.records, self.subjects, self.entries = records, subjects, entries
        self.turn = 0

    async def read(self) -> None:
        """The later half of ten subjects' records."""
        at_once = min(AT_ONCE, self.subjects)
        for _ in range(10):
            number = self.turn * 7919 % (self.subjects // at_once * at_once)
            self.turn += 1
            begins = number // at_once * at_once * PER_SUBJECT + number % at_once + 1
            after = begins + (PER_SUBJECT // 2) * at_once
            records = [r async for r in self.bus.read(f"events.s{number}", after=after, follow=False)]
            assert len(records) == PER_SUBJECT - PER_SUBJECT // 2 - 1

    async def read_all(self) -> None:
        """The last hundred of all subjects, ten times."""
        for _ in range(10):
            assert len([r async for r in self.bus.read("events.>", after=self.records - 100, follow=False)]) == 100

    async def look_up(self) -> None:
        table = self.bus.table("state")
        for n in range(200):
            assert await table.get(f"k{(self.turn + n) * 7919 % self.entries}")
        self.turn += 1


async def scale(directory: Path) -> list[Row]:
    sizes = {"small": (1_000, 10, 1_000), "large": (1_000_000, 10_000, 100_000)}
    for name, size in sizes.items():
        fill(directory / f"{name}.db", *size)
    async with (
        open_bus(f"sqlite://{directory}/small.db") as small_bus,
        open_bus(f"sqlite://{directory}/large.db") as large_bus,
    ):
        small, large = MeasuredBus(small_bus, *sizes["small"]), MeasuredBus(large_bus, *sizes["large"])
        rows: list[Row] = []
        for name in ("read", "read_all", "look_up"):
            kinds = [getattr(large, name), getattr(small, name)]
            for kind in kinds:
                await kind()
            ours, reference = await side_by_side_async(kinds, 15)
            title = {
                "read": "reading a subject after a cursor",
                "read_all": "reading a pattern after a cursor",
                "look_up": "table look-ups",
            }[name]
            note = "seconds, with 1,000,000 records over 10,000 subjects against 1,000 over 10"
            rows.append(at_most(f"sqlite: {title} in a large log", ours, reference, 1.5, note))
        return rows


async def wait_for_one(source: AsyncGenerator[object, None]) -> object:
    async with aclosing(source):
        return await anext(source)


async def idle(directory: Path) -> list[Row]:
    """A thousand followers and a hundred watchers, with nothing to do."""
    async with open_bus(f"sqlite://{directory}/idle.db") as bus:
        await bus.publish("idle.x", DATA)
        waiting: list[asyncio.Task[object]] = []
        waiting += [asyncio.ensure_future(wait_for_one(bus.read(f"idle.{n}"))) for n in range(1000)]
        waiting += [asyncio.ensure_future(wait_for_one(bus.table(f"idle{n}").watch())) for n in range(100)]
        seen = asyncio.ensure_future(anext(bus.read("idle.end")))
        await asyncio.sleep(1)
        await bus.publish("idle.end", DATA)
        await seen
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.sleep(3)
        used = (time.process_time() - cpu) / (time.perf_counter() - began)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    return [at_most("sqlite: 1,000 idle followers, 100 idle watchers", used, 0.01, 1, "share of a CPU, at most 1 %")]


@asynccontextmanager
async def nats_server(directory: Path) -> AsyncGenerator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = directory / "nats.conf"
    config.write_text(f'listen: "127.0.0.1:{port}"\nmax_payload: 2MB\njetstream {{ store_dir: "{directory}/js" }}\n')
    process = await asyncio.create_subprocess_exec(
        str(SERVER), "-c", str(config), stdout=-3, stderr=-3, start_new_session=True
    )
    try:
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.02)
        yield port
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def nats_throughput(directory: Path) -> list[Row]:
    import nats

    async with nats_server(directory) as port, open_bus(f"nats://127.0.0.1:{port}") as bus:
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        stream = client.jetstream()
        await stream.add_stream(name="raw", subjects=["raw.>"])

        async def raw_requests() -> None:
            async def publisher(number: int) -> None:
                for _ in range(EACH):
                    await stream.publish(f"raw.{number}", DATA)

            await asyncio.gather(*(publisher(number) for number in range(TASKS)))

        async def raw_pipelined() -> None:
            async def publisher(number: int) -> None:
                for _ in range(EACH):
                    await (await stream.publish_async(f"raw.{number}", DATA))

            await asyncio.gather(*(publisher(number) for number in range(TASKS)))

        await load(bus, "warm")
        await raw_pipelined()
        ours, requests, pipelined = await side_by_side_async(
            [lambda: load(bus, "load"), raw_requests, raw_pipelined], ROUNDS
        )
        await client.close()
    total = TASKS * EACH
    note = f"records/s, against the faster of publish ({total / requests:,.0f}) and publish_async, 64 on their way"
    return [at_least("nats: publish from 64 tasks", total / ours, total / min(requests, pipelined), 0.8, note)]


def measure(only: str = "") -> list[Row]:
    parts = {"throughput": throughput, "latency": latency, "scale": scale, "idle": idle, "nats": nats_throughput}
    rows: list[Row] = []
    for name, part in parts.items():
        if only in ("", name):
            with tempfile.TemporaryDirectory() as directory:
                rows += asyncio.run(part(Path(directory)))
    return rows


if __name__ == "__main__":
    for row in measure(*sys.argv[1:]):
        verdict = "holds" if row.holds else "FAILS"
        print(f"{row.name}: {row.ours:.6g} / {row.reference:.6g} = {row.ratio:.2f} (limit {row.limit}) {verdict}")
