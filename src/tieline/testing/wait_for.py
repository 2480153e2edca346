"""Waiting for the world outside, which has no events to wait for. Every wait is bounded and says what it missed."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path


async def eventually(true: Callable[[], bool], otherwise: str, *, timeout: float = 30.0) -> None:
    try:
        async with asyncio.timeout(timeout):
            while not true():  # noqa: ASYNC110 (the world outside has no events to wait for)
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(otherwise) from None


def at_work_in(place: Path) -> list[str]:
    """Processes other than this one whose working directory is in there."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if int(entry.name) != os.getpid() and (entry / "cwd").readlink().is_relative_to(place):
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found
