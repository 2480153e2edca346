"""A team's conversation against the same turns without a team, and a long conversation against a short one: scripted
members, who hand over to each other at once."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise
from pathlib import Path

from tieline.bootstrap.relay import HubSessions
from tieline.bus import Bus, open_bus
from tieline.channels.base import SessionRequest, SessionService
from tieline.config import Config
from tieline.drivers.scripted import Scripted
from tieline.ids import new_id
from tieline.protocol.teams import ConversationLimits, NewTeam, Team, TeamEnded, TeamMember, TurnBegan
from tieline.script import Reply, Say
from tieline.sessions.event_log import subject as log_subject
from tieline.sessions.manager import SessionManager
from tieline.sessions.turn_follower import TurnFollower
from tieline.teams.records import decode_entry, subject
from tieline.teams.teams import Teams
from tieline.testing.in_process_hub import hub_around

from .rows import Row, at_most
from .sessions import FULL

NAMES = ("one", "two")
SHORT, LONG = 10, 1000
ROUNDS = 12
PLAIN_TURNS = 20
ALLOWED_S = 0.005
BOUND_S = 600.0


class Hands(list[Reply]):
    """A script that never ends: each reply hands over to the other member."""

    def __init__(self, other: str) -> None:
        self._reply: Reply = (Say(f"I have done my part; the next step is yours.\n[NEXT: {other}]"),)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: object) -> Reply:  # type: ignore[override]
        return self._reply


class Setting:
    def __init__(self, bus: Bus, sessions: SessionService, teams: Teams, turns: TurnFollower, folder: Path) -> None:
        self._bus = bus
        self._sessions = sessions
        self._teams = teams
        self._turns = turns
        self._folder = folder

    async def conversation(self, rounds: int) -> list[float]:
        """Seconds from each turn's begin to the next one's."""
        members = tuple(TeamMember(name=name, agent=name, cwd=str(self._folder), policy="full") for name in NAMES)
        team = Team(name="bench", members=members, conversation=ConversationLimits(max_rounds=rounds))
        started = await self._teams.start(NewTeam(team=team, task="Go on."), by="bench")
        began: list[float] = []
        async with asyncio.timeout(BOUND_S), aclosing(self._bus.read(subject(started.id))) as records:
            async for record in records:
                match decode_entry(record.data):
                    case TurnBegan():
                        began.append(time.perf_counter())
                    case TeamEnded():
                        break
                    case _:
                        pass
        assert len(began) == rounds, began
        return [after - before for before, after in pairwise(began)]

    async def without_team(self, count: int) -> list[float]:
        """The same turns, prompted by hand: seconds of each, from its prompt to its end."""
        ids = [new_id() for _ in NAMES]
        for id, name in zip(ids, NAMES, strict=True):
            await self._sessions.create(id, SessionRequest(agent=name, cwd=str(self._folder), policy=FULL))
        taken: list[float] = []
        for number in range(count):
            session, prompt = ids[number % 2], f"p-{number}"
            start = time.perf_counter()
            after = await self._bus.last(log_subject(session))
            await self._sessions.prompt(session, prompt, "[MESSAGE]\n[FROM: two]\nThe next step is yours.")
            await self._turns.end(session, prompt, after=after)
            taken.append(time.perf_counter() - start)
        return taken


@asynccontextmanager
async def setting() -> AsyncGenerator[Setting, None]:
    drivers = {name: Scripted(Hands(other)) for name, other in zip(NAMES, reversed(NAMES), strict=True)}
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as directory:
        folder = Path(directory)
        env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TIELINE_HOME": str(folder / "state")}
        config = Config(environ=env)
        async with (
            open_bus(f"sqlite://{folder}/bus.db") as bus,
            SessionManager(bus, config, drivers=drivers) as manager,
            hub_around(manager, bus, config) as hub,
            TurnFollower(bus) as turns,
            Teams(bus, HubSessions(hub)) as teams,
        ):
            yield Setting(bus, HubSessions(hub), teams, turns, folder)


async def measure() -> list[Row]:
    """The first turn of each member opens its session, with and without a team: it is left out."""
    plain: list[float] = []
    team: list[float] = []
    async with setting() as here:
        await here.conversation(SHORT)  # what is run for the first time
        for _ in range(ROUNDS):
            plain += (await here.without_team(PLAIN_TURNS))[2:]
            team += (await here.conversation(SHORT))[2:]
        last = (await here.conversation(LONG))[-100:]
        for _ in range(ROUNDS):
            team += (await here.conversation(SHORT))[2:]
    without, short, long = (statistics.median(each) for each in (plain, team, last))
    note = f"seconds; a turn takes {short * 1000:.1f} ms in a team, {without * 1000:.1f} ms without one"
    return [
        at_most("what a team adds to a turn : 5 ms", short - without, ALLOWED_S, 1.0, note),
        at_most(f"a turn after {LONG:,} turns : after {SHORT}", long, short, 1.3, "seconds"),
    ]
