"""The client's part about messages, against a real hub."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.hub.conftest import Running, running

from tieline.bootstrap.relay import open_relay
from tieline.channels.base import DeliveryContext, dead
from tieline.client import Client, HubFailed
from tieline.client.messages import OWNER
from tieline.envelopes import Envelope, Limits
from tieline.errors import UsageError
from tieline.protocol.messages import DeadSelection, NewAsk, NewMessage
from tieline.script import Say


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncGenerator[Running, None]:
    async with running(tmp_path) as started, open_relay(started.hub, watch=False):
        yield started


@pytest.fixture
async def client(hub: Running) -> AsyncGenerator[Client, None]:
    async with Client(hub.url, hub.token) as client:
        yield client


async def test_send_look_and_read(client: Client) -> None:
    sent = await client.send_message(NewMessage(to=OWNER, text="a note to myself", no_reply=True, key="k"))
    again = await client.send_message(NewMessage(to=OWNER, text="a note to myself", no_reply=True, key="k"))
    assert sent.receipt.id == again.receipt.id
    (waiting,) = await client.inbox()
    assert waiting.receipt.id == sent.receipt.id
    assert {box.subject: box.waiting for box in await client.inboxes()}[OWNER] == 1
    (read,) = await client.read_inbox()
    assert read.state == "seen"
    assert (await client.message(sent.receipt.id)).state == "seen"
    assert [thread.id for thread in await client.threads()] == [sent.receipt.thread]
    assert len((await client.trace(sent.receipt.id)).messages) == 1
    assert await client.message_ids(sent.receipt.id[-8:]) == [sent.receipt.id]


async def test_answers_are_waited_for_in_one_request_and_over_many(hub: Running, client: Client) -> None:
    hub.play([Say("One.")], [Say("Two.")])
    session = await hub.session()
    for timeout, text in ((30.0, "One."), (90.0, "Two.")):
        outcome = await client.ask_message(
            NewAsk(to=f"relay.agent.{session['id']}", text="?", timeout_s=timeout, limits=Limits(calls=5))
        )
        assert outcome.answer is not None
        assert outcome.answer.payload.text.strip() == text


async def test_no_answer_is_told_with_its_reason(hub: Running, client: Client) -> None:
    assert hub.hub.relay is not None

    async def never(envelope: Envelope, context: DeliveryContext) -> Any:
        return dead("rejected", "no")

    hub.hub.relay.serve("relay.never", never)
    for timeout in (30.0, 90.0):
        outcome = await client.ask_message(NewAsk(to="relay.never", text="?", timeout_s=timeout))
        assert (outcome.answer, outcome.reason) == (None, "rejected")


async def test_dead_letters_and_channels(hub: Running, client: Client) -> None:
    assert hub.hub.relay is not None
    good = asyncio.Event()

    async def fussy(envelope: Envelope, context: DeliveryContext) -> Any:
        return "fine" if good.is_set() else dead("rejected", "not yet")

    hub.hub.relay.serve("relay.fussy", fussy)
    await client.ask_message(NewAsk(to="relay.fussy", text="?"))
    (letter,) = await client.dead_letters(pattern="relay.fussy", reason="rejected")
    assert (await client.dead_letter(letter.envelope.id)).detail == "not yet"
    good.set()
    (outcome,) = await client.retry_dead(DeadSelection(pattern="relay.>"))
    assert outcome.done
    assert await client.drop_dead(DeadSelection(reason="rejected")) == 0
    (agent,) = await client.channels()
    assert (agent.id, agent.state) == ("agent", "running")
    assert (await client.reload_channels()).unchanged == ("agent",)


async def test_refusals_are_errors(client: Client) -> None:
    with pytest.raises(UsageError, match="no endpoint answers"):
        await client.send_message(NewMessage(to="relay.nobody", text="x"))
    with pytest.raises(UsageError, match="no message"):
        await client.message("unknown")
    with pytest.raises(UsageError, match="channel"):
        await client.test_channel("unknown")


async def test_a_hub_without_a_relay(tmp_path: Path) -> None:
    async with running(tmp_path) as hub, Client(hub.url, hub.token) as client:
        with pytest.raises(Exception, match="the relay is not running") as refused:
            await client.channels()
        assert isinstance(refused.value, HubFailed) or refused.type.__name__ == "BusError"
