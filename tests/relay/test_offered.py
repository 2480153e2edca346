"""A message that can be offered at once is stored as offered, in one write: what the log says of it is true afterwards,
whatever happens between, and no place that was kept for it is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest
from tests.relay.conftest import QUICK, over, relaying, states, until, within
from tests.relay.delivery.test_endpoint_queue import ME, Door

from tieline.bus import open_bus
from tieline.bus.base import Bus
from tieline.channels.base import DeliveryContext, delivered, failed
from tieline.config import Config
from tieline.envelopes import DeliveryResult, Envelope, MessageReceipt, RelayStandby
from tieline.errors import BusUnavailable
from tieline.relay import Relay
from tieline.relay.storage.store import OFFERED_HEADER
from tieline.testing.wait_for import eventually

Publish = Callable[..., Awaitable[int]]


class Log:
    """The log of a real bus, which a test holds up, or which stores without saying so."""

    def __init__(self, bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()
        self.silent = 0  # so often
        self._publish: Publish = bus.publish
        monkeypatch.setattr(bus, "publish", self.publish)

    async def publish(self, *args: Any, **options: Any) -> int:
        self.asked.set()
        await self.go.wait()
        seq = await self._publish(*args, **options)
        if self.silent:
            self.silent -= 1
            raise BusUnavailable("no word of it")
        return seq


def moments(relay: Relay) -> list[str]:
    steps: list[str] = []
    relay.store.probe = steps.append
    return steps


async def test_it_is_stored_and_offered_in_one_write(url: str) -> None:
    async with relaying(url) as relay:
        door = Door(max_concurrent=1)
        await relay.register(door)
        written = moments(relay)
        sent = await relay.send("relay.door.a", "first", sender=ME)
        await until(relay, sent.id, lambda receipt: receipt.state == "offered")
        assert written == ["before stored", "after stored"]
        waits = await relay.send("relay.door.a", "second", sender=ME)
        assert states(await relay.status(waits.id)) == ["accepted", "stored"], "there was no room for it"
        door.open.set()
        for receipt in (await over(relay, sent.id), await over(relay, waits.id)):
            assert states(receipt) == ["accepted", "stored", "offered", "injected"]
            assert receipt.attempts == 1
        assert written.count("after offered") == 1, "the one that had waited"


async def test_a_serial_channel_and_an_open_circuit_offer_nothing_ahead(relay: Relay) -> None:
    serial, down = Door("serial", "relay.serial"), Door("down", "relay.down")
    serial.serial = True  # type: ignore[attr-defined]

    async def refuse(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        return failed("down", retry_after_s=60.0)

    down.do = refuse
    for door in (serial, down):
        door.open.set()
        await relay.register(door)
    written = moments(relay)
    await over(relay, (await relay.send("relay.serial.a", "x", sender=ME)).id)
    assert written.count("after offered") == 1
    for number in range(5):
        sent = await relay.send(f"relay.down.{number}", "x", sender=ME)
        await until(relay, sent.id, lambda receipt: receipt.state == "failed" or len(receipt.steps) > 3)
        assert await offered_ahead(relay, sent.seq) == "down", "its circuit is closed yet"
    waits = await relay.send("relay.down.late", "x", sender=ME)
    assert relay.channels()[0].circuit == "open"
    assert states(await relay.status(waits.id))[:2] == ["accepted", "stored"]
    assert await offered_ahead(relay, waits.seq) == "", "its circuit is open"


async def offered_ahead(relay: Relay, seq: int) -> str:
    """The endpoint that a message was offered to when it was stored, as the log says."""
    async with aclosing(relay.store.records_after(seq - 1)) as records:
        return (await anext(records)).headers.get(OFFERED_HEADER, "")


async def test_what_an_open_circuit_holds_up_says_so(relay: Relay) -> None:
    down = Door()

    async def refuse(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        return failed("down", "connection refused", retry_after_s=60.0)

    down.do = refuse
    await relay.register(down)
    sent = [await relay.send(f"relay.door.{number}", "x", sender=ME) for number in range(5)]
    await eventually(lambda: relay.channels()[0].circuit == "open", "the circuit stays closed")
    assert (await relay.status(sent[0].id)).waiting == "circuit_open", "also between two attempts"
    assert (await relay.message(sent[0].id)).receipt.waiting == "circuit_open"


async def test_the_place_of_one_that_is_not_sure_is_given_back(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_bus(url) as bus, Relay(bus, Config(), settings=QUICK) as relay:
        log, door = Log(bus, monkeypatch), Door(max_concurrent=1)
        door.open.set()
        await relay.register(door)
        log.silent, states = 1, list[str]()
        forget = relay.subscribe(lambda receipt: states.append(receipt.state))
        with pytest.raises(BusUnavailable):
            await relay.send("relay.door.a", "stored in silence", sender=ME)
        await eventually(lambda: door.passed == ["stored in silence"], "it is in the log")
        assert states[0] == "stored", "whoever waits for a message learns of it"
        forget()
        log.asked.clear()
        log.go.clear()
        sending = asyncio.create_task(relay.send("relay.door.a", "cut off", sender=ME))
        await within(log.asked.wait())
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        log.go.set()
        await eventually(lambda: len(door.passed) == 2, "it may be in the log")
        await eventually(
            lambda: not relay.dispatcher.in_flight and not relay.channels()[0].running, "they are not over"
        )
        written = moments(relay)
        sent = await relay.send("relay.door.a", "third", sender=ME)
        assert (await over(relay, sent.id)).state == "injected"
        assert "after offered" not in written, "there is room at once: no place was lost"
        assert door.passed == ["stored in silence", "cut off", "third"]


async def test_one_whose_channel_went_meanwhile_was_not_offered(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_bus(url) as bus:
        async with Relay(bus, Config(), settings=QUICK) as relay:
            log = Log(bus, monkeypatch)
            await relay.register(Door())
            log.go.clear()
            sending = asyncio.create_task(relay.send("relay.door.a", "x", sender=ME))
            await within(log.asked.wait())
            await relay.unregister("door", keep=True)
            written = moments(relay)
            log.go.set()
            sent = await within(sending)
            await eventually(lambda: "after not offered" in written, "the log is not corrected")
            receipt = await relay.status(sent.id)
            assert (receipt.state, receipt.waiting, receipt.attempts) == ("stored", "no_channel", 0)
        async with Relay(bus, Config(), settings=QUICK) as relay:
            receipt = await relay.status(sent.id)
            assert (receipt.state, receipt.waiting, receipt.attempts) == ("stored", "no_channel", 0)
            door = Door()
            door.open.set()
            await relay.register(door)
            assert (await over(relay, sent.id)).attempts == 1
            assert door.passed == ["x"]


async def test_what_the_log_may_have_otherwise_is_written_down(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same key again: the log keeps the first record, which does not say that it was offered."""
    bus: Bus = relay.store._bus  # pyright: ignore[reportPrivateUsage]
    log, door = Log(bus, monkeypatch), Door(max_concurrent=1)
    await relay.register(door)
    await relay.send("relay.door.a", "first", sender=ME)
    log.silent = 100
    for _ in range(2):
        with pytest.raises(BusUnavailable):
            await relay.send("relay.door.a", "second", sender=ME, key="k")
    door.open.set()
    await eventually(lambda: door.passed == ["first"], "there is room")
    log.silent = 0
    written = moments(relay)
    sent = await relay.send("relay.door.a", "second", sender=ME, key="k")
    receipt = await over(relay, sent.id)
    assert (receipt.state, receipt.attempts) == ("injected", 1)
    assert "after offered" in written
    assert door.passed == ["first", "second"]


async def test_the_same_key_twice_at_once_is_one_message(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    bus: Bus = relay.store._bus  # pyright: ignore[reportPrivateUsage]
    log, door = Log(bus, monkeypatch), Door(max_concurrent=1)
    await relay.register(door)
    log.go.clear()
    sending: list[asyncio.Task[MessageReceipt]] = []
    for _ in range(2):
        log.asked.clear()
        sending.append(asyncio.create_task(relay.send("relay.door.a", "once", sender=ME, key="k")))
        await within(log.asked.wait())
    log.go.set()
    first, second = await within(asyncio.gather(*sending))
    assert first.id == second.id
    door.open.set()
    assert (await over(relay, first.id)).attempts == 1
    assert (await over(relay, (await relay.send("relay.door.a", "next", sender=ME)).id)).state == "injected"
    assert door.passed == ["once", "next"], "no place was lost"


async def test_a_delivery_that_is_cut_off_is_made_again_by_the_next(relay: Relay) -> None:
    old = Door(max_concurrent=1)
    await relay.register(old)
    sent = await relay.send("relay.door.a", "cut off", sender=ME)
    behind = await relay.send("relay.door.a", "behind", sender=ME)
    await eventually(lambda: old.inside == ["cut off"], "nothing came")
    await relay.unregister("door", keep=True, grace_s=0.0)
    assert (old.inside, old.passed, old.stopped) == ([], [], True)
    assert (await relay.status(sent.id)).waiting == "no_channel"
    new = Door(max_concurrent=1)
    repeated: list[bool] = []

    async def take(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        repeated.append(context.repeated)
        new.passed.append(envelope.payload.text)
        return delivered()

    new.do = take
    await relay.register(new)
    assert (await over(relay, sent.id)).attempts == 1, "that it was cut off is not its fault"
    await over(relay, behind.id)
    assert (new.passed, repeated) == (["cut off", "behind"], [True, False])


async def test_a_bus_that_is_away_costs_no_attempts(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door()
    door.serial = True  # type: ignore[attr-defined]
    door.open.set()
    await relay.register(door)
    left = 2 * QUICK.attempts
    keep = relay.store.save_receipt

    async def away(*args: Any) -> None:
        nonlocal left
        if left:
            left -= 1
            raise BusUnavailable("no word of it")
        await keep(*args)

    monkeypatch.setattr(relay.store, "save_receipt", away)
    receipt = await over(relay, (await relay.send("relay.door.a", "x", sender=ME)).id)
    assert (states(receipt), receipt.attempts) == (["accepted", "stored", "offered", "injected"], 1)
    assert left == 0


async def test_a_dead_letter_that_was_sent_again_is_not_sent_twice(relay: Relay) -> None:
    door, healthy = Door(), False

    async def moody(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        door.passed.append(envelope.payload.text)
        return delivered() if healthy else DeliveryResult(status="dead_lettered", reason="no")

    door.do = moody
    await relay.register(door)
    sent = await relay.send("relay.door.a", "x", sender=ME)
    await over(relay, sent.id)
    letter = await relay.dead_letters.show(sent.id)
    healthy = True
    ((_, again),) = await relay.dead_letters.retry([sent.id])
    assert not isinstance(again, Exception)
    await over(relay, again.id)
    await relay.store.save_dead_letter(letter)  # as if the process had ended before the letter was dropped
    ((_, same),) = await relay.dead_letters.retry([sent.id])
    assert not isinstance(same, Exception)
    assert (same.id, same.state) == (again.id, "injected")
    assert door.passed == ["x", "x"]
    assert await relay.dead_letters.list() == []


async def test_what_is_stored_too_late_is_not_acknowledged(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another relay took over while it was on its way to the log: that one may not know of it."""
    async with open_bus(url) as bus:
        log, door = Log(bus, monkeypatch), Door()
        first, second = Relay(bus, Config(), settings=QUICK), Relay(bus, Config(), settings=QUICK)
        door.open.set()
        async with first:
            await first.register(Door())
            log.go.clear()
            sending = asyncio.create_task(first.send("relay.door.a", "late", sender=ME, key="k"))
            await within(log.asked.wait())
        async with second:
            await second.register(door)
            log.go.set()
            with pytest.raises(RelayStandby):
                await within(sending)
            assert first.dispatcher.in_flight == {}
            sent = await second.send("relay.door.a", "late", sender=ME, key="k")
            assert (await over(second, sent.id)).state == "injected"
            assert door.passed == ["late"]
