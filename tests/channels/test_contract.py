"""The contract suite over the built-in channels that talk to the outside, each against its other side on loopback."""

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.channels.conftest import IMPORTS_AIOGRAM, SECRET, made, relay_with
from tests.channels.test_webhook_signatures import signed

from tieline.backoff import Backoff
from tieline.channels import notify, telegram, webhook
from tieline.channels.base import Channel, ChannelContext
from tieline.channels.inbound_http import HookRequest
from tieline.channels.webhook.channel import Webhook
from tieline.testing.channel_contract import ID, ME, ChannelContract, Far, over
from tieline.testing.http_server import HttpRequest, LoopbackServer
from tieline.testing.telegram_server import TOKEN, BotApi

ADA = 4711


class Posted:
    """A server on loopback that is posted to."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.context = ChannelContext()
        self.config: Mapping[str, Any] = {}
        self.bodies: list[bytes] = []
        self._failures = 0

    async def __call__(self, request: HttpRequest) -> None:
        if self._failures:
            self._failures -= 1
            await request.respond(500, b"")
            return
        self.bodies.append(request.body)
        await request.respond(200, b"{}")

    def texts(self) -> list[str]:
        return [msgspec.json.format(body).decode() for body in self.bodies]

    def fail(self, times: int) -> None:
        self._failures = times

    async def say(self, text: str) -> bool:
        return False


class PostedBack(Posted):
    """It posts to us as well."""

    channel: Webhook | None = None

    async def say(self, text: str) -> bool:
        assert self.channel is not None
        body = msgspec.json.encode({"text": text}).decode()
        await self.channel.receive(HookRequest(headers=signed(body=body), body=body.encode()))
        return True


class TestWebhook(ChannelContract):
    module = webhook

    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tieline.channels.webhook.channel.BACKOFF", Backoff(0.01, 0.05))

    @pytest.fixture
    async def far(self) -> AsyncGenerator[PostedBack, None]:
        far = PostedBack(f"relay.webhook.{ID}")
        async with LoopbackServer(far) as server:
            far.config = {"secrets": [SECRET], "to": ME, "url": server.url}
            yield far

    def make(self, far: Far) -> Channel:
        channel = super().make(far)
        assert isinstance(channel, Webhook)
        assert isinstance(far, PostedBack)
        far.channel = channel
        return channel


class TestNotify(ChannelContract):
    module = notify

    @pytest.fixture
    async def far(self) -> AsyncGenerator[Posted, None]:
        far = Posted(f"relay.notify.{ID}")
        async with LoopbackServer(far) as server:
            far.config = {"urls": [f"json://127.0.0.1:{server.port}/"]}
            yield far


class Chat:
    address = f"relay.telegram.{ID}.{ADA}"

    def __init__(self, api: BotApi, path: Path) -> None:
        self._api = api
        self.context = ChannelContext(state_dir=str(path / "channels"))
        self.config: Mapping[str, Any] = {"token": TOKEN, "api": api.url, "chats": [ADA], "to": ME}

    def texts(self) -> list[str]:
        return self._api.said(ADA)

    def fail(self, times: int) -> None:
        self._api.recover()
        for _ in range(times):
            self._api.fail("sendMessage", 500)

    async def say(self, text: str) -> bool:
        await self._api.write(ADA, text)
        return True


@pytest.mark.slow
@IMPORTS_AIOGRAM
class TestTelegram(ChannelContract):
    module = telegram

    @pytest.fixture
    async def far(self, tmp_path: Path) -> AsyncGenerator[Chat, None]:
        async with BotApi() as api:
            yield Chat(api, tmp_path)


@pytest.mark.parametrize("kind", ["webhook", "notify"])
async def test_one_that_was_halted_can_go_on(tmp_path: Path, kind: str) -> None:
    """A relay that lost its lease and has it again starts its channels anew."""
    posted = Posted(f"relay.{kind}.desk")
    async with LoopbackServer(posted) as server, relay_with(tmp_path) as relay:
        own: dict[str, Any] = {"sign_with": [SECRET], "url": server.url}
        if kind == "notify":
            own = {"urls": [f"json://127.0.0.1:{server.port}/"]}
        channel = await made(tmp_path, "desk", kind, own)
        for _ in range(2):
            await relay.register(channel)
            sent = await relay.send(posted.address, "hello", sender=ME)
            assert (await over(relay, sent.id)).state == "injected"
            assert channel.status().state == "running"
            await relay.unregister("desk")
            assert channel.status().state == "stopped"
        assert len(posted.bodies) == 2
