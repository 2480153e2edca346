"""Telegram's webhook at the hub: it starts behind, and nothing gets in however it is tried."""

import asyncio
import importlib
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from msgspec.structs import replace
from tests.channels.conftest import IMPORTS_AIOGRAM, Desk
from tests.hub.conftest import running
from tests.hub.test_hooks import ADA, hooked, memory, telegram
from tests.relay.conftest import BOUND, over

from tieline.bootstrap.relay import open_relay
from tieline.config import ChannelConfig
from tieline.envelopes import Refused
from tieline.relay.channel_plugins import reload
from tieline.relay.channel_plugins.loader import LoadedChannel, build
from tieline.testing.telegram_server import BotApi
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.slow, IMPORTS_AIOGRAM]

STRANGER = 666
HOOK = {"mode": "webhook", "webhook_url": "https://hub.test/hooks/in/phone", "secret": "Sesame"}
SECRET = {"x-telegram-bot-api-secret-token": "Sesame"}


async def test_the_hub_does_not_wait_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await asyncio.to_thread(
        importlib.import_module, "tieline.channels.telegram.channel"
    )  # whose time counts for nobody
    gate = threading.Event()

    def held(entry: ChannelConfig, *args: Any, **options: Any) -> LoadedChannel:
        assert entry.type != "telegram" or gate.wait(BOUND)
        return build(entry, *args, **options)

    monkeypatch.setattr(reload, "build", held)
    async with BotApi() as api:
        ours = ChannelConfig(id="phone", type="telegram", config=telegram(api, **HOOK)[2])
        broken = ChannelConfig(id="other", type="telegram", config={"token": 7})
        async with AsyncExitStack() as stack:
            hub = await stack.enter_async_context(running(tmp_path))
            hub.hub.config = replace(hub.hub.config, channels=(ours, broken))
            relay = await stack.enter_async_context(open_relay(hub.hub, watch=False, wait=False))
            try:
                shown = {channel["id"]: channel for channel in (await hub.client.get("/api/v1/channels")).json()}
                assert (shown["agent"]["state"], shown["phone"]["state"]) == ("running", "starting")
                assert shown["phone"]["prefix"] == "relay.telegram.phone"
                reply = await hub.client.post("/hooks/in/phone", content=b"{}", headers=SECRET)
                assert (reply.status_code, reply.json()["code"]) == (503, "starting")
                assert "retry-after" in reply.headers
                reply = await hub.client.post("/api/v1/channels/phone/test")
                assert (reply.status_code, reply.json()["code"]) == (503, "ChannelStarting"), reply.text
                assert "is starting" in reply.json()["detail"]
                assert "retry-after" in reply.headers
                sent = await relay.send(f"relay.telegram.phone.{ADA}", "early", sender="relay.user.ann")
                lost = await relay.send("relay.telegram.other.1", "early too", sender="relay.user.ann")
                assert (await relay.status(sent.id)).waiting == "no_channel"
            finally:
                gate.set()
            assert (await over(relay, sent.id)).state == "injected"
            assert api.said(ADA) == ["early"]
            assert hub.hub.channels is not None
            channels = hub.hub.channels
            await eventually(lambda: not channels.starting("other"), "it is still starting", timeout=BOUND)
            assert {report.id: report.state for report in channels.reports()} == {
                "agent": "running",
                "phone": "running",
                "other": "broken",
            }
            with pytest.raises(Refused, match="no endpoint answers"):
                await relay.send("relay.telegram.other.1", "late", sender="relay.user.ann")
            assert (await relay.status(lost.id)).waiting == "no_channel", "what was taken waits, should it be mended"


async def test_nothing_gets_in_and_nothing_grows(tmp_path: Path) -> None:
    """Malformed, huge, replayed and forged updates, and those of strangers, again and again."""
    async with BotApi() as api, hooked(tmp_path, telegram(api, **HOOK)) as hub:
        assert hub.hub.relay is not None
        desk = Desk(hub.hub.relay)
        replayed = api.update(message=api.message(ADA, text="once"))

        async with httpx.AsyncClient(base_url=hub.url, timeout=BOUND, verify=False) as bot:

            async def push(body: bytes, headers: dict[str, str] = SECRET) -> int:
                return (await bot.post("/hooks/in/phone", content=body, headers=headers)).status_code

            assert await push(replayed) == 200
            assert (await desk.next()).payload.text == "once"

            async def round_of_nonsense(number: int) -> None:
                person = {"id": ADA, "is_bot": False, "first_name": "A"}
                refused = [
                    await push(replayed, {}),
                    await push(replayed, {"x-telegram-bot-api-secret-token": f"guess-{number}"}),
                    await push(b"[" * 50_000),
                    await push(b"\xff\x00" * 100),
                    await push(b'{"update_id": 1, "message": {"text": "' + b"x" * 200_000 + b'"}}'),
                    await push(b"x" * 300_000),
                ]
                assert all(400 <= status < 500 for status in refused), refused
                taken = [
                    await push(replayed),
                    await push(api.update(message=api.message(STRANGER + number, text="y" * 100_000))),
                    await push(api.update(message=api.message(STRANGER + number, text=f"/start {number}"))),
                    await push(api.update(something_new={"deep": [[[[number]]]]})),
                    await push(api.update(callback_query={"id": "1", "from": person, "chat_instance": "x",
                                                          "message": api.message(ADA), "data": f"a:{number:032x}"})),
                ]  # fmt: skip
                assert taken == [200] * 5, taken

            for number in range(5):  # whatever is made once and kept is there now
                await round_of_nonsense(number)
            before = memory()
            for number in range(5, 35):
                await round_of_nonsense(number)
            assert memory() - before < 24 * 1024 * 1024
            assert desk.got.empty()
            assert len((await hub.client.get("/api/v1/messages")).json()) == 1
            assert await push(api.update(message=api.message(ADA, text="and then?"))) == 200
            assert (await desk.next()).payload.text == "and then?"
