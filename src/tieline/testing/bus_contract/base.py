"""What the bus suite's parts share: bounded waits, and a place of their own on the bus."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TypeVar
from uuid import uuid4

import pytest

from ...bus import Bus, open_bus

T = TypeVar("T")

BOUND = 30.0
"""Seconds that anything may take before the test fails. Only failures take that long."""


class BusContractBase:
    """Subclasses give the `url` of a bus that is ready to be opened, several times one after the other."""

    @pytest.fixture
    async def bus(self, url: str) -> AsyncGenerator[Bus, None]:
        async with open_bus(url) as bus:
            yield bus

    @pytest.fixture
    def family(self) -> str:
        """A first token that no other test uses: a bus may be shared."""
        return f"f{uuid4().hex[:12]}"


def opened(url: str) -> AbstractAsyncContextManager[Bus]:
    return open_bus(url)


async def first(source: AsyncIterator[T]) -> T:
    """The next one."""
    return await asyncio.wait_for(anext(source), BOUND)


async def some(source: AsyncGenerator[T, None], count: int) -> list[T]:
    """The next `count` items; then the source is closed."""
    items: list[T] = []
    async with aclosing(source), asyncio.timeout(BOUND):
        while len(items) < count:
            items.append(await anext(source))
    return items


async def all_of(source: AsyncGenerator[T, None]) -> list[T]:
    async with aclosing(source), asyncio.timeout(BOUND):
        return [item async for item in source]
