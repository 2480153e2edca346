"""Waits inside the NATS client library that keep a cancellation which the library would swallow."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

GRACE_S = 2.0
"""How long a cancelled task may take to end."""


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
    """Runs the coroutine in a task of its own: the library's `wait_for` can lose a cancellation that comes when the
    wait ends, and the caller's would be lost with it. Raises TimeoutError after `bound` seconds."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # a cancelled caller never retrieves it
    try:
        await asyncio.wait({task}, timeout=bound)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_S)
    if not task.done() or task.cancelled():
        raise TimeoutError
    return task.result()
