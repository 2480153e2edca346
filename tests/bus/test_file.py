"""The SQLite file: who owns it, what is in it, what is wrong with it."""

import asyncio
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tieline.bus import BusError, BusLocked, open_bus
from tieline.bus.sqlite.database_file import LAID_OUT, MIGRATIONS
from tieline.errors import UsageError
from tieline.testing.wait_for import eventually

CONNECT = sqlite3.connect
HOLD = """
import asyncio, sys
from tieline.bus import open_bus
async def main():
    async with open_bus(sys.argv[1]):
        print("open", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
asyncio.run(main())
"""


async def test_a_second_owner_is_told_who_the_first_is(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/bus.db"
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, url, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert await asyncio.wait_for(holder.stdout.readline(), 20) == b"open\n"
        with pytest.raises(BusLocked, match=f"process {holder.pid} since 20") as caught:
            async with open_bus(url):
                pass
        assert caught.value.pid == holder.pid
    finally:
        holder.kill()
        await holder.wait()
    async with open_bus(url) as bus:  # its lock file is still there; its owner is not
        assert (tmp_path / "bus.db.lock").exists()
        with pytest.raises(BusLocked, match=str(os.getpid())):
            async with open_bus(url):
                pass
        await bus.publish("a.b", b"")


async def test_only_the_user_may_read_it(tmp_path: Path) -> None:
    async with open_bus(f"sqlite://{tmp_path}/deep/er/bus.db") as bus:
        await bus.publish("a.b", b"secret")
        for file in (tmp_path / "deep/er").iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


async def test_it_is_durable_by_its_settings(tmp_path: Path) -> None:
    path = tmp_path / "bus.db"
    async with open_bus(f"sqlite:///{path}") as bus:  # one slash more does no harm
        await bus.publish("a.b", b"")
    with closing(sqlite3.connect(path)) as raw, raw:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert raw.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    raw.close()


async def test_its_log_is_laid_out_and_holds_what_it_held(tmp_path: Path) -> None:
    """The write-ahead log gets its size once, early, and grows no more; what comes after its last frame is no frame."""
    path, log = tmp_path / "bus.db", tmp_path / "bus.db-wal"
    async with open_bus(f"sqlite://{path}") as bus:
        for number in range(100):
            await bus.publish("a.b", b"%d" % number)
        await eventually(lambda: log.stat().st_size >= LAID_OUT, "the log is not laid out")
        for first in range(100, 1500, 5):  # round and round
            await asyncio.gather(*(bus.publish("a.b", b"%d" % number) for number in range(first, first + 5)))
        assert log.stat().st_size == LAID_OUT
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        for file in (path, log):  # as it would be found after a crash
            shutil.copy(file, crashed)
    async with open_bus(f"sqlite://{crashed}/bus.db") as bus:
        payloads = [record.data async for record in bus.read("a.b", follow=False)]
    assert payloads == [b"%d" % number for number in range(1500)]


async def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    raw = sqlite3.connect(tmp_path / "bus.db")
    raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(BusError, match="newer Tieline"):
        async with open_bus(f"sqlite://{tmp_path}/bus.db"):
            pass


async def test_something_else_is_not_a_bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[sqlite3.Connection] = []

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(CONNECT(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", connect)
    (tmp_path / "bus.db").write_text("this is no database, it is a text that is long enough to be looked at" * 50)
    with pytest.raises(BusError, match="not a bus file"):
        async with open_bus(f"sqlite://{tmp_path}/bus.db"):
            pass
    for connection in opened:  # newer Pythons warn of a connection that is left open
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
    assert opened
    (tmp_path / "dir").mkdir()
    with pytest.raises(BusError, match="cannot open"):
        async with open_bus(f"sqlite://{tmp_path}/dir"):
            pass


@pytest.mark.parametrize("url", ["", "bus.db", "redis://x", "sqlite://", "sqlite:///", "sqlite:///tmp/"])
async def test_bad_urls(url: str) -> None:
    with pytest.raises(UsageError, match=r"unsupported bus URL scheme|names no file") as caught:
        async with open_bus(url):
            pass
    assert caught.value.field == "bus"


@pytest.mark.parametrize("url", ["nats://", "nats://h:1?x=1", "nats://h:1?replicas=x", "nats://h:1?replicas=9"])
async def test_bad_nats_urls(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        async with open_bus(url):
            pass
    assert caught.value.field == "bus"


async def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_bus("sqlite://here/bus.db") as bus:
        await bus.publish("a.b", b"")
    assert (tmp_path / "here/bus.db").exists()


async def test_a_file_with_consumer_groups_opens(tmp_path: Path) -> None:
    """Earlier versions stored groups and their deliveries: the tables stay, and nothing reads them."""
    path = tmp_path / "bus.db"
    async with open_bus(f"sqlite://{path}") as bus:
        seq = await bus.publish("a.b", b"kept")
    raw = sqlite3.connect(path)
    raw.execute("INSERT INTO groups (name, pattern, cursor) VALUES ('g', 'a.*', ?)", (seq,))
    raw.execute("INSERT INTO deliveries (grp, seq, attempt, due, leased) VALUES (1, ?, 1, 0, 1)", (seq,))
    raw.commit()
    raw.close()
    async with open_bus(f"sqlite://{path}") as bus:
        assert [record.data async for record in bus.read("a.b", follow=False)] == [b"kept"]
        assert (await bus.stats()).records == 1
        assert await bus.trim("a.b", keep=0) == 1
