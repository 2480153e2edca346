"""SIGKILL at random points under load: what was acknowledged is there, once, in order, and the file just opens."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tieline.bus import open_bus
from tieline.testing.bus_contract.base import all_of

LIVES = 200
CRASHER = Path(__file__).with_name("crasher.py")


class Acknowledged:
    """What the lives said, before each was killed."""

    def __init__(self) -> None:
        self.put: dict[str, int] = {}
        self.highest = 0

    def hear(self, line: str) -> None:
        word, *values = line.split()
        match word:
            case "put":
                self.put[values[0]] = int(values[1])
            case "set":
                assert int(values[0]) > self.highest
                self.highest = int(values[0])
            case _:
                raise AssertionError(line)


def lives(path: Path) -> Acknowledged:
    acknowledged = Acknowledged()
    points = random.Random(20)
    with subprocess.Popen(
        [sys.executable, str(CRASHER), f"sqlite://{path}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as nursery:
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        try:
            for life in range(LIVES):
                nursery.stdin.write(f"{life}\n")
                nursery.stdin.flush()
                pid = int(nursery.stdout.readline().split()[1])
                lines = points.choice([None, 0, 1, 5, 40, 200])  # while it opens, early, or well at work
                if lines is None:
                    lines = -1
                    time.sleep(points.uniform(0, 0.03))  # not a wait: a random point
                    os.kill(pid, signal.SIGKILL)
                for line in nursery.stdout:
                    if line == "gone\n":
                        break
                    acknowledged.hear(line)
                    if lines == 0:
                        os.kill(pid, signal.SIGKILL)
                    lines -= 1
        finally:
            nursery.kill()
    return acknowledged


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_killed_200_times(tmp_path: Path) -> None:
    path = tmp_path / "bus.db"
    acknowledged = lives(path)
    put, highest = acknowledged.put, acknowledged.highest
    assert len(put) > LIVES * 10, "no load worth speaking of"
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    raw.close()
    async with open_bus(f"sqlite://{path}") as bus:
        records = await all_of(bus.read("load.*", follow=False))
        there = {record.data.decode(): record.seq for record in records}
        assert len(there) == len(records), "a record is there twice"
        assert {id: there.get(id) for id in put} == put
        assert [record.seq for record in records] == sorted(there.values())
        by_task: dict[str, list[int]] = {}
        for record in records:
            task, _, n = record.data.decode().rpartition("-")
            by_task.setdefault(task, []).append(int(n))
        assert all(numbers == list(range(len(numbers))) for numbers in by_task.values()), "order of a publisher"
        entry = await bus.table("crash").get("n")
        assert entry is not None
        assert int(entry.value) >= highest
