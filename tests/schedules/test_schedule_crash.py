"""Hubs that are killed by SIGKILL again and again: every run has one start, none is lost."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.cli.hub_process import HubProcess
from tests.relay.conftest import url as url

from tieline.bus import open_bus
from tieline.client import Client, connect
from tieline.events import TurnStarted
from tieline.protocol.schedules import NewSchedule, ScheduleRun
from tieline.script import Say
from tieline.sessions.event_log import EventLog
from tieline.testing.cli_process import CliProcess

KILLS = 6
BOUND = 120.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def runs_that_are_over(client: Client, ids: Sequence[str]) -> list[ScheduleRun]:
    """Of these schedules, once none goes on."""
    while True:  # each look is a request
        runs = [run for id in ids for run in (await client.schedule(id)).runs]
        if not any(run.is_open for run in runs):
            return runs


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
                await runs_that_are_over(client, ids)
                # The answer comes when the run is claimed: the kill meets its start, or what comes after.
                await asyncio.gather(*[client.run_schedule(id) for id in ids])
                for _ in range(kill):
                    await client.schedules()
            await asyncio.to_thread(hub.kill)
            await asyncio.to_thread(hub.start)
        async with connect(cli.env) as client, asyncio.timeout(BOUND):
            await runs_that_are_over(client, ids)
            undisturbed = {(await client.run_schedule(id)).id for id in ids}
            runs = await runs_that_are_over(client, ids)
    finally:
        await asyncio.to_thread(hub.stop)
    assert len(runs) == (KILLS + 1) * len(ids)
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
    assert {run.outcome for run in runs if run.id in undisturbed} == {"success"}
