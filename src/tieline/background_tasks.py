"""Tasks that work for as long as their owner is there, which cancels them at its end."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from .errors import BusClosed

log = logging.getLogger("tieline.hub")


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


def _ended(task: asyncio.Task[None]) -> None:
    if task.cancelled() or (error := task.exception()) is None or isinstance(error, BusClosed):
        return
    log.error("%s failed; restart the hub", task.get_name(), exc_info=error)
