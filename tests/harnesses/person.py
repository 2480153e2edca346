"""A person with a harness in a terminal, and the command line of a hub that runs beside it as a process of its own."""

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from tests.harnesses.desk import BINARIES, BOUND, TIELINE

from tieline.client import Client, connect
from tieline.client.hub_address import running_hub
from tieline.environment import config_path
from tieline.events import Event
from tieline.protocol.stream_frames import EventFrame
from tieline.script import Say
from tieline.sessions.records import AskRecord, SessionRecord
from tieline.testing.harness_terminals import HOMES, HarnessHome, HarnessHomeFactory
from tieline.testing.tmux_terminal import TmuxTerminal
from tieline.testing.wait_for import eventually


class SeenFromTheHub:
    """Sessions and asks, as a client of the hub is told of them."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def session(self, kind: str, status: str, turns: int) -> SessionRecord:
        """The one that was active last, once it is like that."""
        sessions: list[SessionRecord] = []
        try:
            async with asyncio.timeout(BOUND):
                while [(session.kind, session.status, session.turns) for session in sessions[:1]] != [
                    (kind, status, turns)
                ]:
                    await asyncio.sleep(0.1)
                    sessions = await self.client.sessions()
        except TimeoutError:
            raise AssertionError(f"no session is {kind} and {status} after {turns} turns: {sessions}") from None
        return sessions[0]

    async def takes(self, session: str, remote: tuple[str, ...]) -> None:
        """From elsewhere, once it does."""
        async with asyncio.timeout(BOUND):
            while next(one.remote for one in await self.client.sessions() if one.id == session) != remote:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def ask(self) -> AskRecord:
        async with asyncio.timeout(BOUND):
            while not (asks := await self.client.asks()):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        return asks[0]


class Person(SeenFromTheHub):
    def __init__(self, home: HarnessHome, env: Mapping[str, str], client: Client) -> None:
        super().__init__(client)
        self.home = home
        self.env = env

    async def tieline(self, *arguments: str) -> tuple[int, str]:
        """Its exit status and what it said."""
        return await run(self.env, self.home.project, *arguments)

    async def turn(self, terminal: TmuxTerminal, prompt: str, answer: str, turns: int) -> SessionRecord:
        """Typed at the terminal; the session's `turns`-th."""
        self.home.rig.play([Say(answer)])
        await terminal.submit(prompt)
        await terminal.shows(answer)
        return await self.session("attached", "idle", turns)

    async def log(self, session: str) -> list[Event]:
        frames: list[EventFrame] = []
        more = True
        while more:
            page = await self.client.events(session, after=frames[-1].seq if frames else 0, limit=500)
            frames += page.events
            more = page.more
        return [entry.event for entry in frames]

    async def kill_hub(self) -> None:
        """SIGKILL: not a word of farewell."""
        hub = running_hub(self.env)
        assert hub is not None
        os.kill(hub.pid, signal.SIGKILL)
        await eventually(lambda: running_hub(self.env) is None, "the hub does not die", timeout=BOUND)

    async def start_hub(self) -> None:
        """Or the harness has started one, which finds none for its server."""
        status, output = await self.tieline("up")
        assert status == 0 or "already runs" in output or "runs here already" in output, output
        await eventually(lambda: running_hub(self.env) is not None, "no hub runs", timeout=BOUND)


async def run(env: Mapping[str, str], cwd: Path, *arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        TIELINE, *arguments, cwd=cwd, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(BOUND):
        output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


def put_on_path(home: HarnessHome, root: Path) -> None:
    """The harness, by its own name, and its part for ACP where that is a program of its own."""
    programs, harness = root / "programs", Path(home.argv[0])
    programs.mkdir()
    for program in (harness, harness.with_name(f"{harness.name}-acp")):
        if program.exists():
            (programs / program.name).symlink_to(program)
    home.env = {**home.env, "PATH": f"{programs}:{home.env['PATH']}"}


async def person(
    stack: AsyncExitStack,
    harness: str,
    root: Path,
    *,
    home_of: HarnessHomeFactory | None = None,
    installed: bool = True,
    attach: bool = True,
) -> Person:
    """Who lets Tieline read along, or not yet. The harness is on PATH by its own name."""
    home = await stack.enter_async_context((home_of or HOMES[harness])(root, BINARIES))
    put_on_path(home, root)
    config = Path(config_path(home.env))
    config.parent.mkdir(parents=True)
    config.write_text("[hub]\nport = 0\n")
    if installed:
        status, output = await run(home.env, root, "install", harness, *(["--attach"] if attach else []), "--yes")
        assert status == 0, output
    stack.push_async_callback(run, home.env, root, "down")
    status, output = await run(home.env, root, "up")
    assert status == 0, output
    return Person(home, home.env, await stack.enter_async_context(connect(home.env)))
