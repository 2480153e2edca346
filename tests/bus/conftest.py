"""A real nats-server, and a cluster of three. Each in its own process group, on free ports, with a temporary store."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

SERVER = Path(sys.executable).parent / "nats-server"
READY_S = 20.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class NatsServer:
    """One server that can be killed and started again on the same store."""

    def __init__(self, store: Path, *, name: str = "one", cluster: str = "") -> None:
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._name = name
        self._store = store
        self._cluster = cluster
        self._config = store / f"{name}.conf"
        store.mkdir(parents=True, exist_ok=True)
        self.configure()
        self._log = store / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None

    def configure(self, *, max_payload: str = "2MB", jetstream: bool = True) -> None:
        store = f'jetstream {{ store_dir: "{self._store / self._name}" }}\n' if jetstream else ""
        self._config.write_text(
            f'server_name: {self._name}\nlisten: "127.0.0.1:{self.port}"\nmax_payload: {max_payload}\n'
            f"{store}{self._cluster}"
        )

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                str(SERVER), "-c", str(self._config), stdout=log, stderr=log, start_new_session=True
            )
        async with asyncio.timeout(READY_S):
            while True:  # it has no other way to say that it listens
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    assert self._process.returncode is None, self._log.read_text()
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    with contextlib.suppress(OSError):
                        await writer.wait_closed()
                    return

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()


@asynccontextmanager
async def running(server: NatsServer) -> AsyncGenerator[NatsServer]:
    try:
        await server.start()
        yield server
    finally:
        await server.kill()


@asynccontextmanager
async def address(kind: str, root: Path) -> AsyncGenerator[str]:
    """The URL of a new bus: a SQLite file, or a server that runs for as long as the block."""
    root.mkdir(exist_ok=True)
    if kind == "sqlite":
        yield f"sqlite://{root}/bus.db"
        return
    async with running(NatsServer(root / "nats")) as server:
        yield server.url


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncGenerator[NatsServer]:
    if not SERVER.exists():
        pytest.fail("nats-server is missing: it comes with the development requirements")
    async with running(NatsServer(tmp_path / "nats")) as server:
        yield server


@pytest.fixture
async def nats_cluster(tmp_path: Path) -> AsyncGenerator[list[NatsServer]]:
    ports = [free_port() for _ in range(3)]
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    servers = [
        NatsServer(
            tmp_path / "cluster",
            name=f"n{number}",
            cluster=f'cluster {{ name: c, listen: "127.0.0.1:{port}", routes: [{routes}] }}\n',
        )
        for number, port in enumerate(ports)
    ]
    async with AsyncExitStack() as stack:
        for server in servers:
            await stack.enter_async_context(running(server))
        yield servers
