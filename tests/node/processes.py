"""A hub and a node as processes that can be killed, and a way between them that breaks."""

import asyncio
import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import msgspec

from tieline.node.starting import Order, Started
from tieline.testing.rig import scratch_env

START_S = 60.0
WITH_US = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
"""A process that ends with the test's own, should that be killed."""


class Daemon:
    """`python -m tieline.daemon`, in a home of its own."""

    def __init__(self, root: Path, order: Order, config: str = "") -> None:
        self.place = root / "place"
        self.place.mkdir(parents=True)
        (root / "tieline.toml").write_text(config)
        self.env = scratch_env(
            root / "home",
            path="/usr/bin:/bin",
            TIELINE_HOME=str(root / "state"),
            TIELINE_CONFIG=str(root / "tieline.toml"),
        )
        self.url = ""
        self._order = order
        self._log = root / "output"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def start(self) -> None:
        """It runs when this returns."""
        reading, writing = os.pipe()
        order = msgspec.structs.replace(self._order, ready=writing)
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *WITH_US, sys.executable, "-m", "tieline.daemon", msgspec.json.encode(order).decode(),
                cwd=self.place, env=self.env, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=(writing,), start_new_session=True,
            )  # fmt: skip
        os.close(writing)
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb")
        )
        try:
            async with asyncio.timeout(START_S):
                line = await reader.readline()
        finally:
            transport.close()
        started = msgspec.json.decode(line or b"{}", type=Started)
        assert started.url, f"{started.problem}\n{self._log.read_text()}"
        self.url = started.url

    async def kill(self, number: int = signal.SIGKILL) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.send_signal(number)
            try:
                async with asyncio.timeout(START_S):
                    await process.wait()
            finally:
                with suppress(ProcessLookupError):
                    process.kill()


class Way:
    """`async with Way() as way`: a TCP proxy to whichever port is the present one; `cut` breaks all that pass."""

    def __init__(self) -> None:
        self.port = 0  # where it leads; 0: nowhere
        self.url = ""
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Way":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def cut(self) -> int:
        """How many ends were open."""
        open_now = tuple(self._writers)
        for writer in open_now:
            writer.transport.abort()
        return len(open_now)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        with suppress(asyncio.CancelledError):  # by our own end, of which the server's streams need not hear
            await self._lead(reader, writer)

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, beyond = await asyncio.open_connection("127.0.0.1", self.port)
            self._writers.add(beyond)
            try:
                passing = [asyncio.create_task(_pass(reader, beyond)), asyncio.create_task(_pass(there, writer))]
                try:
                    await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for one in passing:
                        one.cancel()
                    await asyncio.gather(*passing, return_exceptions=True)
            finally:
                self._writers.discard(beyond)
                beyond.transport.abort()
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
