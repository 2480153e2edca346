"""The suite that every channel passes. Subclass it and give it a `far` fixture, the other side of your channel:

class TestMyChannel(ChannelContract):
    module = my_channel                # offers NAME, CONFIG and create

    @pytest.fixture
    async def far(self, tmp_path):
        async with my_server() as server:
            yield MyFar(server)        # see `Far`

The channel is made as the configuration would make it and runs in a real relay on a SQLite file.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import msgspec
import pytest

from ..background_tasks import cancel_and_wait
from ..bus import open_bus
from ..channels.base import Channel, ChannelContext, DeliveryContext, Progress
from ..config import Config
from ..envelopes import Budget, DeliveryResult, Envelope, Limits, MessageReceipt, Payload, address, under
from ..errors import UsageError
from ..relay import Relay, Settings
from .wait_for import eventually

BOUND = 30.0
ID = "under-test"
ME = "relay.user.contract"
QUICK = Settings(first_wait_s=0.01, longest_wait_s=0.05, room_wait_s=0.02, breaker_open_s=0.02, stop_s=0.2, lease_s=30)


class Far(Protocol):
    """The other side: where messages go to, and may come from."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The channel's config, for this other side."""
        ...

    @property
    def context(self) -> ChannelContext: ...

    @property
    def address(self) -> str:
        """An address that the channel answers for, and that reaches this other side."""
        ...

    def texts(self) -> list[str]:
        """What arrived so far, as text."""
        ...

    def fail(self, times: int) -> None:
        """Refuse the next so many, in a way that is worth another attempt."""
        ...

    async def say(self, text: str) -> bool:
        """Send something in, meant for `relay.user.contract`. False: this kind of channel takes nothing."""
        ...


class FakeDeliveryContext:
    """A delivery context without a relay behind it."""

    def __init__(self, ttl_s: float = 60.0) -> None:
        self.attempt = 1
        self.repeated = False
        self.expires_at = time.time() + ttl_s
        self.reached: list[str] = []

    async def progress(self, state: Progress, *, session: str = "") -> None:
        self.reached.append(state)

    def working(self, address: str) -> None:
        pass


class FakeOutlet:
    """For a channel that is started by itself."""

    def __init__(self, relay: Relay, prefix: str) -> None:
        self._relay = relay
        self._prefix = prefix

    def sender(self, subject: str) -> Any:
        if not under(self._prefix, address(subject)):
            raise UsageError("not its own address", field="subject")
        return self._relay.sender(subject)

    async def progress(self, id: str, state: Progress) -> None:
        pass

    async def status(self, id: str) -> MessageReceipt:
        return await self._relay.status(id)

    async def remember(self, key: str, value: bytes, *, ttl_s: int) -> None:
        await self._relay.store.save_channel_value(f"{ID}.{key}", value, ttl_s)

    async def recall(self, key: str) -> bytes | None:
        return await self._relay.store.channel_value(f"{ID}.{key}")

    def report(self, problem: str) -> None:
        pass


class ChannelContract:
    module: ModuleType

    settle_s = 0.0
    """How long an outgoing message may rest in the channel before it leaves, if it gathers several."""

    def make(self, far: Far) -> Channel:
        config = msgspec.convert(dict(far.config), self.module.CONFIG)
        return self.module.create(ID, config, far.context)

    @asynccontextmanager
    async def relaying(self, far: Far, tmp_path: Path) -> AsyncGenerator[tuple[Relay, Channel], None]:
        async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus, Relay(bus, Config(), settings=QUICK) as relay:
            channel = self.make(far)
            await relay.register(channel)
            yield relay, channel

    def envelope(self, far: Far, text: str, *, id: str = "m1", ttl_s: float = 60.0) -> Envelope:
        now = time.time()
        return Envelope(
            id=id,
            subject=far.address,
            sender=ME,
            payload=Payload(text),
            budget=Budget(ancestors=(ME,), expires_at=now + ttl_s),
            created_at=now,
            thread=id,
        )

    # --- what it is ---

    async def test_it_says_what_it_is(self, far: Far) -> None:
        channel = self.make(far)
        assert isinstance(channel, Channel)
        assert channel.id == ID
        assert channel.display_name
        assert address(channel.subject_prefix) == channel.subject_prefix
        assert under(channel.subject_prefix, far.address)
        assert channel.status().state != "running", "it was not started"
        assert isinstance(self.module.NAME, str)

    def test_unknown_settings_are_refused(self) -> None:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"no_such_setting_in_any_channel": 1}, self.module.CONFIG)

    # --- its life ---

    async def test_it_starts_and_stops_and_leaves_nothing(self, far: Far, tmp_path: Path) -> None:
        async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus, Relay(bus, Config(), settings=QUICK) as relay:
            before = tasks()
            channel = self.make(far)
            for _ in range(2):  # again, after another process ran the relay for a while
                await channel.start(FakeOutlet(relay, channel.subject_prefix))
                assert channel.status().state == "running"
                await channel.stop()
                assert channel.status().state == "stopped"
            await eventually(lambda: tasks() <= before, f"left over: {tasks() - before}", timeout=BOUND)

    # --- delivering ---

    async def test_a_message_arrives(self, far: Far, tmp_path: Path) -> None:
        async with self.relaying(far, tmp_path) as (relay, _):
            sent = await relay.send(far.address, "a message to the other side", sender=ME)
            receipt = await over(relay, sent.id)
            assert receipt.state in ("injected", "seen", "answered"), receipt
            await eventually(
                lambda: any("a message to the other side" in text for text in far.texts()), "nothing", timeout=BOUND
            )

    async def test_a_result_is_given_without_a_relay(self, far: Far, tmp_path: Path) -> None:
        """Nothing in the context need be looked at, and the same message may come again."""
        async with self.relaying(far, tmp_path) as (_, channel):
            for _ in range(2):
                result = await bounded(channel.deliver(far.address, self.envelope(far, "again"), FakeDeliveryContext()))
                assert result.status == "delivered", result

    async def test_a_failure_is_tried_again(self, far: Far, tmp_path: Path) -> None:
        async with self.relaying(far, tmp_path) as (relay, _):
            far.fail(1)
            sent = await relay.send(far.address, "at the second attempt", sender=ME)
            receipt = await over(relay, sent.id)
            assert receipt.state in ("injected", "seen", "answered"), receipt
            assert any("at the second attempt" in text for text in far.texts())

    async def test_long_and_strange_texts_arrive(self, far: Far, tmp_path: Path) -> None:
        strange = "ünï <b>*_`[x](y) & \u200f\N{GRINNING FACE}\n\n```\ncode\n```\nend" + "\nline of a long text" * 500
        async with self.relaying(far, tmp_path) as (relay, _):
            sent = await relay.send(far.address, strange, sender=ME)
            assert (await over(relay, sent.id)).state in ("injected", "seen", "answered")

    async def test_it_keeps_to_the_time(self, far: Far, tmp_path: Path) -> None:
        """A message that is out of time is not worth waiting for."""
        async with self.relaying(far, tmp_path) as (relay, channel):
            far.fail(1000)
            context = FakeDeliveryContext(ttl_s=0.2)
            await bounded(settled(channel, far.address, self.envelope(far, "late", ttl_s=0.2), context))
            sent = await relay.send(far.address, "late", sender=ME, limits=Limits(ttl_s=0.3))
            assert (await over(relay, sent.id)).state in ("expired", "dead")
            far.fail(0)

    async def test_a_cancelled_delivery_leaves_nothing(self, far: Far, tmp_path: Path) -> None:
        async with self.relaying(far, tmp_path) as (_, channel):
            before = tasks()
            task = asyncio.create_task(
                settled(channel, far.address, self.envelope(far, "cancelled"), FakeDeliveryContext())
            )
            await asyncio.sleep(0)
            await cancel_and_wait(task)
            await eventually(lambda: tasks() <= before, f"left over: {tasks() - before}", timeout=BOUND)
            result = await bounded(
                channel.deliver(far.address, self.envelope(far, "next", id="m2"), FakeDeliveryContext())
            )
            assert result.status == "delivered", result

    # --- coming in ---

    async def test_what_comes_in_is_stamped(self, far: Far, tmp_path: Path) -> None:
        async with self.relaying(far, tmp_path) as (relay, channel):
            if not await far.say("hello from outside"):
                return  # this kind only sends
            inbox = relay.inbox(ME)
            await eventually(lambda: bool(inbox.unread()), "it did not come in", timeout=BOUND)
            message = await inbox.read(inbox.unread()[0].id)
            assert message.envelope is not None
            assert "hello from outside" in message.envelope.payload.as_text()
            assert under(channel.subject_prefix, message.envelope.sender)


def tasks() -> set["asyncio.Task[Any]"]:
    """Those that run, but for the connections of a server on loopback: they are the other side's."""
    servers = ("_accept_connection2", "LoopbackServer._connected")
    return {task for task in asyncio.all_tasks() if not any(name in repr(task.get_coro()) for name in servers)}


async def settled(
    channel: Channel, subject: str, envelope: Envelope, context: DeliveryContext
) -> DeliveryResult | None:
    """What comes of a delivery; a raised error counts as a failure."""
    try:
        return await channel.deliver(subject, envelope, context)
    except Exception:
        return None


async def over(relay: Relay, id: str) -> MessageReceipt:
    done: asyncio.Future[MessageReceipt] = asyncio.get_running_loop().create_future()

    def heard(receipt: MessageReceipt) -> None:
        if receipt.id == id and receipt.over and not done.done():
            done.set_result(receipt)

    unsubscribe = relay.subscribe(heard)
    try:
        heard(await relay.status(id))
        return await bounded(done)
    finally:
        unsubscribe()


async def bounded(awaitable: Any) -> Any:
    async with asyncio.timeout(BOUND):
        return await awaitable
