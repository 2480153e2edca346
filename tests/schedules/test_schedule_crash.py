"""Hubs that are killed by SIGKILL again and again: every run has one start, none is lost."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from tests.cli.hub_process import HubProcess
from tests.relay.conftest import url as url

from tieline.bus import open_bus
from tieline.client import connect
from tieline.events import TurnStarted
from tieline.protocol.schedules import NewSchedule
from tieline.script import Say
from tieline.sessions.event_log import EventLog
from tieline.testing.cli_process import CliProcess

KILLS = 6
BOUND = 120.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def test_after_every_kill_each_run_was_started_once(url: str, tmp_path: Path) -> None:
    cli = CliProcess(tmp_path / "cli")
    cli.configure(f'bus = "{url}"\n')
    cli.agent("bot", [Say("All is well.")])
    hub = HubProcess(cli)
    await asyncio.to_thread(hub.start)
    try:
        ids: list[str] = []
        async with connect(cli.env) as client:
            for number in range(3):
                new = NewSchedule(cron="0 0 29 2 *", agent="bot", cwd=str(cli.place), prompt="go", name=f"n{number}")
                ids.append((await client.add_schedule(new)).id)
        for kill in range(KILLS):
            async with connect(cli.env) as client:
                for id in ids:
                    while any(run.is_open for run in (await client.schedule(id)).runs):
                        pass  # each look is a request
                # The answer comes when the run is claimed: the kill meets its start, or what comes after.
                await asyncio.gather(*[client.run_schedule(id) for id in ids])
                for _ in range(kill):
                    await client.schedules()
            await asyncio.to_thread(hub.kill)
            await asyncio.to_thread(hub.start)
        async with connect(cli.env) as client, asyncio.timeout(BOUND):
            views = [await client.schedule(id) for id in ids]
            while any(run.is_open for view in views for run in view.runs):
                views = [await client.schedule(id) for id in ids]
    finally:
        await asyncio.to_thread(hub.stop)
    runs = [run for view in views for run in view.runs]
    assert len(runs) == KILLS * len(ids)
    assert {run.outcome for run in runs} <= {"success", "indeterminate"}, (
        "a turn that was killed is not known to have ended"
    )
    turns = Counter[str]()
    async with open_bus(url) as bus:
        for run in runs:
            async for logged in EventLog(bus).read(run.session, follow=False):
                if isinstance(logged.event, TurnStarted):
                    turns[logged.event.id] += 1
    assert {prompt for prompt, times in turns.items() if times != 1} == set()
    assert {run.prompt for run in runs if run.outcome == "success"} <= set(turns)
    assert sum(run.outcome == "success" for run in runs) >= KILLS
