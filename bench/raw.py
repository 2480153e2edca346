"""The four agents over their raw protocols, written by hand: what a warm turn costs without us.

Each is `async with RAW(argv, cwd, env) as agent: await agent.turn("…")`.
"""

import asyncio
import json
import os
import re
import signal
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import httpx2


class Lines:
    """A child that speaks JSON lines."""

    def __init__(self, argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
        self._argv, self._cwd, self._env = argv, cwd, env

    async def __aenter__(self) -> "Lines":
        self._process = await asyncio.create_subprocess_exec(
            *self._argv,
            cwd=self._cwd,
            env=dict(self._env),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=16 * 1024 * 1024,
            start_new_session=True,
        )
        await self.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # some are scripts that only start the real program
        await self._process.wait()

    async def begin(self) -> None: ...

    async def turn(self, prompt: str) -> None:
        raise NotImplementedError

    def send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def until(self, **fields: Any) -> dict[str, Any]:
        """Read on to a message with these fields."""
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            while line := await self._process.stdout.readline():
                message: dict[str, Any] = json.loads(line)
                if all(message.get(name) == value for name, value in fields.items()):
                    return message
        raise RuntimeError("the agent closed its output")


class Claude(Lines):
    async def turn(self, prompt: str) -> None:
        self.send({"type": "user", "message": {"role": "user", "content": prompt}})
        await self.until(type="result")


class Codex(Lines):
    async def begin(self) -> None:
        self.send({"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "raw", "version": "1"}}})
        self.send({"method": "initialized"})
        options = {"cwd": self._cwd, "approvalPolicy": "on-request", "sandbox": "read-only"}
        self.send({"id": 2, "method": "thread/start", "params": options})
        self._thread = (await self.until(id=2))["result"]["thread"]["id"]

    async def turn(self, prompt: str) -> None:
        content = [{"type": "text", "text": prompt}]
        self.send({"id": 3, "method": "turn/start", "params": {"threadId": self._thread, "input": content}})
        await self.until(method="turn/completed")


class Acp(Lines):
    async def begin(self) -> None:
        self.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}})
        await self.until(id=1)
        params: dict[str, Any] = {"cwd": self._cwd, "mcpServers": []}
        self.send({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": params})
        self._session = (await self.until(id=2))["result"]["sessionId"]
        self._next = 2

    async def turn(self, prompt: str) -> None:
        self._next += 1
        params = {"sessionId": self._session, "prompt": [{"type": "text", "text": prompt}]}
        self.send({"jsonrpc": "2.0", "id": self._next, "method": "session/prompt", "params": params})
        await self.until(id=self._next)


class OpenCode:
    """HTTP and one event stream."""

    def __init__(self, argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
        self._argv, self._cwd = argv, cwd
        self._password = os.urandom(8).hex()
        self._env = {**env, "OPENCODE_SERVER_PASSWORD": self._password}

    async def __aenter__(self) -> "OpenCode":
        self._process = await asyncio.create_subprocess_exec(
            *self._argv,
            cwd=self._cwd,
            env=self._env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            while not (match := re.search(rb"(http://[\d.]+:\d+)", await self._process.stdout.readline())):
                pass
        self._client = httpx2.AsyncClient(
            base_url=match[1].decode(),
            auth=("opencode", self._password),
            params={"directory": self._cwd},
            timeout=60,
            trust_env=False,
        )
        self._session = (await self._client.post("/session", json={})).json()["id"]
        self._stream = self._client.stream("GET", "/event")
        self._events = (await self._stream.__aenter__()).aiter_lines()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # some are scripts that only start the real program
        await self._process.wait()
        await self._stream.__aexit__(None, None, None)
        await self._client.aclose()

    async def turn(self, prompt: str) -> None:
        await self._client.post(
            f"/session/{self._session}/prompt_async", json={"parts": [{"type": "text", "text": prompt}]}
        )
        async for line in self._events:
            if line.startswith("data:"):
                event: dict[str, Any] = json.loads(line[5:])
                if event.get("type") == "session.idle" and event["properties"]["sessionID"] == self._session:
                    return
