"""Tasks that work for as long as their owner is there, which cancels them at its end."""

import asyncio
import logging
import threading
from collections.abc import Coroutine
from importlib import import_module
from types import ModuleType
from typing import Any

from .errors import BusClosed

log = logging.getLogger("tieline.hub")

_importing = threading.Lock()


def background(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Logs at once when the task fails: its owner awaits it only at the end."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_ended)
    return task


async def cancel_and_wait(*tasks: asyncio.Future[Any]) -> None:
    """Returns when all of them have ended, however they did."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def import_in_thread(name: str) -> ModuleType:
    """A module that takes long to import. One at a time: where two threads begin at different ends of packages that
    import each other, Python shows one of them a half of a module."""

    def load() -> ModuleType:
        with _importing:
            return import_module(name)

    return await asyncio.to_thread(load)


def _ended(task: asyncio.Task[None]) -> None:
    if task.cancelled() or (error := task.exception()) is None or isinstance(error, BusClosed):
        return
    log.error("%s failed; restart the hub", task.get_name(), exc_info=error)
