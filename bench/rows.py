"""One measured ratio: ours against the reference, in the same run."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Any

from msgspec import Struct


class Row(Struct, frozen=True):
    name: str
    ours: float
    reference: float
    ratio: float
    limit: float
    holds: bool
    note: str = ""
    least: bool = False  # the limit is the least it must reach, not the most it may take


def at_most(name: str, ours: float, reference: float, limit: float, note: str = "") -> Row:
    """Ours may take at most `limit` times the reference."""
    ratio = ours / reference
    return Row(name, ours, reference, ratio, limit, ratio <= limit, note)


def at_least(name: str, ours: float, reference: float, limit: float, note: str = "") -> Row:
    """Ours must reach at least `limit` times the reference."""
    ratio = ours / reference
    return Row(name, ours, reference, ratio, limit, ratio >= limit, note, least=True)


def side_by_side(kinds: Sequence[Callable[[], None]], rounds: int) -> list[float]:
    """The median seconds of each, taken in turns, so that a slow moment of the machine hits all alike."""
    taken: list[list[float]] = [[] for _ in kinds]
    for _ in range(rounds):
        for times, kind in zip(taken, kinds, strict=True):
            start = time.perf_counter()
            kind()
            times.append(time.perf_counter() - start)
    return [statistics.median(times) for times in taken]


async def side_by_side_async(kinds: Sequence[Callable[[], Awaitable[object]]], rounds: int) -> list[float]:
    """The same for coroutines."""
    taken: list[list[float]] = [[] for _ in kinds]
    for _ in range(rounds):
        for times, kind in zip(taken, kinds, strict=True):
            start = time.perf_counter()
            await kind()
            times.append(time.perf_counter() - start)
    return [statistics.median(times) for times in taken]


def measure(section: str) -> list[Row]:
    """The rows of one of this package's sections."""
    result: Any = import_module(f".{section}", __package__).measure()
    return asyncio.run(result) if asyncio.iscoroutine(result) else result
