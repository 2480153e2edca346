"""Attempts: what a delivery that does not end in its time costs, and who may end it."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.relay.conftest import QUICK, over, relaying, states

from tieline.channels.base import DeliveryContext, delivered, failed
from tieline.envelopes import DeliveryResult, Envelope, Limits, MessageReceipt
from tieline.errors import BusClosed, BusError
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
        (view,) = [endpoint for endpoint in relay.endpoints() if endpoint.subject == TARGET]
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


async def test_each_attempt_is_written_down_before_the_endpoint_is_called(relay: Relay) -> None:
    """Also one after the first, which was stored with its message: an attempt that kills the relay must count."""
    kept: list[tuple[int, str] | None] = []

    async def take(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        receipt = await relay.store.receipt(envelope.id)  # none: the log says it, with the message
        kept.append((receipt.attempts, receipt.state) if receipt else None)
        return delivered() if context.attempt == 3 else failed("busy")

    relay.serve(TARGET, take)
    await over(relay, (await relay.send(TARGET, "hello", sender=ME)).id)
    assert kept == [None, (2, "offered"), (3, "offered")]


async def test_what_is_put_off_again_and_again_is_told_once(relay: Relay) -> None:
    """And costs no attempt, however often."""
    reasons = ["full", "full", "full", "asleep", "asleep"]

    async def take(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        return failed(reasons.pop(0), counts=False) if reasons else delivered()

    relay.serve(TARGET, take)
    ended = await over(relay, (await relay.send(TARGET, "hello", sender=ME)).id)
    assert [(step.state, step.reason) for step in ended.steps] == [
        ("accepted", ""),
        ("stored", ""),
        ("offered", ""),
        ("failed", "full"),
        ("offered", ""),
        ("failed", "asleep"),
        ("offered", ""),
        ("injected", ""),
    ]
    assert ended.attempts == 1


async def test_a_relay_that_died_after_the_last_attempt_went_in_asks_what_became_of_it(tmp_path: Path) -> None:
    """The endpoint has it: it is asked again, without a further attempt, and nobody is told that it was given up."""
    url, last = f"sqlite://{tmp_path}/bus.db", replace(QUICK, attempts=1)
    begun = asyncio.Event()

    async def hang(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        await context.progress("injected")
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def take(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        repeated.append((context.attempt, context.repeated))
        return delivered()

    repeated: list[tuple[int, bool]] = []
    async with relaying(url, settings=last) as relay:
        save = relay.store.save_receipt

        async def dies(receipt: MessageReceipt, moment: str = "") -> None:
            if moment == "interrupted":
                raise BusClosed
            await save(receipt, moment)

        relay.store.save_receipt = dies  # type: ignore[method-assign]
        relay.serve(TARGET, hang)
        sent = await relay.send(TARGET, "hello", sender=ME)
        async with asyncio.timeout(30):
            await begun.wait()
    async with relaying(url, settings=last) as relay:
        relay.serve(TARGET, take)
        ended = await over(relay, sent.id)
    assert (ended.state, ended.attempts, repeated) == ("injected", 1, [(1, True)])


async def test_a_result_is_saved_until_the_bus_takes_it_or_is_closed(relay: Relay) -> None:
    """A bus that is full takes it later; one that is closed never does, and the next relay asks what became of it."""
    saves = 0

    async def full_at_first() -> None:
        nonlocal saves
        saves += 1
        if saves < 3:
            raise BusError("it is full")

    async def closed() -> None:
        nonlocal saves
        saves += 1
        if saves > 1:
            raise AssertionError("it is closed for good")
        raise BusClosed

    until_saved = relay.attempts._until_saved  # pyright: ignore[reportPrivateUsage]
    await until_saved(full_at_first)
    assert saves == 3
    saves = 0
    with pytest.raises(BusClosed):
        await until_saved(closed)
    assert saves == 1
