"""Hands items from a thread to the event loop, with one wake-up for many: cheaper than `call_soon_threadsafe`, which
makes a handle and a context for each call."""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class LoopWaker(Generic[T]):
    """`put` from a thread; the items come out in the loop, in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, take: Callable[[T], None]) -> None:
        self._take = take
        self._loop = loop
        self._items: deque[T] = deque()
        self._woke = False
        if hasattr(os, "eventfd"):
            self._reader = self._writer = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:  # not on macOS
            self._reader, self._writer = os.pipe()
            os.set_blocking(self._reader, False)
            os.set_blocking(self._writer, False)
        loop.add_reader(self._reader, self._woken)

    def put(self, item: T) -> None:
        self._items.append(item)
        if not self._woke:
            self._woke = True
            with suppress(OSError):  # a full pipe wakes the loop anyway; a closed one has no reader
                os.write(self._writer, b"\1\0\0\0\0\0\0\0")

    def _woken(self) -> None:
        with suppress(OSError):
            os.read(self._reader, 64)
        self._woke = False  # between reading and taking: an item put now is taken, or wakes the loop again
        self.take_all()

    def take_all(self) -> None:
        items = self._items
        while items:
            self._take(items.popleft())

    def close(self) -> None:
        """When the thread has ended."""
        self.take_all()
        self._loop.remove_reader(self._reader)
        for descriptor in {self._reader, self._writer}:
            os.close(descriptor)
