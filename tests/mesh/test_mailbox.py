"""Messages that are lent out come back."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.mesh.conftest import within

from tieline.bus import open_bus
from tieline.config import Config
from tieline.mesh.mailbox import Mailbox
from tieline.relay import Relay

BOB = "relay.member.mb-bob"


async def test_what_nobody_confirms_is_unread_again_and_whoever_waits_is_told(tmp_path: Path) -> None:
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus, Relay(bus, Config()) as relay:
        with Mailbox(relay, lease_s=0.01) as mailbox:
            returned = asyncio.Event()
            forget = mailbox.on_returned(lambda address: returned.set() if address == BOB else None)
            sent = await relay.send(BOB, "hello", sender="relay.user.anna")
            assert [message.receipt.id for message in await mailbox.offer(BOB)] == [sent.id]
            await within(returned.wait())
            assert await mailbox.wait(BOB, 30)
            forget()


async def test_a_lease_that_was_confirmed_or_released_does_not_end_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leases last for longer than the test, which ends one itself."""
    loop, lease_s = asyncio.get_running_loop(), 3601.5
    call_later, ends = loop.call_later, list[tuple[asyncio.TimerHandle, Callable[[], object]]]()

    def record(delay: float, callback: Callable[..., object], *arguments: Any, **options: Any) -> asyncio.TimerHandle:
        handle = call_later(delay, callback, *arguments, **options)
        if delay == lease_s:
            ends.append((handle, lambda: callback(*arguments)))
        return handle

    monkeypatch.setattr(loop, "call_later", record)
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus, Relay(bus, Config()) as relay:
        with Mailbox(relay, lease_s=lease_s) as mailbox:
            returned: list[str] = []
            mailbox.on_returned(returned.append)
            message, other_message = [
                await relay.send(BOB, text, sender="relay.user.anna") for text in ("one", "other")
            ]
            await mailbox.offer(BOB)
            await mailbox.confirm(BOB, [message.id])
            mailbox.release(BOB, [message.id, other_message.id])
            mailbox.release(BOB, [message.id, other_message.id])
            assert returned == [BOB]
            assert [handle.cancelled() for handle, _ in ends] == [True, True]
            assert [message.receipt.id for message in await mailbox.offer(BOB)] == [other_message.id]
            assert mailbox.available(BOB) == [] and len(ends) == 3
            ends[2][1]()
            assert await mailbox.wait(BOB, 30), "the lease of the second offer has ended"
            assert returned == [BOB, BOB]
