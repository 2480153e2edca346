"""The bus stops taking anything in the middle of a turn, and takes it again later."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.sessions.test_crash import turns_of
from tests.sessions.test_manager import ENV, FULL, settled

from tieline.bus import Bus, BusFull, Table, open_bus
from tieline.config import Config
from tieline.drivers.scripted import Scripted
from tieline.events import Answer, Ask, Text, TurnStarted
from tieline.script import Say
from tieline.sessions.manager import SessionManager
from tieline.sessions.pending_asks import AlreadyAnswered, PendingAsks
from tieline.sessions.records import ASKS
from tieline.testing.wait_for import eventually


class Filling:
    """A real bus, or one of its tables, that takes nothing while `full`."""

    full = False
    refused = 0

    def __init__(self, inner: Bus | Table, root: "Filling | None" = None) -> None:
        self._inner = inner
        self._root = root or self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def table(self, name: str) -> "Filling":
        assert not isinstance(self._inner, Filling)
        return Filling(getattr(self._inner, "table")(name), self._root)  # noqa: B009 (either kind of inner)

    async def publish(self, *given: Any, **more: Any) -> int:
        return await self._write("publish", *given, **more)

    def publish_nowait(self, *given: Any, **more: Any) -> "asyncio.Future[int]":
        return asyncio.ensure_future(self.publish(*given, **more))

    async def put(self, *given: Any, **more: Any) -> int:
        return await self._write("put", *given, **more)

    async def _write(self, name: str, *given: Any, **more: Any) -> int:
        if self._root.full:
            self._root.refused += 1
            raise BusFull("the disk", "no space left")
        return await getattr(self._inner, name)(*given, **more)


async def test_the_disk_is_full_for_a_while(tmp_path: Path) -> None:
    """The turn that could not be written is indeterminate, and its session goes on."""
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as real:
        bus = Filling(real)

        def fill_the_disk(text: str) -> None:
            if "first" in text:
                bus.full = True

        driver = Scripted([[Say("said")]], on_model_input=fill_the_disk)
        config = Config(environ=ENV)
        async with SessionManager(bus, config, drivers={"scripted": driver}) as manager:  # type: ignore[arg-type]
            await manager.create("scripted", cwd=str(tmp_path), policy=FULL, id="s")
            await manager.prompt("s", "first", id="p1")
            await eventually(lambda: bus.refused >= 3, "nothing was refused", timeout=30)
            bus.full = False
            assert (await settled(manager, "s", "p1")).status == "indeterminate"
            await manager.prompt("s", "second", id="p2")
            assert (await settled(manager, "s", "p2")).status == "done"
            assert manager.get("s").status == "idle"
            turns = await turns_of(manager)
        started = [event.prompt for turn in turns for event in turn if isinstance(event, TurnStarted)]
        assert started[-1] == "second"
        assert started.count("first") <= 1, "it was not run again"
        assert [event.text for event in turns[-1] if isinstance(event, Text)] == ["said"]


async def test_an_answer_that_was_written_unheard_is_handed_over() -> None:
    """The bus failed after it had taken the answer: whoever answered tries again, and the agent goes on."""
    async with open_bus("sqlite://:memory:") as bus:
        asks = PendingAsks(bus, expiry_s=60.0)
        waiting = asyncio.create_task(asks.wait("s", Ask("a", "permission", "may I?")))
        await eventually(lambda: bool(asks.pending()), "nothing was asked", timeout=30)
        record, revision = await asks.get("a")
        first = replace(record, status="answered", answer=Answer("a", "allow", by="me"))
        await bus.table(ASKS).put("a", msgspec.json.encode(first), expect=revision)
        with pytest.raises(AlreadyAnswered):
            await asks.answer("a", Answer("a", "deny", by="me"))
        async with asyncio.timeout(30):
            assert (await waiting).decision == "allow"
