"""The mesh: finding among many members, a fetch from a large store, and messages between members, hcom beside it."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from mcp.client.client import Client
from msgspec.structs import replace
from tests.mesh.mcp_clients import PROGRAM, CalledHub, Transport, call

from tieline.bus import Bus, open_bus
from tieline.bus.sqlite.database_file import connect, migrate
from tieline.bus.sqlite.transactions import Transactions
from tieline.client import connect as connect_client
from tieline.client.hub_address import running_hub
from tieline.config import Config, RelayConfig
from tieline.envelopes import Budget, Envelope, Payload, ReceiptStep, encode
from tieline.harnesses import hook
from tieline.hub.http.server import ServerAddress
from tieline.ids import new_id
from tieline.mesh.directory import Directory
from tieline.mesh.mesh import Mesh
from tieline.mesh.records import Caller, Member
from tieline.protocol.messages import NewMessage
from tieline.relay import Relay
from tieline.relay.storage.store import MESSAGE_LOG, new_receipt

from .rows import Row, at_most, side_by_side

WORDS = ("parser", "checkout", "billing", "search", "deploy", "schema", "migrations", "metrics", "login", "editor")
QUERIES = ("chekout page", "database migratons", "agent-77", "billing parser", "deploy metrics")
FEW, MANY = 1_000, 1_000_000
"""Messages of a store."""
BATCH = 10_000
KEPT_S = 7 * 86400
MESSAGES = 200
HOOKS = 60
SETTLED_S = 0.02
"""Until a call that waits has reached the hub."""
ROOT = Path(__file__).parent.parent
HCOM = "hcom==0.7.31"
HCOM_MESSAGES = 25
HCOM_SETTLED_S = 0.3
"""Until its process that waits does so."""
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

        ours, reference = (
            seconds / len(QUERIES) for seconds in side_by_side([lambda: look(many), lambda: look(few)], 21)
        )
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


def fill(path: Path, count: int) -> None:
    """Messages of others, which were seen: what sending and reading them would have left, without the waiting."""
    connection = connect(str(path))
    migrate(connection, str(path))
    connection.execute("PRAGMA synchronous = OFF")
    store = Transactions(connection)
    for start in range(0, count, BATCH):
        store.begin()
        for number in range(start, min(start + BATCH, count)):
            subject = f"relay.user.u{number % 1000}"
            id, now = new_id(), time.time()
            envelope = Envelope(
                id=id, subject=subject, sender="relay.user.owner", payload=Payload("x" * 200), thread=id,
                budget=Budget(expires_at=now + KEPT_S), created_at=now,
            )  # fmt: skip
            (seq,) = store.publish([(f"{MESSAGE_LOG}.{subject}", encode(envelope), id, None)])
            receipt = new_receipt(envelope, seq)
            receipt = replace(receipt, steps=(*receipt.steps, ReceiptStep("seen", now)), over=True)
            store.put("relay_receipts", id, encode(receipt), None, KEPT_S)
        store.put("relay", "low", str(store.high).encode(), None, None)
        store.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


async def fetch(mesh: Mesh) -> float:
    for number in range(10):
        await mesh.send_message(ANNA, "bob", f"message {number}")
    start = time.perf_counter()
    inbox = await mesh.fetch_messages(BOB)
    taken = time.perf_counter() - start
    assert len(inbox.messages) == 10
    await mesh.confirm(BOB, [message.id for message in inbox.messages], seen=True)
    return taken


async def fetching(path: Path) -> Row:
    fill(path / "many.db", MANY)
    fill(path / "few.db", FEW)
    async with (
        open_bus(f"sqlite://{path}/many.db") as large,
        open_bus(f"sqlite://{path}/few.db") as small,
        mesh_of(large) as many,
        mesh_of(small) as few,
    ):
        taken: dict[int, list[float]] = {MANY: [], FEW: []}
        for _ in range(41):
            taken[MANY].append(await fetch(many))
            taken[FEW].append(await fetch(few))
    ours, reference = statistics.median(taken[MANY]), statistics.median(taken[FEW])
    return at_most(f"fetch of 10 in a store of {MANY:,} messages", ours, reference, 1.5, f"seconds, against {FEW:,}")


# --- messages between members ------------------------------------------------------------------------------------


@asynccontextmanager
async def hub_beside(path: Path) -> AsyncGenerator[CalledHub, None]:
    """In a process of its own, as it always is: in ours it would wait for the clients."""
    env = {"HOME": str(path), "TIELINE_HOME": str(path / "state"), "PATH": os.defpath}

    async def tieline(*arguments: str) -> None:
        command = (PROGRAM, *arguments)
        await asyncio.to_thread(subprocess.run, command, env=env, capture_output=True, timeout=120, check=True)

    await tieline("up", "--port", "0")
    try:
        running = running_hub(env)
        assert running is not None
        port = int(running.url.rpartition(":")[2])
        yield CalledHub(ServerAddress(host="127.0.0.1", port=port, tls=False, socket=running.socket), env)
    finally:
        await tieline("down")


async def received(receiver: Client) -> float:
    """When it has the message."""
    (message,) = (await call(receiver, "wait_for_messages", timeout_s=30))["messages"]
    assert "hello" in message["text"]
    return time.perf_counter()


@asynccontextmanager
async def waiting(receiver: Client) -> AsyncGenerator[asyncio.Task[float], None]:
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        receives = tasks.create_task(received(receiver))
        await asyncio.sleep(SETTLED_S)
        yield receives


async def sending(hub: CalledHub, transport: Transport, mode: str, name: str) -> Row:
    own = f"{transport}-{mode}"
    async with (
        hub.client(f"from-{own}", transport=transport, mode=mode) as sender,
        hub.client(f"to-{own}", transport=transport, mode=mode) as receiver,
    ):
        await call(sender, "register_agent", name=f"from-{own}")
        address = (await call(receiver, "register_agent", name=f"to-{own}"))["member"]["address"]
        ours: list[float] = []
        reference: list[float] = []
        for _ in range(MESSAGES):
            start = time.perf_counter()
            await call(sender, "get_session_binding")
            reference.append(time.perf_counter() - start)
            async with waiting(receiver) as receives:
                start = time.perf_counter()
                await call(sender, "send_message", to=address, text="hello")
                ours.append(await receives - start)
    note = "seconds, p50, against a tool call that only reads"
    name = f"send_message to wait_for_messages, {name}"
    return at_most(name, statistics.median(ours), statistics.median(reference), 3, note)


async def hooks(hub: CalledHub) -> Row:
    """The command hook of a harness, from start to exit."""
    python = (sys.executable, "-I", "-S")
    commands = ((*python, hook.__file__, "gemini", hub.serving.socket), (*python, "-c", "pass"))
    taken: list[list[float]] = [[], []]
    for number in range(HOOKS):
        event = {"hook_event_name": "AfterTool", "session_id": "g-1", "cwd": hub.env["HOME"], "tool_name": f"{number}"}
        for times, command in zip(taken, commands, strict=True):
            start = time.perf_counter()
            done = await asyncio.to_thread(
                subprocess.run, command, input=json.dumps(event).encode(), capture_output=True, timeout=60
            )
            times.append(time.perf_counter() - start)
            assert done.returncode == 0 and not done.stderr, done.stderr
    note = "seconds, start to exit, against `python -I -S -c pass`"
    ours, reference = map(statistics.median, taken)
    return at_most("command hook of a harness", ours, reference, 1.5, note)


async def run(command: tuple[str, ...], env: Mapping[str, str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, env=env, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    assert await process.wait() == 0, command


async def through_hcom(program: str, env: Mapping[str, str]) -> float:
    """A process that sends, to one that waits."""
    listener = await asyncio.create_subprocess_exec(
        *(program, "listen", "30", "--json", "--name", "bob"), env=env, stdout=asyncio.subprocess.PIPE
    )
    assert listener.stdout is not None
    await asyncio.sleep(HCOM_SETTLED_S)
    start = time.perf_counter()
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(run((program, "send", "@bob", "--name", "anna", "--", "hello"), env))
        assert b"hello" in await listener.stdout.readline()
        taken = time.perf_counter() - start
    await listener.communicate()
    return taken


async def beside_hcom(hub: CalledHub, path: Path) -> list[Row]:
    """None where it cannot be installed. Both programs are installed as a user has them: what developers have beside
    Tieline takes time at every start of Python."""
    venv, python = str(path / "venv"), sys.executable
    install = ("pip", "install", "--quiet", "--compile-bytecode", "--no-deps", "--python", f"{venv}/bin/python")
    for arguments in (("venv", "--quiet", "--python", python, venv), (*install, HCOM, str(ROOT))):
        uv = str(Path(python).with_name("uv"))
        done = await asyncio.to_thread(subprocess.run, (uv, *arguments), capture_output=True, timeout=300)
        if done.returncode:
            print(f"{HCOM} is left out: {done.stderr.decode(errors='replace')}", file=sys.stderr)
            return []
    program, tieline = f"{venv}/bin/hcom", f"{venv}/bin/tieline"
    env = {"HOME": hub.env["HOME"], "HCOM_DIR": str(path / "hcom"), "PATH": os.defpath}
    for name in ("anna", "bob"):
        await run((program, "start", "--as", name), env)
    kept: list[float] = []
    started: list[float] = []
    reference: list[float] = []
    async with connect_client(hub.env) as owner, hub.client("bob") as bob:
        await call(bob, "register_agent", name="bob")
        for _ in range(HCOM_MESSAGES):
            reference.append(await through_hcom(program, env))
            async with waiting(bob) as receives:
                start = time.perf_counter()
                await owner.send_message(NewMessage(to="@bob", text="hello"))
                kept.append(await receives - start)
            async with waiting(bob) as receives, asyncio.TaskGroup() as tasks:
                start = time.perf_counter()
                tasks.create_task(run((tieline, "message", "send", "@bob", "hello"), hub.env))
                started.append(await receives - start)
    theirs, note = statistics.median(reference), "seconds, against `hcom send` to `hcom listen`"
    return [
        at_most("send to receive, kept connection : hcom", statistics.median(kept), theirs, 1, note),
        at_most("send to receive, a process per message : hcom", statistics.median(started), theirs, 3, note),
    ]


async def messaging(path: Path) -> list[Row]:
    async with hub_beside(path) as hub:
        return [
            await sending(hub, "http", "legacy", "HTTP with sessions"),
            await sending(hub, "http", "2026-07-28", "HTTP without"),
            await sending(hub, "stdio", "legacy", "`tieline mcp`"),
            await hooks(hub),
            *await beside_hcom(hub, path),
        ]


async def rows(path: Path) -> list[Row]:
    return [*await finding(path), await fetching(path), *await messaging(path)]


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(rows(Path(directory)))


if __name__ == "__main__":
    for row in measure():
        verdict = "holds" if row.holds else "FAILS"
        print(f"{row.name}: {row.ours:.6g} / {row.reference:.6g} = {row.ratio:.2f} (limit {row.limit}) {verdict}")
    sys.exit(0)
