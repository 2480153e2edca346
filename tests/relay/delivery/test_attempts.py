"""Attempts: what a delivery that does not end in its time costs, and who may end it."""

import asyncio

import pytest
from tests.relay.conftest import over, states

from tieline.channels.base import DeliveryContext, delivered
from tieline.envelopes import DeliveryResult, Envelope, Limits
from tieline.relay import Relay
from tieline.relay.delivery import attempts
from tieline.testing.wait_for import eventually

ME = "relay.user.me"
TARGET = "relay.program2.slow"


class Endless:
    """An endpoint that does not come back by itself."""

    def __init__(self) -> None:
        self.begun = self.cancelled = 0
        self.answers_late = False

    async def take(self, envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        self.begun += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            if not self.answers_late:
                raise
        return delivered()


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "TIMEOUT_GRACE_S", 0.05)


@pytest.mark.usefixtures("short_grace")
async def test_a_delivery_that_takes_longer_than_its_message_lives_is_ended(relay: Relay) -> None:
    endpoint = Endless()
    relay.serve(TARGET, endpoint.take)
    sent = await relay.send(TARGET, "hello", sender=ME, limits=Limits(ttl_s=0.3))
    ended = await over(relay, sent.id)
    assert (ended.steps[-1].state, ended.steps[-1].reason) == ("expired", "timeout")
    assert (endpoint.begun, endpoint.cancelled) == (1, 1)

    def room() -> tuple[int, str]:
        (view,) = [one for one in relay.endpoints() if one.subject == TARGET]
        return view.running, view.problem

    await eventually(lambda: room() == (0, ""), "its room is not free again")


@pytest.mark.usefixtures("short_grace")
async def test_a_delivery_that_ends_well_when_it_is_told_to_has_delivered(relay: Relay) -> None:
    endpoint = Endless()
    endpoint.answers_late = True
    relay.serve(TARGET, endpoint.take)
    sent = await relay.send(TARGET, "hello", sender=ME, limits=Limits(ttl_s=0.3))
    assert states(await over(relay, sent.id))[-1] == "injected"
    assert endpoint.cancelled == 1


@pytest.mark.usefixtures("short_grace")
async def test_a_delivery_that_somebody_else_cancels_is_repeated(relay: Relay) -> None:
    """An endpoint that is replaced in the middle: the next one gets the message, and no failure is told."""
    first, taken = Endless(), asyncio.Event()

    async def second(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        taken.set()
        return delivered()

    relay.serve(TARGET, first.take)
    sent = await relay.send(TARGET, "hello", sender=ME, limits=Limits(ttl_s=60))
    await eventually(lambda: first.begun == 1, "nothing came")
    replaced = relay.dispatcher.queues.match(TARGET)
    assert replaced is not None
    await relay.registry.remove(replaced, 0.0)
    relay.serve(TARGET, second)
    async with asyncio.timeout(30):
        await taken.wait()
    assert "failed" not in states(await over(relay, sent.id))
