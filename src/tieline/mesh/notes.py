"""Notes that the members of a project share: a text under a key, the last writer's."""

import hashlib
import time

import msgspec

from ..bus.base import Bus
from ..errors import UsageError
from ..protocol.mesh import Note

NOTES = "notes"
MAX_NOTE = 64 * 1024
MAX_NOTES = 500
MAX_KEY = 200

_decode = msgspec.json.Decoder(Note).decode
_encode = msgspec.json.encode


class SharedNotes:
    def __init__(self, bus: Bus) -> None:
        self._table = bus.table(NOTES)

    async def get(self, project: str, key: str) -> Note | None:
        entry = await self._table.get(_row(project, key))
        return _decode(entry.value) if entry else None

    async def list(self, project: str) -> list[Note]:
        """The last changed first."""
        notes = [_decode(entry.value) for entry in await self._table.entries(f"{_digest(project)}.*")]
        return sorted(notes, key=lambda note: -note.at)

    async def put(self, project: str, key: str, text: str, by: str) -> Note:
        if not 0 < len(key) <= MAX_KEY:
            raise UsageError("a note needs a key", field="key", hint=f"Use 1 to {MAX_KEY} characters.")
        if len(text.encode(errors="replace")) > MAX_NOTE:
            raise UsageError(
                f"a note has at most {MAX_NOTE:,} bytes", field="text", hint="Write a file, and note its path."
            )
        row = _row(project, key)
        if await self._table.get(row) is None and len(await self._table.keys(f"{_digest(project)}.*")) >= MAX_NOTES:
            raise UsageError(f"the project has {MAX_NOTES} notes already", field="key", hint="Delete some first.")
        note = Note(project=project, key=key, text=text, by=by, at=time.time())
        await self._table.put(row, _encode(note))
        return note

    async def delete(self, project: str, key: str) -> None:
        await self._table.delete(_row(project, key))


def _row(project: str, key: str) -> str:
    return f"{_digest(project)}.{_digest(key)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]
