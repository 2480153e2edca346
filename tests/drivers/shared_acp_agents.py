"""Real ACP agents that many tests share: to start one takes seconds of a processor, a session with it next to nothing.

The driver under test starts `shared_acp_client.py`, which connects here. Clients that would have started the very same
agent (arguments, environment, rules) get one process; messages are passed on as they are, but for the numbers of
requests. A client that leaves has its turns ended before the next test goes on. How an agent starts, ends and resumes
is not for this: those tests start their own.
"""

import asyncio
import hashlib
import itertools
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from tieline.background_tasks import cancel_and_wait
from tieline.drivers.acp_presets import PRESETS
from tieline.processes.async_process import Process
from tieline.processes.process_table import MARK
from tieline.wire.lines import MAX_LINE

CLIENT = Path(__file__).with_name("shared_acp_client.py")
KEPT = 3
"""How many agents run at the most, beside those in use: one takes hundreds of megabytes."""
SETTLE_S = 20.0
CANCELLED = {"outcome": {"outcome": "cancelled"}}

Message = dict[str, Any]
WRITTEN_ANEW = re.compile(r"/[^@]*/tieline-[^/]+/([^/]+)$")
"""The path of a file that a driver writes anew for each session, such as an agent's rules."""
MADE_ANEW = frozenset(preset.directory_env for preset in PRESETS.values() if preset.directory_env)
"""Variables with a directory that it makes for each session, and writes nothing into."""


class SharedAcpAgents:
    """`async with SharedAcpAgents() as agents`, then `agents.command(program)` in place of the program."""

    def __init__(self) -> None:
        self._agents: dict[bytes, _Agent] = {}
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "SharedAcpAgents":
        self._folder = TemporaryDirectory(prefix="acp-")  # a socket's path has little room
        self._path = f"{self._folder.name}/socket"
        self._server = await asyncio.start_unix_server(self._connected, self._path, limit=MAX_LINE)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await cancel_and_wait(*self._serving)
        await asyncio.gather(*[agent.end() for agent in self._agents.values()])
        self._folder.cleanup()

    def command(self, program: Path) -> list[str]:
        return [sys.executable, "-I", "-S", str(CLIENT), self._path, str(program)]

    async def settled(self) -> None:
        """Wait until no session of a client that has left is at work."""
        if self._serving:
            await asyncio.wait(self._serving, timeout=2 * SETTLE_S)
        assert not self._serving, "a session did not end"

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Client(writer)
        try:
            with suppress(ConnectionError):
                agent = await self._agent_for(msgspec.json.decode(await reader.readline()))
                agent.clients.add(client)
                try:
                    while line := await reader.readline():
                        await agent.hear_client(client, line)
                finally:
                    await agent.settle(client)
        finally:
            client.gone = True
            writer.close()

    async def _agent_for(self, start: Mapping[str, Any]) -> "_Agent":
        argv = [self._kept(part) for part in start["argv"]]
        env = {name: self._kept(value) for name, value in start["env"].items() if name != MARK}
        env |= dict.fromkeys(MADE_ANEW & env.keys(), self._folder.name)  # it outlives a session
        key = msgspec.json.encode((argv, sorted(env.items())))
        agent = self._agents.pop(key, None)
        if agent is None or agent.ended:
            idle = [key for key, other in self._agents.items() if not other.clients]
            for unused in idle[: len(self._agents) + 1 - KEPT]:
                await self._agents.pop(unused).end()
            agent = _Agent(argv, env, self._folder.name)
        self._agents[key] = agent  # the one used last is at the end
        return agent

    def _kept(self, value: str) -> str:
        """With the path of a copy of the file that it names, the same for the same content: it outlives a session."""
        named = WRITTEN_ANEW.search(value)
        if not named or not Path(named[0]).is_file():
            return value
        content = Path(named[0]).read_bytes()
        copy = Path(self._folder.name, f"{hashlib.sha256(content).hexdigest()[:16]}-{named[1]}")
        copy.write_bytes(content)
        copy.chmod(Path(named[0]).stat().st_mode)
        return value[: named.start()] + str(copy)


class _Client:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.gone = False
        self.asked: set[Any] = set()
        """Numbers of the agent's requests that it has not answered."""

    def write(self, line: bytes) -> None:
        if not self.gone:
            self._writer.write(line + b"\n")

    def close(self) -> None:
        self._writer.close()


class _Request(msgspec.Struct):
    client: _Client
    message: Message
    answered: asyncio.Event


class _Agent:
    def __init__(self, argv: list[str], env: Mapping[str, str], cwd: str) -> None:
        self.clients: set[_Client] = set()
        self.ended = False
        self._numbers = itertools.count(1)
        self._requests: dict[int, _Request] = {}
        self._sessions: dict[str, _Client] = {}
        self._early: dict[str, list[bytes]] = {}
        """What was said of a session before the answer that names it."""
        self._initialized: asyncio.Future[Message] | None = None
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue(1000)
        self._task = asyncio.create_task(self._run(argv, env, cwd))

    async def end(self) -> None:
        await cancel_and_wait(self._task)

    async def _run(self, argv: list[str], env: Mapping[str, str], cwd: str) -> None:
        try:
            async with Process.start(argv, cwd=cwd, env=env) as process:
                writing = asyncio.create_task(self._write(process))
                try:
                    async for batch in process.lines():
                        for line in batch:
                            self._hear_agent(line)
                finally:
                    await cancel_and_wait(writing)
        finally:
            self.ended = True
            for client in self.clients:
                client.close()
            for request in self._requests.values():
                request.answered.set()

    async def _write(self, process: Process) -> None:
        while True:
            await process.write(await self._outbox.get() + b"\n")

    async def hear_client(self, client: _Client, line: bytes) -> None:
        message: Message = msgspec.json.decode(line)
        if "method" in message and "id" in message:
            if message["method"] == "initialize" and self._initialized:
                answer = await asyncio.shield(self._initialized)
                client.write(msgspec.json.encode({**answer, "id": message["id"]}))
            else:
                await self._request(client, message)
            return
        client.asked.discard(message.get("id"))
        await self._outbox.put(line.rstrip())

    async def _request(self, client: _Client, message: Message) -> None:
        if message["method"] == "initialize":
            self._initialized = asyncio.get_running_loop().create_future()
        if session := message["params"].get("sessionId"):
            self._sessions[session] = client
        number = next(self._numbers)
        self._requests[number] = _Request(client, message, asyncio.Event())
        await self._outbox.put(msgspec.json.encode({**message, "id": number}))

    def _hear_agent(self, line: bytes) -> None:
        message: Message = msgspec.json.decode(line)
        if "method" in message:
            session = message["params"].get("sessionId", "")
            if session not in self._sessions:
                self._early.setdefault(session, []).append(line)
                return
            client = self._sessions[session]
            if "id" in message:
                client.asked.add(message["id"])
            client.write(line)
            return
        request = self._requests.pop(message["id"])
        client = request.client
        if request.message["method"] == "initialize" and self._initialized:
            self._initialized.set_result(message)
        client.write(msgspec.json.encode({**message, "id": request.message["id"]}))
        result = message.get("result")
        if isinstance(result, dict) and (session := result.get("sessionId")):  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            self._sessions[session] = client
            for early in self._early.pop(session, ()):  # pyright: ignore[reportUnknownArgumentType]
                client.write(early)
        request.answered.set()

    async def settle(self, client: _Client) -> None:
        """Its client has left: end what it had begun."""
        left = [request for request in self._requests.values() if request.client is client]
        client.gone = True
        for number in client.asked:
            await self._outbox.put(msgspec.json.encode({"jsonrpc": "2.0", "id": number, "result": CANCELLED}))
        for request in left:
            if request.message["method"] == "session/prompt":
                session = request.message["params"]["sessionId"]
                cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
                await self._outbox.put(msgspec.json.encode(cancel))
        self.clients.discard(client)
        try:
            async with asyncio.timeout(SETTLE_S):
                for request in left:
                    await request.answered.wait()
        except TimeoutError:
            await self.end()  # it would take part in the next test
