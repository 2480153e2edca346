"""A conversation moves between a person's terminal and the phone, in both directions: one conversation, one log, and
one who writes at a time. The real harnesses in real terminals, with a hub of its own process."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from tests.harnesses.desk import BINARIES, BOUND, TIELINE

from tieline.client import Client, connect
from tieline.environment import config_path
from tieline.events import Done, Event, TurnStarted
from tieline.protocol.request_bodies import Decision
from tieline.script import Run, Say
from tieline.sessions.records import SessionRecord
from tieline.testing.harness_terminals import HOMES, HarnessHome
from tieline.testing.tmux_terminal import TmuxTerminal

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

TURNS = [f"This is turn {word}." for word in ("one", "two", "three", "four", "five", "six")]


class Person:
    """Who sits at the terminal, and has the command line of a hub."""

    def __init__(self, home: HarnessHome, env: Mapping[str, str], client: Client) -> None:
        self.home = home
        self.env = env
        self.client = client

    async def tieline(self, *arguments: str) -> tuple[int, str]:
        return await run(self.env, self.home.project, *arguments)

    async def session(self, kind: str, status: str, turns: int) -> SessionRecord:
        """The only one, once it is like that."""
        found: list[SessionRecord] = []
        try:
            async with asyncio.timeout(BOUND):
                while [(one.kind, one.status, one.turns) for one in found] != [(kind, status, turns)]:
                    await asyncio.sleep(0.1)
                    found = await self.client.sessions()
        except TimeoutError:
            raise AssertionError(f"no session is {kind} and {status} after {turns} turns: {found}") from None
        return found[0]

    async def turn(self, terminal: TmuxTerminal, number: int) -> None:
        """Typed at the terminal."""
        self.home.rig.play([Say(f"Answer {number}.")])
        await terminal.submit(TURNS[number - 1])
        await terminal.shows(f"Answer {number}.")
        await self.session("attached", "idle", number)

    async def log(self, session: str) -> list[Event]:
        return [entry.event for entry in (await self.client.events(session, after=0, limit=500)).events]


async def run(env: Mapping[str, str], cwd: Path, *arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        TIELINE, *arguments, cwd=cwd, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(BOUND):
        output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def up(stack: AsyncExitStack, harness: str, root: Path) -> Person:
    home = await stack.enter_async_context(HOMES[harness](root, BINARIES))
    programs = root / "programs"
    programs.mkdir()
    (programs / Path(home.argv[0]).name).symlink_to(home.argv[0])
    env = {**home.env, "PATH": f"{programs}:{home.env['PATH']}"}
    home.env = env
    config = Path(config_path(env))
    config.parent.mkdir(parents=True)
    config.write_text("[hub]\nport = 0\n")
    for command in (("install", harness, "--attach", "--yes"), ("up",)):
        status, output = await run(env, root, *command)
        assert status == 0, output
    stack.push_async_callback(run, env, root, "down")
    return Person(home, env, await stack.enter_async_context(connect(env)))


@pytest.mark.parametrize("harness", ["claude-code", "codex", "opencode"])
async def test_six_turns_at_the_terminal_on_the_phone_and_at_the_terminal_again(harness: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await up(stack, harness, tmp_path)
        play, project = at.home.rig.play, at.home.project
        terminal = await stack.enter_async_context(at.home.terminal())
        for number in (1, 2, 3):
            await at.turn(terminal, number)
        session = await at.session("attached", "idle", 3)

        status, output = await at.tieline("adopt", session.id)
        assert status != 0
        assert "this session is open in a terminal" in output
        status, output = await at.tieline("open", session.id, "--terminal", "--print")
        assert status != 0
        assert "open in a terminal already" in output
        await terminal.hang_up()
        await at.session("attached", "closed", 3)
        status, output = await at.tieline("adopt", session.id, "--json")
        assert status == 0, output
        assert json.loads(output)["kind"] == "driven"

        play([Run("touch four")], [Say("Answer 4.")])
        await at.client.prompt(session.id, TURNS[3])
        await at.session("driven", "waiting", 3)
        status, output = await at.tieline("open", session.id, "--terminal", "--print")
        assert status != 0
        assert "a turn is running" in output
        (ask,) = await at.client.asks()
        await at.client.answer(ask.id, Decision(decision="allow", digest=ask.digest))
        await at.session("driven", "idle", 4)
        assert (project / "four").exists()
        status, command = await at.tieline("open", session.id, "--terminal", "--print")
        assert status == 0, command
        await at.session("driven", "closed", 4)  # Tieline's agent has let go
        terminal = await stack.enter_async_context(at.home.terminal_of("sh", "-c", command))
        await at.session("attached", "idle", 4)
        for number in (5, 6):
            await at.turn(terminal, number)

        told = await at.log(session.id)
        assert [event.prompt for event in told if isinstance(event, TurnStarted)] == TURNS
        assert [event.status for event in told if isinstance(event, Done)] == ["success"] * 6
        given = msgspec.json.encode(at.home.rig.model.requests[-1]).decode()
        assert [given.count(prompt) for prompt in TURNS] == [1] * 6
