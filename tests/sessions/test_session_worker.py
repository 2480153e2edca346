"""Prompts and the end of Tieline: what has not begun, waits on."""

import asyncio
from pathlib import Path

import pytest

from tieline.bus import open_bus
from tieline.config import Config
from tieline.drivers.scripted import Scripted
from tieline.events import TurnStarted
from tieline.policy import Policy
from tieline.script import Say
from tieline.sessions.manager import SessionManager
from tieline.sessions.records import PromptRecord
from tieline.testing.wait_for import eventually

FULL = Policy("allow", "allow", "allow")
CONFIG = Config(environ={"PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize("moment", ["before", "taken"])
async def test_a_prompt_that_comes_at_the_end_runs_after_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    driver = Scripted([[Say("hello")]])
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
        async with SessionManager(bus, CONFIG, drivers={"scripted": driver}) as manager:
            session = await manager.create("scripted", cwd=str(tmp_path), policy=FULL)
            start, given_back = manager.prompts.start, asyncio.Event()
            give_back = manager.prompts.give_back

            async def start_at_the_end(id: str) -> PromptRecord | None:
                taken = await start(id)
                manager.stop_starting()
                return taken

            async def gave_back(prompt: PromptRecord) -> None:
                await give_back(prompt)
                given_back.set()

            if moment == "taken":
                monkeypatch.setattr(manager.prompts, "start", start_at_the_end)
                monkeypatch.setattr(manager.prompts, "give_back", gave_back)
            else:
                manager.stop_starting()
            sent = await manager.prompt(session.id, "go")
            if moment == "taken":
                await asyncio.wait_for(given_back.wait(), 30)
            (waiting,) = manager.prompts.waiting(session.id)
            assert (waiting.id, waiting.status) == (sent.id, "queued")
        async with SessionManager(bus, CONFIG, drivers={"scripted": driver}) as manager:
            await eventually(lambda: manager.get(session.id).turns == 1, "it does not run")
            events = [entry.event async for entry in manager.events(session.id, follow=False)]
            assert [event.id for event in events if isinstance(event, TurnStarted)] == [sent.id]
