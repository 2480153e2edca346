"""Whoever asks with the same key asks the same question, and each of them gets its answer."""

import asyncio

import pytest
from tests.relay.conftest import over, within

from tieline.channels.base import DeliveryContext
from tieline.envelopes import Envelope, MessageReceipt
from tieline.relay import Relay
from tieline.testing.wait_for import eventually

ME = "relay.user.me"


class Oracle:
    """Answers when the test lets it."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.heard: list[str] = []
        self.go = asyncio.Event()
        relay.serve("relay.program2.oracle", self.take)

    async def take(self, envelope: Envelope, context: DeliveryContext) -> str:
        self.heard.append(envelope.payload.text)
        await self.go.wait()
        return "42"

    def ask(self, timeout: float = 30) -> "asyncio.Task[Envelope]":
        return asyncio.create_task(self.relay.ask("relay.program2.oracle", "?", sender=ME, timeout=timeout, key="k"))

    def waiting(self) -> int:
        """How many have asked and wait: each of them listens."""
        return len(self.relay.dispatcher.listeners)


async def test_all_who_ask_with_one_key_get_the_answer(relay: Relay) -> None:
    oracle = Oracle(relay)
    first, impatient, last = oracle.ask(), oracle.ask(), oracle.ask()
    await eventually(lambda: oracle.waiting() == 3 and bool(oracle.heard), "nobody asks")
    impatient.cancel()
    await asyncio.gather(impatient, return_exceptions=True)
    oracle.go.set()
    answers = [await within(asking) for asking in (first, last, oracle.ask())]
    assert {answer.id for answer in answers} == {answers[0].id}
    assert [answer.payload.text for answer in answers] == ["42"] * 3
    assert oracle.heard == ["?"], "it is one question"
    await over(relay, answers[0].id)
    assert await relay.dead_letters.list() == []
    assert oracle.waiting() == 0


@pytest.mark.parametrize("late", ["question", "answer"])
async def test_who_asks_when_the_answer_has_just_come_gets_it_as_well(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """It was brought to another already, and the receipt of the question, or its own, does not say so yet."""
    oracle, keep, hold = Oracle(relay), relay.store.save_receipt, asyncio.Event()

    async def written(receipt: MessageReceipt, moment: str = "") -> None:
        if receipt.over and late == ("answer" if receipt.subject.startswith("relay.ask.") else "question"):
            await hold.wait()
        await keep(receipt, moment)

    monkeypatch.setattr(relay.store, "save_receipt", written)
    oracle.go.set()
    answer = await within(oracle.ask())
    ended = answer.in_reply_to if late == "answer" else answer.id
    await over(relay, ended)
    second = oracle.ask()
    await eventually(lambda: oracle.waiting() == 1 or second.done(), "nobody asks")
    hold.set()
    assert (await within(second)).id == answer.id
    assert oracle.heard == ["?"]
