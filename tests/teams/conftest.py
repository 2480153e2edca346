"""A hub with teams whose members are scripted agents: real sessions, real buses, no model."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.relay.conftest import url as url

from tieline.bootstrap.relay import HubSessions
from tieline.bus import Bus, open_bus
from tieline.config import Config
from tieline.drivers.scripted import Scripted
from tieline.errors import UsageError
from tieline.policy import Policy
from tieline.protocol import teams as p
from tieline.script import Reply
from tieline.sessions.manager import SessionManager
from tieline.teams.teams import Teams
from tieline.teams.turn_commits import TeamWorktrees
from tieline.testing.in_process_hub import hub_around

BOUND = 60.0


class TeamsHere:
    def __init__(
        self, teams: Teams, bus: Bus, manager: SessionManager, folder: Path, heard: dict[str, list[str]]
    ) -> None:
        self.teams = teams
        self.bus = bus
        self.manager = manager
        self.folder = folder
        self.heard = heard  # by member: what reached its model, a text per call

    def team(self, *members: p.TeamMember | str, **conversation: object) -> p.Team:
        """A name is an agent of that name; `alice` is a person."""
        whole = [
            each
            if isinstance(each, p.TeamMember)
            else p.TeamMember(name=each, human=True)
            if each == "alice"
            else self.member(each)
            for each in members
        ]
        limits = p.ConversationLimits(**conversation)  # type: ignore[arg-type]
        return p.Team(name="shop", members=tuple(whole), conversation=limits)

    def member(self, name: str, **options: object) -> p.TeamMember:
        whole: dict[str, object] = {"agent": name, "cwd": str(self.folder), "policy": "full"} | options
        return p.TeamMember(name=name, **whole)  # type: ignore[arg-type]

    async def start(self, team: p.Team, task: str = "Go.") -> p.TeamView:
        return await self.teams.start(p.NewTeam(team=team, task=task), by="owner")

    async def run(self, team: p.Team, task: str = "Build it.") -> p.TeamView:
        """To its end."""
        started = await self.start(team, task)
        return await self.until(started.id, lambda view: view.status == "ended")

    async def until(self, id: str, holds: Callable[[p.TeamView], bool], *, within: float = BOUND) -> p.TeamView:
        after = 0
        view = await self.teams.view(id)
        try:
            async with asyncio.timeout(within):
                while not holds(view := await self.teams.view(id)):
                    page = await self.teams.entries(id, after=after, wait_s=0.5)
                    after = page.entries[-1].seq if page.entries else after
        except TimeoutError:
            raise AssertionError(f"not so within {within:g} s: {view}\n{await self.log(id)}") from None
        return view

    async def set_policy(self, session: str, policy: Policy) -> None:
        """At the session itself, as soon as it rests."""
        async with asyncio.timeout(BOUND):
            while True:
                try:
                    await self.manager.update(session, policy=policy)
                    return
                except UsageError as error:
                    assert error.message == "a turn is running"
                    await asyncio.sleep(0.01)

    async def log(self, id: str) -> list[p.AnyEntry]:
        return [each.entry for each in (await self.teams.entries(id, limit=10_000)).entries]

    async def messages(self, id: str) -> list[tuple[str, str]]:
        """Who said what, in order."""
        return [
            (entry.member, entry.text)
            for entry in await self.log(id)
            if isinstance(entry, p.PersonSpoke | p.TurnEnded) and getattr(entry, "status", "success") == "success"
        ]


@asynccontextmanager
async def teams_on(
    url: str, folder: Path, around: Callable[[Bus], Bus] = lambda bus: bus, /, **scripts: Sequence[Reply]
) -> AsyncGenerator[TeamsHere, None]:
    """Each agent plays its own script, a reply per turn. `around`: what the conversations have for a bus."""
    heard: dict[str, list[str]] = {name: [] for name in scripts}
    drivers = {name: Scripted(replies, on_model_input=heard[name].append) for name, replies in scripts.items()}
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TIELINE_HOME": str(folder.parent / "state")}
    config = Config(environ=env)
    async with (
        open_bus(url) as bus,
        SessionManager(bus, config, drivers=drivers) as manager,
        hub_around(manager, bus, config) as hub,
        Teams(around(bus), HubSessions(hub), worktrees=TeamWorktrees(env)) as teams,
    ):
        yield TeamsHere(teams, bus, manager, folder, heard)


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/bus.db"
