"""A turn in a person's own terminal with Tieline's integration, and with the hub down, against one without: real
harnesses in tmux over the scripted model, which answers at once.

The three terminals take their turns in rounds. What counts is the middle one of the differences within a round: a slow
moment of the machine hits all three, and single turns differ from each other by far more than what is looked for. What
the machine does besides hardly changes the processor time of a turn: of the harness, and of what it starts, but for the
hub.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from tests.harnesses.desk import BINARIES, tieline

from tieline.client.hub_address import running_hub
from tieline.environment import config_path
from tieline.paths import state as state_directory
from tieline.script import Reply, Run, Say
from tieline.testing.harness_terminals import HOMES, HarnessHome
from tieline.testing.rig import scratch_env
from tieline.testing.tmux_terminal import TmuxTerminal
from tieline.testing.wait_for import eventually

from .rows import Row, at_most

ROUNDS = 25
LIMIT = 1.05
SETTLED_S = 0.7
"""After a turn, until its terminal and the hub have nothing more to do with it."""
TYPED_S = 0.4
"""Between the last letter and Enter: keys in a burst are taken as pasted."""
BOUND_S = 60.0
WORDS = "please look at the failing test in the checkout"
KINDS = ("without", "with", "down")
ARGUMENTS = {"claude-code": ("--allowedTools", "Bash")}
HARNESSES = ("claude-code", "codex", "opencode")


class Person:
    """At a terminal."""

    def __init__(self, harness: str, home: HarnessHome, terminal: TmuxTerminal) -> None:
        self._harness = harness
        self._home = home
        self._terminal = terminal
        self._asked: list[float] = []
        self.processor_s = 0.0  # of all turns
        home.rig.model.choose = self._note

    def _note(self, _: Any) -> Reply | None:
        self._asked.append(time.perf_counter())
        return None

    async def turn(self, number: int) -> float:
        """From Enter until the turn is over; seconds."""
        self._home.rig.play([Say("I look."), Run("true")], [Say(f"Reply {number}.")])
        await self._terminal.type(WORDS)
        await self._terminal.shows(WORDS[-20:])
        await asyncio.sleep(TYPED_S)
        self._asked.clear()
        before = self._used()
        start = time.perf_counter()
        await self._terminal.key("Enter")
        async with asyncio.timeout(BOUND_S):
            end = await self._end()
        await self._terminal.shows(f"Reply {number}.")
        await asyncio.sleep(SETTLED_S)
        self.processor_s += self._used() - before
        return end - start

    def _used(self) -> float:
        """Processor time until now; seconds."""
        hub = running_hub(self._home.env)
        mark, ticks = b"\0HOME=" + os.fsencode(self._home.home) + b"\0", 0
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in b"\0" + (entry / "environ").read_bytes() and (hub is None or int(entry.name) != hub.pid):
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    ticks += sum(map(int, fields[11:15]))  # with its children that have ended
        return ticks / os.sysconf("SC_CLK_TCK")

    async def _end(self) -> float:
        """Claude Code writes down when it is idle. Of the others nothing of ours runs after the model's last answer."""
        while len(self._asked) < 2:  # noqa: ASYNC110 (finer than an event of each call)
            await asyncio.sleep(0.001)
        if self._harness != "claude-code":
            return self._asked[1]
        (file,) = (self._home.home / ".claude" / "sessions").glob("*.json")
        while _status(file) != "idle":  # noqa: ASYNC110 (a file)
            await asyncio.sleep(0.001)
        return time.perf_counter()


def _status(file: Path) -> str:
    try:
        return msgspec.json.decode(file.read_bytes())["status"]
    except (msgspec.MsgspecError, KeyError):  # it is being written
        return ""


@asynccontextmanager
async def person(root: Path, harness: str, kind: str) -> AsyncGenerator[Person, None]:
    root.mkdir(parents=True)
    env = scratch_env(root / "home", path="/usr/bin:/bin")
    async with AsyncExitStack() as stack:
        home = await stack.enter_async_context(HOMES[harness](root, BINARIES))
        if kind != "without":
            config = Path(config_path(env))
            config.parent.mkdir(parents=True, exist_ok=True)
            config.write_text("[hub]\nport = 0\n")
            await tieline(env, root, "install", harness, "--attach", "--yes")
            await tieline(env, root, "up")
            stack.push_async_callback(tieline, env, root, "down")
        terminal = await stack.enter_async_context(home.terminal(*ARGUMENTS.get(harness, ())))
        if kind != "without":
            log = state_directory(env) / "hub.log"
            await eventually(lambda: _tools_listed(log), f"{harness} does not list our tools", timeout=BOUND_S)
        if kind == "down":
            await tieline(env, root, "down")
        yield Person(harness, home, terminal)


def _tools_listed(log: Path) -> bool:
    return log.read_text().count('"path": "/mcp", "status": 200') >= 2


async def turns(root: Path, harness: str) -> tuple[Mapping[str, list[float]], Mapping[str, float]]:
    """Seconds of each, and the processor time of all."""
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    async with AsyncExitStack() as stack:
        persons = {kind: await stack.enter_async_context(person(root / kind, harness, kind)) for kind in KINDS}
        for number in range(ROUNDS + 2):
            first = number % len(KINDS)
            for kind in KINDS[first:] + KINDS[:first]:
                if number == 2:  # the first ones run some of the harness's code for the first time
                    persons[kind].processor_s = 0.0
                seconds = await persons[kind].turn(number)
                if number > 1:
                    taken[kind].append(seconds)
        used = {kind: persons[kind].processor_s for kind in KINDS}
    return taken, used


def row(harness: str, what: str, ours: list[float], reference: list[float]) -> Row:
    more = statistics.median(own - other for own, other in zip(ours, reference, strict=True))
    without = statistics.median(reference)
    note = (
        f"seconds, Enter to the end of a turn with one tool call; {more * 1000:+.1f} ms in the middle one of {ROUNDS}"
    )
    return at_most(f"{harness}: a turn {what}", without + more, without, LIMIT, note)


async def rows(root: Path, harnesses: tuple[str, ...] = HARNESSES) -> list[Row]:
    table: list[Row] = []
    for harness in harnesses:
        taken, used = await turns(root / harness, harness)
        for kind, what in (("with", "with Tieline : without"), ("down", "with the hub down : without")):
            table.append(row(harness, what, taken[kind], taken["without"]))
            each = (used[kind] / ROUNDS, used["without"] / ROUNDS)
            table.append(at_most("… its processor time", *each, LIMIT, "seconds, of the harness and what it starts"))
    return table


def measure(harnesses: tuple[str, ...] = HARNESSES) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as directory:
        return asyncio.run(rows(Path(directory), harnesses))


if __name__ == "__main__":
    for each in measure(tuple(sys.argv[1:]) or HARNESSES):
        print(each)
