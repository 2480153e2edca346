"""WebSocket frames that are encoded once and written to many clients, because uvicorn would encode each for every
client; and limits on what clients send before they have signed in."""

from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request
from websockets.protocol import State

from ..security import unauthenticated_limits
from ..security.unauthenticated_limits import UnauthenticatedLimits

TEXT = 0x81
"""A whole message of text; nothing is compressed, and what a server says is not masked (RFC 6455, 5.2)."""


def text_frame(text: bytes) -> bytes:
    size = len(text)
    if size < 126:
        return bytes((TEXT, size)) + text
    if size < 1 << 16:
        return bytes((TEXT, 126)) + size.to_bytes(2, "big") + text
    return bytes((TEXT, 127)) + size.to_bytes(8, "big") + text


class PreencodedWebSocketProtocol(WebSocketsSansIOProtocol):
    """Takes `{"type": "websocket.send", "framed": bytes}` too. Its other side is a stranger until the application calls
    `scope["state"]["known"]`."""

    _authenticated = False
    _bytes_received = 0  # bytes of a stranger's frames

    @property
    def busy(self) -> bool:
        return False  # a stranger's socket waits for its first frame

    def mark_authenticated(self) -> None:
        self._authenticated = True
        self.conn.max_message_size = self.config.ws_max_size
        if limits := self._limits:
            limits.discard(self.transport)

    @property
    def _limits(self) -> UnauthenticatedLimits | None:
        return self.app_state.get("strangers")

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.conn.max_message_size = unauthenticated_limits.MAX_FRAME
        if limits := self._limits:
            limits.add(transport, self)

    def connection_lost(self, exc: Exception | None) -> None:
        if limits := self._limits:
            limits.discard(self.transport)
        super().connection_lost(exc)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:
            self.scope.setdefault("state", {})["known"] = self.mark_authenticated

    def data_received(self, data: bytes) -> None:
        if self.handshake_initiated and not self._authenticated:
            room = max(0, unauthenticated_limits.MAX_BYTES - self._bytes_received)
            self._bytes_received += len(data)
            if len(data) > room:  # also as many small frames: each of them would be kept
                super().data_received(data[:room])  # a frame that says that it is too large is told so
                if not self.transport.is_closing():
                    self.transport.abort()
                return
        super().data_received(data)

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
