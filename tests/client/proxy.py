"""A proxy between a client, or a node, and a real hub that loses connections on purpose."""

import asyncio
from contextlib import suppress


class Proxy:
    """`async with Proxy(port) as proxy`: everything passes, until something is to be lost. `port` may change."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.url = ""
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.lose_answers = 0
        """So many connections end when the hub answers, before the client hears of it."""
        self.refuse = False
        self.accepted = 0

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def cut(self) -> int:
        """Every connection breaks now. How many ends were open."""
        open_now = tuple(self._writers)
        for writer in open_now:
            writer.transport.abort()
        return len(open_now)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.accepted += 1
        if self.refuse:
            writer.transport.abort()
            return
        try:
            there, to_hub = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:  # it is down
            writer.transport.abort()
            return
        self._writers |= {writer, to_hub}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, to_hub))
                group.create_task(self._pass(there, writer, answers=True))
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            self._writers -= {writer, to_hub}
            for stream in (writer, to_hub):
                stream.close()
                with suppress(OSError):
                    await stream.wait_closed()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool = False) -> None:
        while data := await reader.read(65536):
            if answers and self.lose_answers:
                self.lose_answers -= 1
                writer.transport.abort()
                return
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
