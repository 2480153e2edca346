"""Advisory leases on file patterns: who says that it works where, for how long. Nothing is locked.

A pattern is relative to the project's root. `*` and `?` stay within one name, `**` spans folders, and a pattern that
names a folder means everything below it as well. Two patterns conflict when a path exists that both could mean.
"""

import hashlib
import posixpath
import re
import time
from collections.abc import Callable, Sequence
from functools import lru_cache

import msgspec

from ..bus.base import Bus
from ..errors import Conflict, UsageError
from ..ids import new_id
from ..protocol.mesh import PathLease, PathReservation
from .errors import NoteConflict

PATH_LEASES = "path_leases"
TTL_S = 1800.0
MAX_TTL_S = 86400.0
MAX_PATTERNS = 50
MAX_LEASES = 500
MAX_PATTERN = 300
TRIES = 16
"""Of a write that another hub was faster with."""

_decode = msgspec.json.Decoder(tuple[PathLease, ...]).decode
_encode = msgspec.json.encode
_CLASS = re.compile(r"\[[!^]?\]?[^\]]*\]")


class PathLeases:
    """One row per project, changed by compare and set: two members never get the same path."""

    def __init__(self, bus: Bus, clock: Callable[[], float] = time.time) -> None:
        self._table = bus.table(PATH_LEASES)
        self._clock = clock

    async def list(self, project: str) -> tuple[PathLease, ...]:
        return (await self._read(project))[0]

    async def reserve(
        self, project: str, holder: str, name: str, patterns: Sequence[str], *, ttl_s: float = TTL_S, note: str = ""
    ) -> PathReservation:
        """Reserve the patterns. If leases of others conflict, they are returned and nothing is reserved. The holder's
        own leases are renewed."""
        if not 0 < len(patterns) <= MAX_PATTERNS:
            raise UsageError(f"give 1 to {MAX_PATTERNS} patterns", field="patterns")
        wanted = tuple(dict.fromkeys(map(check_pattern, patterns)))
        ttl_s = min(max(ttl_s, 1.0), MAX_TTL_S)
        for _ in range(TRIES):
            present, revision = await self._read(project)
            others = [lease for lease in present if lease.holder != holder]
            conflicts = tuple(lease for lease in others if any(overlap(lease.pattern, pattern) for pattern in wanted))
            if conflicts:
                return PathReservation(project=project, conflicts=conflicts)
            now = self._clock()
            leases = tuple(
                PathLease(
                    id=new_id(),
                    project=project,
                    pattern=pattern,
                    holder=holder,
                    holder_name=name,
                    note=note[:500],
                    at=now,
                    expires_at=now + ttl_s,
                )
                for pattern in wanted
            )
            kept = tuple(lease for lease in present if lease.holder != holder or lease.pattern not in wanted)
            if len(kept) + len(leases) > MAX_LEASES:
                raise UsageError(f"the project has {MAX_LEASES} leases already", field="patterns")
            if await self._write(project, (*kept, *leases), revision):
                return PathReservation(project=project, leases=leases)
        raise NoteConflict("the path leases")

    async def release(self, project: str, holder: str, patterns: Sequence[str] = ()) -> tuple[PathLease, ...]:
        """The holder's leases that ended: all, or those with these patterns."""
        wanted = set(map(check_pattern, patterns))
        for _ in range(TRIES):
            present, revision = await self._read(project)
            ended = tuple(
                lease for lease in present if lease.holder == holder and (not wanted or lease.pattern in wanted)
            )
            kept = tuple(lease for lease in present if lease not in ended)
            if not ended or await self._write(project, kept, revision):
                return ended
        raise NoteConflict("the path leases")

    async def _read(self, project: str) -> tuple[tuple[PathLease, ...], int]:
        entry = await self._table.get(_row(project))
        if entry is None:
            return (), 0
        now = self._clock()
        return tuple(lease for lease in _decode(entry.value) if lease.expires_at > now), entry.revision

    async def _write(self, project: str, leases: tuple[PathLease, ...], revision: int) -> bool:
        try:
            if leases:
                longest = max(lease.expires_at for lease in leases) - self._clock()
                await self._table.put(_row(project), _encode(leases), expect=revision, ttl=max(1, int(longest) + 60))
            elif revision:
                await self._table.delete(_row(project), expect=revision)
        except Conflict:
            return False
        return True


def check_pattern(text: str) -> str:
    """The one spelling of a pattern. Raises UsageError."""
    pattern = text.strip().replace("\\", "/")
    if not pattern or len(pattern) > MAX_PATTERN or "\0" in pattern:
        raise UsageError(f"a pattern has 1 to {MAX_PATTERN} characters", field="patterns")
    normal = posixpath.normpath(pattern)
    if normal == ".." or normal.startswith(("/", "~", "../")):
        raise UsageError(
            f"{text[:80]!r} is outside the project",
            field="patterns",
            hint="Write it relative to the project's root, e.g. src/parser/**.",
        )
    return "**" if normal == "." else normal


@lru_cache(maxsize=16384)
def overlap(pattern: str, other: str) -> bool:
    """Whether a path may exist that both patterns match. In doubt, true."""
    return _may_meet(_segments(pattern), _segments(other), "**", _names_overlap)


def _segments(pattern: str) -> tuple[str, ...]:
    parts = [_CLASS.sub("?", part) for part in pattern.split("/")]
    return tuple(parts) if parts[-1] == "**" else (*parts, "**")  # the path itself, and everything below it


def _names_overlap(name: str, other: str) -> bool:
    return _may_meet(name, other, "*", lambda a, b: a == b or "?" in (a, b))


def _may_meet(parts: Sequence[str], other: Sequence[str], wild: str, same: Callable[[str, str], bool]) -> bool:
    """Whether a sequence may exist that both describe, where `wild` stands for any number of parts."""
    below = [all(part == wild for part in other[index:]) for index in range(len(other) + 1)]
    for part in reversed(parts):
        row = [part == wild and below[-1]]
        for index in range(len(other) - 1, -1, -1):
            if wild in (part, other[index]):
                row.append(below[index] or row[-1])
            else:
                row.append(below[index + 1] and same(part, other[index]))
        below = row[::-1]
    return below[0]


def _row(project: str) -> str:
    return hashlib.sha256(project.encode(errors="replace")).hexdigest()[:32]
