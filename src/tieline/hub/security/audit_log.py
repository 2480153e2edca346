"""The audit log: who came in, who let whom in, who decided what, what was refused. Kept apart from events.

One line of JSON each, in a file that only its owner can read; written off the loop, in batches. Lines end by age and
by the file's size. A refusal that comes again and again (a stranger's, mostly) is one line at once and then one line a
minute with their number: whoever is refused cannot push out what others did.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...background_tasks import background, cancel_and_wait, log
from ...protocol.audit import AuditKind, AuditLine

KEPT_DAYS = 90
MAX_BYTES = 8 * 1024 * 1024
"""Of the file. When there is more, the older half goes."""
MAX_WAITING = 10_000
"""Lines that the disk has not taken."""
MAX_TEXT = 300
"""Characters of each thing that is said about something."""
WINDOW_S = 60.0
"""How long the same refusal is only counted."""
MAX_WINDOWS = 64
"""Refusals that are told apart in that time; all others are one."""
TRIM_S = 6 * 3600.0

_decode = msgspec.json.Decoder(AuditLine).decode
_encode = msgspec.json.Encoder().encode


class _Window(Struct):
    line: AuditLine
    since: float  # monotonic
    more: int = 0


class AuditLog:
    """`async with AuditLog(file) as audit`. Lines recorded before are written on entry."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._waiting: deque[AuditLine] = deque()
        self._windows: dict[tuple[str, ...], _Window] = {}
        self._seq = 0
        self._wake = asyncio.Event()
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "AuditLog":
        self._seq = await asyncio.to_thread(_trim, self._file)
        self._task = background(self._write(), "audit")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            await cancel_and_wait(self._task)
        self._close_windows(all=True)
        await self._flush()

    def record(self, what: AuditKind, who: str, via: str, **details: str) -> None:
        """Never waits and never fails. `flush` writes the line to the disk."""
        short_details = {name: _short(value) for name, value in details.items() if value}
        line = AuditLine(seq=0, at=time.time(), what=what, who=_short(who), via=_short(via), details=short_details)
        if what == "refusal" and (self._is_repeated(line) or len(self._waiting) >= MAX_WAITING):
            return
        self._waiting.append(line)
        self._wake.set()

    async def flush(self) -> None:
        """Writes all recorded lines to the disk."""
        await self._flush()

    async def read(
        self, *, before: int = 0, since: float = 0.0, kind: AuditKind | None = None, limit: int = 100
    ) -> list[AuditLine]:
        """The newest first; `before` is the `seq` of the last one that was seen."""
        await self._flush()
        return await asyncio.to_thread(_read_newest, self._file, before, since, kind, limit)

    # --- inside ----------------------------------------------------------------------------------------

    def _is_repeated(self, line: AuditLine) -> bool:
        """Whether the same refusal was recorded lately, on whichever route."""
        key = (line.who, line.via, line.details.get("why", ""))
        if key not in self._windows and len(self._windows) >= MAX_WINDOWS:
            key = ()
            line = replace(line, who="", via="many addresses", details={"why": "refused"})
        if (window := self._windows.get(key)) is None:
            self._windows[key] = _Window(line, time.monotonic())
            return False
        window.more += 1
        window.line = replace(window.line, at=line.at)
        return True

    def _close_windows(self, *, all: bool = False) -> None:
        now = time.monotonic()
        for key, window in list(self._windows.items()):
            if all or now - window.since >= WINDOW_S:
                del self._windows[key]
                if window.more:
                    self._waiting.append(replace(window.line, count=window.more))

    async def _write(self) -> None:
        trimmed = time.monotonic()
        while True:
            try:
                async with asyncio.timeout(WINDOW_S):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            self._close_windows()
            await self._flush()
            if time.monotonic() - trimmed >= TRIM_S:
                trimmed = time.monotonic()
                async with self._writing:
                    await asyncio.to_thread(_trim, self._file)

    async def _flush(self) -> None:
        async with self._writing:
            if not self._waiting:
                return
            batch = [replace(line, seq=self._seq + n) for n, line in enumerate(self._waiting, 1)]
            data = b"".join(_encode(line) + b"\n" for line in batch)
            # A cancelled thread still writes: the next flush must not write the same lines again.
            writing = asyncio.ensure_future(asyncio.to_thread(_append, self._file, data))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                await asyncio.wait([writing])
                self._written(batch, writing.exception())
                raise
            except OSError as error:
                self._written(batch, error)
            else:
                self._written(batch, None)

    def _written(self, batch: list[AuditLine], error: BaseException | None) -> None:
        if error is not None:
            log.error("the audit log cannot be written: %s", error)
            if len(self._waiting) < MAX_WAITING:
                return  # with the next line, or in a minute
        for _ in batch:
            self._waiting.popleft()
        self._seq = batch[-1].seq


# --- the file, in a thread ----------------------------------------------------------------------------------


def _append(file: Path, data: bytes) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fdatasync(descriptor) if hasattr(os, "fdatasync") else os.fsync(descriptor)
        size = os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
    if size > MAX_BYTES:
        _trim(file)


def _trim(file: Path) -> int:
    """Removes lines that are too old, too many or truncated by a crash. Returns the last `seq`."""
    if not file.exists():
        return 0
    data = file.read_bytes()
    keep_from = time.time() - KEPT_DAYS * 86400
    lines = [line for line in _lines(data) if line.at >= keep_from]
    kept = b"".join(_encode(line) + b"\n" for line in lines)
    if len(kept) > MAX_BYTES:
        kept = kept[kept.index(b"\n", len(kept) - MAX_BYTES // 2) + 1 :]
    if kept != data:
        part = file.with_name(f"{file.name}.part")
        part.unlink(missing_ok=True)
        _append(part, kept)
        part.replace(file)
    return lines[-1].seq if lines else 0


def _read_newest(file: Path, before: int, since: float, kind: AuditKind | None, limit: int) -> list[AuditLine]:
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return []
    lines: list[AuditLine] = []
    for line in _lines(data, newest_first=True):
        if len(lines) >= limit:
            break
        if (not before or line.seq < before) and line.at >= since and kind in (None, line.what):
            lines.append(line)
    return lines


def _lines(data: bytes, *, newest_first: bool = False) -> Iterator[AuditLine]:
    parts = data.split(b"\n")
    for part in reversed(parts) if newest_first else parts:
        try:
            yield _decode(part)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # torn by a crash


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
