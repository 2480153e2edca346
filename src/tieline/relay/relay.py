"""The relay: anything with an address can send to anything with an address, and can find out where its message is.

`async with Relay(bus, config) as relay`: one per bus is active, the others stand by and take over (`relay.active`).
What it accepts is on the bus first. After a crash the next one goes on from there: what was offered is offered again,
by the same id; what was over stays over.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from ..bus.base import Bus
from ..channels.base import Channel, Progress
from ..config import Config
from ..envelopes import (
    DeadLetter,
    Envelope,
    Limits,
    Message,
    MessageReceipt,
    Payload,
    ReceiptStep,
    RelayStandby,
    UnknownMessage,
    address,
)
from ..errors import UsageError
from .delivery.attempts import Attempts, reached
from .delivery.attribution import ActiveDeliveries
from .delivery.dead_letters import DeadLetters
from .delivery.dispatcher import Dispatcher
from .delivery.endpoint_queue import EndpointQueueView
from .delivery.maintenance import Maintenance
from .plugins.channel_registry import ChannelRegistry, Handler
from .request_reply import PREFIX as ASK_PREFIX
from .request_reply import RequestReply
from .schedules import Schedules
from .senders import AddressSender
from .settings import Settings
from .storage.inbox import MessageInbox
from .storage.lease import ActiveRelayLease
from .storage.store import RelayStore, derived
from .submit import SendRequest, Submitter

INBOXES = ("relay.user", "relay.program")
"""Below these, every address is an inbox that somebody fetches from."""


class Relay:
    def __init__(self, bus: Bus, config: Config, *, settings: Settings | None = None) -> None:
        own = config.relay
        self.settings = settings or Settings()
        self.works = ActiveDeliveries()
        self.ledger = RelayStore(
            bus,
            keep_s=own.keep_s,
            keep_unread_s=own.keep_unread_s,
            keep_dead_s=own.keep_dead_s,
            keep_keys_s=self.settings.keep_keys_s,
        )
        self.dispatch = Dispatcher(self.ledger, self.settings, keep_unread_s=own.keep_unread_s)
        self.lease = ActiveRelayLease(bus.table("relay"), self.settings.lease_s)
        self.sending = Submitter(own, self.ledger, self.dispatch, self.works, self.check_active)
        self.attempts = Attempts(
            self.dispatch, self.ledger, self.settings, self.works, self.sending.answer, lambda: self.lease.valid
        )
        self.dispatch.attempts = self.attempts
        self.tending = Maintenance(self.ledger, self.dispatch)
        self.schedules = Schedules(config.schedules, self.send, self._not_sent)
        self.on_schedule_failed: Callable[[str, str], None] = lambda id, why: None
        self.registry = ChannelRegistry(self)
        self.dead = DeadLetters(self.ledger, self._again)
        self.inquiries = RequestReply(self.ledger, self.dispatch, self.sending)
        self._settled = asyncio.Event()
        self._activated = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        for prefix in INBOXES:
            self.registry.add(self.registry.lane(prefix, "inbox", prefix, prefix=True))
        asks = self.registry.lane(ASK_PREFIX, "ask", ASK_PREFIX, prefix=True, max_concurrent=self.settings.concurrent)
        asks.deliver = self.inquiries.deliver
        self.registry.add(asks)

    async def __aenter__(self) -> "Relay":
        self._task = asyncio.create_task(self.lease.run(self._activate, self._deactivate, self._settled.set))
        waiter = asyncio.create_task(self._settled.wait())
        await asyncio.wait({self._task, waiter}, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        if self._task.done():
            self._task.result()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.registry.stop()
        await self.lease.drop()

    def _not_sent(self, id: str, why: str) -> None:
        self.on_schedule_failed(id, why)

    # --- being the active one ---

    @property
    def active(self) -> bool:
        return self._activated.is_set() and self.lease.valid

    async def until_active(self) -> None:
        await self._activated.wait()

    def check_active(self) -> None:
        if not self.active:
            raise RelayStandby(self.lease.other.shown if self.lease.other else "")

    async def _activate(self) -> None:
        await self.dispatch.recover()
        work = (self.tending.run(), self.sending.settle_unsure(), self.schedules.run())
        self._tasks = [asyncio.create_task(each) for each in work]
        self._activated.set()
        await self.registry.start()
        self._settled.set()

    async def _deactivate(self) -> None:
        self._activated.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.tending.note()
        await self.registry.halt()
        await self.dispatch.halt()

    # --- sending ---

    def sender(self, subject: str) -> AddressSender:
        """Who has this can send as that address: give it to nobody else."""
        return AddressSender(self, subject)

    async def send(
        self,
        subject: str,
        payload: Payload | str,
        *,
        sender: str,
        reply_to: str = "",
        in_reply_to: str = "",
        thread: str = "",
        limits: Limits | None = None,
        key: str = "",
        within: str = "",
        id: str = "",
    ) -> MessageReceipt:
        """Stored when it returns; see `channels.base.Sender`."""
        return await self.sending.send(
            SendRequest(
                sender=sender,
                subject=subject,
                payload=Payload(payload) if isinstance(payload, str) else payload,
                reply_to=reply_to,
                in_reply_to=in_reply_to,
                thread=thread,
                limits=limits,
                key=key,
                within=within,
                id=id,
            )
        )

    async def ask(
        self,
        subject: str,
        payload: Payload | str,
        *,
        sender: str,
        timeout: float = 60.0,
        limits: Limits | None = None,
        key: str = "",
        within: str = "",
    ) -> Envelope:
        """The answer; see `channels.base.Sender`."""
        self.check_active()
        said = Payload(payload) if isinstance(payload, str) else payload
        letter = SendRequest(sender=sender, subject=subject, payload=said, limits=limits, key=key, within=within)
        return await self.inquiries.ask(letter, timeout)

    async def _again(self, letter: DeadLetter) -> MessageReceipt:
        old = letter.envelope
        return await self.sending.send(
            SendRequest(
                id=derived(old.id, "again"),
                sender=old.sender,
                subject=old.subject,
                payload=old.payload,
                reply_to=old.reply_to,
                in_reply_to=old.in_reply_to,
                thread=old.thread,
                again=True,
            )
        )

    # --- where is it ---

    async def status(self, id: str) -> MessageReceipt:
        if receipt := await self._receipt(id):
            return receipt
        raise UnknownMessage(id)

    async def _receipt(self, id: str) -> MessageReceipt | None:
        self.check_active()
        if live := self.dispatch.live.get(id):
            return replace(live.receipt, waiting=self.dispatch.waiting(live))
        return await self.ledger.receipt(id)

    async def message(self, id: str) -> Message:
        return await self.ledger.message(await self.status(id))

    async def trace(self, id: str) -> list[Message]:
        """Every message of its thread, in order, with how far each got."""
        return await self.thread((await self.status(id)).thread, id)

    async def thread(self, name: str, *members: str) -> list[Message]:
        """The messages of a thread that are still known, those of its `members` among them, in order. Its name is the
        id of its first message, unless its sender chose another."""
        ids = {*members, *await self.ledger.thread(name)}
        found = [receipt for id in ids if (receipt := await self._receipt(id))]
        found.sort(key=lambda receipt: (receipt.steps[0].at, receipt.seq))
        return [await self.ledger.message(receipt) for receipt in found]

    async def recent(self, limit: int = 100) -> list[MessageReceipt]:
        """The newest messages, newest first."""
        self.check_active()
        ids = sorted({*await self.ledger.newest(limit), *self.dispatch.live}, reverse=True)[:limit]
        return [receipt for id in ids if (receipt := await self._receipt(id))]

    async def progress(self, id: str, state: Progress) -> None:
        """A message that was delivered got further: somebody has read it."""
        self.check_active()
        live = self.dispatch.live.get(id)
        receipt = await self.status(id)
        if not reached(receipt, state):
            receipt = self.dispatch.add(receipt, ReceiptStep(state, time.time()))
            if live is not None:
                live.receipt = receipt
            await self.ledger.keep(receipt)
            self.dispatch.tell(receipt)

    def subscribe(self, heard: Callable[[MessageReceipt], None]) -> Callable[[], None]:
        """Each receipt, as soon as its newest step is durable."""
        self.dispatch.heard.append(heard)
        return lambda: self.dispatch.heard.remove(heard)

    # --- endpoints ---

    def inbox(self, subject: str) -> MessageInbox:
        self.check_active()
        subject = address(subject)
        lane = self.dispatch.lanes.match(subject)
        if lane is None or lane.kind != "inbox":
            raise UsageError(f"{subject} is not an inbox", field="subject", hint=f"Inboxes are below {INBOXES[0]}.")
        return MessageInbox(subject, self.dispatch, self.ledger)

    def inboxes(self) -> dict[str, int]:
        """Address → how many are unread, where any are."""
        self.check_active()
        lanes = self.dispatch.lanes
        return {
            subject: count
            for subject, count in sorted(self.dispatch.mailboxes.items())
            if (lane := lanes.match(subject)) is not None and lane.kind == "inbox"
        }

    def serve(
        self, subject: str, handler: Handler, *, prefix: bool = False, max_concurrent: int | None = None, id: str = ""
    ) -> Callable[[], Awaitable[None]]:
        """Answer for an address in this process; await the result to do so no more. A text that the handler returns is
        its answer."""

        return self.registry.serve(subject, handler, prefix=prefix, max_concurrent=max_concurrent, id=id)

    def open_inbox(self, subject: str) -> None:
        """Make an address outside of the usual places an inbox."""
        self.registry.add(self.registry.lane(address(subject), "inbox", address(subject), prefix=False))

    async def register(self, channel: Channel) -> None:
        """Start a channel and deliver to it. In the place of one that was unregistered with `keep`, with its mail."""
        await self.registry.register(channel)

    def expect(self, id: str, subject: str) -> None:
        """A channel that is still being made: mail for its address is taken, and waits until it is registered."""
        self.registry.expect(id, subject)

    async def unregister(self, id: str, *, keep: bool = False, grace_s: float | None = None) -> None:
        """Let what runs come to its end, then stop it. With `keep` its address stays, and mail for it waits."""
        await self.registry.unregister(id, keep=keep, grace_s=grace_s)

    def channels(self) -> list[EndpointQueueView]:
        return [view for view in self.endpoints() if view.kind == "channel"]

    def endpoints(self) -> list[EndpointQueueView]:
        return sorted((lane.view() for _, _, lane in self.dispatch.lanes.all()), key=lambda view: view.subject)
