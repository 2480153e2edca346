"""HTTP/1.1 to the hub over blocking sockets, for the bridge: one thread per request, nothing but `socket` imported.

`http.client` would take longer to import than the whole bridge to start.
"""

import socket

TYPE_CHECKING = False  # not imported from typing, which costs more than all the rest here
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONNECT_S = 5.0
SILENCE_S = 60.0
"""The hub sends something at least every 15 seconds while it works on a request."""
MAX_HEAD = 64 * 1024
MAX_BODY = 64 * 1024 * 1024
CHUNK = 64 * 1024


class NoAnswer(Exception):
    """Nothing answers there, or the connection broke."""


class Target:
    """Where the hub is: a unix socket, or a URL and a key."""

    def __init__(self, *, path: str = "", url: str = "", token: str = "") -> None:
        self.path = path
        self.tls, self.host, self.port, self.prefix = False, "localhost", 0, ""
        self.token = token
        if not path:
            scheme, _, rest = url.partition("://")
            authority, slash, prefix = rest.partition("/")
            host, _, port = authority.rpartition(":") if authority.rpartition(":")[2].isdigit() else (authority, "", "")
            self.tls, self.host = scheme == "https", authority
            self.port = int(port) if port else 443 if self.tls else 80
            self.name = host.strip("[]")
            self.prefix = (slash + prefix).rstrip("/")

    def connect(self) -> socket.socket:
        try:
            if self.path:
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connection.settimeout(CONNECT_S)
                connection.connect(self.path)
            else:
                connection = socket.create_connection((self.name, self.port), CONNECT_S)
                if self.tls:
                    import ssl

                    connection = ssl.create_default_context().wrap_socket(connection, server_hostname=self.name)
        except OSError as error:
            raise NoAnswer(f"no hub at {self.path or self.host}: {error}") from None
        connection.settimeout(SILENCE_S)
        return connection


class Response:
    """A response whose head has been read."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = b""
        head = self._until(b"\r\n\r\n", MAX_HEAD)
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ", 2)
        if len(words) < 2 or not words[1].isdigit():
            raise NoAnswer("the server does not speak HTTP")
        self.status = int(words[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    def messages(self) -> "Iterator[bytes]":
        """The JSON texts of the body: of each event as it comes, or the one that the body is."""
        if not self.is_stream:
            if body := b"".join(self._body()).strip():
                yield body
            return
        rest = b""
        data: list[bytes] = []
        for chunk in self._body():
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > MAX_BODY:
                raise NoAnswer(f"an event has more than {MAX_BODY} bytes")
            for line in lines:
                line = line.removesuffix(b"\r")
                if line.startswith(b"data:"):
                    data.append(line[5:].removeprefix(b" "))
                elif not line and data:
                    if text := b"\n".join(data).strip():
                        yield text
                    data = []

    def _body(self) -> "Iterator[bytes]":
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            while size := int(self._until(b"\r\n", 1024).split(b";")[0] or b"0", 16):
                yield self._exactly(size)
                self._exactly(2)
            self._until(b"\r\n", MAX_HEAD)
        elif length := int(self.headers.get("content-length", "0") or 0):
            yield self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        if size > MAX_BODY:
            raise NoAnswer(f"the response has more than {MAX_BODY} bytes")
        parts, missing = [self._buffer[:size]], size - len(self._buffer)
        self._buffer = self._buffer[size:]
        while missing > 0:
            data = self._receive()
            parts.append(data[:missing])
            self._buffer = data[missing:]
            missing -= len(data)
        return b"".join(parts)

    def _until(self, mark: bytes, limit: int) -> bytes:
        while mark not in self._buffer:
            if len(self._buffer) > limit:
                raise NoAnswer("the response's headers are too long")
            self._buffer += self._receive()
        data, _, self._buffer = self._buffer.partition(mark)
        return data

    def _receive(self) -> bytes:
        try:
            data = self._connection.recv(CHUNK)
        except OSError as error:
            raise NoAnswer(f"connection lost: {error}") from None
        if not data:
            raise NoAnswer("the hub closed the connection")
        return data


def send_request(
    target: Target, connection: socket.socket, method: str, path: str, headers: "Mapping[str, str]", body: bytes = b""
) -> Response:
    """Raises HubUnreachable, also while the response is read."""
    fields = {"Host": target.host, **headers}
    if target.token:
        fields["Authorization"] = f"Bearer {target.token}"
    if method == "POST":
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [f"{method} {target.prefix}{path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    try:
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body)
    except OSError as error:
        raise NoAnswer(f"connection lost: {error}") from None
    return Response(connection)
