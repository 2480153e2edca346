"""The relay on real buses: what is accepted, what is refused, where a message is."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.relay.conftest import BOUND, QUICK, over, relaying, states, within

from tieline.bus import open_bus
from tieline.channels.base import ChannelStatus, DeliveryContext, RelayAccess, UnknownAddress, dead, delivered, failed
from tieline.config import Config
from tieline.envelopes import (
    DeliveryResult,
    Envelope,
    Limits,
    MessageReceipt,
    Payload,
    Refused,
    RelayStandby,
    Unanswered,
    UnknownMessage,
)
from tieline.relay import Relay
from tieline.testing.wait_for import eventually

ME = "relay.user.me"


async def echo(envelope: Envelope, context: DeliveryContext) -> str:
    return f"you said {envelope.payload.text}"


async def silent(envelope: Envelope, context: DeliveryContext) -> None:
    return None


async def refusal(
    relay: Relay, subject: str, payload: Payload | str = "x", *, sender: str = ME, thread: str = ""
) -> Refused:
    with pytest.raises(Refused) as caught:
        await relay.send(subject, payload, sender=sender, thread=thread)
    return caught.value


async def test_a_message_arrives_and_its_sender_knows(url: str) -> None:
    async with relaying(url) as relay:
        heard: list[Envelope] = []

        async def take(envelope: Envelope, context: DeliveryContext) -> None:
            heard.append(envelope)

        relay.serve("relay.program2.x", take)
        sent = await relay.sender("Relay.User.ME").send("relay.PROGRAM2.x", "hello", key="k1")
        assert states(sent) == ["accepted", "stored"]
        receipt = await over(relay, sent.id)
        assert states(receipt) == ["accepted", "stored", "offered", "injected"]
        (envelope,) = heard
        assert (envelope.sender, envelope.subject, envelope.thread) == (ME, "relay.program2.x", sent.id)
        assert envelope.budget.ancestors == (ME,)
        again = await relay.send("relay.program2.x", "hello", sender=ME, key="k1")
        assert again.id == sent.id, "the same key is the same message"
        assert (await relay.send("relay.program2.x", "hello", sender="relay.user.other", key="k1")).id != sent.id
        assert (await relay.message(sent.id)).envelope == envelope
        with pytest.raises(UnknownMessage):
            await relay.status("nothing")
    async with relaying(url) as relay:
        assert await relay.status(sent.id) == receipt, "after a restart, too"


async def test_ids_are_sorted_by_time(relay: Relay) -> None:
    relay.serve("relay.program2.x", silent)
    ids = [(await relay.send("relay.program2.x", "x", sender=ME)).id for _ in range(3)]
    assert [id[:12] for id in ids] == sorted(id[:12] for id in ids)
    assert len(set(ids)) == 3


async def test_an_answer_goes_back_with_the_original_id(url: str) -> None:
    async with relaying(url) as relay:
        relay.serve("relay.program2.echo", echo)
        answer = await within(relay.ask("relay.program2.echo", "hello", sender=ME, timeout=20))
        assert answer.payload.text == "you said hello"
        receipt = await over(relay, answer.in_reply_to)
        assert states(receipt) == ["accepted", "stored", "offered", "injected", "answered"]
        assert receipt.answer == answer.id
        sent = await relay.send("relay.program2.echo", "to the inbox", sender=ME, reply_to="relay.user.you")
        receipt = await over(relay, sent.id)
        (unread,) = relay.inbox("relay.user.you").unread()
        message = await relay.inbox("relay.user.you").read(unread.id)
        assert message.envelope is not None
        assert (message.envelope.payload.text, message.envelope.in_reply_to) == ("you said to the inbox", sent.id)
        assert message.envelope.sender == "relay.program2.echo"
        assert [m.receipt.id for m in await relay.trace(unread.id)] == [sent.id, unread.id]


async def test_an_answer_is_sent_and_written_down_once(relay: Relay) -> None:
    relay.serve("relay.program2.echo", echo)
    written: list[str] = []
    relay.store.probe = written.append
    sent = await relay.send("relay.program2.echo", "hello", sender=ME, reply_to="relay.user.you")
    answer = (await over(relay, sent.id)).answer
    assert written.count("after answered") == 1
    message = await relay.message(sent.id)
    assert message.envelope is not None
    again = await relay.submitter.send_answer(message.envelope, "again")  # as after a crash before it was written down
    assert again == (answer, "")
    assert [receipt.id for receipt in relay.inbox("relay.user.you").unread()] == [answer]


async def test_an_inbox_is_read_by_a_person(url: str) -> None:
    async with relaying(url) as relay:
        sent = await relay.send("relay.user.You", Payload(json={"a": 1}, content_type="application/json"), sender=ME)
        assert states(await relay.status(sent.id)) == ["accepted", "stored"]
        assert relay.inboxes() == {"relay.user.you": 1}
    async with relaying(url) as relay:
        box = relay.inbox("relay.user.you")
        assert [receipt.id for receipt in box.unread()] == [sent.id], "it waits over restarts"
        (listed,) = await box.messages()
        assert listed.receipt.state == "stored", "looking at the list reads nothing"
        assert (await relay.status(sent.id)).waiting == "unread"
        message = await box.read(sent.id)
        assert message.envelope is not None
        assert message.envelope.payload.json == {"a": 1}
        assert message.receipt.state == "seen"
        assert (await relay.status(sent.id)).waiting == ""
        assert (await box.read(sent.id)).receipt.state == "seen"
        assert box.unread() == []
        answer = await relay.send(ME, "thanks", sender="relay.user.you", in_reply_to=sent.id)
        assert (await relay.status(sent.id)).answer == answer.id
        with pytest.raises(UnknownMessage):
            await relay.inbox("relay.user.other").read(sent.id)


async def test_what_is_read_at_once_is_not_saved_among_the_unread(tmp_path: Path) -> None:
    moments: list[str] = []
    async with relaying(f"sqlite://{tmp_path}/bus.db", settings=replace(QUICK, park_after_s=BOUND)) as relay:
        relay.store.probe = moments.append
        sent = await relay.send("relay.user.you", "now", sender=ME)
        message = await relay.inbox("relay.user.you").read(sent.id)
        assert message.receipt.state == "seen"
        assert await relay.store.parked() == []
    assert "before stored" in moments
    assert not [moment for moment in moments if "parked" in moment]


async def test_what_stays_unread_is_saved_among_the_unread(tmp_path: Path) -> None:
    """The log need not be read from there on."""
    async with relaying(f"sqlite://{tmp_path}/bus.db", settings=replace(QUICK, park_after_s=0.01)) as relay:
        sent = await relay.send("relay.user.you", "later", sender=ME)
        message = relay.dispatcher.in_flight[sent.id]
        await eventually(lambda: message.parked, "it is not saved")
        assert [receipt.id for receipt in await relay.store.parked()] == [sent.id]
        assert relay.dispatcher.low_water_mark() == sent.seq
        await relay.inbox("relay.user.you").read(sent.id)
        assert await relay.store.parked() == []


async def test_what_is_in_flight_is_shown_without_reading_the_log(tmp_path: Path) -> None:
    async with relaying(f"sqlite://{tmp_path}/bus.db") as relay:
        sent = await relay.send("relay.user.you", "shown", sender=ME)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(relay.store, "envelope", None)
            message = await relay.message(sent.id)
        assert message.envelope is not None
        assert (message.envelope.payload.text, message.receipt.state) == ("shown", "stored")


class NamesChannel:
    """A channel that says of its addresses whether somebody has them."""

    id, subject_prefix, display_name = "names", "relay.names", "Names"

    def __init__(self, answer: UnknownAddress | Exception | None) -> None:
        self.answer = answer
        self.delivered: list[str] = []

    async def start(self, relay: RelayAccess) -> None: ...

    async def stop(self) -> None: ...

    async def deliver(self, subject: str, envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        self.delivered.append(subject)
        return delivered()

    def status(self) -> ChannelStatus:
        return ChannelStatus(state="running")

    async def unknown_address(self, subject: str) -> UnknownAddress | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_what_nobody_is_at_is_refused_while_its_channel_runs_and_can_tell(relay: Relay) -> None:
    names = NamesChannel(UnknownAddress(problem="no such name", nearest=("relay.names.ada", "relay.names.bea")))
    await relay.register(names)
    refused = await refusal(relay, "relay.names.adda")
    assert (refused.reason, refused.message) == ("no_endpoint", "relay.names.adda: no such name")
    assert refused.hint.startswith("Did you mean relay.names.ada or relay.names.bea? ")
    names.answer = OSError("its list is away")
    sent = await relay.send("relay.names.adda", "x", sender="relay.user.me")
    assert (await over(relay, sent.id)).state == "injected", "who cannot tell holds up no mail"
    (view,) = relay.channels()
    assert view.last_error == "unknown_address failed: OSError: its list is away"
    names.answer = UnknownAddress(problem="no such name")
    await relay.unregister("names", keep=True)
    kept = await relay.send("relay.names.adda", "x", sender="relay.user.me")
    assert kept.state == "stored", "while it is replaced its mail waits"


async def test_refusals_have_reason_codes(tmp_path: Path) -> None:
    async with relaying(f"sqlite://{tmp_path}/bus.db", deny=("relay.user.evil -> >",), mailbox=3) as relay:
        relay.serve("relay.program2.x", silent)
        assert (await refusal(relay, "elsewhere.x")).reason == "bad_address"
        assert (await refusal(relay, "relay." + ".".join("abcdefghijklmnop"))).reason == "bad_address"
        assert (await refusal(relay, "relay.a..b")).reason == "bad_address"
        assert (await refusal(relay, "relay.system.x")).reason == "reserved_subject"
        assert (await refusal(relay, "relay.ask.123")).reason == "reserved_subject"
        assert (await refusal(relay, "relay.nobody.x")).reason == "no_endpoint"
        assert (await refusal(relay, "relay.program2.x", sender="relay.user.evil")).reason == "denied"
        assert (await refusal(relay, "relay.program2.x", "x" * 800_000)).reason == "too_large"
        for _ in range(3):
            await relay.send("relay.user.box", "x", sender="relay.user.other")
        full = await refusal(relay, "relay.user.box", sender="relay.user.other")
        assert (full.reason, full.retry_after_s) == ("mailbox_full", 60.0), "a sender is told when to try again"
        assert (await refusal(relay, "relay.user.box", thread="no thread")).reason == "bad_thread"
        assert await relay.dead_letters.list() == [], "a refusal that its sender sees is not a dead letter"


async def test_a_sender_has_a_rate(tmp_path: Path) -> None:
    async with relaying(f"sqlite://{tmp_path}/bus.db", rate_per_minute=5) as relay:
        relay.serve("relay.program2.x", silent)
        for _ in range(5):
            await relay.send("relay.program2.x", "x", sender="relay.user.busy")
        refused = await refusal(relay, "relay.program2.x", sender="relay.user.busy")
        assert (refused.reason, refused.retry_after_s is not None) == ("rate_limited", True)
        await relay.send("relay.program2.x", "x", sender="relay.user.quiet")


async def test_failures_are_tried_again_and_then_dead(url: str) -> None:
    async with relaying(url) as relay:
        attempts: list[int] = []

        async def fragile(envelope: Envelope, context: DeliveryContext) -> DeliveryResult | None:
            attempts.append(context.attempt)
            if envelope.payload.text == "never":
                return dead("unwanted", "not today")
            if envelope.payload.text == "bad" or context.attempt < 3:
                raise RuntimeError("it broke")
            return None

        relay.serve("relay.program2.x", fragile)
        good = await over(relay, (await relay.send("relay.program2.x", "good", sender=ME)).id)
        assert states(good)[2:] == ["offered", "failed", "offered", "failed", "offered", "injected"]
        assert good.attempts == 3
        assert good.reason == "delivery_failed"
        bad = await over(relay, (await relay.send("relay.program2.x", "bad", sender=ME)).id)
        assert (bad.state, bad.reason, bad.attempts) == ("dead", "delivery_failed", QUICK.attempts)
        never = await over(relay, (await relay.send("relay.program2.x", "never", sender=ME)).id)
        assert (never.state, never.reason, never.attempts) == ("dead", "unwanted", 1)
        letters = await relay.dead_letters.list()
        assert [letter.envelope.payload.text for letter in letters] == ["never", "bad"]
        assert "it broke" in letters[1].detail
        assert (await relay.dead_letters.show(bad.id)).attempts == QUICK.attempts


async def test_dead_letters_are_sent_again_or_dropped(url: str) -> None:
    async with relaying(url) as relay:
        broken = True
        got: list[str] = []

        async def mood(envelope: Envelope, context: DeliveryContext) -> DeliveryResult | None:
            if broken:
                return dead("closed")
            got.append(envelope.payload.text)
            return None

        relay.serve("relay.program2", mood, prefix=True)
        sent = [await relay.send(f"relay.program2.{n % 2}", f"m{n}", sender=ME) for n in range(6)]
        for receipt in sent:
            await over(relay, receipt.id)
        assert len(await relay.dead_letters.list(to="relay.program2.*")) == 6
        assert len(await relay.dead_letters.list(to="relay.program2.1")) == 3
        assert await relay.dead_letters.list(reason="other") == []
        assert await relay.dead_letters.retry() == [], "everything is never meant by nothing"
        broken = False
        ((id, again),) = await relay.dead_letters.retry([sent[0].id])
        assert id == sent[0].id
        assert isinstance(again, MessageReceipt)
        await over(relay, again.id)
        assert len(await relay.dead_letters.retry(to="relay.program2.1")) == 3
        assert await relay.dead_letters.drop([sent[2].id]) == 1
        await relay.dead_letters.retry(sender="relay.user.*")
        await eventually(lambda: len(got) == 5, "not all were sent again", timeout=20)
        assert sorted(got) == ["m0", "m1", "m3", "m4", "m5"]
        assert await relay.dead_letters.list() == []
        assert again.thread == sent[0].thread
        with pytest.raises(UnknownMessage):
            await relay.dead_letters.show(sent[2].id)


async def test_what_is_out_of_time_expires(relay: Relay) -> None:
    async def busy(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        return failed("not_now", retry_after_s=600)

    relay.serve("relay.program2.x", busy)
    sent = await relay.send("relay.program2.x", "x", sender=ME, limits=Limits(ttl_s=60))
    receipt = await over(relay, sent.id)
    assert (receipt.state, receipt.reason) == ("expired", "not_now")
    (letter,) = await relay.dead_letters.list()
    assert letter.state == "expired"


async def test_who_asks_is_told_why_there_is_no_answer(relay: Relay) -> None:
    async def idle(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        return DeliveryResult(status="delivered", reason="idle_without_answer")

    async def closed(envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        return dead("closed")

    relay.serve("relay.program2.idle", idle)
    relay.serve("relay.program2.closed", closed)
    relay.serve("relay.program2.silent", silent)
    with pytest.raises(Unanswered, match="went idle without answering") as caught:
        await within(relay.ask("relay.program2.idle", "?", sender=ME, timeout=60))
    assert caught.value.receipt.state == "injected"
    with pytest.raises(Unanswered) as caught:
        await within(relay.ask("relay.program2.closed", "?", sender=ME, timeout=60))
    assert caught.value.reason == "closed"
    with pytest.raises(Unanswered) as caught:
        await within(relay.ask("relay.program2.silent", "?", sender=ME, timeout=0.05))
    assert caught.value.reason in ("timeout", "ttl_expired"), "it may not even have been offered in that time"
    with pytest.raises(Refused):
        await relay.ask("relay.nobody.x", "?", sender=ME)


async def test_a_late_answer_is_a_dead_letter(relay: Relay) -> None:
    go = asyncio.Event()

    async def late(envelope: Envelope, context: DeliveryContext) -> str:
        await go.wait()
        return "too late"

    relay.serve("relay.program2.x", late)
    asking = asyncio.create_task(relay.ask("relay.program2.x", "?", sender=ME, timeout=60))
    await eventually(lambda: bool(relay.dispatcher.in_flight), "nothing was sent")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    (id,) = relay.dispatcher.in_flight
    go.set()
    receipt = await over(relay, id)
    await over(relay, receipt.answer)
    (letter,) = await relay.dead_letters.list()
    assert (letter.reason, letter.envelope.payload.text) == ("asker_gone", "too late")


@pytest.mark.slow
async def test_one_relay_is_active_and_another_takes_over(url: str) -> None:
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(open_bus(url))
        other = bus if url.startswith("sqlite") else await stack.enter_async_context(open_bus(url))
        first = await stack.enter_async_context(Relay(bus, Config(), settings=QUICK))
        second = await stack.enter_async_context(Relay(other, Config(), settings=QUICK))
        await takes_over(first, second)


async def takes_over(first: Relay, second: Relay) -> None:
    got: list[str] = []

    async def take(envelope: Envelope, context: DeliveryContext) -> None:
        got.append(envelope.payload.text)

    assert (first.active, second.active) == (True, False)
    with pytest.raises(RelayStandby, match="process"):
        await second.send("relay.user.x", "x", sender=ME)
    sent = await first.send("relay.user.box", "waits", sender=ME)
    second.serve("relay.program2.x", take)
    await first.__aexit__(None, None, None)
    await within(second.until_active())
    assert [receipt.id for receipt in second.inbox("relay.user.box").unread()] == [sent.id]
    await over(second, (await second.send("relay.program2.x", "now", sender=ME)).id)
    assert got == ["now"]
    with pytest.raises(RelayStandby):
        await first.send("relay.user.x", "x", sender=ME)
