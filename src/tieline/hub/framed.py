"""WebSocket frames that are made once and written to many: uvicorn would make each anew for every client."""

from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

TEXT = 0x81
"""A whole message of text; nothing is compressed, and what a server says is not masked (RFC 6455, 5.2)."""


def framed(text: bytes) -> bytes:
    size = len(text)
    if size < 126:
        return bytes((TEXT, size)) + text
    if size < 1 << 16:
        return bytes((TEXT, 126)) + size.to_bytes(2, "big") + text
    return bytes((TEXT, 127)) + size.to_bytes(8, "big") + text


class FramedProtocol(WebSocketsSansIOProtocol):
    """Takes `{"type": "websocket.send", "framed": bytes}` too."""

    async def send(self, message: Any) -> None:
        ready: bytes | None = message.get("framed")
        if ready is None:
            await super().send(message)
            return
        if not self.writable.is_set():
            await self.writable.wait()
        if self.disconnected or self.close_sent or self.conn.state is not State.OPEN:
            raise ClientDisconnected
        self.transport.write(ready)
