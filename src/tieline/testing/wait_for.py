"""Waiting for the world outside, which has no events to wait for. Every wait is bounded and says what it missed."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

LOOK_S = 0.02


async def eventually(true: Callable[[], bool], otherwise: str, *, timeout: float = 30.0) -> None:
    try:
        async with asyncio.timeout(timeout):
            while not true():  # noqa: ASYNC110 (the world outside has no events to wait for)
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise AssertionError(otherwise) from None


async def soon(true: Callable[[], bool], otherwise: str, *, within: float) -> None:
    """Within so many seconds, for what must be quick. They are counted by looks: time in which a busy machine did not
    run this process does not count."""
    for _ in range(round(within / LOOK_S)):
        if true():
            return
        await asyncio.sleep(LOOK_S)
    raise AssertionError(f"{otherwise} within {within:g} s")


def at_work_in(directory: Path) -> list[str]:
    """Processes other than this one whose working directory is this directory or below it."""
    processes: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if int(entry.name) != os.getpid() and (entry / "cwd").readlink().is_relative_to(directory):
                processes.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return processes
