"""Asks as mail: whatever the bus does meanwhile, whoever is to decide hears of each change once."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.relay.conftest import within

from tieline.backoff import Backoff
from tieline.channels.base import AskNote, DeliveryContext
from tieline.envelopes import Envelope, MessageReceipt, Payload, Refused
from tieline.errors import BusUnavailable
from tieline.events import Remember
from tieline.relay import Relay, ask_forwarder
from tieline.relay.ask_forwarder import AskForwarder, decode_ask

DOOR = "relay.program2.door"
ME = "relay.user.me.asks"


class Asked:
    """Asks that the test makes."""

    callback: Callable[[AskNote], None]

    def subscribe(self, callback: Callable[[AskNote], None]) -> Callable[[], None]:
        self.callback = callback
        return lambda: None

    async def decide(self, ask: str, *, allow: bool, digest: str, by: str, remember: Remember = "once") -> str:
        raise NotImplementedError


class Faulty:
    """Sends through the real relay, with faults: what is said of a message is not what became of it."""

    subject = ME

    def __init__(self, relay: Relay, *faults: str) -> None:
        self._relay = relay
        self._faults = list(faults)
        self.calls = 0

    async def send(self, subject: str, payload: Payload | str, *, key: str = "", **_: Any) -> MessageReceipt:
        self.calls += 1
        fault = self._faults.pop(0) if self._faults else ""
        if fault == "lost":
            raise BusUnavailable("no server answers")
        if fault == "too fast":
            raise Refused("rate_limited", "too much at once", retry_after_s=0.01)
        if fault == "refused":
            raise Refused("mailbox_full", "too much mail", retry_after_s=600)
        receipt = await self._relay.send(subject, payload, sender=ME, key=key)
        if fault == "unconfirmed":
            raise BusUnavailable("the server was gone before it answered")
        return receipt

    async def ask(self, *_: Any, **__: Any) -> Envelope:
        raise NotImplementedError


class Door:
    """Where the asks arrive."""

    def __init__(self, relay: Relay) -> None:
        self.heard: asyncio.Queue[AskNote | None] = asyncio.Queue()
        relay.serve(DOOR, self.take)

    async def take(self, envelope: Envelope, context: DeliveryContext) -> None:
        self.heard.put_nowait(decode_ask(envelope, ME.removesuffix(".asks")))

    async def next(self) -> AskNote | None:
        return await within(self.heard.get())


def note(id: str, status: str = "pending") -> AskNote:
    return AskNote(id=id, session="s", kind="permission", title=f"May I {id}?", status=status)


async def test_a_bus_that_stumbles(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask_forwarder, "BACKOFF", Backoff(0.01, 0.02))
    asks, door, sender = Asked(), Door(relay), Faulty(relay, "lost", "unconfirmed", "too fast")
    reports: list[str] = []
    async with AskForwarder(asks, sender, lambda: [DOOR], reports.append):
        asks.callback(note("a"))
        asks.callback(note("a", "allowed"))
        asks.callback(note("b"))
        got = [await door.next() for _ in range(3)]
    assert got == [note("a"), note("a", "allowed"), note("b")], "each once, in their order"
    assert sender.calls == 6
    assert door.heard.empty()
    assert len(reports) == 3
    assert all("yet" in report for report in reports)


async def test_what_is_refused_is_not_tried_again(relay: Relay) -> None:
    asks, door, sender = Asked(), Door(relay), Faulty(relay, "refused")
    reports: list[str] = []
    async with AskForwarder(asks, sender, lambda: [DOOR], reports.append):
        asks.callback(note("a"))
        asks.callback(note("b"))
        assert await door.next() == note("b")
    assert sender.calls == 2
    assert reports == ["an ask could not be forwarded: too much mail"]


async def test_it_ends_while_it_waits_for_the_bus(relay: Relay) -> None:
    asks, sender = Asked(), Faulty(relay, *["lost"] * 100)
    reported = asyncio.Event()
    async with AskForwarder(asks, sender, lambda: [DOOR], lambda _: reported.set()):
        asks.callback(note("a"))
        await within(reported.wait())
    assert sender.calls == 1


async def test_nothing_works_on_after_the_end(relay: Relay) -> None:
    async with AskForwarder(Asked(), Faulty(relay), lambda: [DOOR], lambda _: None) as forwarder:
        task = forwarder._task  # pyright: ignore[reportPrivateUsage]
        assert task is not None and not task.done()
    assert task.done()
