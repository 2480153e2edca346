"""A push over TLS: to the address that was looked at, and only to whom the endpoint's name belongs."""

import ssl
import sys
import time
from pathlib import Path

import pytest
from tests.hub.certificates import certificate
from tests.hub.push.service import push_service

from tieline.bus import open_bus
from tieline.hub.push import sender as carrying
from tieline.hub.push import triggers


@pytest.mark.parametrize(
    ("owner", "known", "state"),
    [
        ("localhost", True, "sent"),  # the name, and not the address that is dialled
        ("somebody.example", True, "failed"),  # the address, and not the name
        ("localhost", False, "failed"),  # by nobody's word
    ],
)
async def test_whose_certificate_counts(
    owner: str, known: bool, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrying, "TRIES", 1)
    cert, key = certificate(tmp_path, name=owner, address=owner != "localhost")
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(cert, key)
    called: list[str | None] = []
    serving.sni_callback = lambda connection, name, context: called.append(name)
    trust = ssl.create_default_context(cafile=str(cert)) if known else None
    async with (
        open_bus(f"sqlite://{tmp_path}/bus.db") as bus,
        push_service(serving) as service,
        carrying.PushSender(bus, contact="mailto:me@example.com", loopback=True, trust=trust) as courier,
    ):
        service.public_key = await courier.key()
        browser = service.browser()
        subscription = triggers.Subscription(
            id="1", device="owner", endpoint=browser.endpoint, **browser.body()["keys"]
        )
        notice = triggers.test_notice(time.time())
        outcome = await courier.send(triggers.Push(subscription=subscription, notice=notice, ttl_s=60, urgency="high"))
        assert (outcome.state, called) == (state, ["localhost"]), outcome
        assert [post.notice["kind"] for post in service.posts] == (["test"] if state == "sent" else [])
        assert len(service.tries) == len(service.posts), "something was said to a stranger"


async def test_the_key_needs_nothing_that_only_a_push_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every hub makes sure of its key when it starts; what encrypts a push takes a third of a second to load."""
    monkeypatch.delitem(sys.modules, "pywebpush", raising=False)
    async with (
        open_bus(f"sqlite://{tmp_path}/bus.db") as bus,
        carrying.PushSender(bus, contact="mailto:me@example.com") as courier,
    ):
        assert len(await courier.key()) == 87
        assert "pywebpush" not in sys.modules
