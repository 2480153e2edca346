"""Turns with the real agents over the scripted model: cold against the bare command, warm against the raw protocol."""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from tieline.api import open_session
from tieline.drivers.acp_recipes import GEMINI
from tieline.events import Done
from tieline.sessions.session import Session
from tieline.testing.rigs.acp import GeminiRig
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.rigs.codex import codex_rig
from tieline.testing.rigs.opencode import OpenCodeRig

from . import raw
from .rows import Row, at_least, at_most, side_by_side, side_by_side_async

ROOT = Path(__file__).parent.parent
BINARIES = ROOT / "tests" / "agents" / "node_modules" / ".bin"
TIELINE = Path(sys.executable).parent / "tieline"
PROMPT = "say hello"
COLD_ROUNDS = 7
WARM_ROUNDS = 25


class Agent(Struct, frozen=True):
    name: str
    rig: Callable[[Path], Any]
    bare: tuple[str, ...]  # its own command line for one turn
    server: tuple[str, ...]  # what the raw protocol is spoken with
    raw: Callable[[tuple[str, ...], str, Mapping[str, str]], Any]
    times_faster: float  # warm against bare and cold
    options: tuple[str, ...] = ()  # for `tieline run`


def claude() -> str:
    from importlib.util import find_spec

    spec = find_spec("claude_agent_sdk")
    assert spec is not None and spec.origin is not None
    return str(Path(spec.origin).parent / "_bundled" / "claude")


def agents() -> list[Agent]:
    codex, opencode, gemini = (str(BINARIES / name) for name in ("codex", "opencode", "gemini"))
    stream = ("--output-format", "stream-json", "--input-format", "stream-json", "--include-partial-messages")
    return [
        Agent(
            "claude-code",
            ClaudeCodeRig,
            (claude(), "-p", PROMPT),
            (claude(), "-p", "--verbose", *stream, "--permission-mode", "default"),
            raw.Claude,
            10,
        ),
        Agent(
            "codex",
            lambda home: codex_rig(home, BINARIES / "codex"),
            (codex, "exec", "--skip-git-repo-check", PROMPT),
            (codex, "app-server"),
            raw.Codex,
            3,
        ),
        Agent(
            "opencode",
            lambda home: OpenCodeRig(home, opencode),
            (opencode, "run", PROMPT),
            (opencode, "serve", "--port", "0", "--hostname", "127.0.0.1"),
            raw.OpenCode,
            10,
        ),
        Agent(
            "gemini",
            lambda home: GeminiRig(home, BINARIES),
            (gemini, "-p", PROMPT, "-m", GEMINI.model, "--skip-trust"),
            (gemini, "--acp", "-m", GEMINI.model, "--skip-trust"),
            raw.Acp,
            10,
            ("--model", GEMINI.model),
        ),
    ]


@asynccontextmanager
async def setting(agent: Agent) -> AsyncGenerator[tuple[Any, str, dict[str, str]], None]:
    """The rig, a directory, and an environment in which the agent is found by its name."""
    with tempfile.TemporaryDirectory() as scratch:
        cwd = Path(scratch, "place")
        cwd.mkdir()
        async with agent.rig(Path(scratch, "home")) as rig:
            own: Mapping[str, str] = rig.options["env"]
            env = {**own, "PATH": f"{BINARIES}:{own['PATH']}", "GEMINI_CLI_NO_RELAUNCH": "1"}
            yield rig, str(cwd), env


async def cold(agent: Agent) -> tuple[Row, float]:
    """The row, and what the bare command takes."""
    async with setting(agent) as (_, cwd, env):
        ours = {**env, "PYTHONPYCACHEPREFIX": str(Path(cwd).parent / "pyc")}

        def run(argv: tuple[str, ...], environ: Mapping[str, str]) -> None:
            subprocess.run(
                argv,
                cwd=cwd,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=120,
            )

        through = (str(TIELINE), "run", agent.name, PROMPT, *agent.options)
        kinds = [lambda: run(through, ours), lambda: run(agent.bare, env)]
        if agent.name == "claude-code":
            kinds.append(lambda: run((sys.executable, "-c", "import claude_agent_sdk"), ours))
            kinds.append(lambda: run((sys.executable, "-c", "pass"), ours))
        for kind in kinds:
            await asyncio.to_thread(kind)  # fill the caches of the disk
        medians = await asyncio.to_thread(side_by_side, kinds, COLD_ROUNDS)
    reference, note = medians[1], "`tieline run` : its own command"
    if agent.name == "claude-code":
        reference += medians[2] - medians[3]
        note = f"{note}, plus the SDK's import of {medians[2] - medians[3]:.2f} s"
    return at_most(f"{agent.name}: a cold turn", medians[0], reference, 1.15, note), medians[1]


async def warm(agent: Agent, bare: float) -> list[Row]:
    async with setting(agent) as (rig, cwd, env):
        options: dict[str, Any] = {**rig.options, "env": env}
        async with (
            open_session(rig.driver, cwd=cwd, policy="full", **options) as session,
            agent.raw(agent.server, cwd, env) as by_hand,
        ):
            for _ in range(3):
                await turn(session)
                await by_hand.turn(PROMPT)
            ours, reference = await side_by_side_async(
                [lambda: turn(session), lambda: by_hand.turn(PROMPT)], WARM_ROUNDS
            )
    return [
        at_most(f"{agent.name}: a warm turn", ours, reference, 1.2, "`open_session` : the raw protocol by hand"),
        at_least(
            f"{agent.name}: a warm turn, times faster", bare, ours, agent.times_faster, "its own command : warm turn"
        ),
    ]


async def turn(session: Session) -> None:
    async for event in session.turn(PROMPT):
        if isinstance(event, Done):
            assert event.status == "success", event


async def measure(names: tuple[str, ...] = ()) -> list[Row]:
    rows: list[Row] = []
    for agent in agents():
        if not names or agent.name in names:
            row, bare = await cold(agent)
            rows += [row, *await warm(agent, bare)]
    return rows


if __name__ == "__main__":
    for row in asyncio.run(measure(tuple(sys.argv[1:]))):
        print(row)
