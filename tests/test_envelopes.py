"""Messages as values: addresses, envelopes on the wire, what a receipt says."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.bus.subjects import check_subject
from tieline.envelopes import (
    MAX_TOKENS,
    AttachmentRef,
    Budget,
    DeadLetter,
    Envelope,
    MessageReceipt,
    Payload,
    ReceiptStep,
    address,
    decode_dead,
    decode_envelope,
    decode_receipt,
    encode,
    under,
)
from tieline.errors import BadSubject


@pytest.mark.parametrize(
    ("given", "spelled"),
    [
        ("relay.agent.Shop.BOB", "relay.agent.shop.bob"),
        ("RELAY.user.Straße", "relay.user.strasse"),
        ("relay.telegram.main.-100123", "relay.telegram.main.-100123"),
        ("relay.user.me@example", "relay.user.me@example"),
        ("relay.user.\uff21nn", "relay.user.ann"),  # a full-width letter
        ("relay." + ".".join("abcdefghijklmno"), "relay." + ".".join("abcdefghijklmno")),
    ],
)
def test_addresses_have_one_spelling(given: str, spelled: str) -> None:
    assert address(given) == spelled


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "relay",
        "other.x",
        "relay..x",
        "relay.x.",
        "relay.*",
        "relay.a.>",
        "relay.a b",
        "relay.a\nb",
        "relay.a/b",
        "relay." + ".".join("x" * MAX_TOKENS),
        "relay." + "x" * 300,
        "relay.a\u2024.b",  # a dot that only looks like none
        "relay.\ud800",
    ],
)
def test_bad_addresses(bad: str) -> None:
    with pytest.raises(BadSubject):
        address(bad)


@given(st.text(max_size=40))
def test_an_address_is_a_subject_and_spelled_once(text: str) -> None:
    try:
        spelled = address(f"relay.{text}")
    except BadSubject:
        return
    assert address(spelled) == spelled
    check_subject(f"mail.{spelled}")


def test_under_is_token_by_token() -> None:
    assert under("relay.agent", "relay.agent")
    assert under("relay.agent", "relay.agent.x")
    assert not under("relay.agent", "relay.agentless.x")


PAYLOADS = st.builds(
    Payload,
    text=st.text(max_size=50),
    json=st.none() | st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3),
    attachments=st.lists(st.builds(AttachmentRef, url=st.text(max_size=20), name=st.text(max_size=5)), max_size=2).map(
        tuple
    ),
)


@given(PAYLOADS, st.floats(0, 10**10), st.lists(st.text(max_size=10), max_size=4).map(tuple))
def test_envelopes_survive_the_wire(payload: Payload, at: float, ancestors: tuple[str, ...]) -> None:
    budget = Budget(hops=2, max_hops=5, ancestors=ancestors, expires_at=at + 60, calls_left=7)
    envelope = Envelope(
        id="i", subject="relay.a", sender="relay.b", payload=payload, budget=budget, created_at=at, reply_to="relay.c"
    )
    assert decode_envelope(encode(envelope)) == envelope
    sent = msgspec.json.decode(encode(envelope))
    assert (sent["from"], sent["reply_to"], sent["created_at"]) == ("relay.b", "relay.c", at)
    assert {name: sent["budget"][name] for name in ("hops", "max_hops", "expires_at", "calls_left")} == {
        "hops": 2,
        "max_hops": 5,
        "expires_at": at + 60,
        "calls_left": 7,
    }
    letter = DeadLetter(envelope=envelope, reason="cycle")
    assert decode_dead(encode(letter)) == letter


def test_a_receipt_says_how_far_it_got() -> None:
    steps = (
        ReceiptStep("accepted", 1.0),
        ReceiptStep("stored", 1.0),
        ReceiptStep("offered", 2.0, 1),
        ReceiptStep("failed", 3.0, 1, "down"),
    )
    receipt = MessageReceipt(id="i", subject="relay.a", sender="relay.b", thread="i", steps=steps)
    assert (receipt.state, receipt.reason) == ("offered", "down")
    further = MessageReceipt(
        id="i", subject="relay.a", sender="relay.b", thread="i", steps=(*steps, ReceiptStep("injected", 4.0, 2))
    )
    assert further.state == "injected"
    assert decode_receipt(encode(further)) == further
    dead = MessageReceipt(
        id="i", subject="s", sender="f", thread="i", steps=(*steps, ReceiptStep("dead", 5.0, 2, "gave_up"))
    )
    assert (dead.state, dead.reason) == ("dead", "gave_up")


def test_json_can_be_read_as_text() -> None:
    assert Payload("said").as_text() == "said"
    assert Payload(json={"a": [1, 2]}).as_text() == '{\n  "a": [\n    1,\n    2\n  ]\n}'
    assert Payload().as_text() == ""


def test_time_left() -> None:
    assert Budget(expires_at=100.0).ttl_left(90.0) == 10.0
    assert Budget(expires_at=100.0).ttl_left(110.0) == 0.0
