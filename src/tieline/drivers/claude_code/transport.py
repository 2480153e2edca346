"""The SDK's transport over our own process, so that the agent starts before the SDK is imported, its lines are bounded,
and nothing but the control protocol goes through the SDK."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any
from uuid import uuid4

import msgspec

from ...processes.async_process import Process
from ...wire.json_lines import decode_line
from ...wire.json_object import JsonDict
from ...wire.lines import LineTooLong

CONTROL = frozenset({"control_request", "control_response", "control_cancel_request"})
SDK_REQUESTS = frozenset({"can_use_tool", "hook_callback", "mcp_message"})
"""Requests that the SDK answers; it refuses all others, and we show them."""
REQUEST_ID_PREFIX = "tieline-"
"""How the ids of our own requests begin, those that the SDK has no words for."""


class SdkTransport:
    """The SDK's transport over our process: control messages are for the SDK, all others go to `take`."""

    def __init__(self, process: Process, take: Callable[[JsonDict], None], garbage: Callable[[bytes], None]) -> None:
        self._process = process
        self._on_message = take
        self._on_garbage = garbage
        self._control: asyncio.Queue[JsonDict | None] = asyncio.Queue()
        self._decoder = msgspec.json.Decoder(dict[str, Any])
        self._pending: dict[str, asyncio.Future[None]] = {}

    async def run(self, room: Callable[[], Coroutine[Any, Any, None]]) -> str:
        """Read until the end; why it ended."""
        try:
            async for batch in self._process.lines():
                for line in batch:
                    self._route(line)
                await room()
        except LineTooLong as error:
            return str(error)
        finally:
            self._control.put_nowait(None)
            for waiting in self._pending.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("Claude Code has exited"))
        return "it closed its output"

    async def request(self, request: JsonDict) -> None:
        """A control request of our own, until it is answered, in whatever way. Raises ConnectionError."""
        number = REQUEST_ID_PREFIX + uuid4().hex
        answered = self._pending[number] = asyncio.get_running_loop().create_future()
        try:
            message = {"type": "control_request", "request_id": number, "request": request}
            await self._process.write(msgspec.json.encode(message) + b"\n")
            await answered
        finally:
            self._pending.pop(number, None)

    def _route(self, line: bytes) -> None:
        try:
            message = decode_line(self._decoder, line)
        except msgspec.DecodeError:
            if line.strip():
                self._on_garbage(line)
            return
        kind = message.get("type")
        if not isinstance(kind, str) or kind not in CONTROL:
            self._on_message(message)
            return
        if kind == "control_response":
            number: str = message.get("response", {}).get("request_id", "")
            if (waiting := self._pending.pop(number, None)) is not None:
                if not waiting.done():
                    waiting.set_result(None)
                return
        self._control.put_nowait(message)
        if kind == "control_request" and message.get("request", {}).get("subtype") not in SDK_REQUESTS:
            self._on_message(message)

    # --- what the SDK calls ----------------------------------------------------------------------------

    async def connect(self) -> None:
        """It is already running."""

    async def write(self, data: str) -> None:
        await self._process.write(data.encode())

    async def read_messages(self) -> AsyncIterator[JsonDict]:
        while (message := await self._control.get()) is not None:
            yield message
        raise ConnectionError("Claude Code has exited")  # so that nobody waits for its answer

    async def close(self) -> None:
        """Its owner ends the process."""

    def is_ready(self) -> bool:
        return self._process.returncode is None

    async def end_input(self) -> None:
        self._process.close_stdin()
