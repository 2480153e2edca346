"""Signatures by the Standard Webhooks specification, against its own library."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook
from tests.channels.conftest import OTHER, SECRET

from tieline.channels.webhook.signatures import Unsigned, check_secret, sign, verify
from tieline.errors import UsageError

BODY = '{"hello": "world"}'


def signed(secret: str = SECRET, *, id: str = "msg_1", body: str = BODY, at: float | None = None) -> dict[str, str]:
    """As another program would sign it."""
    when = datetime.fromtimestamp(int(time.time() if at is None else at), UTC)
    return {
        "webhook-id": id,
        "webhook-timestamp": str(int(when.timestamp())),
        "webhook-signature": Webhook(secret).sign(id, when, body),
    }


def test_the_library_accepts_what_we_sign() -> None:
    assert Webhook(SECRET).verify(BODY, sign([SECRET], "msg_1", BODY)) == {"hello": "world"}


def test_we_accept_what_the_library_signs() -> None:
    assert verify([SECRET], signed(), BODY.encode()) == "msg_1"


def test_two_secrets_count_during_a_rotation() -> None:
    assert verify([OTHER, SECRET], signed(SECRET), BODY.encode()) == "msg_1"
    assert verify([OTHER, SECRET], signed(OTHER), BODY.encode()) == "msg_1"
    both = sign([SECRET, OTHER], "msg_1", BODY)
    assert Webhook(SECRET).verify(BODY, both)
    assert Webhook(OTHER).verify(BODY, both)
    assert verify([OTHER], both, BODY.encode()) == "msg_1"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"webhook-id": ""}, "unsigned"),
        ({"webhook-signature": ""}, "unsigned"),
        ({"webhook-timestamp": "tomorrow"}, "bad_timestamp"),
        ({"webhook-timestamp": "9" * 40}, "bad_timestamp"),
        ({"webhook-id": "with space"}, "bad_id"),
        ({"webhook-id": "x" * 1000}, "bad_id"),
        ({"webhook-signature": "v1,bm90IGl0"}, "bad_signature"),
        ({"webhook-signature": "v1"}, "bad_signature"),
        ({"webhook-signature": "v2,abc v1a,xyz ,,, v1,ünïcode"}, "bad_signature"),
        ({"webhook-signature": "v1,x " * 10_000}, "bad_signature"),
        ({"webhook-id": "msg_2"}, "bad_signature"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, str], code: str) -> None:
    with pytest.raises(Unsigned) as refused:
        verify([SECRET], {**signed(), **change}, BODY.encode())
    assert refused.value.code == code
    assert SECRET not in str(refused.value)


def test_another_body_is_refused() -> None:
    with pytest.raises(Unsigned, match="no signature matches"):
        verify([SECRET], signed(), b'{"hello": "World"}')


def test_a_body_that_is_no_text_is_refused() -> None:
    with pytest.raises(Unsigned, match="UTF-8"):
        verify([SECRET], signed(), b"\xff\xfe")


@pytest.mark.parametrize("offset", [-301, 301])
def test_outside_of_the_window_it_is_a_replay(offset: int) -> None:
    now = time.time()
    headers = signed(at=now + offset)
    with pytest.raises(Unsigned) as refused:
        verify([SECRET], headers, BODY.encode(), window_s=300, now=now)
    assert refused.value.code == "replay_window"
    assert verify([SECRET], headers, BODY.encode(), window_s=302, now=now) == "msg_1"


def test_a_stranger_learns_nothing_of_our_clock() -> None:
    with pytest.raises(Unsigned) as refused:
        verify([OTHER], signed(at=0), BODY.encode())
    assert refused.value.code == "bad_signature"


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_c2hvcnQ=", "whsec_not base64!", "whsec_" + "YWFh" * 100])
def test_a_secret_that_is_none_is_refused(secret: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_secret(secret)
    assert refused.value.field == "secrets"
    assert len(secret) < 8 or secret not in refused.value.message


@given(
    st.dictionaries(st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]), st.text(max_size=60)),
    st.binary(max_size=100),
)
def test_anything_at_all_is_refused_and_nothing_else_raised(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(Unsigned):
        verify([SECRET], headers, body)
