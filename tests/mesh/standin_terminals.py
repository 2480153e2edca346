"""Stand-ins for terminals: each is a process of its own, as a harness is, and its commands call the hub."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

BOUND_S = 60.0
Start = Literal["itself", "child", "detached"]
"""Who calls: the harness, a command of its, or what a command has left behind in a session of its own."""

HARNESS = """
import json, subprocess, sys
sys.stdout.reconfigure(line_buffering=True)
exec(sys.argv[1])
for line in sys.stdin:
    start, socket_path, requests = json.loads(line)
    if start == "itself":
        print(json.dumps(send(socket_path, requests)))
    else:
        argv = [sys.executable, "-I", "-c", sys.argv[1] + MAIN, start, socket_path, json.dumps(requests)]
        print(subprocess.run(argv, stdout=subprocess.PIPE, text=True).stdout.strip() or "[]")
"""
SEND = """
import json, os, socket, sys
MAIN = '''
if sys.argv[1] == "detached":
    for _ in range(2):
        if os.fork():
            os._exit(0)
        os.setsid()
    while os.getppid() == int(os.environ.get("ABOVE", "0")):
        pass
print(json.dumps(send(sys.argv[2], json.loads(sys.argv[3]))), flush=True)
'''

def send(socket_path, requests):
    answers = []
    for method, path, headers, body in requests:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(socket_path)
            text = json.dumps(body).encode() if body is not None else b""
            fields = {"Host": "localhost", "Connection": "close", "Content-Length": len(text), **headers}
            lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
            connection.sendall("\\r\\n".join([*lines, "", ""]).encode() + text)
            answer = b""
            while more := connection.recv(65536):
                answer += more
        answers.append(answer.decode())
    return answers
"""

Request = tuple[str, str, dict[str, str], Any]
"""Method, path, headers, body."""


class Terminal:
    def __init__(self, process: asyncio.subprocess.Process, socket: str) -> None:
        self._process = process
        self._socket = socket

    @property
    def pid(self) -> int:
        return self._process.pid

    async def send(self, requests: Sequence[Request], start: Start = "child") -> list[str]:
        """The whole answers, head and body."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([start, self._socket, requests]).encode() + b"\n")
        async with asyncio.timeout(BOUND_S):
            return json.loads(await self._process.stdout.readline())


@asynccontextmanager
async def terminal(socket: str) -> AsyncGenerator[Terminal, None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-c",
        HARNESS,
        SEND,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    try:
        yield Terminal(process, socket)
    finally:
        process.kill()
        await process.wait()
