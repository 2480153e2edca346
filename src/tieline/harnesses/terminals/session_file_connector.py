"""The base of connectors whose terminals each have a file that names the session, and a socket that takes a peer's
message as a new turn.

Anybody can write such a file. A session counts only if its process lives and is the one that the file means, a person
started it, and the socket is where that harness would have it; we write to a socket only if that process listens there.
"""

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import msgspec
from msgspec import Struct

from ...background_tasks import cancel_and_wait
from ...file_watcher import watch
from ...mesh.push import HarnessSession, Rung, SessionObserver, Unreachable
from ...processes.ancestry import agent_ancestor
from ...processes.process_table import process_info
from ...processes.socket_peer import peer_process
from ...protocol.mesh import Activity
from ...safe_file_read import read_regular
from ...sessions.attacher import Attacher

LOOK_S = 2.0
"""How often running sessions are looked at: a process that was killed leaves its file as it is."""
ABSENT_S = 30.0
"""How often a harness is looked for where it was never used."""
REFRESH_S = 60.0
"""How often an unchanged session is reported again: it is alive."""
MAX_FILE = 64 * 1024
MAX_FILES = 1000
MAX_SESSIONS = 200
MAX_LINE = 1024 * 1024
"""A longer line is refused by these harnesses."""

log = logging.getLogger("tieline.mesh")


class SessionFile(Struct, frozen=True, rename="camel"):
    """`sessions/PID.json`, what we need of it."""

    socket_folder: ClassVar[str]
    """How the name of the folder begins in which the harness has its sockets."""

    pid: int
    session_id: str
    cwd: str = ""
    started_at: float = 0
    proc_start: str | None = None
    kind: str = ""

    @property
    def of_a_person(self) -> bool:
        raise NotImplementedError

    @property
    def socket(self) -> str:
        """The path of its socket, as the file has it."""
        raise NotImplementedError

    @property
    def started_after_boot(self) -> str:
        """When its process began, as the kernel counts it. Empty: that is of another boot."""
        return self.proc_start or ""

    @property
    def has_its_own_socket(self) -> bool:
        """A path that the harness would not choose is not connected to."""
        path = Path(self.socket)
        named = path.suffix == ".sock" and path.stem.partition("-")[0] == str(self.pid)
        return path.is_absolute() and named and path.parent.name.startswith(self.socket_folder)

    @property
    def state(self) -> str:
        """The state of its process, as the kernel writes it. Empty: the process is over; another may have its
        number."""
        if sys.platform != "linux":
            return "S" if _runs(self.pid) else ""
        info = process_info(self.pid)
        return "" if info is None or info.over or str(info.start) != self.started_after_boot else info.state


File = TypeVar("File", bound=SessionFile)


class SessionFileConnector(Generic[File]):
    """`push` works inside `open`. A subclass says how a file reads, what its session does, and how a text is handed
    over."""

    harness: ClassVar[str]
    display_name: ClassVar[str]
    file_type: type[File]
    rungs: frozenset[Rung] = frozenset({"idle_wake"})
    in_memory: frozenset[Rung] = frozenset()
    attacher: Attacher | None = None

    def __init__(self, home: Path) -> None:
        """`home` is the harness's own folder."""
        self._home = home
        self._folder = home / "sessions"
        self._files: dict[str, File] = {}  # session → its file
        self._reported: dict[str, HarnessSession] = {}
        self._driven: dict[tuple[int, str | None], bool] = {}  # process → whether it descends from an agent
        self._changed = asyncio.Event()

    def open(self, observer: SessionObserver) -> AbstractAsyncContextManager[None]:
        return self._observed(observer)

    @asynccontextmanager
    async def _observed(self, observer: SessionObserver) -> AsyncGenerator[None, None]:
        parts = (self._watch(), self._tell(observer))
        tasks = [asyncio.create_task(part, name=f"{self.harness}-connector") for part in parts]
        try:
            yield
        finally:
            await cancel_and_wait(*tasks)

    async def taken(self, session: HarnessSession, ids: set[str]) -> set[str]:
        return set()  # its history cannot be asked

    async def push(self, session: HarnessSession, text: str, sender: str) -> None:
        await self._push_text(session.session, text, process=session.process)

    async def _push_text(self, session: str, text: str, *, process: int = 0) -> None:
        """With `process`, only that one gets it."""
        file = self._files.get(session)
        if file is None or not file.state or process not in (0, file.pid):
            raise Unreachable(f"this session of {self.display_name} has ended")
        if file.state in "Tt":  # it would take the message when it goes on, however often it was sent meanwhile
            raise Unreachable(f"this {self.display_name} is suspended")
        try:
            await self._hand_over(file, text)
        except OSError as error:
            raise Unreachable(f"{self.display_name} did not accept the message: {error.strerror or error}") from None

    # --- what a subclass says ---

    def _activity(self, file: File) -> Activity:
        raise NotImplementedError

    async def _hand_over(self, file: File, text: str) -> None:
        """Raises OSError and Unreachable."""
        raise NotImplementedError

    async def _after_look(self) -> None:
        """The sessions were looked at, and are told of."""

    # --- the socket ---

    def _line(self, frame: Mapping[str, object]) -> bytes:
        line = msgspec.json.encode(frame) + b"\n"
        if len(line) > MAX_LINE:
            raise Unreachable(f"the message is longer than {self.display_name} takes over its socket")
        return line

    @asynccontextmanager
    async def _connected(self, file: File) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
        reader, writer = await asyncio.open_unix_connection(file.socket)
        try:
            if peer_process(writer.get_extra_info("socket")) != (file.pid, os.getuid()):
                raise Unreachable("the socket of this session belongs to another process")
            yield reader, writer
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    # --- sessions ---

    async def _watch(self) -> None:
        while not self._home.is_dir():  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(ABSENT_S)
        async for _ in watch(lambda: [self._folder / "none", *self._paths()]):
            self._changed.set()

    async def _tell(self, observer: SessionObserver) -> None:
        refresh_at = time.monotonic() + REFRESH_S
        while True:
            self._changed.clear()
            self._files = self._persons(await asyncio.to_thread(self._read))
            if refresh := time.monotonic() >= refresh_at:
                refresh_at = time.monotonic() + REFRESH_S
            for id in self._reported.keys() - self._files.keys():
                await self._report(observer.ended(self._reported.pop(id)))
            for id, file in self._files.items():
                activity = self._activity(file)
                session = HarnessSession(
                    harness=self.harness, session=id, cwd=file.cwd, activity=activity, process=file.pid
                )
                if (refresh or self._reported.get(id) != session) and await self._report(observer.changed(session)):
                    self._reported[id] = session
            await self._report(self._after_look())
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S if self._files else None):
                    await self._changed.wait()

    async def _report(self, report: Awaitable[None]) -> bool:
        try:
            await report
        except Exception:
            log.exception("a session of %s could not be reported", self.display_name)
            return False
        return True

    def _paths(self) -> list[Path]:
        try:
            with os.scandir(self._folder) as entries:
                return [Path(entry) for entry in islice(entries, MAX_FILES) if entry.name.endswith(".json")]
        except OSError:
            return []

    def _read(self) -> list[File]:
        """The files whose process is alive, the newest last."""
        before = {f"{file.pid}.json": file for file in self._files.values()}
        files: list[File] = []
        for path in self._paths():
            try:
                file = self._decode(path)
            except OSError:
                continue
            except msgspec.MsgspecError:  # the file is being written, or is not a session's
                file = before.get(path.name)
            if file and path.name == f"{file.pid}.json" and file.of_a_person and file.has_its_own_socket and file.state:
                files.append(file)
        return sorted(files, key=lambda file: file.started_at)[-MAX_SESSIONS:]

    def _decode(self, path: Path) -> File:
        """Raises OSError and MsgspecError."""
        return msgspec.json.decode(read_regular(path, MAX_FILE), type=self.file_type)

    def _persons(self, files: list[File]) -> dict[str, File]:
        """By session, without those of agents. What two terminals have resumed is the newer one's."""
        known = {(file.pid, file.proc_start): file for file in files}
        self._driven = {
            key: self._driven[key] if key in self._driven else agent_ancestor(file.pid) is not None
            for key, file in known.items()
        }
        return {file.session_id: file for key, file in known.items() if not self._driven[key]}


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
