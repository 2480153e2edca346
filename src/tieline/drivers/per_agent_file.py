"""A file of the state directory with a record for each agent, written by every process that runs agents.

What is in it helps people; no decision hangs on it. So a file that cannot be read is as if there were none, and one
that cannot be written costs nothing but its news.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

from ..safe_file_read import read_regular
from ..safe_file_write import replace_private_file

MAX_AGENTS = 100


class Dated(Protocol):
    @property
    def when(self) -> float: ...


R = TypeVar("R", bound=Dated)

_write_lock = threading.Lock()


class PerAgentFile(Generic[R]):
    """By agent's name. Without a file they are kept for as long as this lives."""

    def __init__(self, file: Path | None, record: type[R], *, max_file: int) -> None:
        self._file = file
        self._decoder = msgspec.json.Decoder(dict[str, record])
        self._max_file = max_file
        self._in_memory: dict[str, R] = {}
        self._cached: dict[str, R] = {}
        self._file_state: tuple[int, ...] = ()

    def of(self, name: str) -> list[R]:
        """The newest first: what this process knows, and what another may have written by now."""
        known = [each[name] for each in (self._read_file(), self._in_memory) if name in each]
        return sorted(known, key=lambda record: record.when, reverse=True)

    def put(self, name: str, record: R, *, write: bool = True) -> None:
        """Never raises. Two processes that write at once may lose one's news until it has some again."""
        self._in_memory[name] = record
        if write:
            with suppress(OSError), _write_lock:
                self._write_file({**self._read_file(), name: record})

    def _read_file(self) -> Mapping[str, R]:
        if self._file is None:
            return {}
        try:
            status = self._file.stat()
            state = (status.st_mtime_ns, status.st_size, status.st_ino)
            if state != self._file_state:
                self._cached = {}
                self._file_state = state
                content = read_regular(self._file, self._max_file + 1)
                if len(content) <= self._max_file:
                    self._cached = self._decoder.decode(content)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            self._cached = {}
        return self._cached

    def _write_file(self, records: Mapping[str, R]) -> None:
        if self._file is None:
            return
        newest = sorted(records.items(), key=lambda item: item[1].when, reverse=True)[:MAX_AGENTS]
        while len(content := msgspec.json.encode(dict(newest))) > self._max_file:
            newest.pop()
        replace_private_file(self._file, content)
