"""A queue bounded in bytes: `put` waits while it is full."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class ByteQueue(Generic[T]):
    """For one producer and one consumer."""

    def __init__(self, most: int, size: Callable[[T], int]) -> None:
        self._capacity = most
        self._size = size
        self._items: deque[T] = deque()
        self._bytes = 0
        self._available = asyncio.Event()
        self._has_room = asyncio.Event()
        self._done = asyncio.Event()
        self.enqueued = 0
        self.processed = 0

    async def put(self, item: T) -> None:
        while self._items and self._bytes + self._size(item) > self._capacity:
            self._has_room.clear()
            await self._has_room.wait()
        self._items.append(item)
        self._bytes += self._size(item)
        self.enqueued += 1
        self._available.set()

    async def take(self, most: int = 1) -> list[T]:
        """The oldest ones, at least one. They are over when the next ones are asked for."""
        self.processed = self.enqueued - len(self._items)
        self._done.set()
        while not self._items:
            self._available.clear()
            await self._available.wait()
        taken = [self._items.popleft() for _ in range(min(most, len(self._items)))]
        self._bytes -= sum(map(self._size, taken))
        self._has_room.set()
        return taken

    async def wait_processed(self, count: int) -> None:
        """Wait until the first so many that came are over."""
        while self.processed < count:
            self._done.clear()
            await self._done.wait()
