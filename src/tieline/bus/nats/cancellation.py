"""Cancellations that the NATS client would lose, and with them the end of whoever was cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

GRACE_S = 2.0
"""How long what was cancelled may take to end."""


async def propagate_cancel(work: Coroutine[Any, Any, T]) -> T:
    """The client library swallows a cancellation that comes while it waits for room to send; this raises it."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    result = await work
    if task.cancelling() > before:
        raise asyncio.CancelledError
    return result


async def apart(work: Coroutine[Any, Any, T], bound: float) -> T:
    """What waits inside the client library, in a task of its own: there, `wait_for` can lose a cancellation that comes
    at the moment when the wait ends, and ours would be lost with it. TimeoutError when it takes longer."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever was cancelled never asks
    try:
        await asyncio.wait({task}, timeout=bound)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_S)
    if not task.done() or task.cancelled():
        raise TimeoutError
    return task.result()
