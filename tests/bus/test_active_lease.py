"""One relay per bus: the lease, its end, and what is done about a holder that is gone."""

import asyncio
import os
import time
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.relay.conftest import QUICK, over, relaying, within
from tests.relay.delivery.test_endpoint_queue import Door

from tieline.bus import active_lease, open_bus
from tieline.bus.active_lease import KEY, ActiveLease, Holder
from tieline.channels.base import DeliveryContext, DeliveryResult, RelayAccess
from tieline.envelopes import Envelope
from tieline.testing.wait_for import eventually


async def test_it_is_held_by_one(tmp_path: Path) -> None:
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
        first, second = ActiveLease(bus.table("relay"), 10), ActiveLease(bus.table("relay"), 10)
        assert await first.acquire()
        assert first.valid
        assert not await second.acquire()
        assert second.other == first.holder
        assert "process" in first.holder.description
        await first.release()
        assert not first.valid
        assert await second.acquire()
        await second.release()


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has a clock of its own for this")
async def test_a_machine_that_slept_for_longer_does_not_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table let go of it meanwhile, so another machine may have it."""
    read, asleep = time.clock_gettime, 0.0

    def clock_gettime(clock: int) -> float:
        return read(clock) + (asleep if clock == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", clock_gettime)
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
        lease = ActiveLease(bus.table("relay"), 10)
        assert await lease.acquire() and lease.valid
        asleep = 60.0
        assert not lease.valid
        await lease.release()


async def test_a_holder_that_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
        table = bus.table("relay")
        other = Holder.new()
        assert other.is_dead(), "a holder of this process that nobody has"
        gone = replace(other, pid=2**22 + 1, began="1")
        assert gone.is_dead(), "its process is no more"
        assert not replace(gone, machine="elsewhere").is_dead(), "that cannot be told from here"
        await table.put(KEY, msgspec.json.encode(gone), ttl=3600)
        lease = ActiveLease(table, 10)
        assert await lease.acquire()
        await lease.release()


def test_a_process_that_began_at_the_same_time_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def began(pid: int) -> str:
        return "1"

    monkeypatch.setattr(active_lease, "_process_start", began)
    assert Holder.new().is_dead()
    assert not replace(Holder.new(), pid=os.getpid() + 1).is_dead()


@pytest.mark.slow
async def test_one_that_may_live_is_waited_for(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/bus.db"
    async with open_bus(url) as bus:
        far = replace(Holder.new(), machine="elsewhere", host="far")
        await bus.table("relay").put(KEY, msgspec.json.encode(far), ttl=1)
    async with relaying(url, settings=replace(QUICK, lease_s=6)) as relay:
        await within(relay.until_active())
        assert relay.active


@pytest.mark.slow
async def test_who_cannot_renew_it_stops(tmp_path: Path) -> None:
    """Another took it: the first one knows before it does anything more, and is a standby from then on."""
    async with relaying(f"sqlite://{tmp_path}/bus.db", settings=replace(QUICK, lease_s=6)) as relay:
        assert relay.active
        far = replace(Holder.new(), machine="elsewhere", host="far")
        await relay.lease._table.put(KEY, msgspec.json.encode(far), ttl=3600)  # pyright: ignore[reportPrivateUsage]
        await eventually(lambda: not relay.active, "it goes on", timeout=30)
        await eventually(lambda: relay.lease.other == far, "it does not know by whom", timeout=30)


@pytest.mark.slow
async def test_it_is_kept_while_it_is_renewed(tmp_path: Path) -> None:
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
        lease = ActiveLease(bus.table("relay"), 6)
        assert await lease.acquire()
        holding = asyncio.create_task(lease.renew())
        async with aclosing(bus.table("relay").watch(KEY)) as changes:
            for _ in range(2):
                change = await within(anext(changes))
                assert msgspec.json.decode(change.value or b"", type=Holder) == lease.holder
        assert lease.valid
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)
        await lease.release()


class Starting(Door):
    """A channel that notes when it was started, stopped, and what it got."""

    def __init__(self, id: str) -> None:
        super().__init__(id, f"relay.{id}")
        self.calls: list[str] = []

    async def start(self, relay: RelayAccess) -> None:
        self.calls.append("start")

    async def stop(self) -> None:
        self.calls.append("stop")

    async def deliver(self, subject: str, envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        self.calls.append(envelope.payload.text)
        return DeliveryResult(status="delivered")


@pytest.mark.slow
async def test_who_gets_it_back_goes_on(tmp_path: Path) -> None:
    """Lost, and free again: the same relay is active again, with its channels and its mail."""
    got: list[str] = []

    async def take(envelope: Envelope, context: DeliveryContext) -> None:
        got.append(envelope.payload.text)

    async with relaying(f"sqlite://{tmp_path}/bus.db", settings=replace(QUICK, lease_s=6)) as relay:
        relay.serve("relay.program2.x", take)
        before, meanwhile = Starting("before"), Starting("meanwhile")
        await relay.register(before)
        waits = await relay.send("relay.user.you", "waits", sender="relay.user.me")
        far = replace(Holder.new(), machine="elsewhere", host="far")
        await relay.lease._table.put(KEY, msgspec.json.encode(far), ttl=3600)  # pyright: ignore[reportPrivateUsage]
        await eventually(lambda: relay.lease.other == far, "it does not know", timeout=30)
        await eventually(lambda: before.calls == ["start", "stop"], "its channels are not stopped", timeout=30)
        await eventually(lambda: relay.channels()[0].state == "stopped", "it is shown as if it ran", timeout=30)
        await relay.register(meanwhile)
        assert meanwhile.calls == [], "the active relay has this channel"
        await relay.lease._table.delete(KEY)  # pyright: ignore[reportPrivateUsage]
        await eventually(lambda: relay.active, "it does not come back", timeout=30)
        assert [receipt.id for receipt in relay.inbox("relay.user.you").unread()] == [waits.id]
        await over(relay, (await relay.send("relay.program2.x", "again", sender="relay.user.me")).id)
        assert got == ["again"]
        for channel in (before, meanwhile):
            sent = await relay.send(f"{channel.subject_prefix}.you", "again", sender="relay.user.me")
            assert (await over(relay, sent.id)).state == "injected"
        assert before.calls == ["start", "stop", "start", "again"] and meanwhile.calls == ["start", "again"]


@pytest.mark.slow
async def test_who_renews_it_late_has_it_again_at_once_and_no_message_is_refused(tmp_path: Path) -> None:
    """A busy machine did not let the process run for longer than its lease holds."""
    async with relaying(f"sqlite://{tmp_path}/bus.db", settings=replace(QUICK, lease_s=3)) as relay:
        relay.lease._until = 0.0  # pyright: ignore[reportPrivateUsage]
        assert not relay.active and relay.lease.other is None
        sending = asyncio.create_task(relay.send("relay.user.you", "meanwhile", sender="relay.user.me"))
        await asyncio.sleep(0)
        assert not sending.done()
        receipt = await within(sending)
        assert relay.active
        assert [each.id for each in relay.inbox("relay.user.you").unread()] == [receipt.id]
