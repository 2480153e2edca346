"""Dead letters that are sent again: by a person's decision, with a fresh budget, and never as more than they were."""

import time

import pytest
from tests.relay.conftest import over

from tieline.channels.base import DeliveryContext, dead
from tieline.envelopes import DeliveryResult, Envelope, Limits, MessageReceipt, Refused, UnknownMessage
from tieline.relay import Relay
from tieline.testing.wait_for import eventually

ME = "relay.user.me"


@pytest.mark.slow
async def test_an_answer_is_sent_again_after_its_question_has_run_out(relay: Relay) -> None:
    got: list[Envelope] = []
    broken = True

    async def agent(envelope: Envelope, context: DeliveryContext) -> str:
        return "the answer"

    async def chat(envelope: Envelope, context: DeliveryContext) -> DeliveryResult | None:
        if broken:
            return dead("closed")
        got.append(envelope)
        return None

    relay.serve("relay.program2.agent", agent)
    relay.serve("relay.program2.chat", chat)
    limits = Limits(ttl_s=2.0, max_hops=1, calls=1)
    sent = await relay.send("relay.program2.agent", "?", sender=ME, reply_to="relay.program2.chat", limits=limits)
    answer = (await over(relay, sent.id)).answer
    assert (await over(relay, answer)).state == "dead"
    await eventually(lambda: time.time() > sent.expires_at, "time stands still")
    broken = False
    ((_, again),) = await relay.dead_letters.retry([answer])
    assert isinstance(again, MessageReceipt), again
    assert (await over(relay, again.id)).state == "injected"
    (envelope,) = got
    assert (envelope.payload.text, envelope.in_reply_to, envelope.thread) == ("the answer", sent.id, sent.thread)
    assert (envelope.budget.hops, envelope.budget.max_hops, envelope.budget.calls_left) == (1, 8, 32)
    assert envelope.budget.ancestors == ("relay.program2.agent",)
    assert await relay.dead_letters.list() == []


async def test_what_is_refused_again_stays_one_dead_letter(relay: Relay) -> None:
    async def agent(envelope: Envelope, context: DeliveryContext) -> None:
        return None

    relay.serve("relay.program2.agent", agent)
    with pytest.raises(Refused, match="it already passed through"):
        await relay.send("relay.program2.agent", "to myself", sender="relay.program2.agent")
    (letter,) = await relay.dead_letters.list()
    for _ in range(2):
        ((id, refusal),) = await relay.dead_letters.retry(to="relay.program2.*")
        assert isinstance(refusal, Refused)
        assert (id, refusal.reason) == (letter.envelope.id, "cycle")
        assert await relay.dead_letters.list() == [letter]


async def test_nothing_is_dropped_unless_it_is_named(relay: Relay) -> None:
    async def closed(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        return dead("closed")

    relay.serve("relay.program2.closed", closed)
    sent = await relay.send("relay.program2.closed", "x", sender=ME)
    await over(relay, sent.id)
    assert await relay.dead_letters.drop() == 0
    assert await relay.dead_letters.retry() == []
    assert len(await relay.dead_letters.list()) == 1
    with pytest.raises(UnknownMessage):
        await relay.dead_letters.drop(["nonesuch"])
    assert await relay.dead_letters.drop(reason="closed") == 1
