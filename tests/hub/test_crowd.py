"""Five hundred clients follow fifty busy sessions: every one of them hears every event of its own, once, in order."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.hub.crowd import digest
from tests.hub.streaming import served

from tieline.bus import open_bus
from tieline.config import Config, PoolConfig
from tieline.drivers.scripted import Scripted
from tieline.policy import Policy
from tieline.script import Reply, Say
from tieline.sessions.manager import SessionManager
from tieline.testing.rig import scratch_env
from tieline.testing.wait_for import eventually

CLIENTS = 500
SESSIONS = 50
TURNS = 2
BOUND_S = 200.0
REPLY: Reply = (Say("one two three four", chunks=4),)
ROOT = Path(__file__).parent.parent.parent


@asynccontextmanager
async def crowd(folder: Path) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.hub.crowd",
        cwd=ROOT,
        env=scratch_env(folder, path=os.defpath),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def tell(process: asyncio.subprocess.Process, value: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(value).encode() + b"\n")
    await process.stdin.drain()


async def hear(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(BOUND_S):
        return (await process.stdout.readline()).decode()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_five_hundred_clients_follow_fifty_busy_sessions(tmp_path: Path) -> None:
    config = Config(environ=scratch_env(tmp_path, path=os.defpath), pool=PoolConfig(number=0))
    driver = Scripted((REPLY,) * TURNS)
    async with (
        open_bus(f"sqlite://{tmp_path}/bus.db") as bus,
        SessionManager(bus, config, drivers={"scripted": driver}) as manager,
        served(bus, tmp_path, config) as hub,
        crowd(tmp_path) as process,
    ):
        allowed = Policy("allow", "allow", "allow")
        ids = [(await manager.create("scripted", cwd=str(tmp_path), policy=allowed)).id for _ in range(SESSIONS)]
        everything = CLIENTS // 10
        clients = [None] * everything + [[ids[number % SESSIONS]] for number in range(CLIENTS - everything)]
        await tell(process, {"url": hub.stream, "token": hub.token, "clients": clients})
        assert (await hear(process)).strip() == "ready"
        for number in range(TURNS):
            for id in ids:
                await manager.prompt(id, "go", id=f"p{number}")
        await eventually(
            lambda: all(manager.get(id).turns == TURNS for id in ids), "the turns did not end", timeout=BOUND_S
        )
        written: dict[str, list[int]] = {"": []}
        async for record in bus.read("events.>", follow=False):
            written.setdefault(record.subject.partition(".")[2], []).append(record.seq)
            written[""].append(record.seq)
        await tell(process, {name: seqs[-1] for name, seqs in written.items() if name})
        summaries = json.loads(await hear(process))
        assert len(summaries) == CLIENTS
        assert len(written[""]) >= SESSIONS * TURNS * 3
        wrong = [summary for summary in summaries if summary["digest"] != digest(written[summary["follows"]])]
        assert wrong == [], (wrong[:3], {summary["follows"]: len(written[summary["follows"]]) for summary in wrong[:3]})
