"""A person's desk: real harnesses in real terminals in one home, installed by the command, and the hub beside them."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import msgspec

from tieline.client import Client, connect
from tieline.client.hub_address import running_hub
from tieline.environment import config_path
from tieline.errors import TielineError
from tieline.paths import state as state_directory
from tieline.protocol.mesh import Activity, MemberView
from tieline.protocol.messages import MessageView
from tieline.script import Call, Run, Say
from tieline.testing.harness_terminals import HOMES, HarnessHome
from tieline.testing.rig import scratch_env
from tieline.testing.tmux_terminal import TmuxTerminal
from tieline.testing.wait_for import at_work_in, eventually

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"
TIELINE = str(Path(sys.executable).with_name("tieline"))
BOUND = 120.0
ARGUMENTS = {"claude-code": ("--allowedTools", "mcp__tieline")}
"""The person lets the agent use Tieline's tools without asking. With options like that, Codex leaves its shared daemon:
there the person answers at the terminal."""

RESUME = {"claude-code": ("--resume",), "codex": ("resume",), "opencode": ("--session",)}


def tool(harness: str, name: str, /, **arguments: object) -> Call:
    """A call of one of our tools, as a harness names it to its model."""
    match harness:
        case "claude-code":
            return Call(f"mcp__tieline__{name}", arguments)
        case "gemini":
            return Call(f"mcp_tieline_{name}", arguments)
        case "codex":
            return Call(name, {"namespace": "mcp__tieline", **arguments})
        case _:
            return Call(f"tieline_{name}", arguments)


def until_exists(name: str) -> Run:
    """A tool that runs until the project has a file of that name; `Desk.running` waits for it to begin."""
    return Run(f"while [ ! -e {name} ]; do sleep 0.1; done")


class Desk:
    """A person's terminals, each with another harness, and a client of the hub that runs beside them."""

    def __init__(self, env: Mapping[str, str], root: Path, stack: AsyncExitStack, client: Client) -> None:
        self.env = env
        self.client = client
        self.homes: dict[str, HarnessHome] = {}
        self.terminals: dict[str, TmuxTerminal] = {}
        self._root = root
        self._stack = stack

    async def open(self, harness: str, *arguments: str) -> TmuxTerminal:
        """A terminal with that harness, once the harness has listed our tools: a model that calls them before does not
        know them."""
        log = state_directory(self.env) / "hub.log"
        before = mcp_calls(log)
        terminal = self.homes[harness].terminal(*ARGUMENTS.get(harness, ()), *arguments)
        self.terminals[harness] = await self._stack.enter_async_context(terminal)
        await eventually(lambda: mcp_calls(log) >= before + 2, f"{harness} does not list our tools", timeout=BOUND)
        return self.terminals[harness]

    async def resume(self, member: MemberView) -> TmuxTerminal:
        """The session of a member in a new terminal."""
        harness = member.harness
        terminal = self.homes[harness].terminal(*ARGUMENTS.get(harness, ()), *RESUME[harness], member.session)
        self.terminals[harness] = await self._stack.enter_async_context(terminal)
        return self.terminals[harness]

    async def notified(self, words: str) -> None:
        """A person saw that on the desktop."""
        file = self._root / "notifications"
        await eventually(
            lambda: file.exists() and words in file.read_text(), f"nobody was notified: {words!r}", timeout=BOUND
        )

    # --- the hub ---

    async def start_hub(self) -> None:
        await tieline(self.env, self._root, "up")

    async def kill_hub(self) -> None:
        """SIGKILL: not a word of farewell."""
        hub = running_hub(self.env)
        assert hub is not None
        os.kill(hub.pid, signal.SIGKILL)
        await eventually(lambda: running_hub(self.env) is None, "the hub does not die", timeout=BOUND)

    # --- members ---

    async def member(self, harness: str) -> MemberView:
        """The agent of that terminal, once it is idle. It registered by itself."""
        return await self.activity(harness, "idle")

    async def activity(self, harness: str, activity: Activity) -> MemberView:
        async with asyncio.timeout(BOUND):
            while not (members := await self.client.members(harness=harness, activity=activity)):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        (member,) = members
        return member

    async def running(self, harness: str, name: str) -> None:
        """Until the tool that waits for a file runs: what is said before that is part of the turn's beginning."""
        project = self.homes[harness].project
        await eventually(
            lambda: any(f"! -e {name} ]" in line for line in at_work_in(project)),
            "its tool does not run",
            timeout=BOUND,
        )

    async def ended(self, member: MemberView, *, unread: int | None = None) -> MemberView:
        """Once its session is known to have ended, and so many messages wait for it: what it did not take comes back a
        moment later."""
        async with asyncio.timeout(BOUND):
            while not (now := await self.client.member(member.id)).ended or unread not in (None, now.unread):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        return now

    # --- messages ---

    async def heard(self, harness: str, words: str) -> None:
        rig = self.homes[harness].rig
        await eventually(lambda: words in rig.heard(), f"{harness} never heard {words!r}", timeout=BOUND)

    def times_heard(self, harness: str, words: str) -> int:
        """In the whole conversation, as the model was given it last."""
        return msgspec.json.encode(self.homes[harness].rig.model.requests[-1]).decode().count(words)

    async def reached(self, message: MessageView, *states: str) -> None:
        """The receipt says so; what the terminal shows may be a moment ahead of it."""
        seen: set[str] = set()
        with suppress(TimeoutError):
            async with asyncio.timeout(BOUND):
                while not set(states) <= seen:
                    seen = {step.state for step in (await self.client.message(message.receipt.id)).receipt.steps}
                    await asyncio.sleep(0.1)  # the hub has better things to do
        assert set(states) <= seen

    async def sent(self, text: str) -> MessageView:
        """The one message with that text, once it is stored."""
        async with asyncio.timeout(BOUND):
            while not (messages := [message for message in await self.messages() if text_of(message) == text]):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        (message,) = messages
        return message

    async def messages(self) -> list[MessageView]:
        """All that were sent, oldest first."""
        threads = await self.client.threads()
        traces = [await self.client.trace(thread.first.receipt.id) for thread in threads]
        return sorted(
            (message for trace in traces for message in trace.messages), key=lambda message: message.receipt.seq
        )

    async def allow(self, harness: str) -> None:
        """As a person does at the terminal, where the harness asks before it uses our tools."""
        if harness == "codex":
            await self.terminals[harness].answer("Allow the tieline MCP server", "Down", "Enter")  # for this session


def text_of(message: MessageView) -> str:
    return message.envelope.payload.as_text() if message.envelope else ""


@asynccontextmanager
async def desk(root: Path, *harnesses: str) -> AsyncGenerator[Desk, None]:
    async with AsyncExitStack() as stack:
        env = scratch_env(root / "home", path=f"{desktop(root)}:/usr/bin:/bin", DISPLAY=":0")
        config = Path(config_path(env))
        config.parent.mkdir(parents=True)
        config.write_text("[hub]\nport = 0\n[mesh]\nnotify_after_s = 1\n")  # also of a hub that a harness starts
        homes = {name: await stack.enter_async_context(HOMES[name](root, BINARIES)) for name in harnesses}
        await tieline(env, root, "install", *harnesses, "--yes")
        await tieline(env, root, "up")
        stack.push_async_callback(tieline, env, root, "down")
        at = Desk(env, root, stack, await stack.enter_async_context(connect(env)))
        at.homes.update(homes)
        for name in harnesses:
            await at.open(name)
        if "opencode" in at.terminals:  # it has no session before its first prompt
            homes["opencode"].rig.play([Say("Hello, too.")])
            await at.terminals["opencode"].submit("hello")
            await at.terminals["opencode"].shows("Hello, too.")
        try:
            yield at
        except BaseException as error:
            with suppress(TielineError):
                error.add_note(f"The members: {await at.client.members(ended=True)}")
                error.add_note("\n".join(str(message) for message in await at.messages()))
            for name, terminal in at.terminals.items():
                with suppress(AssertionError):  # it was closed
                    error.add_note(f"The screen of {name}:\n{await terminal.screen()}")
            raise


def desktop(root: Path) -> Path:
    """The folder with the desktop's program for notifications, which writes each into a line of `notifications`."""
    folder = root / "desktop"
    folder.mkdir()
    program = folder / "notify-send"
    program.write_text(f'#!/bin/sh\nshift 2\necho "$*" >> {root}/notifications\n')
    program.chmod(0o755)
    return folder


def mcp_calls(log: Path) -> int:
    return sum('"path": "/mcp", "status": 200' in line for line in log.read_text().splitlines())


async def tieline(env: Mapping[str, str], cwd: Path, *arguments: str) -> None:
    await run(env, cwd, TIELINE, *arguments)


async def run(env: Mapping[str, str], cwd: Path, *command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(BOUND):
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
