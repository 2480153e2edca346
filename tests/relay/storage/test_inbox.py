"""An inbox: what was handed over can be taken back until it was seen, and by its own inbox alone."""

from tests.relay.conftest import over, states

from tieline.relay import Relay

ME, YOU = "relay.user.me", "relay.user.you"


async def test_what_did_not_reach_its_reader_is_unread_again(relay: Relay) -> None:
    inbox = relay.inbox(ME)
    sent = await relay.send(ME, "hello", sender=YOU)
    assert [one.id for one in inbox.unread()] == [sent.id]
    assert await inbox.take_back(sent.id) is None, "it was not handed over"
    handed = await inbox.hand_over(sent.id)
    assert handed is not None and handed.over and states(handed)[-1] == "injected"
    assert inbox.unread() == [] and await inbox.hand_over(sent.id) is None
    back = await inbox.take_back(sent.id)
    assert back is not None and not back.over
    assert (states(back)[-1], "injected" in states(back)) == ("stored", False)
    assert [one.id for one in inbox.unread()] == [sent.id]
    message = await inbox.read(sent.id)
    assert message.envelope is not None and message.envelope.payload.text == "hello"
    assert states(await over(relay, sent.id))[-2:] == ["injected", "seen"]


async def test_what_was_seen_or_is_anothers_is_not_taken_back(relay: Relay) -> None:
    inbox, other = relay.inbox(ME), relay.inbox(YOU)
    seen, handed = [await relay.send(ME, text, sender=YOU) for text in ("one", "two")]
    await inbox.hand_over(seen.id, seen=True)
    await inbox.hand_over(handed.id)
    assert await inbox.take_back(seen.id) is None
    assert await inbox.take_back("never") is None
    assert await other.take_back(handed.id) is None
    assert inbox.unread() == [] and other.unread() == []
    assert await inbox.take_back(handed.id) is not None
