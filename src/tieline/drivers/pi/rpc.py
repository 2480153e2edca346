"""Pi's RPC mode: a record of JSON per line, commands with an id there, responses by that id and events back."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from ...background_tasks import cancel_and_wait
from ...processes.async_process import Process
from ...wire.json_lines import decode_line
from ...wire.json_object import JsonDict
from ...wire.lines import LineTooLong

REQUEST_S = 60.0
"""The longest wait for the response to a command: it says that the command was taken, not that it is done."""


class PiRefused(Exception):
    """Pi took the command and says why it does not do it."""


class PiGone(Exception):
    """Pi has exited, or closed its streams."""


class RecordHandler(Protocol):
    def happened(self, record: JsonDict) -> None:
        """An event of the session, or a request of an extension."""
        ...

    def garbage(self, line: bytes) -> None: ...

    def gone(self) -> None: ...


class PiRpc:
    """`async with PiRpc(process, handler, drain) as rpc`: reads until Pi ends."""

    def __init__(self, process: Process, handler: RecordHandler, drain: Callable[[], Awaitable[None]]) -> None:
        self._process = process
        self._handler = handler
        self._drain = drain
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[JsonDict]] = {}
        self._decoder = msgspec.json.Decoder(JsonDict)
        self._gone = False

    async def __aenter__(self) -> "PiRpc":
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        await cancel_and_wait(self._reading)

    async def request(self, command: str, fields: JsonDict | None = None, *, timeout: float = REQUEST_S) -> JsonDict:
        """The data of its response. Raises PiRefused, PiGone, TimeoutError."""
        if self._gone:
            raise PiGone
        id = f"tieline-{next(self._numbers)}"
        waiting = self._waiting[id] = asyncio.get_running_loop().create_future()
        try:
            await self.send({"id": id, "type": command, **(fields or {})})
            async with asyncio.timeout(timeout):
                response = await waiting
        finally:
            self._waiting.pop(id, None)
        if not response.get("success"):
            raise PiRefused(str(response.get("error") or f"{command} was refused"))
        return response.get("data") or {}

    async def send(self, record: JsonDict) -> None:
        """Raises PiGone."""
        try:
            await self._process.write(msgspec.json.encode(record) + b"\n")
        except (ConnectionError, TimeoutError) as error:
            raise PiGone from error

    async def _read(self) -> None:
        try:
            async for batch in self._process.lines():
                for line in batch:
                    self._take(line)
                await self._drain()
        except LineTooLong:
            self._process.kill()
        finally:
            self._gone = True
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(PiGone())
            self._handler.gone()

    def _take(self, line: bytes) -> None:
        try:
            record = decode_line(self._decoder, line)
        except msgspec.DecodeError:
            self._handler.garbage(line)
            return
        if record.get("type") != "response":
            self._handler.happened(record)
        elif (waiting := self._waiting.get(str(record.get("id")))) and not waiting.done():
            waiting.set_result(record)
