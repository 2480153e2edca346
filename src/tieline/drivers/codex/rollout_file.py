"""The file in which Codex records a thread: where a resumed thread's tool calls can be read.

A thread that Codex resumes or forks sends no raw items, unlike one that it starts. They are all in this file, and
there before Codex asks about them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

MAX_READ = 16 * 1024 * 1024
"""More than this at once is no turn's worth of calls; the rest is left out."""


class RolloutFile:
    """Raw items that were added since it was last read."""

    def __init__(self, path: str, turn: str = "") -> None:
        """From its end on; with a turn that runs, from the beginning of that."""
        self._path = Path(path)
        self._offset = self._path.stat().st_size if self._path.is_file() else 0
        self._decoder = msgspec.json.Decoder(dict[str, Any])
        if turn:
            self._go_back_to(turn)

    def read_new(self) -> Iterator[dict[str, Any]]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(MAX_READ)
        except OSError:
            return  # it was moved or deleted: nothing can be read, and nothing else depends on it
        end = data.rfind(b"\n") + 1  # a line may be only half written
        self._offset += end
        for line in data[:end].splitlines():
            if b"_call" in line:
                try:
                    record = self._decoder.decode(line)
                except msgspec.DecodeError:
                    continue
                if record.get("type") == "response_item" and isinstance(record.get("payload"), dict):
                    yield record["payload"]

    def _go_back_to(self, turn: str) -> None:
        begin = max(0, self._offset - MAX_READ)
        try:
            with self._path.open("rb") as file:
                file.seek(begin)
                data = file.read(self._offset - begin)
        except OSError:
            return
        position = data.find(turn.encode())  # any line may name the turn: the first such line is its beginning
        if position >= 0:
            self._offset = begin + data.rfind(b"\n", 0, position) + 1
