"""The other end of the hub's rows: `python -m bench.sockets`, a light client in a process of its own.

Told on its input, one JSON line per measurement; answers one line each. It speaks just enough HTTP and WebSocket over
plain sockets that what is measured is the server.
"""

import asyncio
import json
import os
import socket
import sys
import time
from base64 import b64encode
from typing import Any

EVENT = b'{"type":"event"'


def upgrade(port: int, path: str) -> bytes:
    key = b64encode(os.urandom(16)).decode()
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


def masked(text: bytes) -> bytes:
    """A client's frame, with a mask that changes nothing."""
    size = len(text)
    head = bytes([0x81, 0x80 | size]) if size < 126 else bytes([0x81, 0xFE]) + size.to_bytes(2, "big")
    return head + b"\0\0\0\0" + text


def frame(data: bytes | bytearray, start: int) -> tuple[int, int] | None:
    """Where the frame's text begins and ends; None when it is not all there."""
    if len(data) < start + 2:
        return None
    size, at = data[start + 1], start + 2
    if size == 126:
        size, at = int.from_bytes(data[at : at + 2], "big"), at + 2
    elif size == 127:
        size, at = int.from_bytes(data[at : at + 8], "big"), at + 8
    return (at, at + size) if len(data) >= at + size else None


class Line:
    """One connection, blocking: nothing is between a packet and whoever waits for it."""

    def __init__(self, port: int, path: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = bytearray()
        if path:
            self._socket.sendall(upgrade(port, path))
            self._head()

    def say(self, text: bytes) -> None:
        self._socket.sendall(masked(text))

    def hear(self) -> bytes:
        while (bounds := frame(self._data, 0)) is None:
            self._more()
        text = bytes(self._data[bounds[0] : bounds[1]])
        del self._data[: bounds[1]]
        return text

    def subscribe(self, token: str, session: str) -> None:
        self.say(json.dumps({"type": "authenticate", "token": token}).encode())
        self.say(json.dumps({"type": "subscribe", "sessions": [session]}).encode())
        while not self.hear().startswith(b'{"type":"ready"'):
            pass

    def ask(self, request: bytes) -> None:
        self._socket.sendall(request)

    def answer(self) -> bytes:
        head = self._head()
        size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        while len(self._data) < size:
            self._more()
        body = bytes(self._data[:size])
        del self._data[:size]
        assert head.split()[1] in (b"200", b"201"), head + body
        return body

    def close(self) -> None:
        self._socket.close()

    def _head(self) -> bytes:
        while (end := self._data.find(b"\r\n\r\n")) < 0:
            self._more()
        head = bytes(self._data[:end])
        del self._data[: end + 4]
        return head

    def _more(self) -> None:
        data = self._socket.recv(1 << 18)
        if not data:
            raise EOFError("the server hung up")
        self._data += data


def echoes(port: int, path: str, count: int, size: int) -> list[float]:
    """Round trips of a message of that size."""
    line, text, taken = Line(port, path), b"x" * size, list[float]()
    for _ in range(count):
        start = time.perf_counter()
        line.say(text)
        line.hear()
        taken.append(time.perf_counter() - start)
    line.close()
    return taken


def follow(port: int, path: str, token: str, session: str, until: str) -> list[float]:
    """From the moment that an event's text says to the arrival of its frame."""
    line, taken = Line(port, path), list[float]()
    line.subscribe(token, session)
    print("ready", flush=True)
    while True:
        text = line.hear()
        if not text.startswith(EVENT):
            continue
        now = time.monotonic_ns()
        event = json.loads(text)["event"]
        if event["type"] == "text":
            taken.append((now - int(event["text"])) / 1e9)
            print("ready", flush=True)  # for the next
        elif event["type"] == until:
            line.close()
            return taken


class Turns:
    """Turns through the hub: a prompt is posted, its `done` is seen on the stream."""

    def __init__(self, port: int, path: str, token: str, session: str) -> None:
        self._stream = Line(port, path)
        self._stream.subscribe(token, session)
        self._web = Line(port, "")
        self._head = (
            f"POST /api/v1/sessions/{session}/prompts HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: "
        ).encode()

    def turn(self) -> float:
        body = b'{"text":"go"}'
        start = time.perf_counter()
        self._web.ask(self._head + str(len(body)).encode() + b"\r\n\r\n" + body)
        while b'"event":{"type":"done"' not in self._stream.hear():
            pass
        taken = time.perf_counter() - start
        self._web.answer()
        return taken


class Ear(asyncio.Protocol):
    """Counts the frames of one connection."""

    def __init__(self, head: bytes, hello: bytes, what: bytes) -> None:
        self.count = 0
        self.wanted = 0
        self.done = asyncio.Event()
        self.ready = asyncio.Event()
        self._head = head
        self._hello = hello
        self._what = what
        self._data = bytearray()
        self._upgraded = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._head)

    def data_received(self, data: bytes) -> None:
        self._data += data
        at = 0
        if not self._upgraded:
            at = self._data.find(b"\r\n\r\n") + 4
            if at < 4:
                return
            self._upgraded = True
            self.transport.write(self._hello)
        while (bounds := frame(self._data, at)) is not None:
            begin, at = bounds
            if self._data.startswith(self._what, begin):
                self.count += 1
            elif self._data.startswith(b'{"type":"ready"', begin):
                self.ready.set()
        del self._data[:at]
        if self.count >= self.wanted:
            self.done.set()


async def crowd(port: int, path: str, token: str, number: int, count: int, rounds: int) -> list[float]:
    """So many connections; seconds from the word to begin until all of them have heard `count` events, per round."""
    loop = asyncio.get_running_loop()
    head, hello = upgrade(port, path), masked(b"begin")
    if token:
        hello = masked(json.dumps({"type": "authenticate", "token": token}).encode()) + masked(b'{"type":"subscribe"}')
    ears: list[Ear] = []
    for _ in range(number):
        _, ear = await loop.create_connection(lambda: Ear(head, hello, EVENT), "127.0.0.1", port)
        ears.append(ear)
        await ear.ready.wait()  # one after the other: a hub takes only so many who have not signed in
    taken: list[float] = []
    for _ in range(rounds):
        for ear in ears:
            ear.wanted = ear.count + count
            ear.done.clear()
        print("ready", flush=True)
        begun = int(await loop.run_in_executor(None, sys.stdin.readline))
        await asyncio.gather(*(ear.done.wait() for ear in ears))
        taken.append((time.monotonic_ns() - begun) / 1e9)
        print(json.dumps(taken[-1]), flush=True)
    for ear in ears:
        ear.transport.close()
    return taken


def main() -> None:
    turns: dict[str, Turns] = {}
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        match order.pop("do"):
            case "echo":
                answer: Any = echoes(**order)
            case "follow":
                answer = follow(**order)
            case "crowd":
                answer = asyncio.run(crowd(**order))
            case _:
                key = order["session"]
                if key not in turns:
                    turns[key] = Turns(**order)
                answer = turns[key].turn()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
