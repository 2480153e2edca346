"""Connects to Codex's terminals: they are clients of a daemon of their CODEX_HOME, and so are we.

The daemon tells every client which threads it has loaded and what each is doing, and takes turns for them. Only where
its person lets us read along do we subscribe to a thread (`terminal`): a subscriber is asked for approvals as the
terminal is, and keeps the thread loaded when its terminal is gone.
"""

import asyncio
import logging
import os
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ... import paths
from ...background_tasks import cancel_and_wait
from ...backoff import Backoff
from ...mesh.push import HarnessSession, PushUnanswered, Rung, SessionObserver, Unreachable
from ...processes.open_sockets import connections_to, listening_ports
from ...processes.process_table import process_info
from ...processes.socket_peer import peer_process
from ...protocol.mesh import Activity
from ...sessions.attacher import Attacher
from ...version import __version__
from ...wire.jsonrpc import NoResponse, Peer, PeerGone, RpcError
from .terminal import HARNESS, REQUEST_S, CodexTerminal, Thread, ThreadStatus, loaded_threads
from .thread_unload import CodexThreadUnloader

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

LOOK_S = 2.0
"""How often the socket is looked for."""
TERMINALS_S = 0.5
"""How often it is looked which terminals are left, and which may be read along."""
TERMINAL_SERVER = "codex_tui"
"""The MCP server that a terminal has for its threads. It listens as long as the terminal runs."""
ABSENT_S = 30.0
"""The same, where Codex was never used."""
FIRST_S = 2.0
"""A daemon takes its first client's name for its own; this long after its start, its terminal has been the first."""
ALONE = 3
"""After so many looks without any: a terminal that reconnects is away for a moment."""
ENDING_S = 1.0
"""A terminal that resumes a thread unloads and loads it; only what stays away so long has ended."""
LOST_S = 10.0
"""A daemon that runs and does not take us back: after so long its sessions have ended, as far as anybody knows."""
SWITCHED_OFF = "Tieline may not read along any more"
REFRESH_S = 60.0
"""How often an unchanged session is reported again: it is alive."""
MAX_SESSIONS = 200
LATEST_TURNS = 5
"""Turns in which a message is looked for that may have been taken."""
MAX_READING = 2
"""Histories of which a part is in memory at once."""
MAX_MESSAGE = 16 * 1024 * 1024
RETRY = Backoff(0.5, 15.0)

log = logging.getLogger("tieline.mesh")


class CodexDaemonConnector:
    """`push` works inside `open`."""

    harness = HARNESS
    rungs: frozenset[Rung] = frozenset({"mid_turn", "idle_wake"})
    attacher: Attacher | None = None
    in_memory: frozenset[Rung] = frozenset({"mid_turn"})

    def __init__(self, env: Mapping[str, str]) -> None:
        self._home = Path(env.get("CODEX_HOME") or Path(env.get("HOME", "/")) / ".codex")
        self._socket = self._home / "app-server-control" / "app-server-control.sock"
        self._peer: Peer | None = None
        self._lost_at = 0.0
        self._sessions: dict[str, HarnessSession] = {}
        self._reported: dict[str, HarnessSession] = {}
        self._left_at: dict[str, float] = {}  # when a session that was told of went away
        self._daemon = (0, 0)  # the socket of the daemon that has the sessions
        self._interrupted: set[str] = set()  # sessions of a daemon that another one has followed
        self._changed = asyncio.Event()
        self._unread: set[str] = set()  # threads that have to be read
        self._being_read = ""  # what is told of this one is newer than the answer that is on its way
        self._own: deque[str] = deque(maxlen=MAX_SESSIONS)  # threads that Codex uses for itself
        self._news = asyncio.Event()  # there is something to read, or the connection is over
        self._waiting: set[str] = set()  # threads that wait for a decision
        self._process = 0  # the daemon
        self._ports: dict[str, int] = {}  # thread → where its terminal's MCP server listens; 0: not known
        self._looked = False  # whether it is known what runs
        self._terminals: dict[str, CodexTerminal] = {}  # that are read along
        self._reading = asyncio.Semaphore(MAX_READING)
        self._forbidden: dict[str, Thread] = {}  # that may not be
        self._following: dict[str, asyncio.Task[None]] = {}  # thread → who reads along on this connection
        self._archive = CodexThreadUnloader(paths.state(env) / "codex-archived.json")
        self._tasks: set[asyncio.Task[None]] = set()  # of this connection
        self._resolved: dict[Any, asyncio.Event] = {}  # requests of the daemon: set when somebody has answered

    @asynccontextmanager
    async def open(self, observer: SessionObserver) -> AsyncGenerator[None, None]:
        if self.attacher is not None:
            self.attacher.on_adopt(HARNESS, self._release)
        parts = (self._stay_connected(), self._watch_terminals(), self._tell(observer))
        tasks = [asyncio.create_task(part, name="codex-connector") for part in parts]
        try:
            yield
        finally:
            await cancel_and_wait(*tasks)

    async def push(self, session: HarnessSession, text: str, sender: str) -> None:
        peer, thread = self._peer, session.session
        if peer is None:
            raise Unreachable("Codex's daemon is not running")
        words = {"threadId": thread, "input": [{"type": "text", "text": text}]}
        try:
            if turn := await self._running_turn(peer, thread):
                try:
                    await peer.request("turn/steer", {**words, "expectedTurnId": turn}, timeout=REQUEST_S)
                    return
                except RpcError:
                    if await self._running_turn(peer, thread):  # it is one that takes no input: a review, a compaction
                        raise
            await peer.request("turn/start", words, timeout=REQUEST_S)
        except (RpcError, PeerGone) as error:
            raise Unreachable(f"Codex did not accept the message: {error}") from None
        except TimeoutError:
            raise PushUnanswered("no answer from Codex in time") from None

    async def taken(self, session: HarnessSession, ids: set[str]) -> set[str]:
        if (peer := self._peer) is None:
            raise Unreachable("Codex's daemon is not running")
        latest = {"threadId": session.session, "limit": LATEST_TURNS, "sortDirection": "desc", "itemsView": "full"}
        try:
            answer = await peer.request("thread/turns/list", latest, timeout=REQUEST_S)
        except (RpcError, PeerGone) as error:
            raise Unreachable(f"Codex did not return its history: {error}") from None
        except TimeoutError:
            raise PushUnanswered("no answer from Codex in time") from None
        history = msgspec.json.encode(answer).decode()
        return {id for id in ids if f'id=\\"{id}\\"' in history}

    async def _running_turn(self, peer: Peer, thread: str) -> str:
        """Its id, or nothing."""
        known = self._sessions.get(thread)
        if known is not None and known.activity == "idle":  # a turn that began just now takes `turn/start` as its input
            return ""
        latest = {"threadId": thread, "limit": 1, "sortDirection": "desc", "itemsView": "notLoaded"}
        answer = await peer.request("thread/turns/list", latest, timeout=REQUEST_S)
        turns = msgspec.convert(answer, _Turns).data
        return turns[0].id if turns and turns[0].status == "inProgress" else ""

    # --- the connection ---

    async def _stay_connected(self) -> None:
        failures, refused = 0, (0, 0)
        while True:
            if failures or not self._socket.exists():
                await self._know_what_runs()
            daemon = await self._appears(refused if failures else (0, 0), RETRY.delay(max(failures, 1)))
            failures = 0 if daemon != refused else failures
            if daemon != self._daemon:
                self._daemon = daemon
                self._interrupt_all()
            try:
                await self._serve()
                failures, refused = 0, (0, 0)
            except (OSError, TimeoutError, RpcError, msgspec.ValidationError) as error:
                failures, refused = failures + 1, daemon
                log.debug("the daemon of Codex: %s", error)
            except Exception:
                failures, refused = failures + 1, daemon
                log.exception("the connection to the daemon of Codex failed")

    def _interrupt_all(self) -> None:
        """Another daemon serves here: the turns of the one before are over, even where terminals load them again."""
        self._interrupted |= self._sessions.keys()
        self._sessions.clear()
        self._ports.clear()
        self._changed.set()

    async def _appears(self, refused: tuple[int, int], delay_s: float) -> tuple[int, int]:
        """Wait for the daemon's socket. A socket that refused us is tried again after the delay, a new one as soon as
        its terminal has been its first client."""
        until = time.monotonic() + delay_s
        while True:
            with suppress(OSError):
                about = self._socket.stat()
                daemon = (about.st_ino, about.st_mtime_ns)
                wait_s = until - time.monotonic() if daemon == refused else about.st_mtime + FIRST_S - time.time()
                if wait_s <= 0:
                    return daemon
                await asyncio.sleep(min(wait_s, LOOK_S))
                continue
            await asyncio.sleep(LOOK_S if self._home.exists() else ABSENT_S)

    async def _serve(self) -> None:
        """One connection, until it is over."""
        from websockets.asyncio.client import unix_connect
        from websockets.exceptions import WebSocketException

        try:
            async with unix_connect(
                os.path.realpath(self._socket),  # the link is often longer than an address may be
                "ws://localhost/",
                compression=None,
                max_size=MAX_MESSAGE,
                open_timeout=REQUEST_S,
                close_timeout=1.0,
                ping_interval=None,  # a unix socket's end is seen
            ) as socket:
                self._news.clear()
                self._process = _process(socket)
                async with Peer(_WebSocketLines(socket), self, version=None) as peer:
                    await self._read_threads(peer)
        except WebSocketException as error:
            raise PeerGone(str(error)) from None
        finally:
            if self._peer is not None:  # an attempt to connect again is no new loss
                self._peer, self._lost_at = None, time.monotonic()
            await cancel_and_wait(*self._tasks)
            self._following.clear()
            self._resolved.clear()

    async def _read_threads(self, peer: Peer) -> None:
        hello = {
            "clientInfo": {"name": "tieline", "title": "Tieline", "version": __version__},
            "capabilities": {"experimentalApi": True},
        }
        await peer.request("initialize", hello, timeout=REQUEST_S)
        await peer.notify("initialized")
        await self._archive.bring_back_all(peer)
        loaded = await loaded_threads(peer)
        for gone in self._sessions.keys() - set(loaded):
            self._leave(gone)
        self._unread = set(loaded)
        self._ports.clear()
        self._peer = peer
        while not peer.gone:
            while self._unread:
                id = self._being_read = self._unread.pop()
                try:
                    answer = await peer.request("thread/read", {"threadId": id}, timeout=REQUEST_S)
                except RpcError:  # it is no more
                    self._leave(id)
                    continue
                thread = msgspec.convert(answer, _Read).thread
                left = thread.of_a_person and thread.may_be_left and await self._without_terminal(peer, [id])
                if id in self._unread:
                    continue
                if left:
                    self._leave(id)
                else:
                    self._take(thread)
            self._being_read = ""
            await self._know_what_runs()
            await self._news.wait()
            self._news.clear()

    # --- what the daemon says ---

    def notified(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "thread/started":
                self._take(msgspec.convert(params["thread"], Thread))
            case "thread/status/changed":
                self._take_status(str(params["threadId"]), msgspec.convert(params["status"], ThreadStatus))
            case "thread/closed" | "thread/archived" | "thread/deleted":
                self._read_again(str(params["threadId"]))
                self._leave(str(params["threadId"]))
            case "serverRequest/resolved":
                if resolved := self._resolved.get(params["requestId"]):
                    resolved.set()
            case _:
                if terminal := self._terminals.get(str(params.get("threadId"))):
                    terminal.notified(method, params)

    async def requested(self, method: str, params: dict[str, Any]) -> Any:
        assert self._peer is not None
        number, resolved = self._peer.current_request(), asyncio.Event()
        self._resolved[number] = resolved
        try:
            if terminal := self._terminals.get(str(params.get("threadId"))):
                return await terminal.requested(method, params, resolved)
            await resolved.wait()  # the terminal answers; an answer of ours would decide for it
            raise NoResponse
        finally:
            self._resolved.pop(number, None)

    def garbage(self, line: bytes) -> None:
        log.debug("the daemon of Codex sent %r", line[:200])

    def gone(self, reason: str) -> None:
        self._news.set()

    def _take(self, thread: Thread) -> None:
        if not thread.of_a_person:
            self._own.append(thread.id)
        elif thread.status.type == "notLoaded":
            self._leave(thread.id)
        elif thread.id in self._sessions or len(self._sessions) < MAX_SESSIONS:
            activity = _activity(thread.status)
            self._put(
                HarnessSession(
                    harness=self.harness,
                    session=thread.id,
                    cwd=thread.cwd,
                    activity=activity,
                    process=self._process,
                    shared=True,
                )
            )
            self._note_waiting(thread.id, thread.status)
            self._read_along(thread)

    def _take_status(self, id: str, status: ThreadStatus) -> None:
        self._read_again(id)
        if status.type == "notLoaded":
            self._leave(id)
            return
        if known := self._sessions.get(id):
            self._put(msgspec.structs.replace(known, activity=_activity(status)))
        if terminal := self._terminals.get(id):
            terminal.changed(msgspec.structs.replace(terminal.thread, status=status))
        if id not in self._own and (known is None or (self.attacher is not None and id not in self._following)):
            self._unread.add(id)
            self._news.set()
        self._note_waiting(id, status)

    def _read_again(self, id: str) -> None:
        if id == self._being_read:
            self._unread.add(id)

    def _note_waiting(self, id: str, status: ThreadStatus) -> None:
        if status.active_flags:
            self._waiting.add(id)
        else:
            self._waiting.discard(id)

    def _put(self, session: HarnessSession) -> None:
        self._sessions[session.session] = session
        self._left_at.pop(session.session, None)
        self._changed.set()

    def _leave(self, id: str) -> None:
        self._waiting.discard(id)
        self._ports.pop(id, None)
        if following := self._following.pop(id, None):
            following.cancel()
        if self._sessions.pop(id, None) is not None:
            self._left_at[id] = time.monotonic()
            self._changed.set()

    # --- terminals that are read along ---

    def _read_along(self, thread: Thread) -> None:
        peer, attacher = self._peer, self.attacher
        if attacher is None or peer is None:
            return
        if thread.id in self._following:
            self._terminals[thread.id].changed(thread)
            return
        if not attacher.allowed(HARNESS, thread.cwd, thread.created_at):
            self._forbidden[thread.id] = thread
            return
        self._forbidden.pop(thread.id, None)
        terminal = self._terminals.setdefault(thread.id, CodexTerminal(attacher, thread, self._reading))
        terminal.changed(thread)
        task = self._following[thread.id] = asyncio.create_task(self._follow(terminal, peer), name="codex-terminal")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, terminal: CodexTerminal, peer: Peer) -> None:
        try:
            await terminal.follow(peer, self._process)
        except (RpcError, PeerGone, TimeoutError) as error:
            log.info("a terminal of Codex cannot be read along: %s", error)
        except Exception:
            log.exception("a terminal of Codex cannot be read along")
        self._following.pop(terminal.thread.id, None)  # its next sign tries again

    async def _stop_reading(self, id: str, *reason: str) -> None:
        if (terminal := self._terminals.pop(id, None)) is None:
            return
        if following := self._following.pop(id, None):
            await cancel_and_wait(following)
        if peer := self._peer:
            with suppress(RpcError, PeerGone, TimeoutError):
                await peer.request("thread/unsubscribe", {"threadId": id}, timeout=REQUEST_S)
        await terminal.leave(*reason)

    async def _mind_consent(self) -> None:
        """What its person has switched off is not read any more, and what was switched on is."""
        if (attacher := self.attacher) is None:
            return
        for id, terminal in list(self._terminals.items()):
            thread = terminal.thread
            if not attacher.allowed(HARNESS, thread.cwd, thread.created_at):
                self._forbidden[id] = thread
                await self._report(self._stop_reading(id, SWITCHED_OFF))
        for id, thread in list(self._forbidden.items()):
            if id not in self._sessions:
                del self._forbidden[id]
            elif attacher.allowed(HARNESS, thread.cwd, thread.created_at):
                del self._forbidden[id]
                self._unread.add(id)
                self._news.set()

    async def _release(self, id: str) -> None:
        """Before we write this thread ourselves."""
        if (peer := self._peer) is None:
            self._archive.check_has_not(id)
        else:
            await self._archive.unload(peer, id)

    async def _know_what_runs(self) -> None:
        """After the first complete look."""
        if not self._looked and self.attacher is not None:
            self._looked = True
            await self._report(self.attacher.only(HARNESS, set(self._sessions)))

    # --- what the observer is told ---

    async def _tell(self, observer: SessionObserver) -> None:
        refresh_at, failed = time.monotonic() + REFRESH_S, False
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(ENDING_S if self._left_at or failed else REFRESH_S):
                    await self._changed.wait()
            self._changed.clear()
            now, failed = time.monotonic(), False
            if now >= refresh_at:
                refresh_at = now + REFRESH_S
                self._reported.clear()
            while self._interrupted:
                id = self._interrupted.pop()
                if id not in self._following:  # its terminal has not come back yet
                    await self._report(self._stop_reading(id))
                session = self._reported.pop(id, None) or HarnessSession(harness=self.harness, session=id)
                await self._report(observer.ended(session))
            for id, session in list(self._sessions.items()):
                if self._reported.get(id) == session:
                    continue
                if await self._report(observer.changed(session)):
                    self._reported[id] = session
                else:
                    failed = True
            for id, at in list(self._left_at.items()):
                if now - at >= ENDING_S and self._left_at.pop(id, None) is not None:
                    await self._report(self._stop_reading(id))
                    session = self._reported.pop(id, None) or HarnessSession(harness=self.harness, session=id)
                    await self._report(observer.ended(session))

    async def _report(self, report: Awaitable[object]) -> bool:
        try:
            await report
        except Exception:
            log.exception("a session of Codex could not be reported")
            return False
        return True

    async def _watch_terminals(self) -> None:
        """A daemon keeps a thread for half an hour after its last terminal has gone, and tells nobody that it went."""
        alone = 0
        while True:
            await asyncio.sleep(TERMINALS_S)
            await self._mind_consent()
            if not self._sessions:
                alone = 0
            elif (peer := self._peer) is None:
                if _is_over(self._process) or time.monotonic() - self._lost_at > LOST_S:
                    self._interrupt_all()
            else:
                alone = alone + 1 if await asyncio.to_thread(connections_to, self._socket) == 1 else 0
                # It may have been left to work in the background; where it has to ask, nobody is there.
                left = [id for id, each in self._sessions.items() if each.activity != "working" or id in self._waiting]
                if alone < ALONE:
                    left = await self._without_terminal(peer, left)
                for id in left:
                    self._leave(id)

    async def _without_terminal(self, peer: Peer, threads: Collection[str]) -> list[str]:
        """Those of the threads whose terminal has ended, as far as that can be known."""
        await self._learn_ports(peer, {*threads, *self._sessions, *self._unread})
        listening = await asyncio.to_thread(listening_ports)
        clients = await asyncio.to_thread(connections_to, self._socket)
        if clients - 1 > len(listening.intersection(self._ports.values())):
            return []  # somebody else is there: a second terminal of one of these, maybe
        return [id for id in threads if (port := self._ports.get(id, 0)) and port not in listening]

    async def _learn_ports(self, peer: Peer, threads: Collection[str]) -> None:
        unknown = [id for id in threads if id not in self._ports]
        ports = await asyncio.gather(*(_terminal_port(peer, id) for id in unknown))
        self._ports.update(zip(unknown, ports, strict=True))


class _WebSocketLines:
    """A WebSocket as JSON-RPC sees it: one message is one line."""

    def __init__(self, socket: "ClientConnection") -> None:
        self._socket = socket

    async def write(self, data: bytes) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            async with asyncio.timeout(REQUEST_S):
                await self._socket.send(data.rstrip(b"\n"), text=True)
        except ConnectionClosed as error:
            raise BrokenPipeError(str(error)) from None

    async def lines(self) -> AsyncIterator[list[bytes]]:
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):
            while True:
                yield [await self._socket.recv(decode=False)]


class _Turn(Struct, frozen=True):
    id: str
    status: str = ""


class _Turns(Struct, frozen=True):
    data: list[_Turn]


class _Read(Struct, frozen=True):
    thread: Thread


class _McpServer(Struct, frozen=True, rename="camel"):
    http_origin: str | None = None


class _McpServers(Struct, frozen=True):
    data: list[_McpServer]


async def _terminal_port(peer: Peer, thread: str) -> int:
    """Where the MCP server of its terminal listens, or did. 0: it is not known."""
    about = {"threadId": thread, "serverName": TERMINAL_SERVER, "detail": "toolsAndAuthOnly"}
    try:
        answer = await peer.request("mcpServerStatus/list", about, timeout=REQUEST_S)
        servers = msgspec.convert(answer, _McpServers).data
        return (urlsplit(servers[0].http_origin or "").port or 0) if servers else 0
    except (RpcError, PeerGone, TimeoutError, ValueError, msgspec.ValidationError):  # or another version's
        return 0


def _is_over(process: int) -> bool:
    """False where it cannot be known."""
    if not process or sys.platform != "linux":
        return False
    info = process_info(process)
    return info is None or info.over


def _process(socket: "ClientConnection") -> int:
    """The daemon's. 0: it is not known."""
    try:
        return peer_process(socket.transport.get_extra_info("socket"))[0]
    except (OSError, AttributeError):
        return 0


def _activity(status: ThreadStatus) -> Activity:
    return "working" if status.type == "active" else "idle"
