"""What a message costs: what is sent because of another inherits its budget, and every loop ends with a reason."""

import asyncio

import pytest
from tests.relay.conftest import over, relaying, within

from tieline.channels.base import DeliveryContext
from tieline.envelopes import Envelope, Limits, Refused
from tieline.relay import Relay
from tieline.testing.wait_for import eventually

ME = "relay.user.me"


class Chain:
    """Endpoints that each pass on what they get, as agents do: by a tool, while they work, with nobody's leave."""

    def __init__(self, relay: Relay, *names: str) -> None:
        self.relay = relay
        self.got: list[Envelope] = []
        self.refused: list[Refused] = []
        for name, following in zip(names, (*names[1:], names[0]), strict=True):
            relay.serve(f"relay.agent.{name}", self.passing_on(f"relay.agent.{name}", f"relay.agent.{following}"))

    def passing_on(self, own: str, following: str):
        async def take(envelope: Envelope, context: DeliveryContext) -> None:
            self.got.append(envelope)
            try:
                await self.relay.sender(own).send(following, envelope.payload)
            except Refused as refusal:
                self.refused.append(refusal)

        return take


async def test_a_loop_of_three_ends_as_a_cycle(url: str) -> None:
    async with relaying(url) as relay:
        chain = Chain(relay, "a", "b", "c")
        sent = await relay.send("relay.agent.a", "round and round", sender=ME)
        await eventually(lambda: bool(chain.refused), "it never ended", timeout=20)
        assert [envelope.subject[-1] for envelope in chain.got] == ["a", "b", "c"]
        (refusal,) = chain.refused
        assert refusal.reason == "cycle"
        (letter,) = await relay.dead_letters.list()
        assert (letter.reason, letter.state, letter.envelope.subject) == ("cycle", "refused", "relay.agent.a")
        assert "relay.agent.a → relay.agent.b → relay.agent.c → relay.agent.a" in letter.detail
        assert letter.envelope.thread == sent.thread
        assert [envelope.budget.hops for envelope in chain.got] == [1, 2, 3]
        assert [envelope.budget.calls_left for envelope in chain.got] == [32, 31, 30]
        assert len({envelope.budget.expires_at for envelope in chain.got}) == 1
        assert [envelope.caused_by for envelope in chain.got] == ["", chain.got[0].id, chain.got[1].id]
        await over(relay, chain.got[-1].id)
        assert [m.receipt.subject[-1] for m in await relay.trace(chain.got[-1].id)] == ["a", "b", "c"]


async def test_a_long_way_ends_by_hops_and_by_calls(relay: Relay) -> None:
    names = [f"n{number}" for number in range(20)]
    chain = Chain(relay, *names)
    await relay.send("relay.agent.n0", "on and on", sender=ME, limits=Limits(max_hops=100))
    await eventually(lambda: bool(chain.refused), "it never ended")
    assert (len(chain.got), chain.refused[0].reason) == (8, "hops_exceeded"), "nobody gets more than there is"
    chain.got.clear()
    chain.refused.clear()
    await relay.send("relay.agent.n0", "on and on", sender=ME, limits=Limits(calls=3))
    await eventually(lambda: bool(chain.refused), "it never ended")
    assert (len(chain.got), chain.refused[0].reason) == (3, "calls_exceeded")


async def test_agents_that_always_answer_each_other_end(relay: Relay) -> None:
    """Every answer is taken as another question: hops end it, and the last refusal is a dead letter."""
    asked: list[int] = []
    ended: list[str] = []

    async def chatty(envelope: Envelope, context: DeliveryContext) -> str:
        asked.append(envelope.budget.hops)
        if envelope.subject == "relay.agent.a":
            try:
                await relay.sender("relay.agent.a").send("relay.agent.b", "and now?", reply_to="relay.agent.a")
            except Refused as refusal:
                ended.append(refusal.reason)
        return "my answer"

    relay.serve("relay.agent.a", chatty)
    relay.serve("relay.agent.b", chatty)
    await relay.send("relay.agent.a", "begin", sender=ME)
    await eventually(lambda: bool(ended), "it never ended")
    assert asked == list(range(1, 10))
    (letter,) = await relay.dead_letters.list()
    assert letter.reason == "hops_exceeded"
    assert (letter.envelope.sender, letter.envelope.subject) == ("relay.agent.a", "relay.agent.b")


async def test_calls_are_spent_by_everything_that_is_sent(relay: Relay) -> None:
    spent: list[str] = []

    async def sink(envelope: Envelope, context: DeliveryContext) -> None:
        spent.append(envelope.payload.text)

    async def fan_out(envelope: Envelope, context: DeliveryContext) -> str:
        for number in range(10):
            try:
                await relay.sender("relay.agent.fan").send(f"relay.agent.sink.{number}", str(number))
            except Refused as refusal:
                return refusal.reason
        return "never"

    relay.serve("relay.agent.fan", fan_out)
    relay.serve("relay.agent.sink", sink, prefix=True)
    answer = await within(relay.ask("relay.agent.fan", "go", sender=ME, timeout=20, limits=Limits(calls=4)))
    assert answer.payload.text == "calls_exceeded"
    await eventually(lambda: sorted(spent) == ["0", "1", "2"], "what was accepted arrives")


async def test_a_message_may_be_named_that_one_works_on(relay: Relay) -> None:
    """For those whom the relay does not see at work: it only ever shrinks."""
    got: list[Envelope] = []

    async def take(envelope: Envelope, context: DeliveryContext) -> None:
        got.append(envelope)

    relay.serve("relay.program2", take, prefix=True)
    first = await relay.send("relay.program2.a", "1", sender=ME, limits=Limits(calls=5))
    await over(relay, first.id)
    second = await relay.send("relay.program2.b", "2", sender="relay.program2.a", within=first.id)
    await over(relay, second.id)
    assert (got[1].budget.hops, got[1].budget.calls_left, got[1].thread) == (2, 4, first.thread)
    with pytest.raises(Refused, match=r"relay\.program2\.a") as caught:
        await relay.send("relay.program2.a", "3", sender="relay.program2.b", within=second.id)
    assert caught.value.reason == "cycle"


async def test_a_loop_through_a_chat_ends_too(relay: Relay) -> None:
    """People answer there, but a bot may as well; only an inbox is where no loop can go through."""

    async def take(envelope: Envelope, context: DeliveryContext) -> None:
        return None

    relay.serve("relay.chat.room", take)
    relay.serve("relay.program2.b", take)
    queue = relay.dispatcher.queues.match("relay.chat.room")
    assert queue is not None
    queue.people = True  # as the channel of a chat says
    first = await relay.send("relay.chat.room", "1", sender=ME)
    await over(relay, first.id)
    second = await relay.send("relay.program2.b", "2", sender="relay.chat.room", within=first.id)
    await over(relay, second.id)
    with pytest.raises(Refused) as caught:
        await relay.send("relay.chat.room", "3", sender="relay.program2.b", within=second.id)
    assert caught.value.reason == "cycle"


async def test_work_ends_with_its_delivery(relay: Relay) -> None:
    gate = asyncio.Event()

    async def take(envelope: Envelope, context: DeliveryContext) -> None:
        await gate.wait()

    relay.serve("relay.agent.a", take)
    relay.serve("relay.agent.b", take)
    first = await relay.send("relay.agent.a", "1", sender=ME)
    await eventually(lambda: relay.active_deliveries.for_address("relay.agent.a") is not None, "nobody works")
    inside = await relay.send("relay.agent.b", "2", sender="relay.agent.a")
    gate.set()
    await over(relay, first.id)
    await over(relay, inside.id)
    outside = await relay.send("relay.agent.b", "3", sender="relay.agent.a")
    assert (inside.caused_by, outside.caused_by) == (first.id, "")
