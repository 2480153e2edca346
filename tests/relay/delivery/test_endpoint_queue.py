"""Channels in the relay: room, circuits, replacement, and everything accounted for."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace
from tests.relay.conftest import over, relaying, states, until, within

from tieline.channels.base import ChannelStatus, DeliveryContext, RelayAccess, dead, delivered, failed
from tieline.envelopes import DeliveryResult, Envelope, Limits, MessageReceipt
from tieline.errors import BusUnavailable, UsageError
from tieline.relay import Relay
from tieline.testing.wait_for import eventually

ME = "relay.user.me"


class Door:
    """A channel whose deliveries the test decides."""

    display_name = "Door"

    def __init__(self, id: str = "door", prefix: str = "relay.door", *, max_concurrent: int = 2) -> None:
        self.id = id
        self.subject_prefix = prefix
        self.max_concurrent = max_concurrent
        self.open = asyncio.Event()
        self.inside: list[str] = []
        self.most = 0
        self.passed: list[str] = []
        self.relay: RelayAccess | None = None
        self.stopped = False
        self.do: Callable[[Envelope, DeliveryContext], Awaitable[DeliveryResult]] = self.pass_through

    async def start(self, relay: RelayAccess) -> None:
        self.relay = relay

    async def stop(self) -> None:
        self.stopped = True

    def status(self) -> ChannelStatus:
        return ChannelStatus(state="stopped" if self.stopped else "running")

    async def deliver(self, subject: str, envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        self.inside.append(envelope.payload.text)
        self.most = max(self.most, len(self.inside))
        try:
            return await self.do(envelope, context)
        finally:
            self.inside.remove(envelope.payload.text)

    async def pass_through(self, envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        await self.open.wait()
        self.passed.append(envelope.payload.text)
        return delivered()


async def test_a_channel_has_so_much_room(relay: Relay) -> None:
    door = Door()
    await relay.register(door)
    sent = [await relay.send(f"relay.door.{n}", f"m{n}", sender=ME) for n in range(6)]
    await eventually(lambda: len(door.inside) == 2, "nothing came")
    (view,) = relay.channels()
    assert (view.running, view.waiting, view.state) == (2, 4, "running")
    assert (await relay.status(sent[5].id)).waiting == "max_concurrent_exceeded"
    door.open.set()
    for receipt in sent:
        assert states(await over(relay, receipt.id))[-1] == "injected"
    assert (door.most, sorted(door.passed)) == (2, [f"m{n}" for n in range(6)])
    assert relay.channels()[0].delivered == 6


async def test_what_finds_no_room_in_its_time_is_a_dead_letter(relay: Relay) -> None:
    door = Door(max_concurrent=1)
    await relay.register(door)
    first = await relay.send("relay.door.a", "first", sender=ME)
    await eventually(lambda: door.inside == ["first"], "nothing came")
    late = await relay.send("relay.door.b", "late", sender=ME, limits=Limits(ttl_s=0.05))
    receipt = await over(relay, late.id)
    assert (receipt.state, receipt.reason) == ("dead", "max_concurrent_exceeded")
    (letter,) = await relay.dead_letters.list()
    assert (letter.envelope.id, letter.reason) == (late.id, "max_concurrent_exceeded")
    door.open.set()
    assert (await over(relay, first.id)).state == "injected"
    assert door.passed == ["first"], "the other was never offered"


async def test_a_serial_channel_serves_each_address_in_order(relay: Relay) -> None:
    door = Door(max_concurrent=3)
    door.serial = True  # type: ignore[attr-defined]
    await relay.register(door)
    sent = [await relay.send(f"relay.door.{n % 2}", f"{n % 2}-{n // 2}", sender=ME) for n in range(8)]
    await eventually(lambda: sorted(door.inside) == ["0-0", "1-0"], "one of each address")
    door.open.set()
    for receipt in sent:
        await over(relay, receipt.id)
    for address in "01":
        assert [text for text in door.passed if text[0] == address] == [f"{address}-{n}" for n in range(4)]


async def test_one_address_does_not_starve_the_others(relay: Relay) -> None:
    door = Door(max_concurrent=1)
    await relay.register(door)
    for n in range(20):
        await relay.send("relay.door.busy", f"busy{n}", sender=ME)
    last = await relay.send("relay.door.quiet", "quiet", sender=ME)
    door.open.set()
    await over(relay, last.id)
    assert door.passed.index("quiet") <= 2


async def test_a_circuit_opens_and_closes(relay: Relay) -> None:
    door = Door(max_concurrent=8)
    trying, healthy = asyncio.Event(), asyncio.Event()

    async def moody(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        if relay.channels()[0].circuit == "closed" and not healthy.is_set():
            return failed("down", "connection refused", retry_after_s=0.01)
        trying.set()
        await healthy.wait()
        return delivered()

    door.do = moody
    await relay.register(door)
    sent = await relay.send("relay.door.a", "x", sender=ME)
    await until(relay, sent.id, lambda receipt: receipt.attempts == 5)
    await within(trying.wait())
    view = relay.channels()[0]
    assert (view.circuit, view.state) == ("open", "failing")
    assert (view.last_error, view.failed) == ("down: connection refused", 5)
    waits = await relay.send("relay.door.b", "y", sender=ME)
    assert (await relay.status(waits.id)).waiting == "circuit_open"
    assert door.inside == ["x"], "one tries, the others wait"
    healthy.set()
    assert (await over(relay, sent.id)).state == "injected"
    assert (await over(relay, waits.id)).state == "injected"
    await eventually(lambda: relay.channels()[0].circuit == "closed", "the circuit stays open")


@pytest.mark.parametrize("where", ["reading its body", "writing its end"])
async def test_a_circuit_whose_trial_is_cut_off_is_tried_again(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    door = Door(max_concurrent=1)
    cut_here, away = asyncio.Event(), False
    envelope_of, keep = relay.store.envelope, relay.store.save_receipt

    async def down(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        return failed("down", retry_after_s=0.01)

    async def envelope(receipt: MessageReceipt) -> Envelope | None:
        if away and where == "reading its body":
            cut_here.set()
            await asyncio.Event().wait()
        return await envelope_of(receipt)

    async def written(receipt: MessageReceipt, moment: str = "") -> None:
        if away and where == "writing its end" and receipt.steps[-1].state != "offered":
            cut_here.set()
            raise BusUnavailable("away")
        await keep(receipt, moment)

    monkeypatch.setattr(relay.store, "envelope", envelope)
    monkeypatch.setattr(relay.store, "save_receipt", written)
    door.do = down
    await relay.register(door)
    large = "x" * 20_000  # it is read again each time
    sent = [await relay.send(f"relay.door.{number}", large, sender=ME) for number in range(5)]
    await eventually(lambda: relay.channels()[0].circuit == "open", "the circuit stays closed")
    away = True
    await within(cut_here.wait())
    await relay.unregister("door", keep=True, grace_s=0.0)
    away = False
    new = Door()
    new.open.set()
    await relay.register(new)
    for receipt in sent:
        assert (await over(relay, receipt.id)).state == "injected"
    await eventually(lambda: relay.channels()[0].circuit == "closed", "the circuit stays open")


async def test_a_node_that_is_away_is_no_failure(relay: Relay) -> None:
    door = Door()
    online = False
    looked: list[str] = []

    async def away(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        if looked.count(envelope.id) == 1 and envelope.payload.text == "brief":
            # Its time runs out from here on: a time that ran from the sending would race with a slow disk.
            live = relay.dispatcher.in_flight[envelope.id]
            live.receipt = replace(live.receipt, expires_at=time.time() + 0.2)
        looked.append(envelope.id)
        return delivered() if online else failed("node_offline", counts=False)

    door.do = away
    await relay.register(door)
    sent = await relay.send("relay.door.a", "x", sender=ME)
    brief = await relay.send("relay.door.b", "brief", sender=ME)
    assert (await over(relay, brief.id)).reason == "node_offline"
    assert (await relay.status(brief.id)).state == "expired"
    await eventually(lambda: looked.count(sent.id) > 2, "it is not looked at again")
    receipt = await relay.status(sent.id)
    assert receipt.attempts <= 1, "waiting is no attempt"
    assert [step.reason for step in receipt.steps].count("node_offline") <= 1, "and is written down once"
    online = True
    receipt = await over(relay, sent.id)
    assert (receipt.state, receipt.attempts) == ("injected", 1)
    assert relay.channels()[0].failed == 0


async def test_what_was_handed_over_to_a_node_that_went_away_is_over_in_its_time(relay: Relay) -> None:
    """Its prompt is in the session, its time runs out, and the node cannot be told to take it back."""
    door, taken = Door(), 0

    async def away(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        nonlocal taken
        taken += 1
        await context.progress("injected")
        await eventually(lambda: time.time() > context.expires_at, "time stands still")
        return failed("node_offline", "the node is away", counts=False)

    door.do = away
    await relay.register(door)
    sent = await relay.send("relay.door.a", "x", sender=ME, limits=Limits(ttl_s=0.2))
    async with asyncio.timeout(10):
        receipt = await over(relay, sent.id)
    assert (receipt.steps[-1].state, receipt.reason, taken) == ("expired", "node_offline", 1)
    (letter,) = await relay.dead_letters.list()
    assert (letter.envelope.id, letter.state, letter.reason) == (sent.id, "expired", "node_offline")
    assert (relay.dispatcher.in_flight, relay.dispatcher.mailboxes) == ({}, {})


async def test_a_channel_is_replaced_and_nothing_is_lost(relay: Relay) -> None:
    old = Door()
    await relay.register(old)
    with pytest.raises(UsageError):
        await relay.register(Door())
    with pytest.raises(UsageError):
        await relay.register(Door("other"))
    sent = [await relay.send("relay.door.a", f"m{n}", sender=ME) for n in range(4)]
    await eventually(lambda: len(old.inside) == 2, "nothing came")
    leaving = asyncio.create_task(relay.unregister("door", keep=True))
    meanwhile = await relay.send("relay.door.b", "meanwhile", sender=ME)
    assert not old.stopped
    old.open.set()
    await within(leaving)
    assert (sorted(old.passed), old.stopped) == (["m0", "m1"], True), "what ran came to its end"
    assert (await relay.status(meanwhile.id)).waiting == "no_channel"
    new = Door()
    new.open.set()
    await relay.register(new)
    for receipt in (*sent, meanwhile):
        assert (await over(relay, receipt.id)).state == "injected"
    assert sorted(new.passed) == ["m2", "m3", "meanwhile"]
    await relay.unregister("door")
    assert relay.channels() == []
    assert new.stopped


async def test_a_channel_speaks_for_itself_alone(relay: Relay) -> None:
    door = Door()
    await relay.register(door)
    outlet = door.relay
    assert outlet is not None
    for other in ("relay.user.me", "relay.doorman.x", "relay.system.x"):
        with pytest.raises(UsageError, match="cannot send as"):
            outlet.sender(other)
    sent = await outlet.sender("relay.door.Guest").send("relay.user.me", "knock")
    assert sent.sender == "relay.door.guest"
    await outlet.progress(sent.id, "seen")
    assert (await outlet.status(sent.id)).state == "stored", "it is not the channel's own mail"
    outlet.report("the bell is broken")
    view = relay.channels()[0]
    assert (view.state, view.problem, view.last_error) == ("running", "", "the bell is broken"), "once is no state"
    assert view.last_error_at


async def test_a_channel_that_does_not_start(relay: Relay) -> None:
    class Broken(Door):
        async def start(self, relay: RelayAccess) -> None:
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await relay.register(Broken())
    assert relay.channels() == []
    await relay.register(Door())


async def test_mail_waits_for_its_channel_over_restarts(url: str) -> None:
    async with relaying(url) as relay:
        await relay.register(Door())
        sent = await relay.send("relay.door.a", "x", sender=ME)
        await until(relay, sent.id, lambda receipt: receipt.state == "offered")
    async with relaying(url) as relay:
        assert (await relay.status(sent.id)).waiting == "no_channel"
        door = Door()
        repeated: list[bool] = []

        async def take(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
            repeated.append(context.repeated)
            return delivered()

        door.do = take
        await relay.register(door)
        receipt = await over(relay, sent.id)
        assert repeated == [True]
        assert receipt.attempts == 1, "that the relay was stopped is not the message's fault"


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_ten_thousand_are_accounted_for(url: str) -> None:
    """100 senders, 100 endpoints, one delivery in ten fails, some for good: delivered + expired + dead = accepted."""
    chance = random.Random(5)
    ended: dict[str, MessageReceipt] = {}
    heard: dict[str, int] = {}
    everything = asyncio.Event()

    async def take(envelope: Envelope, context: DeliveryContext) -> DeliveryResult | None:
        heard[envelope.id] = heard.get(envelope.id, 0) + 1
        if envelope.payload.text == "poison":
            return dead("poison")
        if chance.random() < 0.1:
            raise RuntimeError("not this time")
        return None

    def over_(receipt: MessageReceipt) -> None:
        if receipt.over:
            ended[receipt.id] = receipt
            if len(ended) == 10_000:
                everything.set()

    async with relaying(url, rate_per_minute=0) as relay:
        relay.subscribe(over_)
        for number in range(100):
            relay.serve(f"relay.sink.e{number}", take)

        async def send(number: int) -> list[str]:
            sender = relay.sender(f"relay.user.s{number}")
            ids: list[str] = []
            for n in range(100):
                text = "poison" if n % 50 == 7 else "hello"
                limits = Limits(ttl_s=0.001) if n % 50 == 9 else None
                ids.append((await sender.send(f"relay.sink.e{(number + n) % 100}", text, limits=limits)).id)
            return ids

        accepted = {id for ids in await asyncio.gather(*map(send, range(100))) for id in ids}
        async with asyncio.timeout(200):
            await everything.wait()
        assert set(ended) == accepted
        assert len(accepted) == 10_000
        by_state = {state: sum(r.state == state for r in ended.values()) for state in ("injected", "expired", "dead")}
        assert sum(by_state.values()) == 10_000
        assert by_state["dead"] >= 200
        assert len(await relay.dead_letters.list()) == by_state["dead"] + by_state["expired"]
        assert all(heard.get(id, 0) == receipt.attempts for id, receipt in ended.items()), "no attempt is hidden"
        assert not relay.dispatcher.in_flight
        assert not relay.dispatcher.mailboxes
