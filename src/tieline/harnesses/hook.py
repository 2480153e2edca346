"""The command hook of harnesses: `python -I -S hook.py HARNESS SOCKET [EVENT] < input`.

It posts what the harness gave it to the hub's socket, prints the hub's reply, and then confirms the messages in it. It
always ends with status 0 and within BOUND_S, so that the harness goes on whatever happens here; only for a permission
prompt, which the harness shows meanwhile, it waits for as long as the hub or the harness lets it. When no hub runs it
says nothing at all, since harnesses show their user what a hook says. Standard library only, and as little of it as
possible: it is started for every event of a harness.
"""

import sys
from _socket import AF_UNIX, SOCK_STREAM, socket
from posix import _exit  # pyright: ignore[reportPrivateUsage] (os, which has it too, takes time to import)
from time import monotonic

BOUND_S = 2.0
WAITING_EVENTS = ("PermissionRequest",)
MAX_INPUT = 8 << 20
MAX_REPLY = 16 << 20


class HubSocket:
    def __init__(self, path: str) -> None:
        self._deadline: float | None = monotonic() + BOUND_S
        self._socket = socket(AF_UNIX, SOCK_STREAM)
        self._wait()
        self._socket.connect(path)

    def post(self, path: str, headers: str, body: bytes, *, waits: bool = False) -> "tuple[bytes, bytes, bytes]":
        """The status, the head and the body of the response, which may take any time if it `waits`."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{headers}\r\n"
        )
        self._wait()
        self._socket.sendall(head.encode() + body)
        if waits:
            self._deadline = None
        reply = b""
        while b"\r\n\r\n" not in reply:
            reply += self._receive()
        head, _, body = reply.partition(b"\r\n\r\n")
        length = int(header(head, b"content-length") or b"0")
        while len(body) < min(length, MAX_REPLY):
            body += self._receive()
        return head.split(b" ", 2)[1], head, body

    def _receive(self) -> bytes:
        self._wait()
        part = self._socket.recv(65536)
        if not part:
            raise OSError("the hub closed the connection")
        return part

    def _wait(self) -> None:
        self._socket.settimeout(None if self._deadline is None else max(0.001, self._deadline - monotonic()))


def header(head: bytes, name: bytes) -> bytes:
    for line in head.split(b"\r\n"):
        key, _, value = line.partition(b":")
        if key.lower() == name:
            return value.strip()
    return b""


def main(harness: str, path: str, event: str = "") -> str:
    """Send the event to the hub. Gives what went wrong, in one line; empty: nothing did."""
    body = sys.stdin.buffer.read(MAX_INPUT + 1)
    if len(body) > MAX_INPUT:
        return f"the harness's input has more than {MAX_INPUT >> 20} MiB"
    try:
        hub = HubSocket(path)
    except OSError:
        return ""  # no hub runs
    url_path, waits = f"/api/v1/harness-hooks?harness={harness}&event={event}", event in WAITING_EVENTS
    try:
        status, head, reply = hub.post(url_path, "X-Tieline-Confirms: 1\r\n", body, waits=waits)
    except OSError:
        if waits:
            return ""  # the hub has stopped: the prompt is answered at the terminal
        raise
    if status != b"200":
        return f"the hub refused it: {reply[:500].decode(errors='replace')}"
    sys.stdout.buffer.write(reply)
    sys.stdout.buffer.flush()
    if delivery := header(head, b"x-tieline-delivery"):
        hub.post("/mcp/delivered", "Connection: close\r\n", b'{"delivery":"%b"}' % delivery)
    return ""


if __name__ == "__main__":
    try:
        problem = main(*sys.argv[1:])
    except (OSError, IndexError, ValueError, TypeError) as error:
        problem = f"{error}"
    if problem:
        sys.stderr.write(f"tieline hook: {problem}\n".replace("\n", " ").strip() + "\n")
        sys.stderr.flush()
    _exit(0)  # everything is written: taking the interpreter down would cost a tenth of the whole
