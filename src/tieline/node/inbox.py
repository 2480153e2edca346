"""A node's orders, taken from a subject of the bus and carried out: one after the other within a session, several
sessions at a time. An order is taken off when what became of it was given to `done`; one that was not, comes again."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from ..bus.base import Bus, Delivery
from ..errors import BusClosed, BusError
from ..protocol.commands import Order, Result
from .executor import Executor

AT_ONCE = 64
LEASE_S = 60.0
TRIM_S = 60.0
AGAIN_S = 1.0
"""Until the orders are taken up again after the bus failed."""

_decode = msgspec.json.Decoder(Order).decode


async def serve(bus: Bus, subject: str, executor: Executor, done: Callable[[Result], Awaitable[None]]) -> None:
    """Runs until it is cancelled, or the bus is closed."""
    while True:
        with suppress(BusError):
            await _serve(bus, subject, executor, done)
        if not await _open(bus, subject):
            return
        await asyncio.sleep(AGAIN_S)


async def _open(bus: Bus, subject: str) -> bool:
    try:
        await bus.last(subject)
    except BusClosed:
        return False
    except BusError:
        pass
    return True


async def _serve(bus: Bus, subject: str, executor: Executor, done: Callable[[Result], Awaitable[None]]) -> None:
    tails: dict[str, asyncio.Task[None]] = {}
    trimmed = time.monotonic()
    deliveries = bus.consume(subject, "node", lease_s=LEASE_S, max_pending=AT_ONCE)
    try:
        async with asyncio.TaskGroup() as group:
            async for delivery in deliveries:
                try:
                    order = _decode(delivery.record.data)
                except msgspec.DecodeError as error:
                    await delivery.reject(f"not an order: {error}")
                    continue
                # A session's orders follow each other; all without one are on their own.
                session = getattr(order.command, "session", "") or order.id
                before = tails.get(session)
                task = group.create_task(_carry_out(delivery, order, before, executor, done))
                tails[session] = task
                task.add_done_callback(lambda over, session=session: _forget(tails, session, over))
                if not before and len(tails) == 1 and time.monotonic() - trimmed > TRIM_S:
                    trimmed = time.monotonic()
                    await bus.trim(subject, before=delivery.record.seq)
    except* BusError as errors:
        raise errors.exceptions[0] from None
    finally:
        await deliveries.aclose()


def _forget(tails: dict[str, asyncio.Task[None]], session: str, over: asyncio.Task[None]) -> None:
    if tails.get(session) is over:
        del tails[session]


async def _carry_out(
    delivery: Delivery,
    order: Order,
    before: asyncio.Task[None] | None,
    executor: Executor,
    done: Callable[[Result], Awaitable[None]],
) -> None:
    if before is not None:
        await asyncio.wait({before})
    await done(await executor.carry_out(order))
    await delivery.ack()
