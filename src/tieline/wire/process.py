"""A child process on the event loop: lines out, bytes in, and a bounded end.

`async with Process(launched) as process` owns it. Leaving the block closes its input, waits, terminates its group,
waits, kills: every wait is bounded, and when the block is left nothing that it started is alive.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType

from .launch import Launched, launch
from .lines import MAX_LINE, LineSplitter

CLOSE_GRACE_S = 2.0
"""After its input was closed: the time an agent gets to leave by itself."""
TERM_GRACE_S = 2.0
"""After SIGTERM, before SIGKILL."""
WRITE_TIMEOUT_S = 30.0
"""An agent that takes no input for this long is stuck."""
STDERR_KEPT = 64 * 1024
CHUNK = 256 * 1024


class Process:
    def __init__(self, launched: Launched, *, max_line: int = MAX_LINE) -> None:
        self._launched = launched
        self._popen: subprocess.Popen[bytes] = launched.popen
        self._max_line = max_line
        self._stderr = bytearray()
        self._exited = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._transports: list[asyncio.BaseTransport] = []

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: str | os.PathLike[str],
        env: Mapping[str, str],
        max_line: int = MAX_LINE,
    ) -> "Process":
        """Start it now. Raises OSError (not found, not executable, no such directory)."""
        return cls(launch(argv, cwd=cwd, env=env), max_line=max_line)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        return self._popen.returncode

    @property
    def stderr(self) -> str:
        """The end of what it printed on its error stream."""
        return self._stderr.decode(errors="replace")

    async def __aenter__(self) -> "Process":
        loop = asyncio.get_running_loop()
        popen = self._popen
        assert popen.stdin is not None and popen.stdout is not None and popen.stderr is not None
        self._stdout = asyncio.StreamReader(limit=CHUNK)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self._stdout), popen.stdout)
        self._transports.append(transport)
        errors = asyncio.StreamReader(limit=CHUNK)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(errors), popen.stderr)
        self._transports.append(transport)
        write_transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(loop=loop), popen.stdin
        )
        self._transports.append(write_transport)
        self._stdin = asyncio.StreamWriter(write_transport, protocol, None, loop)
        self._tasks.append(asyncio.create_task(self._keep_stderr(errors)))
        self._tasks.append(asyncio.create_task(self._watch()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._end()
        finally:  # also when the wait itself was cancelled
            self._launched.signal(signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(timeout=1)
            for task in self._tasks:
                task.cancel()
            for transport in self._transports:
                transport.close()
            self._launched.forget()

    async def _end(self) -> None:
        self._stdin.close()
        if not await self.wait(CLOSE_GRACE_S):
            self._launched.signal(signal.SIGTERM)
            await self.wait(TERM_GRACE_S)

    def kill(self) -> None:
        """End it and its descendants at once; the readers see the end of the stream."""
        self._launched.signal(signal.SIGKILL)

    async def wait(self, timeout: float) -> bool:
        """Whether it has exited within that time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._exited.wait()
        return self._exited.is_set()

    async def lines(self) -> AsyncIterator[list[bytes]]:
        """Lines of its output in the batches they arrive in, until it closes it. Raises LineTooLong."""
        splitter = LineSplitter(self._max_line)
        while chunk := await self._stdout.read(CHUNK):
            if batch := splitter.feed(chunk):
                yield batch
        if batch := splitter.end():
            yield batch

    async def write(self, data: bytes) -> None:
        """Raises BrokenPipeError when it is gone, TimeoutError when it does not read."""
        if self._stdin.is_closing():
            raise BrokenPipeError("the process is gone")
        self._stdin.write(data)
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await self._stdin.drain()

    def close_stdin(self) -> None:
        self._stdin.close()

    async def _keep_stderr(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(CHUNK):
            self._stderr += chunk
            del self._stderr[:-STDERR_KEPT]

    async def _watch(self) -> None:
        """Sets `_exited` when the child is gone: by a pidfd where there is one, else from a thread."""
        loop = asyncio.get_running_loop()
        try:
            descriptor = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            await asyncio.to_thread(self._popen.wait)
        else:
            gone = asyncio.Event()
            loop.add_reader(descriptor, gone.set)
            try:
                await gone.wait()
            finally:
                loop.remove_reader(descriptor)
                os.close(descriptor)
            self._popen.wait()
        self._exited.set()
