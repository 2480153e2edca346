"""How long what is kept: unread mail, dead letters and what is over have settings of their own."""

import asyncio
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.relay.conftest import BOUND, QUICK, over, relaying

from tieline.bus import open_bus
from tieline.channels.base import DeliveryContext, dead
from tieline.envelopes import DeliveryResult, Envelope, Limits, ReceiptStep
from tieline.relay import Relay
from tieline.relay.delivery import maintenance
from tieline.relay.storage.store import RelayStore
from tieline.testing.wait_for import eventually

ME = "relay.user.me"


async def closed(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
    return dead("closed")


async def silent(envelope: Envelope, context: DeliveryContext) -> None:
    return None


async def echo(envelope: Envelope, context: DeliveryContext) -> str:
    return f"you said {envelope.payload.text}"


async def test_the_place_that_a_restart_reads_from_is_saved_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "SAVE_INTERVAL_S", 0.01)
    async with relaying(f"sqlite://{tmp_path}/bus.db") as relay:
        relay.serve("relay.program2.x", silent)
        sent = await relay.send("relay.program2.x", "x", sender=ME)
        await over(relay, sent.id)
        async with asyncio.timeout(BOUND):
            while await relay.store.low_water_mark() == 0:  # noqa: ASYNC110 (a table has no event to wait for)
                await asyncio.sleep(0.01)


async def test_what_is_over_is_not_delivered_again_by_the_next_relay(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/bus.db"
    got: list[str] = []

    async def take(envelope: Envelope, context: DeliveryContext) -> None:
        got.append(envelope.payload.text)

    async with relaying(url) as relay:
        relay.serve("relay.program2.x", take)
        await over(relay, (await relay.send("relay.program2.x", "first", sender=ME)).id)
    async with open_bus(url) as bus:
        store = RelayStore(bus, keep_s=60, keep_unread_s=60, keep_dead_s=60, keep_keys_s=60)
        await store.save_low_water_mark(0)  # as if it had been killed before it was saved
    async with relaying(url) as relay:
        relay.serve("relay.program2.x", take)
        await over(relay, (await relay.send("relay.program2.x", "second", sender=ME)).id)
    assert got == ["first", "second"]


@pytest.mark.parametrize("park_after_s", [0.0, BOUND], ids=["saved-among-the-unread", "not-yet"])
async def test_unread_mail_has_its_own_time(tmp_path: Path, park_after_s: float) -> None:
    url = f"sqlite://{tmp_path}/bus.db"
    async with relaying(url, settings=replace(QUICK, park_after_s=park_after_s), keep_unread_s=0.3) as relay:
        sent = await relay.send("relay.user.you", "x", sender=ME)
        receipt = await over(relay, sent.id)
        assert (receipt.state, receipt.reason) == ("expired", "unread_too_long")
        assert relay.inboxes() == {}
        assert await relay.dead_letters.list() == [], "nobody wanted it; it is over"
        patient = await relay.send("relay.user.you", "y", sender=ME, limits=Limits(ttl_s=3600))
        await over(relay, patient.id)
    async with relaying(url) as relay:
        brief = await relay.send("relay.user.you", "z", sender=ME, limits=Limits(ttl_s=0.01))
        assert brief.expires_at < time.time() + 1
        await eventually(lambda: time.time() > brief.expires_at, "time stands still")
        message = await relay.inbox("relay.user.you").read(brief.id)
        assert message.receipt.state == "seen", "a message's time does not empty an inbox"
    async with relaying(url) as relay:
        assert relay.inboxes() == {}


@pytest.mark.slow
async def test_dead_letters_have_their_own_time(tmp_path: Path) -> None:
    async with relaying(f"sqlite://{tmp_path}/bus.db", keep_dead_s=1, keep_s=3600) as relay:
        relay.serve("relay.program2.x", closed)
        sent = await relay.send("relay.program2.x", "x", sender=ME)
        await over(relay, sent.id)
        async with asyncio.timeout(BOUND):
            while await relay.dead_letters.list():  # noqa: ASYNC110 (the table's clock has no event to wait for)
                await asyncio.sleep(0.05)
        assert (await relay.status(sent.id)).state == "dead", "its receipt is kept longer"


async def test_what_is_over_is_trimmed_and_what_waits_is_not(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/bus.db"
    async with relaying(url, keep_s=7200) as relay:
        relay.serve("relay.program2.x", silent)
        old = [await relay.send("relay.program2.x", f"m{n}", sender=ME) for n in range(3)]
        for receipt in old:
            await over(relay, receipt.id)
        waits = await relay.send("relay.user.you", "waits", sender=ME)
        new = await relay.send("relay.program2.x", "after it", sender=ME)
        await over(relay, new.id)
        assert await trimmed(relay, hours=1) == 0, "nothing is old enough"
        assert await trimmed(relay, hours=5) == 3, "up to what still waits"
        assert (await relay.message(old[0].id)).envelope is None
        assert (await relay.message(old[0].id)).receipt.state == "injected"
        message = await relay.inbox("relay.user.you").read(waits.id)
        assert message.envelope is not None
        assert await trimmed(relay, hours=6) == 2
    async with relaying(url) as relay:
        assert (await relay.status(new.id)).state == "injected"
        assert relay.dispatcher.in_flight == {}


@pytest.mark.slow
async def test_a_thread_is_known_as_long_as_its_messages(tmp_path: Path) -> None:
    async with relaying(f"sqlite://{tmp_path}/bus.db", keep_s=1) as relay:
        relay.serve("relay.program2.echo", echo)
        sent = await relay.send("relay.program2.echo", "x", sender=ME, reply_to="relay.user.you")
        unread = (await over(relay, sent.id)).answer
        async with asyncio.timeout(BOUND):
            while await relay.store.receipt(sent.id):  # noqa: ASYNC110 (the table's clock has no event to wait for)
                await asyncio.sleep(0.05)
        assert [receipt.id for receipt in await relay.recent()] == [unread]
        assert [message.receipt.id for message in await relay.thread(sent.thread)] == [unread]
        assert [message.receipt.id for message in await relay.trace(unread)] == [unread]


async def test_what_ends_late_keeps_its_place_in_the_thread(relay: Relay) -> None:
    relay.serve("relay.program2.echo", echo)
    sent = await relay.send("relay.program2.echo", "x", sender=ME, reply_to="relay.user.you")
    unread = (await over(relay, sent.id)).answer
    await relay.store._threads.delete(f"{sent.thread}.{unread}")  # pyright: ignore[reportPrivateUsage]
    live = relay.dispatcher.in_flight[unread]
    live.receipt = replace(
        live.receipt, steps=(ReceiptStep("accepted", 0.0), ReceiptStep("stored", 0.0))
    )  # from long ago
    assert [message.receipt.id for message in await relay.thread(sent.thread)] == [sent.id], "its time is over"
    await relay.inbox("relay.user.you").read(unread)
    assert {message.receipt.id for message in await relay.thread(sent.thread)} == {sent.id, unread}


async def trimmed(relay: Relay, *, hours: int) -> int:
    """As if the log had stood here so long ago."""
    table = relay.store._state  # pyright: ignore[reportPrivateUsage]
    await table.put(f"mark.{int(time.time() // 3600) - hours}", str(relay.dispatcher.last_seq + 1).encode())
    return await relay.store.trim(relay.dispatcher.last_seq, relay.dispatcher.oldest_needed())


async def test_what_is_over_is_kept_for_seven_days_by_default(relay: Relay) -> None:
    relay.serve("relay.program2.x", silent)
    await over(relay, (await relay.send("relay.program2.x", "x", sender=ME)).id)
    assert await trimmed(relay, hours=7 * 24 - 1) == 0
    assert await trimmed(relay, hours=7 * 24 + 1) == 1
