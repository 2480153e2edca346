"""Wakes the event loop from a thread, with one word for all that gathered: cheaper than the loop's own way, which makes
a handle for each call and a context to run it in."""

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
        self._said = False
        if hasattr(os, "eventfd"):
            self._reader = self._writer = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:  # not on macOS
            self._reader, self._writer = os.pipe()
            os.set_blocking(self._reader, False)
            os.set_blocking(self._writer, False)
        loop.add_reader(self._reader, self._woken)

    def put(self, item: T) -> None:
        self._items.append(item)
        if not self._said:
            self._said = True
            with suppress(OSError):  # a full pipe has been heard of; a closed one nobody listens to
                os.write(self._writer, b"\1\0\0\0\0\0\0\0")

    def _woken(self) -> None:
        with suppress(OSError):
            os.read(self._reader, 64)
        self._said = False  # after reading and before taking: what is put in between is either taken now or said again
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
