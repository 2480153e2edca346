"""One `codex app-server`: its process, its handshake, and who gets what it says.

It serves many threads; what it tells is routed by thread id. A thread that nobody claims yet (its id comes with the
response that opens it, or with the call that spawned it) has its messages kept until somebody does.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from ...errors import AgentDied, AgentStartFailed
from ...processes.async_process import Process
from ...version import __version__
from ...wire.jsonrpc import Peer, PeerGone, RpcError
from .launch import CWD, IGNORED, INSTALL

START_S = 30.0
"""From its start to its answer to `initialize` and to the opening of a thread."""
STATUS_S = 2.0
"""After its output ended: the time its exit status may take."""
MAX_GARBAGE = 20
"""Lines that are no JSON: so many before the handshake, and it is no app-server."""
MAX_UNCLAIMED = 1000


class CodexListener(Protocol):
    """A conversation, as the server sees it."""

    def notified(self, thread: str, method: str, params: dict[str, Any]) -> None:
        """`thread` is empty for what is not about any."""
        ...

    async def requested(self, thread: str, method: str, params: dict[str, Any]) -> Any: ...

    def unreadable(self, line: str) -> None: ...

    def died(self, error: AgentDied) -> None: ...


class CodexServer:
    """Started when it is made; `connect` before anything else, `close` in the end."""

    def __init__(self, agent: str, argv: Sequence[str], env: Mapping[str, str], words: bytes = b"") -> None:
        """`agent`: its configured name, for errors. `words`: what it will be told first, so that one which was told it
        ahead can be taken."""
        self.users = 0
        self._agent = agent
        self.death: AgentDied | None = None
        self._garbage_lines: list[str] = []
        self._closing = False
        self._listeners: dict[str, CodexListener] = {}
        self._unclaimed: deque[tuple[str, str, dict[str, Any]]] = deque(maxlen=MAX_UNCLAIMED)
        self._handshake: asyncio.Task[Any] | None = None
        self._death_task: asyncio.Task[None] | None = None
        self._not_json = asyncio.Event()
        try:
            # In the root directory: its threads have directories of their own, and may outlive that of the first.
            self._process = Process.start(argv, cwd=CWD, env=env, words=words)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise AgentStartFailed(self._agent, f"{argv[0]} cannot be started: {reason}", hint=INSTALL) from None
        self.peer = Peer(self._process, self, version=None)

    async def connect(self) -> None:
        """Send the handshake, and do not wait: requests may follow at once. `ready` tells whether it was taken."""
        await self._process.__aenter__()
        await self.peer.__aenter__()
        hello = {
            "clientInfo": {"name": "tieline", "title": "Tieline", "version": __version__},
            "capabilities": {"experimentalApi": True, "optOutNotificationMethods": list(IGNORED)},
        }
        self._handshake = asyncio.create_task(self.peer.request("initialize", hello, timeout=START_S))
        self._handshake.add_done_callback(lambda task: task.cancelled() or task.exception())  # `ready` tells it
        await asyncio.sleep(0)  # it is written when the task has begun, and must be the first
        with suppress(PeerGone, OSError):  # it is gone already: `ready` tells it
            await self.peer.notify("initialized")

    async def ready(self) -> None:
        """Raises AgentStartFailed when it does not speak the protocol."""
        assert self._handshake is not None
        nonsense = asyncio.create_task(self._not_json.wait())
        try:
            await asyncio.wait([self._handshake, nonsense], return_when=asyncio.FIRST_COMPLETED)
            if not self._handshake.done():
                raise AgentStartFailed(self._agent, f"invalid protocol message: {self._garbage_lines[0][:200]!r}")
            self._handshake.result()
        except (PeerGone, TimeoutError, RpcError) as error:
            raise await self.failed(error) from None
        finally:
            nonsense.cancel()

    async def failed(self, error: Exception) -> AgentStartFailed:
        """The error that says why the server did not start, with its last output."""
        if isinstance(error, RpcError):
            return AgentStartFailed(self._agent, error.message)
        printed = f"; it printed {self._garbage_lines[0][:200]!r}" if self._garbage_lines else ""
        if isinstance(error, TimeoutError):
            return AgentStartFailed(self._agent, f"no answer within {START_S:g} s{printed}", hint=self._stderr_hint())
        await self._process.wait(STATUS_S)
        status = self._process.returncode
        how = "closed its output" if status is None else f"exited with status {status}"
        return AgentStartFailed(self._agent, f"it {how} before it was ready{printed}", hint=self._stderr_hint())

    async def close(self) -> None:
        self._closing = True
        try:
            if self._handshake is not None:
                await self.peer.__aexit__(None, None, None)
        finally:
            for task in (self._handshake, self._death_task):
                if task is not None:
                    task.cancel()
            await self._process.__aexit__(None, None, None)

    @property
    def unusable(self) -> bool:
        """Whether nothing can be asked of it any more."""
        return self._closing or self._death_task is not None

    def kill(self) -> None:
        self._process.kill()

    def claim(self, thread: str, listener: CodexListener) -> None:
        """From now on, and for what has come so far, this one hears of the thread."""
        self._listeners[thread] = listener
        kept = [message for message in self._unclaimed if message[0] in (thread, "")]
        if kept:
            rest = [message for message in self._unclaimed if message[0] not in (thread, "")]
            self._unclaimed = deque(rest, MAX_UNCLAIMED)
            for _, method, params in kept:
                listener.notified(thread, method, params)

    def claimed(self, thread: str) -> bool:
        return thread in self._listeners

    def release(self, listener: CodexListener) -> None:
        self._listeners = {thread: who for thread, who in self._listeners.items() if who is not listener}

    # --- what it says ----------------------------------------------------------------------------------

    def notified(self, method: str, params: dict[str, Any]) -> None:
        thread = params.get("threadId")
        if thread is None:
            about: dict[str, Any] = params.get("thread") or {}
            thread = about.get("id") or ""
        listener = self._listeners.get(thread)
        if listener is not None:
            listener.notified(thread, method, params)
        elif not thread and self._listeners:
            for each in set(self._listeners.values()):
                each.notified("", method, params)
        else:
            self._unclaimed.append((thread, method, params))

    async def requested(self, method: str, params: dict[str, Any]) -> Any:
        thread = params.get("threadId") or ""
        listener = self._listeners.get(thread)
        if listener is None:
            raise RpcError(method, -32601, "unknown thread")
        return await listener.requested(thread, method, params)

    def garbage(self, line: bytes) -> None:
        text = line.decode(errors="replace")
        if len(self._garbage_lines) < MAX_GARBAGE:
            self._garbage_lines.append(text)
        else:
            self._not_json.set()
        for listener in set(self._listeners.values()):
            listener.unreadable(text)

    def gone(self, reason: str) -> None:
        if not self._closing:
            self._death_task = asyncio.create_task(self._report_death())

    async def _report_death(self) -> None:
        """Its end reaches everyone who listens, with its status, which comes a moment later."""
        await self._process.wait(STATUS_S)
        self.death = AgentDied(self._agent, self._process.returncode, self._process.stderr)
        for listener in set(self._listeners.values()):
            listener.died(self.death)

    def _stderr_hint(self) -> str:
        output = self._process.stderr.strip()
        return f"Its last output: {output[-2000:]}" if output else ""
