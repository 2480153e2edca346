"""Webhooks in and out, over a real relay and real HTTP on loopback."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from standardwebhooks import Webhook as Library
from tests.channels.conftest import OTHER, SECRET, Desk, dead_letter, made, relay_with
from tests.channels.test_webhook_signatures import signed
from tests.relay.conftest import QUICK, over, states

from tieline.backoff import Backoff
from tieline.channels.inbound_http import HookRefused, HookRequest
from tieline.channels.webhook.channel import Webhook
from tieline.channels.webhook.loop_header import HEADER, trail
from tieline.envelopes import AttachmentRef, Payload, Refused
from tieline.errors import UsageError
from tieline.relay import Relay
from tieline.relay.channel_plugins.loader import ChannelError
from tieline.testing.channel_contract import FakeDeliveryContext
from tieline.testing.http_server import HttpRequest, LoopbackServer
from tieline.testing.wait_for import eventually

IN: dict[str, Any] = {"secrets": [SECRET], "to": "relay.desk"}


def hook(body: str = "{}", *, secret: str = SECRET, id: str = "msg_1", **headers: str) -> HookRequest:
    own = {name.replace("_", "-"): value for name, value in headers.items()}
    return HookRequest(headers={**signed(secret, id=id, body=body), **own}, body=body.encode())


async def refusal(channel: Webhook, request: HookRequest) -> HookRefused:
    with pytest.raises(HookRefused) as refused:
        await channel.receive(request)
    return refused.value


async def webhook(path: Path, relay: Relay, id: str = "ci", **config: Any) -> Webhook:
    channel = await made(path, id, "webhook", config)
    await relay.register(channel)
    assert isinstance(channel, Webhook)
    return channel


# --- in --------------------------------------------------------------------------------------------------------


async def test_a_signed_one_is_passed_on(tmp_path: Path) -> None:
    async with relay_with(tmp_path) as relay:
        desk, channel = Desk(relay), await webhook(tmp_path, relay, **IN)
        reply = await channel.receive(hook('{"build": "red", "from": "relay.user.owner"}'))
        envelope = await desk.next()
        assert reply.status == 202
        assert reply.message == envelope.id
        assert envelope.sender == "relay.webhook.ci", "stamped, whatever the body says"
        assert envelope.payload.json == {"build": "red", "from": "relay.user.owner"}
        assert envelope.reply_to == "", "without a url there is no way back"


async def test_the_same_message_again_is_the_same_message(tmp_path: Path) -> None:
    async with relay_with(tmp_path) as relay:
        desk, channel = Desk(relay), await webhook(tmp_path, relay, **IN)
        replies = [await channel.receive(hook('{"n": 1}')) for _ in range(3)]
        assert len({reply.message for reply in replies}) == 1
        await channel.receive(hook('{"n": 2}', id="msg_2"))
        assert [(await desk.next()).payload.json for _ in range(2)] == [{"n": 1}, {"n": 2}]
        assert desk.got.empty()


async def test_both_secrets_count_during_a_rotation(tmp_path: Path) -> None:
    async with relay_with(tmp_path) as relay:
        desk = Desk(relay)
        channel = await webhook(tmp_path, relay, secrets=[OTHER, SECRET], to="relay.desk")
        for number, secret in enumerate((SECRET, OTHER)):
            await channel.receive(hook(secret=secret, id=f"msg_{number}"))
            await desk.next()


async def test_the_text_may_be_anywhere_in_the_json(tmp_path: Path) -> None:
    async with relay_with(tmp_path) as relay:
        desk, channel = Desk(relay), await webhook(tmp_path, relay, text="data.message", **IN)
        await channel.receive(hook('{"data": {"message": "look at this"}}'))
        assert (await desk.next()).payload == Payload("look at this")
        for number, body in enumerate(('{"data": 5}', '{"data": {"message": ["no"]}}', "[]", "null")):
            refused = await refusal(channel, hook(body, id=f"bad_{number}"))
            assert (refused.status, refused.code, refused.field) == (422, "no_text", "data.message")


async def test_plain_text_is_text(tmp_path: Path) -> None:
    async with relay_with(tmp_path) as relay:
        desk, channel = Desk(relay), await webhook(tmp_path, relay, **IN)
        await channel.receive(hook("just this", content_type="text/plain; charset=utf-8"))
        assert (await desk.next()).payload == Payload("just this")


BAD: dict[str, tuple[Callable[[], HookRequest], int]] = {
    "unsigned": (lambda: HookRequest(headers={}, body=b"{}"), 401),
    "bad_signature": (lambda: hook(secret=OTHER), 401),
    "bad_timestamp": (lambda: hook(webhook_timestamp="x"), 400),
    "bad_type": (lambda: hook(content_type="image/png"), 415),
    "bad_json": (lambda: hook("{"), 400),
    "bad_json deep": (lambda: hook("[" * 100_000), 400),
    "bad_json empty": (lambda: hook(""), 400),
    "too_large": (lambda: HookRequest(headers=signed(body="x" * 300_000), body=b"x" * 300_000), 413),
    "replay_window": (lambda: HookRequest(headers=signed(at=time.time() - 10_000, body="{}"), body=b"{}"), 401),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_one_is_refused_clearly(tmp_path: Path, name: str) -> None:
    made, status = BAD[name]
    async with relay_with(tmp_path) as relay:
        desk, channel = Desk(relay), await webhook(tmp_path, relay, **IN)
        refused = await refusal(channel, made())
        assert (refused.status, refused.code) == (status, name.split()[0])
        assert refused.message
        assert desk.got.empty()
        assert await relay.recent() == []


async def test_what_the_relay_refuses_is_told(tmp_path: Path) -> None:
    async with relay_with(tmp_path, rate_per_minute=2, deny=["relay.webhook.shut -> >"]) as relay:
        Desk(relay)
        nowhere = await webhook(tmp_path, relay, "nowhere", secrets=[SECRET], to="relay.nobody")
        assert (await refusal(nowhere, hook())).code == "no_endpoint"
        shut = await webhook(tmp_path, relay, "shut", **IN)
        assert (await refusal(shut, hook())).status == 403
        channel = await webhook(tmp_path, relay, **IN)
        for number in range(2):
            await channel.receive(hook(id=f"msg_{number}"))
        refused = await refusal(channel, hook(id="one too many"[:3]))
        assert (refused.status, refused.code) == (429, "rate_limited")
        assert refused.retry_after_s


async def test_one_that_only_sends_takes_nothing_in(tmp_path: Path) -> None:
    async with relay_with(tmp_path) as relay:
        channel = await webhook(tmp_path, relay, sign_with=[SECRET], url="http://127.0.0.1:9/")
        assert (await refusal(channel, hook())).status == 404


# --- out -------------------------------------------------------------------------------------------------------


class Receiver:
    """A server that answers as it is told and keeps what it got."""

    def __init__(self, *replies: tuple[int, bytes]) -> None:
        self.got: list[HttpRequest] = []
        self._replies = list(replies)
        self.then: Callable[[HttpRequest], Awaitable[None]] | None = None

    async def __call__(self, request: HttpRequest) -> None:
        self.got.append(request)
        if self.then is not None:
            await self.then(request)
        status, body = self._replies.pop(0) if self._replies else (200, b"{}")
        await request.respond(status, body)


async def test_what_goes_out_is_signed_and_says_how_far_it_came(tmp_path: Path) -> None:
    receiver = Receiver()
    async with LoopbackServer(receiver) as server, relay_with(tmp_path) as relay:
        await webhook(tmp_path, relay, sign_with=[SECRET, OTHER], url=f"{server.url}/in", headers={"X-Own": "mine"})
        files = (AttachmentRef(url="file:///etc/passwd", name="list"), AttachmentRef(url="https://x.test/a", name="a"))
        sent = await relay.send("relay.webhook.ci", Payload("done", attachments=files), sender="relay.user.ada")
        assert (await over(relay, sent.id)).state == "injected"
        request = receiver.got[0]
        for secret in (SECRET, OTHER):
            content = Library(secret).verify(request.body, request.headers)
        assert request.path == "/in"
        assert request.headers["webhook-id"] == sent.id
        assert request.headers["x-own"] == "mine"
        assert content["type"] == "tieline.message"
        data = content["data"]
        assert (data["id"], data["from"], data["text"]) == (sent.id, "relay.user.ada", "done")
        assert "passwd" not in request.body.decode(), "where a file lies here is nobody's business"
        assert data["attachments"][1]["url"] == "https://x.test/a"
        state = trail(request.headers)
        assert state is not None
        assert (state.id, state.hops, state.max_hops) == (sent.id, 1, 8)


async def test_it_is_tried_again_with_the_same_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.channels.webhook.channel.BACKOFF", Backoff(0.01, 0.02))
    receiver = Receiver((500, b""), (503, b""), (429, b""), (200, b""))
    async with LoopbackServer(receiver) as server, relay_with(tmp_path) as relay:
        await webhook(tmp_path, relay, sign_with=[SECRET], url=server.url)
        sent = await relay.send("relay.webhook.ci", "hello", sender="relay.user.ada")
        receipt = await over(relay, sent.id)
        assert receipt.state == "injected"
        assert states(receipt).count("failed") == 3
        assert len({request.headers["webhook-id"] for request in receiver.got}) == 1


async def test_it_waits_as_long_as_it_is_told_to(tmp_path: Path) -> None:
    channel = await made(tmp_path, "ci", "webhook", {"sign_with": [SECRET], "url": "http://127.0.0.1:9/"})
    assert isinstance(channel, Webhook)

    import httpx2

    soon, date = 0.0, "Wed, 21 Oct 2015 07:28:00 GMT"
    for value, least, most in (("120", 120, 121), ("999999", 3600, 3601), (date, soon, 2), ("soon", soon, 2)):
        response = httpx2.Response(429, headers={"retry-after": value})
        result = channel._judge(response, "", 1)  # pyright: ignore[reportPrivateUsage]
        assert result.status == "failed"
        assert result.retry_after_s is not None
        assert least <= result.retry_after_s <= most


@pytest.mark.parametrize(("status", "words"), [(404, "404"), (410, "410"), (301, "redirects"), (422, "422")])
async def test_a_refusal_is_a_dead_letter_at_once(tmp_path: Path, status: int, words: str) -> None:
    receiver = Receiver((status, b""))
    async with LoopbackServer(receiver) as server, relay_with(tmp_path) as relay:
        await webhook(tmp_path, relay, sign_with=[SECRET], url=server.url)
        sent = await relay.send("relay.webhook.ci", "hello", sender="relay.user.ada")
        assert (await over(relay, sent.id)).state == "dead"
        letter = await relay.dead_letters.show(sent.id)
        assert letter.reason == "rejected"
        assert words in letter.detail
        assert len(receiver.got) == 1, "and no other address was asked"


async def test_a_server_that_is_away_or_silent_is_a_failed_attempt(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def stall(request: HttpRequest) -> None:
        await gone.wait()

    once = replace(QUICK, attempts=1)
    async with LoopbackServer(stall) as server, relay_with(tmp_path, settings=once) as relay:
        await webhook(tmp_path, relay, "slow", sign_with=[SECRET], url=server.url, timeout_s=0.1)
        await webhook(tmp_path, relay, "away", sign_with=[SECRET], url="http://127.0.0.1:9/", timeout_s=1)
        for id in ("slow", "away"):
            sent = await relay.send(f"relay.webhook.{id}", "hello", sender="relay.user.ada")
            receipt = await over(relay, sent.id)
            assert receipt.state == "dead"
            assert receipt.reason == "delivery_failed"
        gone.set()


async def test_the_answer_may_be_in_the_response(tmp_path: Path) -> None:
    receiver = Receiver((200, b'{"text": "all green"}'), (200, b'{"ok": true}'))
    async with LoopbackServer(receiver) as server, relay_with(tmp_path) as relay:
        await webhook(tmp_path, relay, sign_with=[SECRET], url=server.url, answers=True)
        answer = await relay.ask("relay.webhook.ci", "how is it?", sender="relay.user.ada", timeout=20)
        assert answer.payload.text == "all green"
        assert answer.sender == "relay.webhook.ci"
        sent = await relay.send("relay.webhook.ci", "thanks", sender="relay.user.ada", reply_to="relay.user.ada")
        assert (await over(relay, sent.id)).answer == "", "an acknowledgement is no answer"


async def test_the_answer_may_come_later_by_a_webhook(tmp_path: Path) -> None:
    receiver = Receiver()
    async with LoopbackServer(receiver) as server, relay_with(tmp_path) as relay:
        channel = await webhook(tmp_path, relay, secrets=[SECRET], url=server.url)
        question = asyncio.create_task(relay.ask("relay.webhook.ci", "well?", sender="relay.user.ada", timeout=30))
        await eventually(lambda: bool(receiver.got), "nothing was posted", timeout=30)
        asked = receiver.got[0].headers["webhook-id"]
        own = {"type": "tieline.message", "data": {"text": "later, but well", "in_reply_to": asked}}
        await channel.receive(hook(msgspec.json.encode(own).decode()))
        answer = await question
        assert (answer.payload.text, answer.in_reply_to) == ("later, but well", asked)
        receipt = await relay.status(asked)
        assert receipt.answer == answer.id
        stray = {"type": "tieline.message", "data": {"text": "x", "in_reply_to": "unknown"}}
        refused = await refusal(channel, hook(msgspec.json.encode(stray).decode(), id="msg_2"))
        assert (refused.status, refused.code) == (422, "no_endpoint")


async def test_a_later_answer_finds_its_way_after_a_restart(tmp_path: Path) -> None:
    receiver = Receiver()
    async with LoopbackServer(receiver) as server:
        config: dict[str, Any] = {"secrets": [SECRET], "url": server.url}
        async with relay_with(tmp_path, ("ci", "webhook", config)) as relay:
            sent = await relay.send("relay.webhook.ci", "well?", sender="relay.user.ada", reply_to="relay.user.team")
            await over(relay, sent.id)
        async with relay_with(tmp_path) as relay:
            channel = await webhook(tmp_path, relay, **config)
            reply = await channel.receive(answer_to(sent.id))
            receipt = await relay.status(reply.message)
            assert receipt.subject == "relay.user.team", "where the message said, not whoever sent it"


async def test_only_whoever_was_asked_can_answer(tmp_path: Path) -> None:
    """`ci` is no beginning of `ci2`: an address is compared token by token."""
    receiver = Receiver()
    async with LoopbackServer(receiver) as server, relay_with(tmp_path) as relay:
        desk, other = Desk(relay), await webhook(tmp_path, relay, **IN)
        await webhook(tmp_path, relay, "ci2", secrets=[OTHER], url=server.url)
        sent = await relay.send("relay.webhook.ci2", "well?", sender="relay.user.ada", reply_to="relay.user.ada")
        await over(relay, sent.id)
        await other.receive(answer_to(sent.id))
        stray = await desk.next()
        assert (stray.in_reply_to, stray.sender) == ("", "relay.webhook.ci"), "it goes where all of its mail goes"
        assert (await relay.status(sent.id)).answer == ""
        assert relay.inbox("relay.user.ada").unread() == []


def answer_to(id: str) -> HookRequest:
    return hook(msgspec.json.encode({"type": "tieline.message", "data": {"text": "yes", "in_reply_to": id}}).decode())


# --- loops -----------------------------------------------------------------------------------------------------


async def test_a_loop_through_two_webhooks_ends_by_its_budget(tmp_path: Path) -> None:
    """What goes out by one comes in by the other, which sends it out again: for ever, if nobody counted."""
    async with relay_with(tmp_path, max_hops=5) as relay:
        channels: dict[str, Webhook] = {}

        async def bounce(request: HttpRequest) -> None:
            into = channels["b" if request.path == "/a" else "a"]
            try:
                await into.receive(HookRequest(headers=request.headers, body=request.body))
                await request.respond(200, b"")
            except HookRefused as error:
                await request.respond(error.status, b"")

        async with LoopbackServer(bounce) as server:
            for own, other in (("a", "b"), ("b", "a")):
                config = {"secrets": [SECRET], "url": f"{server.url}/{own}", "to": f"relay.webhook.{other}.x"}
                channels[own] = await webhook(tmp_path, relay, own, **config)
            sent = await relay.send("relay.webhook.a.x", "round and round", sender="relay.user.ada")
            letter = await dead_letter(relay, lambda receipt: receipt.state == "refused")
            assert letter.reason in ("cycle", "hops_exceeded")
            assert letter.envelope.thread == sent.thread, "the whole chain is one thread"
            assert len(await relay.trace(sent.id)) <= 5
            last = await dead_letter(relay, lambda receipt: receipt.reason == "rejected")
            assert "422" in last.detail


async def test_what_comes_from_another_hub_has_what_that_one_left(tmp_path: Path) -> None:
    async with relay_with(tmp_path) as relay:
        desk, channel = Desk(relay), await webhook(tmp_path, relay, **IN)
        at = int(time.time()) + 60
        far = {HEADER: f"id=elsewhere; hops=3; max-hops=7; calls=2; expires={at}"}
        request = hook(id="far")
        await channel.receive(HookRequest(headers={**request.headers, **far}, body=request.body))
        budget = (await desk.next()).budget
        assert (budget.max_hops, budget.calls_left) == (4, 2)
        assert budget.expires_at <= at + 1
        spent = {HEADER: "id=elsewhere; hops=8; max-hops=8"}
        request = hook(id="spent")
        refused = await refusal(channel, HookRequest(headers={**request.headers, **spent}, body=request.body))
        assert (refused.status, refused.code) == (422, "hops_exceeded")
        wide = {HEADER: "id=elsewhere; hops=0; max-hops=9999; calls=9999; garbage=ü; expires=99999999999"}
        request = hook(id="wide")
        await channel.receive(HookRequest(headers={**request.headers, **wide}, body=request.body))
        assert (await desk.next()).budget.max_hops == 8, "it can only be made smaller"


# --- configuration ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "to"),
        ({"to": "relay.desk"}, "secrets"),
        ({"to": "relay.desk", "secrets": ["whsec_short"]}, "secrets"),
        ({"to": "somewhere", "secrets": [SECRET]}, "to"),
        ({"url": "https://x.test"}, "sign_with"),
        ({"url": "ftp://x.test", "secrets": [SECRET]}, "url"),
        ({"url": "https://me:pw@x.test", "secrets": [SECRET]}, "url"),
        ({"url": "https://x.test", "secrets": [SECRET], "headers": {"webhook-id": "x"}}, "headers"),
        ({"url": "https://x.test", "secrets": [SECRET], "headers": {"a": "x\r\nb: c"}}, "headers"),
        ({**IN, "window_s": 0}, "window_s"),
        ({**IN, "max_bytes": 10**9}, "max_bytes"),
        ({**IN, "timeout_s": "soon"}, "timeout_s"),
    ],
)
async def test_a_bad_configuration_names_its_field(tmp_path: Path, config: dict[str, Any], field: str) -> None:
    with pytest.raises(ChannelError) as refused:
        await made(tmp_path, "ci", "webhook", config)
    assert refused.value.field == f"channels.ci.config.{field}"
    assert SECRET not in str(refused.value)


async def test_a_channel_cannot_send_as_another(tmp_path: Path) -> None:
    async with relay_with(tmp_path) as relay:
        channel = await webhook(tmp_path, relay, **IN)
        outlet = channel._relay  # pyright: ignore[reportPrivateUsage]
        assert outlet is not None
        with pytest.raises(UsageError):
            outlet.sender("relay.user.owner")
        with pytest.raises(Refused):
            await outlet.sender("relay.webhook.ci").send("relay.nobody", "x")


async def test_the_context_need_not_be_looked_at(tmp_path: Path) -> None:
    """What is delivered is the same, whatever the context says."""
    receiver = Receiver()
    async with LoopbackServer(receiver) as server, relay_with(tmp_path) as relay:
        channel = await webhook(tmp_path, relay, sign_with=[SECRET], url=server.url)
        sent = await relay.send("relay.webhook.ci", "the same", sender="relay.user.ada")
        await over(relay, sent.id)
        envelope = (await relay.message(sent.id)).envelope
        assert envelope is not None
        result = await channel.deliver(envelope.subject, envelope, FakeDeliveryContext())
        assert result.status == "delivered"
        first, second = (request.body for request in receiver.got)
        assert first == second
