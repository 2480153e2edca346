"""Notifications through apprise, to an endpoint on loopback."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.channels.conftest import made, relay_with
from tests.channels.test_contract import Posted
from tests.channels.test_telegram import Switch, note
from tests.relay.conftest import QUICK, over, until

from tieline.channels.notify import NotifyConfig, quiet_for
from tieline.envelopes import Payload
from tieline.relay import Relay
from tieline.relay.channel_plugins.loader import ChannelError
from tieline.testing.http_server import LoopbackServer
from tieline.testing.wait_for import eventually


@asynccontextmanager
async def notified(path: Path, *, switch: Switch | None = None, **config: Any) -> AsyncGenerator[tuple[Relay, Posted]]:
    path.mkdir(exist_ok=True)
    posted = Posted("relay.notify.desk")
    async with (
        LoopbackServer(posted) as server,
        relay_with(path, settings=replace(QUICK, attempts=2)) as relay,
    ):
        own = {"urls": [f"json://127.0.0.1:{server.port}/"], **config}
        await relay.register(await made(path, "desk", "notify", own, asks=switch))
        yield relay, posted


async def sent(relay: Relay, payload: str | Payload, state: str = "injected") -> None:
    receipt = await relay.send("relay.notify.desk", payload, sender="relay.user.ada")
    assert (await over(relay, receipt.id)).state == state


def shown(posted: Posted) -> str:
    return "\n".join(
        f"{notification['title']}\n{notification['message']}"
        for notification in map(msgspec.json.decode, posted.bodies)
    )


async def test_a_template_says_what_is_shown(tmp_path: Path) -> None:
    async with notified(tmp_path, title="news from {from}", body="{text} ({hops})", max_chars=40) as (relay, posted):
        await sent(relay, "braces {id} and {nonsense} stay")
        assert "news from relay.user.ada\n" in shown(posted)
        assert "braces {id} and {nonsense} stay (1)" in shown(posted)
        await sent(relay, "x" * 1000)
        assert re.search(r"x{39,40}… \(\d+ more characters\)", shown(posted)), "what is not there is counted"
        assert "x" * 41 not in shown(posted)


async def test_what_is_no_text_is_only_named(tmp_path: Path) -> None:
    secret = Payload(json={"command": "rm -rf /"}, content_type="application/json")
    async with notified(tmp_path / "a") as (relay, posted):
        await sent(relay, secret)
        assert "rm -rf" not in shown(posted)
        assert "(application/json)" in shown(posted)
    async with notified(tmp_path / "b", content=True) as (relay, posted):
        await sent(relay, secret)
        assert "rm -rf" in shown(posted)


async def test_asks_are_told_where_it_is_wanted(tmp_path: Path) -> None:
    for folder, content in (("a", False), ("b", True)):
        switch = Switch()
        async with notified(tmp_path / folder, switch=switch, asks=True, content=content) as (_, posted):
            switch.tell(note())
            switch.tell(note("answered", outcome="Approved by Ada"))
            await eventually(lambda: len(posted.bodies) == 2, "it was not told", timeout=30)
            assert "may it run a command?" in shown(posted)
            assert "Approved by Ada" in shown(posted)
            assert ("rm -rf" in shown(posted)) is content
    switch = Switch()
    async with notified(tmp_path / "c", switch=switch) as (relay, posted):
        switch.tell(note())
        await sent(relay, "after")
        assert "may it run" not in shown(posted), "only if the configuration says so"


async def test_a_service_that_refuses_is_tried_again_and_given_up(tmp_path: Path) -> None:
    async with notified(tmp_path) as (relay, posted):
        posted.fail(1)
        await sent(relay, "at last")
        posted.fail(2)
        await sent(relay, "never", "dead")
        (letter,) = await relay.dead_letters.list()
        assert letter.reason == "delivery_failed"
        assert "127.0.0.1" not in letter.detail, "an address may have a password in it"


async def test_in_quiet_hours_it_waits_or_is_dropped(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    always = f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=1):%H:%M}"
    async with notified(tmp_path / "a", quiet=always, timezone="UTC") as (relay, posted):
        receipt = await relay.send("relay.notify.desk", "later", sender="relay.user.ada")
        receipt = await until(relay, receipt.id, lambda receipt: receipt.waiting == "quiet_hours" or receipt.over)
        assert (receipt.waiting, receipt.attempts, receipt.over) == ("quiet_hours", 0, False)
        assert posted.bodies == []
    async with notified(tmp_path / "b", quiet=always, timezone="UTC", late="drop") as (relay, posted):
        receipt = await relay.send("relay.notify.desk", "never", sender="relay.user.ada")
        receipt = await over(relay, receipt.id)
        assert (receipt.state, receipt.reason) == ("dead", "quiet_hours")
        assert posted.bodies == []


@pytest.mark.parametrize(
    ("quiet", "now", "seconds"),
    [
        ("22:00-07:00", "2026-03-01T21:59:59", 0),
        ("22:00-07:00", "2026-03-01T22:00:00", 9 * 3600),
        ("22:00-07:00", "2026-03-02T06:59:59", 1),
        ("22:00-07:00", "2026-03-02T07:00:00", 0),
        ("12:00-13:30", "2026-03-02T12:30:00", 3600),
        ("12:00-13:30", "2026-03-02T13:30:00", 0),
        ("", "2026-03-02T13:30:00", 0),
    ],
)
def test_quiet_hours(quiet: str, now: str, seconds: float) -> None:
    config = NotifyConfig(urls=("json://x",), quiet=quiet, timezone="UTC")
    assert quiet_for(config, datetime.fromisoformat(now).replace(tzinfo=UTC)) == seconds


def test_quiet_hours_are_those_of_the_zone() -> None:
    config = NotifyConfig(urls=("json://x",), quiet="22:00-07:00", timezone="Asia/Tokyo")
    assert quiet_for(config, datetime(2026, 3, 1, 13, 0, tzinfo=UTC)) == 9 * 3600


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "urls"),
        ({"urls": []}, "urls"),
        ({"urls": ["nonsense"]}, "urls"),
        ({"urls": ["json://x"], "title": "{tool}"}, "title"),
        ({"urls": ["json://x"], "quiet": "at night"}, "quiet"),
        ({"urls": ["json://x"], "quiet": "25:00-07:00"}, "quiet"),
        ({"urls": ["json://x"], "timezone": "Mars/Olympus"}, "timezone"),
        ({"urls": ["json://x"], "late": "never"}, "late"),
        ({"urls": ["json://x"], "max_chars": 1}, "max_chars"),
    ],
)
async def test_a_bad_configuration_names_its_field(tmp_path: Path, config: dict[str, Any], field: str) -> None:
    with pytest.raises(ChannelError) as refused:
        await made(tmp_path, "desk", "notify", config)
    assert refused.value.field == f"channels.desk.config.{field}"
