"""Agents of sessions that have nothing to do: only the last ones stay; the others come back by resume."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from tieline.bus import open_bus
from tieline.config import Config, PoolConfig
from tieline.drivers.base import AskFn, Spec
from tieline.drivers.scripted import Scripted, ScriptedConversation
from tieline.events import Answer, Ask
from tieline.policy import Policy
from tieline.script import Reply, Run, Say
from tieline.sessions.manager import SessionManager
from tieline.testing.wait_for import eventually

FULL = Policy("allow", "allow", "allow")


class Resumable(Scripted):
    """The scripted agent, as one that can be resumed; it counts how many of it are open."""

    features = replace(Scripted.features, resume=True)

    def __init__(self, *replies: Reply) -> None:
        super().__init__(replies or [[Say("hello")]])
        self.open_now = 0
        self.resumed: list[str] = []

    @asynccontextmanager
    async def open(self, spec: Spec, ask: AskFn) -> AsyncGenerator[ScriptedConversation, None]:
        self.open_now += 1
        self.resumed += [spec.resume] if spec.resume else []
        try:
            async with super().open(spec, ask) as conversation:
                yield conversation
        finally:
            self.open_now -= 1


async def test_only_the_last_ones_stay(tmp_path: Path) -> None:
    driver = Resumable()
    config = Config(environ={"PATH": "/usr/bin:/bin"}, pool=PoolConfig(number=2))
    async with (
        open_bus(f"sqlite://{tmp_path}/bus.db") as bus,
        SessionManager(bus, config, drivers={"scripted": driver}) as manager,
    ):

        async def turn(session: str, turns: int) -> None:
            await manager.prompt(session, "go")
            async with asyncio.timeout(30):
                while manager.get(session).turns < turns:  # noqa: ASYNC110 (the record has no event of its own)
                    await asyncio.sleep(0.01)

        made = [await manager.create("scripted", cwd=str(tmp_path), policy=FULL) for _ in range(6)]
        for record in made:
            await turn(record.id, 1)
        await eventually(lambda: driver.open_now <= 3, "the last two stay, and the one that just ended", timeout=30)
        assert driver.resumed == []
        first = manager.get(made[0].id)
        assert first.status == "idle" and first.native_id
        await turn(first.id, 2)
        assert driver.resumed == [first.native_id]
        await turn(made[-1].id, 2)
        assert driver.resumed == [first.native_id], "the last one was still there"
    assert driver.open_now == 0


async def test_what_is_remembered_for_the_session_outlives_its_agent(tmp_path: Path) -> None:
    driver = Resumable([Run("echo again")])
    config = Config(environ={"PATH": "/usr/bin:/bin"}, pool=PoolConfig(number=1))
    async with (
        open_bus(f"sqlite://{tmp_path}/bus.db") as bus,
        SessionManager(bus, config, drivers={"scripted": driver}) as manager,
    ):
        asking = Policy("ask", "ask", "ask")
        asked: list[str] = []

        async def turn(session: str, turns: int) -> None:
            await manager.prompt(session, "go")
            async for entry in manager.events(session):
                if isinstance(entry.event, Ask) and entry.event.id not in asked:
                    asked.append(entry.event.id)
                    await manager.answer(entry.event.id, Answer(entry.event.id, "allow", remember="session"))
                turns -= entry.event.type == "done"
                if not turns:
                    return

        made = [await manager.create("scripted", cwd=str(tmp_path), policy=asking) for _ in range(3)]
        async with asyncio.timeout(30):
            for record in made:
                await turn(record.id, 1)
            await eventually(lambda: driver.open_now < 3, "the first one is still there", timeout=30)
            await turn(made[0].id, 2)
        assert len(driver.resumed) == 1
        assert len(asked) == 3, "each was asked once"
