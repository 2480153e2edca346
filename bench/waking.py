"""A message to an idle terminal against the same words typed there: real harnesses in tmux over the scripted model.

Both are measured until the model is asked, which sends its first token at once; what the terminal takes to show it is
the same for both.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from tests.harnesses.desk import Desk, desk

from tieline.client.messages import OWNER
from tieline.protocol.messages import NewMessage
from tieline.script import Say

from .rows import Row, at_most

ROUNDS = 11
SETTLED_S = 2.5
"""After a turn, until its terminal and the hub have nothing more to do with it."""
TYPED_S = 0.5
"""Between the last letter and Enter: keys in a burst are taken as pasted."""
WORDS = "please look at the failing test in the checkout"


async def typed(at: Desk, harness: str) -> float:
    terminal = at.terminals[harness]
    await terminal.type(WORDS)
    await terminal.shows(WORDS[-20:])
    await asyncio.sleep(TYPED_S)
    start = time.perf_counter()
    await terminal.key("Enter")
    await at.homes[harness].rig.model.called.wait()
    return time.perf_counter() - start


async def sent(at: Desk, harness: str, to: str) -> float:
    start = time.perf_counter()
    await at.client.send_message(NewMessage(to=to, text=WORDS, reply_to=OWNER))
    await at.homes[harness].rig.model.called.wait()
    return time.perf_counter() - start


async def waking(path: Path, harness: str) -> Row:
    ours: list[float] = []
    reference: list[float] = []
    path.mkdir()
    async with desk(path, harness) as at:
        address = (await at.member(harness)).address
        model = at.homes[harness].rig.model
        for number in range(2 * ROUNDS + 2):
            await at.member(harness)
            await asyncio.sleep(SETTLED_S)
            model.called.clear()
            model.play([Say(f"Reply {number}.")])
            async with asyncio.timeout(60):
                taken = await (sent(at, harness, address) if number % 2 else typed(at, harness))
            await at.terminals[harness].shows(f"Reply {number}.")
            if number > 1:  # the first of each runs some of the harness's code for the first time
                (ours if number % 2 else reference).append(taken)
    note = "seconds to the first token of the new turn, against the same words typed there, from Enter on"
    median = statistics.median
    return at_most(f"{harness}: a message to an idle terminal", median(ours), median(reference), 1.3, note)


async def rows(path: Path) -> list[Row]:
    return [await waking(path / harness, harness) for harness in ("claude-code", "codex", "opencode")]


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as directory:
        return asyncio.run(rows(Path(directory)))
