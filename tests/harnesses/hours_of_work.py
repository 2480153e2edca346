"""Hours of work in a terminal: the last turn of its session over and over, in the harness's own files and as it has
written it, each time with ids of its own."""

import re
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from tieline.testing.wait_for import eventually

NUMBER = re.compile(rb"number-\d{4}")
"""What stands in the turn's prompt, its command and its answer, and is another one each time."""
UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
NAMED = re.compile(rb"\b(?:call|fc|fco|msg|toolu)_[0-9A-Za-z_]+\b")
"""Other ids of messages and calls."""
ORDINAL = re.compile(rb'"ordinal":(\d+)')
FILES = {
    "claude-code": (".claude/projects/*/*.jsonl", b'"turnPosition"', b'"turn_duration"'),
    "codex": (".codex/sessions/*/*/*/*.jsonl", b'"task_started"', b'"task_complete"'),
    "gemini": (".gemini/tmp/*/chats/*.jsonl", b'"type":"user","content":[{"text"', b'"tokens"'),
}
"""Where each writes a session down; what is in the line with which a turn begins, and what comes after its answer."""
WRITTEN_S = 60.0
Row = tuple[Any, ...]


def text_of(number: int) -> str:
    return f"number-{number:04}"


async def repeat_last_turn(harness: str, home: Path, session: str, answer: str, numbers: range) -> None:
    """Once it is written down."""
    if harness == "opencode":
        file = home / ".local/share/opencode/opencode.db"
        await eventually(lambda: bool(_repeat_rows(file, numbers)), "the turn is not written down", timeout=WRITTEN_S)
        return
    file, lines = await last_turn_written(harness, home, answer)
    with file.open("ab") as end:
        for copy, number in enumerate(numbers, 1):
            end.write(_copy(b"".join(lines), session, copy, number, copy * len(lines)))


async def last_turn_written(harness: str, home: Path, answer: str) -> tuple[Path, list[bytes]]:
    """The file and the turn's lines, once they are there: a moment after the answer was shown."""
    pattern, begins, over = FILES[harness]
    (file,) = home.glob(pattern)

    def last_turn() -> list[bytes]:
        lines = file.read_bytes().splitlines(keepends=True)
        return lines[max(at for at, line in enumerate(lines) if begins in line) :]

    await eventually(
        lambda: over in b"".join(last_turn()).partition(answer.encode())[2],
        "the turn is not written down",
        timeout=WRITTEN_S,
    )
    return file, last_turn()


def _copy(turn: bytes, session: str, copy: int, number: int, ordinal: int) -> bytes:
    def other(match: re.Match[bytes]) -> bytes:
        id = uuid.UUID(match[0].decode())
        if str(id) == session:
            return match[0]
        # The first bits of these are milliseconds: a later turn has later ones.
        return str(uuid.UUID(int=id.int + (copy << 80) if id.version == 7 else id.int ^ copy)).encode()

    turn = NUMBER.sub(text_of(number).encode(), UUID.sub(other, turn))
    turn = NAMED.sub(lambda match: match[0] + b"_%d" % copy, turn)
    return ORDINAL.sub(lambda match: b'"ordinal":%d' % (int(match[1]) + ordinal), turn)


def _repeat_rows(file: Path, numbers: range) -> int:
    """How many; none as long as the turn is not over."""
    with closing(sqlite3.connect(file, timeout=WRITTEN_S)) as database, database:
        messages = _rows(database, "message")
        first = max(at for at, row in enumerate(messages) if msgspec.json.decode(row[-1])["role"] == "user")
        turn = messages[first:]
        if msgspec.json.decode(turn[-1][-1]).get("finish") != "stop":
            return 0
        known = {row[0] for row in turn}
        parts = [row for row in _rows(database, "part") if row[1] in known]
        # Ids are in the order of time: there are 4096 in a millisecond.
        last, end = max(int(row[0][4:16], 16) for row in (*turn, *parts)), turn[-1][3]
        for copy, number in enumerate(numbers, 1):
            ids: dict[str, str] = {}
            for id in sorted((row[0] for row in (*turn, *parts)), key=lambda id: id[4:]):
                last += 1
                ids[id] = f"{id[:4]}{last:012x}{id[16:]}"
            for table, rows in (("message", turn), ("part", parts)):
                for row in rows:
                    values = _new_row(row, ids, end + copy, number, copy)
                    database.execute(f"insert into {table} values ({','.join('?' * len(values))})", values)
    return len(numbers)


def _rows(database: sqlite3.Connection, table: str) -> list[Row]:
    return database.execute(f"select * from {table} order by id").fetchall()


def _new_row(row: Row, ids: dict[str, str], at: int, number: int, copy: int) -> list[Any]:
    def other(match: re.Match[bytes]) -> bytes:
        id = match[0].decode()
        return ids.get(id, f"{id}_{copy}").encode()

    *known, _, _, text = row
    record = msgspec.json.decode(NUMBER.sub(text_of(number).encode(), NAMED.sub(other, text.encode())))
    for times in (record.get("time"), record.get("state", {}).get("time")):
        for name in times or ():
            times[name] = at
    return [*(ids.get(id, id) for id in known), at, at, msgspec.json.encode(record).decode()]
