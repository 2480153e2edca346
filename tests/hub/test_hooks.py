"""The open door: signed webhooks over real HTTP, and everything that is not one."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import msgspec
import pytest
from tests.channels.conftest import IMPORTS_AIOGRAM, OTHER, SECRET, Desk, dead_letter
from tests.channels.test_webhook_signatures import signed
from tests.hub.conftest import Running, caller, running
from tests.relay.conftest import BOUND, lose_lease

from tieline.bootstrap.relay import open_relay
from tieline.testing.http_server import HttpRequest, LoopbackServer
from tieline.testing.telegram_server import TOKEN, BotApi

ADA = 4711


def toml(*channels: tuple[str, str, dict[str, Any]], head: str = "") -> str:
    """A configuration file."""
    parts = [head]
    for id, source, config in channels:
        kind, _, name = source.partition(" ")
        parts.append(f'[[channels]]\nid = "{id}"\n{kind} = "{name}"\n[channels.config]')
        parts += [f"{name} = {msgspec.json.encode(value).decode()}" for name, value in config.items()]
    return "\n".join(parts) + "\n"


@asynccontextmanager
async def hooked(path: Path, *channels: tuple[str, str, dict[str, Any]]) -> AsyncGenerator[Running, None]:
    """A hub whose relay runs these channels, from a real configuration file."""
    async with running(path) as hub:
        config_file = Path(hub.env["HOME"], ".config/tieline/tieline.toml")
        config_file.parent.mkdir(parents=True)
        config_file.write_text(toml(*channels))
        async with open_relay(hub.hub):
            assert hub.hub.channels is not None
            await hub.hub.channels.reload(trust=(await hub.hub.channels.reload()).waiting)
            yield hub


IN = ("ci", "type webhook", {"secrets": [SECRET], "to": "relay.desk"})


def underscored(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in headers.items()}


async def post(hub: Running, body: str = "{}", *, channel: str = "ci", **headers: str) -> httpx.Response:
    """As a stranger: without any token."""
    own = {name.replace("_", "-"): value for name, value in headers.items()}
    everything = {"content-type": "application/json", **signed(body=body), **own}
    async with caller(hub.url) as stranger:
        return await stranger.post(f"/hooks/in/{channel}", content=body, headers=everything)


async def test_a_signed_webhook_comes_in_without_a_token(tmp_path: Path) -> None:
    async with hooked(tmp_path, IN) as hub:
        assert hub.hub.relay is not None
        desk = Desk(hub.hub.relay)
        reply = await post(hub, '{"n": 1}')
        assert reply.status_code == 202, reply.text
        envelope = await desk.next()
        assert reply.json() == {"message": envelope.id}
        assert (envelope.sender, envelope.payload.json) == ("relay.webhook.ci", {"n": 1})
        shown = (await hub.client.get(f"/api/v1/messages/{envelope.id}")).json()
        assert shown["envelope"]["from"] == "relay.webhook.ci"


async def test_refusals_are_problems(tmp_path: Path) -> None:
    async with hooked(
        tmp_path, IN, ("out", "type webhook", {"secrets": [SECRET], "url": "http://127.0.0.1:9/"})
    ) as hub:
        assert hub.hub.relay is not None
        desk = Desk(hub.hub.relay)
        for reply, status, code in [
            (await post(hub, webhook_signature=""), 401, "unsigned"),
            (
                await post(hub, **{k.replace("-", "_"): v for k, v in signed(OTHER, body="{}").items()}),
                401,
                "bad_signature",
            ),
            (await post(hub, "{nonsense"), 400, "bad_json"),
            (await post(hub, channel="nobody"), 404, "no_webhook"),
            (await post(hub, channel="agent"), 404, "no_webhook"),
            (await post(hub, channel="out", body='{"x": 1}'), 422, "no_endpoint"),
            (await post(hub, "x" * 300_000), 413, "BodyTooLarge"),
        ]:
            assert reply.status_code == status, reply.text
            assert reply.headers["content-type"] == "application/problem+json"
            problem = reply.json()
            assert (problem["status"], problem["code"]) == (status, code)
            assert problem["detail"]
        assert desk.got.empty()


async def test_a_lease_that_is_lost_on_the_way_is_told(tmp_path: Path) -> None:
    """It may be stored or not: whoever sends it again, by the same id, sends it once."""
    async with hooked(tmp_path, IN) as hub:
        assert hub.hub.relay is not None
        Desk(hub.hub.relay)
        lose_lease(hub.hub.relay)
        reply = await post(hub)
        assert (reply.status_code, reply.json()["code"]) == (503, "standby"), reply.text
        assert "retry-after" in reply.headers


async def test_the_door_is_for_posts_only(tmp_path: Path) -> None:
    async with (
        hooked(tmp_path, IN) as hub,
        httpx.AsyncClient(base_url=hub.url, timeout=BOUND, verify=False) as stranger,
    ):
        for method in ("GET", "PUT", "DELETE", "PATCH"):
            assert (await stranger.request(method, "/hooks/in/ci")).status_code in (401, 404, 405), method
        assert (await stranger.post("/hooks/in/ci/more")).status_code == 404


def memory() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def raw(hub: Running, data: bytes, *, hold: bool = False) -> bytes:
    """What the hub says to bytes that are hardly HTTP."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(hub.url.rpartition(":")[2]))
    try:
        writer.write(data)
        await writer.drain()
        if not hold:
            writer.write_eof()
        async with asyncio.timeout(BOUND):
            return await reader.read(4096)
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.slow
async def test_nothing_gets_in_however_it_is_tried(tmp_path: Path) -> None:
    """Malformed, huge, replayed, unsigned and broken requests, again and again: nothing is delivered, nothing grows."""
    async with hooked(tmp_path, IN) as hub:
        assert hub.hub.relay is not None
        desk = Desk(hub.hub.relay)
        good = signed(body='{"good": true}')
        host = hub.url.removeprefix("http://")
        head = f"POST /hooks/in/ci HTTP/1.1\r\nhost: {host}\r\n"
        everything = "".join(f"{name}: {value}\r\n" for name, value in good.items())

        async def round_of_nonsense(number: int) -> None:
            old = signed(body="{}", at=1_000_000_000 + number)
            replies = [
                await post(hub, "[" * 50_000),
                await post(hub, '{"a": "' + "x" * 262_000 + '"}', webhook_signature="v1," + "A" * 20_000),
                await post(hub, "{}", **underscored(old)),
                await post(hub, "{}", webhook_id=f"forged-{number}"),
                await post(hub, "\x00\x01", content_type="application/octet-stream"),
                await post(hub, "null", webhook_timestamp="-1"),
            ]
            assert all(400 <= reply.status_code < 500 for reply in replies), [reply.status_code for reply in replies]
            responses = [
                await raw(hub, (head + "content-length: 999999999\r\n\r\n").encode(), hold=True),
                await raw(hub, (head + "content-length: 50\r\n\r\n{").encode()),
                await raw(hub, (head + everything + "transfer-encoding: chunked\r\n\r\nZZ\r\n").encode()),
                await raw(hub, (head + "x: " + "y" * 100_000 + "\r\n\r\n").encode()),
                await raw(hub, b"\x16\x03\x01 not HTTP at all\r\n\r\n"),
            ]
            assert not any(b" 202 " in line[:64] for line in responses)

        for number in range(5):  # whatever is made once and kept is there now
            await round_of_nonsense(number)
        before = memory()
        for number in range(5, 35):
            await round_of_nonsense(number)
        assert memory() - before < 24 * 1024 * 1024
        assert desk.got.empty()
        assert (await hub.client.get("/api/v1/messages")).json() == []
        assert (await post(hub, '{"good": true}')).status_code == 202
        assert (await desk.next()).payload.json == {"good": True}


async def test_a_slow_sender_holds_nobody_up(tmp_path: Path) -> None:
    async with hooked(tmp_path, IN) as hub:
        assert hub.hub.relay is not None
        desk = Desk(hub.hub.relay)
        host = hub.url.removeprefix("http://")
        head = f"POST /hooks/in/ci HTTP/1.1\r\nhost: {host}\r\ncontent-length: 100\r\n\r\n{{".encode()
        slow: list[asyncio.StreamWriter] = []
        for _ in range(50):
            _, writer = await asyncio.open_connection("127.0.0.1", int(hub.url.rpartition(":")[2]))
            writer.write(head)
            slow.append(writer)
        assert (await post(hub)).status_code == 202
        await desk.next()
        for writer in slow:
            writer.close()


# --- Telegram ---------------------------------------------------------------------------------------------------


def telegram(api: BotApi, **more: Any) -> tuple[str, str, dict[str, Any]]:
    config = {"token": TOKEN, "api": api.url, "chats": [ADA], "to": "relay.desk", "quick_s": 0}
    return ("phone", "type telegram", {**config, **more})


@pytest.mark.slow
@IMPORTS_AIOGRAM
async def test_telegram_posts_to_the_webhook(tmp_path: Path) -> None:
    async with BotApi() as api:
        hook = {"mode": "webhook", "webhook_url": "https://hub.test/hooks/in/phone", "secret": "Sesame"}
        async with hooked(tmp_path, telegram(api, **hook)) as hub:
            assert hub.hub.relay is not None
            desk = Desk(hub.hub.relay)
            fields = (await api.called("setwebhook"))[0].fields
            assert (fields["url"], fields["secret_token"]) == ("https://hub.test/hooks/in/phone", "Sesame")
            update = api.update(message=api.message(ADA, text="by webhook"))
            secret = {"x-telegram-bot-api-secret-token": "Sesame"}
            async with httpx.AsyncClient(base_url=hub.url, timeout=BOUND, verify=False) as stranger:

                async def push(body: bytes, **headers: str) -> httpx.Response:
                    return await stranger.post("/hooks/in/phone", content=body, headers=headers or secret)

                assert (await push(update, other="x")).status_code == 401
                assert (await push(update, **{"x-telegram-bot-api-secret-token": "sesame"})).status_code == 401
                assert (await push(b"{")).status_code == 400
                assert (await push(b"[1, 2]")).status_code == 400
                assert (await push(b'{"update_id": "x", "message": 7}')).status_code == 400
                assert (await push(b"[" * 100_000)).status_code == 400
                assert (await push(b"x" * 300_000)).status_code == 413
                assert desk.got.empty()
                for _ in range(3):
                    assert (await push(update)).status_code == 200
                assert (await desk.next()).payload.text == "by webhook"
                assert desk.got.empty(), "the same update again is the same message"
                lose_lease(hub.hub.relay)
                reply = await push(api.update(message=api.message(ADA, text="in a bad moment")))
                assert (reply.status_code, reply.json()["code"]) == (503, "standby"), reply.text
                assert api.said(ADA) == [], "told that it was not sent"


@pytest.mark.slow
@IMPORTS_AIOGRAM
async def test_updates_that_nobody_understands_are_passed_over(tmp_path: Path) -> None:
    async with BotApi() as api, hooked(tmp_path, telegram(api)) as hub:
        assert hub.hub.relay is not None
        desk = Desk(hub.hub.relay)
        for number in range(5):
            await api.push({"message": {"message_id": "no", "chat": number}})
            await api.push({"message": None, "something_new": {"x": [[[[]]]]}})
            await api.push({"message": api.message(ADA, text="y" * 100_000) | {"date": "yesterday"}})
            await api.push({"callback_query": {"id": 5, "from": {}, "data": "x" * 10_000}})
            await api.push({"message": api.message(ADA)})
            await api.push({})
        await api.write(ADA, "still there?")
        assert (await desk.next()).payload.text == "still there?"
        assert desk.got.empty()


@pytest.mark.slow
@IMPORTS_AIOGRAM
async def test_a_loop_through_telegram_and_a_webhook_ends_by_its_budget(tmp_path: Path) -> None:
    """A chat's messages go to a webhook; what is posted comes back into the chat; a program there repeats it."""
    async with BotApi() as api:

        async def bounce(request: HttpRequest) -> None:
            """The other side posts what it gets back to the hub's other webhook, headers and all."""
            own = {name: value for name, value in request.headers.items() if name.startswith(("webhook-", "tieline-"))}
            async with httpx.AsyncClient(base_url=hub.url, timeout=BOUND, verify=False) as stranger:
                into = await stranger.post("/hooks/in/back", content=request.body, headers=own)
            await request.respond(into.status_code if into.status_code >= 400 else 200, b"")

        async with LoopbackServer(bounce) as server:
            channels = (
                telegram(api, to="relay.webhook.out", quick_s=60, stream=False),
                ("out", "type webhook", {"sign_with": [SECRET], "url": server.url}),
                ("back", "type webhook", {"secrets": [SECRET], "to": f"relay.telegram.phone.{ADA}"}),
            )
            async with hooked(tmp_path, *channels) as hub:
                relay = hub.hub.relay
                assert relay is not None

                async def repeat() -> None:
                    """Somebody in the chat who repeats everything, at once."""
                    seen = 0
                    while True:
                        calls = await api.called("sendmessage", seen + 1, timeout=600)
                        seen += 1
                        await api.write(ADA, f"again: {calls[seen - 1].fields['text']}"[:200])

                program = asyncio.create_task(repeat())
                try:
                    await api.write(ADA, "round and round")
                    letter = await dead_letter(relay, lambda receipt: receipt.state == "refused")
                finally:
                    program.cancel()
                    await asyncio.gather(program, return_exceptions=True)
                assert letter.reason in ("cycle", "hops_exceeded")
                trace = (await hub.client.get(f"/api/v1/messages/{letter.envelope.id}/trace")).json()
                assert 1 <= len(trace["messages"]) <= 8
                assert [entry["reason"] for entry in trace["dead"]].count(letter.reason) == 1
