"""A hub that is killed by SIGKILL again and again: the conversation goes on, no turn is lost and none is repeated."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from tests.cli.hub_process import HubProcess
from tests.teams.conftest import url as url

from tieline.bus import open_bus
from tieline.client import connect
from tieline.events import TurnStarted
from tieline.protocol import teams as p
from tieline.script import Say
from tieline.sessions.event_log import EventLog
from tieline.testing.cli_process import CliProcess

ROUNDS = 6

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def test_after_every_kill_it_goes_on_where_it_was(url: str, tmp_path: Path) -> None:
    cli = CliProcess(tmp_path / "cli")
    cli.configure(f'bus = "{url}"\n')
    cli.agent("one", *[[Say("[NEXT: two]")]] * 2 * ROUNDS)
    cli.agent("two", *[[Say("[NEXT: one]")]] * 2 * ROUNDS)
    members = tuple(p.TeamMember(name=name, agent=name, cwd=str(cli.place)) for name in ("one", "two"))
    team = p.Team(name="shop", members=members, conversation=p.ConversationLimits(max_rounds=ROUNDS))
    hub = HubProcess(cli)
    await asyncio.to_thread(hub.start)
    try:
        async with connect(cli.env) as client:
            started = await client.start_team(p.NewTeam(team=team, task="Go."))
        seen = kills = 0
        while True:
            async with connect(cli.env) as client:
                page = await client.team_entries(started.id, after=seen, wait_s=20)
                view = await client.team(started.id)
            if view.status == "ended":
                break
            if page.entries:
                seen = page.entries[-1].seq
                await asyncio.to_thread(hub.kill)
                await asyncio.to_thread(hub.start)
                kills += 1
        async with connect(cli.env) as client:
            entries = [each.entry for each in (await client.team_entries(started.id, limit=1000)).entries]
    finally:
        await asyncio.to_thread(hub.stop)
    assert kills >= ROUNDS / 2
    assert view.reason == f"the limit of {ROUNDS} rounds is reached"
    began = [entry for entry in entries if isinstance(entry, p.TurnBegan)]
    ended = [entry for entry in entries if isinstance(entry, p.TurnEnded)]
    assert [entry.turn for entry in began] == list(range(1, ROUNDS + 1))
    assert [entry.turn for entry in ended] == list(range(1, ROUNDS + 1))
    assert {entry.status for entry in ended} <= {"success", "indeterminate"}
    async with open_bus(url) as bus:
        turns = Counter[str]()
        for session in {entry.session for entry in began}:
            async for logged in EventLog(bus).read(session, follow=False):
                if isinstance(logged.event, TurnStarted):
                    turns[logged.event.id] += 1
    succeeded = {entry.prompt for entry, end in zip(began, ended, strict=True) if end.status == "success"}
    assert succeeded <= set(turns)
    assert set(turns.values()) == {1}
