"""`tieline run` through a running hub with a warm pool, against the agent's own command: the same short turn."""

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from tieline.bootstrap.daemon import StartOptions, StartResult

from .agents import BINARIES, PROMPT, TIELINE, Agent, agents, setting
from .rows import Row, at_most

NAMES = ("claude-code", "gemini")
ROUNDS = 9
LIMIT = 0.5
REFILL_S = 30.0
"""How long the next warm agent may take to start."""


@contextmanager
def hub(
    cwd: str, env: Mapping[str, str], program: Sequence[str] = ("-m", "tieline.bootstrap"), *arguments: str
) -> Generator[int, None, None]:
    """A hub in a process of its own; gives its id."""
    ready, say = os.pipe()
    order = msgspec.json.encode(StartOptions(port=0, ready=say)).decode()
    process = subprocess.Popen(
        [sys.executable, *program, order, *arguments],
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[say],
    )
    os.close(say)
    try:
        with os.fdopen(ready, "rb") as pipe:
            started = msgspec.json.decode(pipe.readline() or b"{}", type=StartResult)
        assert started.url, started
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)


def settled(pid: int) -> None:
    """Wait until the hub and its agents are quiet: the pool is full again, and nobody starts."""
    deadline = time.monotonic() + REFILL_S
    quiet, before = 0, -1
    while quiet < 4 and time.monotonic() < deadline:
        time.sleep(0.25)
        ticks = sum(map(_ticks, _family(pid)))
        quiet = quiet + 1 if ticks - before <= 2 else 0
        before = ticks


def _family(pid: int) -> list[int]:
    family = [pid]
    for parent in family:
        for task in _listed(f"/proc/{parent}/task"):
            try:
                with open(f"/proc/{parent}/task/{task}/children") as file:  # noqa: PTH123
                    family += map(int, file.read().split())
            except OSError:
                continue
    return family


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208
    except OSError:
        return []


def _ticks(pid: int) -> int:
    """Processor time that it has used."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            fields = file.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    except (OSError, ValueError):
        return 0


async def against_bare(agent: Agent) -> Row:
    async with setting(agent) as (_, cwd, env):
        ours = {**env, "PYTHONPYCACHEPREFIX": f"{os.path.dirname(cwd)}/pyc"}  # noqa: PTH120
        through = (str(TIELINE), "run", agent.name, PROMPT, *agent.options)

        def timed(argv: tuple[str, ...], environ: Mapping[str, str]) -> float:
            start = time.perf_counter()
            subprocess.run(
                argv,
                cwd=cwd,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=120,
            )
            return time.perf_counter() - start

        def measured() -> tuple[list[float], list[float]]:
            with hub(cwd, ours) as pid:
                hub_times: list[float] = []
                bare_times: list[float] = []
                for number in range(ROUNDS + 2):
                    settled(pid)
                    times = timed(through, ours), timed(agent.bare, env)
                    if number >= 2:  # before that, caches and the pool are filled
                        hub_times.append(times[0])
                        bare_times.append(times[1])
                return hub_times, bare_times

        hub_times, bare_times = await asyncio.to_thread(measured)
    note = "`tieline run` through a hub with a warm pool : its own command"
    return at_most(
        f"{agent.name}: a turn through the hub",
        statistics.median(hub_times),
        statistics.median(bare_times),
        LIMIT,
        note,
    )


async def measure(names: tuple[str, ...] = NAMES) -> list[Row]:
    assert BINARIES.is_dir(), "the agents are installed by `make setup`"
    return [await against_bare(agent) for agent in agents() if agent.name in names]


if __name__ == "__main__":
    for row in asyncio.run(measure(tuple(sys.argv[1:]) or NAMES)):
        print(row)
