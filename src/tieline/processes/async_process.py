"""A child process on the event loop: lines out, bytes in, and a bounded end.

`async with Process(launched) as process` owns it. Leaving the block closes its input, waits, terminates its group,
waits, kills: every wait is bounded, and when the block is left nothing that it started is alive.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress

from ..wire.lines import MAX_LINE, LineSplitter, LineTooLong
from .spawn import SpawnedProcess, spawn

CLOSE_GRACE_S = 2.0
"""After its input was closed: the time an agent gets to leave by itself."""
TERM_GRACE_S = 2.0
"""After SIGTERM, before SIGKILL."""
WRITE_TIMEOUT_S = 30.0
"""An agent that takes no input for this long is stuck."""
KILL_GRACE_S = 1.0
"""After SIGKILL: nothing survives it, but one in the middle of a system call takes its time."""
LAST_WORDS_S = 0.2
"""After its exit: the time to read the rest of its error stream, which a descendant may hold open."""
STDERR_KEPT = 64 * 1024
CHUNK = 256 * 1024


class Process:
    def __init__(self, launched: SpawnedProcess, *, max_line: int = MAX_LINE) -> None:
        self._launched = launched
        self._child = launched.child
        self._max_line = max_line
        self._stderr = bytearray()
        self._exited = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._transports: list[asyncio.ReadTransport] = []
        self._stdin: asyncio.StreamWriter | None = None
        self._watched: int | None = None
        self.last_heard = time.monotonic()
        """When it last printed something on either stream that was read."""

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: str | os.PathLike[str],
        env: Mapping[str, str],
        max_line: int = MAX_LINE,
        words: bytes = b"",
    ) -> "Process":
        """Start it now, or take the one that was started ahead and told the beginning of `words`. Raises OSError (not
        found, not executable, no such directory, arguments too long) and ValueError (a null byte in an argument)."""
        return cls(spawn(argv, cwd=cwd, env=env, words=words), max_line=max_line)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def held(self) -> bool:
        """Whether what it leaves behind is known to be its own, and ends with it."""
        return self._child.held

    @property
    def returncode(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._child.returncode

    @property
    def stderr(self) -> str:
        """The end of what it printed on its error stream; complete once `wait` says that it has exited."""
        return self._stderr.decode(errors="replace")

    async def __aenter__(self) -> "Process":
        try:
            await self._attach()
        except BaseException:  # it is already running: it must not outlive a failed start
            self._clean_up()
            for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
                pipe.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._end()
        finally:  # also when the wait itself was cancelled
            self._clean_up()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _attach(self) -> None:
        loop = asyncio.get_running_loop()
        child = self._child
        self._stdout = asyncio.StreamReader(limit=CHUNK)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self._stdout), child.stdout)
        self._transports.append(transport)
        errors = asyncio.StreamReader(limit=CHUNK)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(errors), child.stderr)
        self._transports.append(transport)
        write_transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(loop=loop), child.stdin
        )
        self._stdin = asyncio.StreamWriter(write_transport, protocol, None, loop)
        reading = asyncio.create_task(self._keep_stderr(errors))
        self._tasks += [reading, asyncio.create_task(self._watch(reading))]

    async def _end(self) -> None:
        self.close_stdin()
        if not await self.wait(CLOSE_GRACE_S):
            self.signal(signal.SIGTERM)
            await self.wait(TERM_GRACE_S)

    def _clean_up(self) -> None:
        """Nothing of it stays: no process, no task, no open pipe. Does not wait for the event loop."""
        self._launched.signal(signal.SIGKILL)
        self._child.wait(KILL_GRACE_S)
        self._launched.kill_stragglers(KILL_GRACE_S)
        for task in self._tasks:
            task.cancel()
        if self._watched is not None:
            asyncio.get_running_loop().remove_reader(self._watched)
            self._child.unwatch(self._watched)
            self._watched = None
        self._launched.forget()
        for transport in self._transports:
            transport.close()
        if self._stdin is not None:
            writing = self._stdin.transport
            if not writing.is_closing() or writing.get_write_buffer_size():  # a child that never read leaves one
                writing.abort()

    def signal(self, number: int) -> None:
        """Signal it and its descendants."""
        self._launched.signal(number)

    def kill(self) -> None:
        """End it and its descendants at once; the readers see the end of the stream."""
        self.signal(signal.SIGKILL)

    async def wait(self, timeout: float | None) -> bool:
        """Whether it has exited within that time. None: wait for as long as it takes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._exited.wait()
        return self._exited.is_set()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Its output as it arrives, until it closes it. Instead of `lines`, not beside it."""
        while chunk := await self._stdout.read(CHUNK):
            self.last_heard = time.monotonic()
            yield chunk

    async def lines(self) -> AsyncIterator[list[bytes]]:
        """Lines of its output in the batches they arrive in, until it closes it. Raises LineTooLong."""
        splitter = LineSplitter(self._max_line)
        while chunk := await self._stdout.read(CHUNK):
            self.last_heard = time.monotonic()
            try:
                batch = splitter.feed(chunk)
            except LineTooLong as error:
                if error.before:
                    yield error.before
                raise
            if batch:
                yield batch
        if batch := splitter.end():
            yield batch

    async def write(self, data: bytes) -> None:
        """Raises ConnectionError (BrokenPipeError …) when it is gone, TimeoutError when it does not read."""
        if self._stdin is None or self._stdin.is_closing():
            raise BrokenPipeError("the process has ended")
        data = self._launched.not_written_yet(data)
        if not data:
            return
        self._stdin.write(data)
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await self._stdin.drain()

    def close_stdin(self) -> None:
        """It sees the end of its input once it has read what was written."""
        if self._stdin is not None:
            self._stdin.close()

    async def _keep_stderr(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(CHUNK):
            self.last_heard = time.monotonic()
            self._stderr += chunk
            del self._stderr[:-STDERR_KEPT]

    async def _watch(self, reading: asyncio.Task[None]) -> None:
        """Sets `_exited` when the child is gone: by a descriptor where there is one, else from a thread.

        It is not reaped yet where that can be helped: as long as it is a zombie, its process group's number cannot
        become somebody else's, and signalling the group stays safe for as long as the block lasts.
        """
        child = self._child
        self._watched = child.watch()
        if self._watched is None:
            await asyncio.to_thread(child.wait, None)
        else:
            gone = asyncio.Event()
            asyncio.get_running_loop().add_reader(self._watched, gone.set)
            while child.poll() is None:
                await gone.wait()
                gone.clear()
            asyncio.get_running_loop().remove_reader(self._watched)
        await asyncio.wait({reading}, timeout=LAST_WORDS_S)
        self._exited.set()
