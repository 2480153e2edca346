"""A hub that is killed by SIGKILL again and again: the conversation goes on, no turn is lost and none is repeated; what
members did in their worktrees is committed once."""

import asyncio
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from tests.cli.hub_process import HubProcess
from tests.teams.conftest import url as url
from tests.teams.test_worktrees import git

from tieline.bus import open_bus
from tieline.client import Client, connect
from tieline.events import TurnStarted
from tieline.protocol import teams as p
from tieline.script import Run, Say
from tieline.sessions.event_log import EventLog
from tieline.testing.cli_process import CliProcess

KILLS = 6
TURNS = 600  # more than it takes in that time

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def test_after_every_kill_it_goes_on_where_it_was(url: str, tmp_path: Path) -> None:
    cli = CliProcess(tmp_path / "cli")
    cli.configure(f'bus = "{url}"\n')
    cli.agent("one", *[[Say("[NEXT: two]")]] * TURNS)
    cli.agent("two", *[[Say("[NEXT: one]")]] * TURNS)
    members = tuple(p.TeamMember(name=name, agent=name, cwd=str(cli.place)) for name in ("one", "two"))
    team = p.Team(name="shop", members=members, conversation=p.ConversationLimits(max_rounds=TURNS))
    entries = await _run_and_kill(cli, team)
    began = [entry for entry in entries if isinstance(entry, p.TurnBegan)]
    ended = [entry for entry in entries if isinstance(entry, p.TurnEnded)]
    assert [entry.turn for entry in began] == [entry.turn for entry in ended] == list(range(1, len(began) + 1))
    assert {entry.status for entry in ended} <= {"success", "indeterminate"}
    async with open_bus(url) as bus:
        turns = Counter[str]()
        for session in {entry.session for entry in began}:
            async for logged in EventLog(bus).read(session, follow=False):
                if isinstance(logged.event, TurnStarted):
                    turns[logged.event.id] += 1
    successes = {entry.prompt for entry, end in zip(began, ended, strict=True) if end.status == "success"}
    assert successes <= set(turns)
    assert len(successes) >= KILLS / 2
    assert {prompt: times for prompt, times in turns.items() if times != 1} == {}


async def test_work_in_worktrees_is_committed_once_whenever_the_hub_is_killed(tmp_path: Path) -> None:
    """A turn adds a line to a file of its worktree, and then to a list elsewhere: what is there is not lost."""
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    git(repository, "commit", "-q", "--allow-empty", "-m", "first")
    cli = CliProcess(tmp_path / "cli")
    names = ("one", "two")
    for name in names:
        work = f"line=$(cat /proc/sys/kernel/random/uuid); echo $line >> work.txt; echo $line >> {tmp_path}/{name}"
        cli.agent(name, *[[Run(work)], [Say("[NEXT: one, two]")]] * TURNS)
    members = tuple(
        p.TeamMember(name=name, agent=name, cwd=str(repository), worktree=True, policy="full") for name in names
    )
    team = p.Team(name="shop", members=members, conversation=p.ConversationLimits(max_rounds=TURNS, parallel=2))
    entries = await _run_and_kill(cli, team)
    git(repository, "fsck", "--strict")
    for name in {entry.member for entry in entries if isinstance(entry, p.TurnBegan)}:
        (tree,) = {entry.worktree for entry in entries if isinstance(entry, p.TurnBegan) and entry.member == name}
        ended = [entry for entry in entries if isinstance(entry, p.TurnEnded) and entry.member == name]
        assert {entry.status for entry in ended} <= {"success", "indeterminate"}
        works = [entry.work for entry in ended if entry.work is not None]
        assert len(works) == len(ended) and not any(work.problem for work in works)
        (branch,) = {work.branch for work in works}
        assert git(tree, "status", "--porcelain", "--branch") == f"## {branch}", "all is committed"
        assert git(repository, "rev-parse", branch) == works[-1].commit
        turns = git(repository, "log", "--format=%s", f"main..{branch}").splitlines()
        assert len(turns) == len(set(turns)), "no turn is committed twice"
        assert set(turns) <= {f"shop: turn {entry.turn}, {name}" for entry in ended}
        committed = git(repository, "show", f"{branch}:work.txt").splitlines() if turns else []
        done = (tmp_path / name).read_text().splitlines() if (tmp_path / name).exists() else []
        assert len(committed) == len(set(committed)) and set(done) <= set(committed), "nothing is lost"
    assert sum(map(_succeeded, entries)) >= KILLS / 2


async def _run_and_kill(cli: CliProcess, team: p.Team) -> list[p.AnyEntry]:
    """The log of a conversation whose hub was killed again and again, to its end."""
    alice = p.TeamMember(name="alice", human=True)
    team = msgspec.structs.replace(team, members=(*team.members, alice))
    hub = HubProcess(cli)
    await asyncio.to_thread(hub.start)
    try:
        async with connect(cli.env) as client:
            started = await client.start_team(p.NewTeam(team=team, task="Go."))
        seen = 0
        for kill in range(KILLS):
            async with connect(cli.env) as client:
                succeeded = kill % 2 == 0  # every other time it is killed at once, wherever it is
                while not succeeded or not seen:
                    page = await client.team_entries(started.id, after=seen, wait_s=30)
                    seen = page.entries[-1].seq
                    succeeded |= any(_succeeded(each.entry) for each in page.entries)
            await asyncio.to_thread(hub.kill)
            await asyncio.to_thread(hub.start)
        async with connect(cli.env) as client:
            await client.act_in_team(started.id, p.Speak(text="Enough.\n[DONE]"))
            while (await client.team(started.id)).status != "ended":  # once nobody works any more
                page = await client.team_entries(started.id, after=seen, wait_s=30)
                seen = page.entries[-1].seq if page.entries else seen
            return await _log(client, started.id)
    finally:
        await asyncio.to_thread(hub.stop)


def _succeeded(entry: p.AnyEntry) -> bool:
    return isinstance(entry, p.TurnEnded) and entry.status == "success"


async def _log(client: Client, team: str) -> list[p.AnyEntry]:
    entries: list[p.TeamEntry] = []
    while True:
        page = await client.team_entries(team, after=entries[-1].seq if entries else 0, limit=500)
        entries += page.entries
        if not page.more:
            return [each.entry for each in entries]
