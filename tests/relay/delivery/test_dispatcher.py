"""The dispatcher: what is known already takes no second place."""

import asyncio

from tests.relay.conftest import over

from tieline.channels.base import DeliveryContext, delivered
from tieline.envelopes import DeliveryResult, Envelope
from tieline.relay import Relay

ME, TARGET = "relay.user.me", "relay.program.slow"


async def test_a_message_that_is_in_flight_gives_its_second_place_back(relay: Relay) -> None:
    """The bus may tell of it before whoever sent it hears that it is stored."""
    taken: list[Envelope] = []
    began, may_end = asyncio.Event(), asyncio.Event()

    async def take(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        taken.append(envelope)
        began.set()
        await may_end.wait()
        return delivered()

    relay.serve(TARGET, take)
    sent = await relay.send(TARGET, "hello", sender=ME)
    async with asyncio.timeout(30):
        await began.wait()
    queue = relay.dispatcher.queues.match(TARGET)
    assert queue is not None
    for _ in range(2 * queue.max_concurrent):
        assert queue.reserve(), "its place was lost"
        receipt = relay.dispatcher.accept(taken[0], sent.seq, 1, queue)
        assert receipt.id == sent.id
    may_end.set()
    await over(relay, sent.id)
    assert len(taken) == 1
