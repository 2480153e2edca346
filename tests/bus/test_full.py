"""No room: publishing fails clearly, nothing acknowledged is lost, and with room it goes on."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tieline.bus import BusFull, open_bus
from tieline.testing.bus_contract.base import all_of

CHUNK = 64 * 1024

LIMITED = """
import asyncio, json, resource, sys
from tieline.bus import BusFull, open_bus
async def main():
    acked, refused = [], []
    async with open_bus(sys.argv[1]) as bus:
        follower = bus.read("a.b")
        await bus.publish("a.b", b"first"); await anext(follower)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))
        for n in range(100):
            try:
                acked.append(await bus.publish("a.b", b"%d " % n + bytes(65536)))
            except BusFull as error:
                refused.append(str(error))
                if len(refused) == 5: break
        there = [r.seq async for r in bus.read("a.b", follow=False)]
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        acked.append(await bus.publish("a.b", b"again"))
        seen = []
        while not seen or seen[-1] != acked[-1]:
            seen.append((await asyncio.wait_for(anext(follower), 20)).seq)
        await follower.aclose()
    print(json.dumps({"acked": acked, "refused": refused, "there": there, "seen": seen}))
asyncio.run(main())
"""


async def test_a_file_size_limit(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/bus.db"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", LIMITED, url, stdout=subprocess.PIPE)
    output, _ = await asyncio.wait_for(child.communicate(), 60)
    report = json.loads(output)
    assert len(report["refused"]) == 5
    assert all("no room to write" in text for text in report["refused"])
    assert len(report["acked"]) > 10
    assert report["there"][1:] == report["acked"][:-1]
    assert report["seen"] == report["acked"]
    async with open_bus(url) as bus:
        records = await all_of(bus.read("a.b", follow=False))
        assert [record.seq for record in records][1:] == report["acked"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, timeout=20).returncode != 0:
        pytest.skip("mounting a small tmpfs is not allowed here; the file-size limit above covers the same")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True, timeout=20)


async def test_a_full_disk(small_disk: Path) -> None:
    """With tables, which are told as well; and with room everything goes on where it was."""
    (small_disk / "ballast").write_bytes(bytes(1_500_000))
    async with open_bus(f"sqlite://{small_disk}/bus.db") as bus:
        table = bus.table("t")
        await table.put("k", b"before")
        acked: list[int] = []
        with pytest.raises(BusFull, match="no room to write"):
            for n in range(1000):
                acked.append(await bus.publish("a.b", str(n).encode() + bytes(CHUNK)))
        results = await asyncio.gather(*(bus.publish("a.b", bytes(CHUNK)) for _ in range(20)), return_exceptions=True)
        assert {type(result) for result in results} == {BusFull}
        with pytest.raises(BusFull):
            await table.put("k", bytes(CHUNK * 4))
        records = await all_of(bus.read("a.b", follow=False))
        assert [record.seq for record in records] == acked
        (small_disk / "ballast").unlink()
        acked.append(await bus.publish("a.b", b"after"))
        entry = await table.get("k")
        assert entry is not None
        assert entry.value == b"before"
    async with open_bus(f"sqlite://{small_disk}/bus.db") as bus:
        assert [record.seq for record in await all_of(bus.read("a.b", follow=False))] == acked
