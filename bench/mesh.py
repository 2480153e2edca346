"""The mesh: finding among many members, and a fetch from a large store."""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tieline.bus import Bus, open_bus
from tieline.config import Config, RelayConfig
from tieline.mesh.directory import Directory
from tieline.mesh.mesh import Mesh
from tieline.mesh.records import Caller, Member
from tieline.relay import Relay
from tieline.relay.storage.store import MESSAGE_LOG

from .rows import Row, at_most, side_by_side

WORDS = ("parser", "checkout", "billing", "search", "deploy", "schema", "migrations", "metrics", "login", "editor")
QUERIES = ("chekout page", "database migratons", "agent-77", "billing parser", "deploy metrics")
FEW, MANY = 1_000, 200_000
"""Messages of a store. A million take more than a minute to write."""
BATCH = 5_000
ANNA = Caller(machine="here", harness="codex", session="a")
BOB = Caller(machine="here", harness="codex", session="b")


async def finding(path: Path) -> list[Row]:
    async with open_bus(f"sqlite://{path}/find.db") as bus:

        def filled(count: int) -> Directory:
            directory = Directory(bus)
            for number in range(count):
                topics = " ".join(WORDS[(number * step) % len(WORDS)] for step in (1, 3, 7))
                directory._store(  # pyright: ignore[reportPrivateUsage]
                    Member(id=f"mb-{number}", name=f"agent-{number}", description=topics, token_hash=str(number))
                )
            return directory

        many, few = filled(10_000), filled(100)

        def look(directory: Directory) -> None:
            for query in QUERIES:
                directory.find(query)

        ours, reference = (one / len(QUERIES) for one in side_by_side([lambda: look(many), lambda: look(few)], 21))
    return [
        at_most("find among 10,000 members", ours, reference, 3, "seconds, against among 100"),
        at_most("find among 10,000 members, at all", ours, 0.010, 1, "seconds, against 10 ms"),
    ]


@asynccontextmanager
async def mesh_of(bus: Bus) -> AsyncGenerator[Mesh, None]:
    config = Config(relay=RelayConfig(rate_per_minute=0, mailbox=10**6))
    async with Relay(bus, config) as relay, Mesh(bus, relay, machine="here") as mesh:
        await relay.until_active()
        await mesh.register_agent(ANNA, name="anna")
        await mesh.register_agent(BOB, name="bob")
        yield mesh


async def fill(bus: Bus, count: int) -> None:
    """Messages of others, which are over."""
    data = b'{"text":"' + b"x" * 200 + b'"}'
    for start in range(0, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        await asyncio.gather(*(bus.publish(f"{MESSAGE_LOG}.relay.user.u{number % 1000}", data) for number in numbers))


async def fetch(mesh: Mesh) -> float:
    for number in range(10):
        await mesh.send_message(ANNA, "bob", f"message {number}")
    start = time.perf_counter()
    found = await mesh.fetch_messages(BOB)
    taken = time.perf_counter() - start
    assert len(found.messages) == 10
    await mesh.confirm(BOB, [message.id for message in found.messages], seen=True)
    return taken


async def fetching(path: Path) -> Row:
    async with (
        open_bus(f"sqlite://{path}/many.db") as large,
        open_bus(f"sqlite://{path}/few.db") as small,
        mesh_of(large) as many,
        mesh_of(small) as few,
    ):
        await fill(large, MANY)
        await fill(small, FEW)
        taken: dict[int, list[float]] = {MANY: [], FEW: []}
        for _ in range(41):
            taken[MANY].append(await fetch(many))
            taken[FEW].append(await fetch(few))
    ours, reference = statistics.median(taken[MANY]), statistics.median(taken[FEW])
    return at_most(f"fetch of 10 in a store of {MANY:,} messages", ours, reference, 1.5, f"seconds, against {FEW:,}")


async def rows(path: Path) -> list[Row]:
    return [*await finding(path), await fetching(path)]


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(rows(Path(directory)))


if __name__ == "__main__":
    for row in measure():
        verdict = "holds" if row.holds else "FAILS"
        print(f"{row.name}: {row.ours:.6g} / {row.reference:.6g} = {row.ratio:.2f} (limit {row.limit}) {verdict}")
    sys.exit(0)
