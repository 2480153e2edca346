"""One API request to the hub: typed body and result, retries, and errors from its problem responses."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ..backoff import Backoff
from ..ids import new_id
from ..protocol.views import CommandView
from ..version import __version__
from .errors import HubFailed, HubUnreachable, error_from_response
from .http import ConnectionLost, HttpClient

T = TypeVar("T")

PREFIX = "/api/v1/"
ACCEPTED = 202
"""The command is stored, but the node has not answered yet."""
BACKOFF = Backoff(0.1, 2.0)


class ApiRequests:
    """The base of the client's parts: the connection, retries and decoding."""

    def __init__(self, url: str, token: str = "", *, socket: str = "", patience_s: float = 15.0) -> None:
        """`patience_s`: how long a hub that went away is waited for. One that was never there is told at once."""
        self.url = url.rstrip("/")
        self.patience_s = patience_s
        self._token = token
        self._socket = socket
        headers = {"User-Agent": f"tieline/{__version__}", "Accept": "application/json"}
        key = {"Authorization": f"Bearer {token}"} if token else {}
        self.http = HttpClient(self.url, {**headers, **key}, socket=socket)
        self._reached = False

    async def get(self, path: str, kind: type[T], /, **query: Any) -> T:
        return self._decode(kind, await self._call("GET", path, query=_query(query)))

    async def change(self, method: str, path: str, kind: type[T], body: Any = None, *, key: str = "") -> T:
        """Something that changes something. `key` makes it happen once, however often it is sent."""
        data = b"" if body is None else msgspec.json.encode(body)
        return self._decode(kind, await self._call(method, path, body=data, key=key or new_id()))

    async def send_command(
        self, method: str, path: str, kind: type[T], body: Any = None, *, key: str = ""
    ) -> T | CommandView:
        """A command to a node: its result, or where the command is when the node has not answered yet."""
        data = b"" if body is None else msgspec.json.encode(body)
        status, content = await self._call(method, path, body=data, key=key or new_id())
        if status == ACCEPTED:
            return self._decode(CommandView, (status, content))
        return self._decode(kind, (status, content))

    async def _call(
        self, method: str, path: str, *, query: Mapping[str, str] = {}, body: bytes = b"", key: str = ""
    ) -> tuple[int, bytes]:
        headers = {"Idempotency-Key": key} if key else {}
        target = path if path.startswith("/") else PREFIX + path
        deadline = time.monotonic() + self.patience_s
        failures = 0
        while True:
            try:
                reply = await self.http.request(method, target, query=query, headers=headers, body=body)
            except ConnectionLost as lost:
                failures += 1
                if not self._reached or time.monotonic() + BACKOFF.limit(failures) > deadline:
                    raise HubUnreachable(self.url, str(lost)) from None
                await asyncio.sleep(BACKOFF.delay(failures))
                continue
            self._reached = True
            if reply.status >= 400:
                raise error_from_response(self.url, reply.status, reply.body)
            return reply.status, reply.body

    def _decode(self, kind: type[T], answer: tuple[int, bytes]) -> T:
        status, body = answer
        if kind is type(None):
            return None  # type: ignore[return-value]
        if kind is bytes:
            return body  # type: ignore[return-value]
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.MsgspecError as error:
            raise HubFailed(
                f"the hub's response cannot be decoded: {error}",
                status=status,
                code="ProtocolError",
                hint="It may be of another version: see `tieline --version` and `tieline status`.",
            ) from None


def _query(values: Mapping[str, Any]) -> dict[str, str]:
    """What was given, as text; what is empty or None is left out."""
    words: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, bool):
            words[name] = "true" if value else "false"
        elif value not in (None, ""):
            words[name] = str(value)
    return words
