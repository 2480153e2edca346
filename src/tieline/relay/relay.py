"""The relay: sends messages between addresses and tracks each one by its receipt.

`async with Relay(bus, config) as relay`: one relay per bus is active, the others stand by and take over
(`relay.active`). Every accepted message is on the bus first. After a crash the next active relay continues from there:
a message that was offered is offered again, by the same id; a message that is over stays over.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Unpack

from msgspec.structs import replace

from ..background_tasks import cancel_and_wait
from ..bus.active_lease import ActiveLease
from ..bus.base import Bus
from ..channels.base import AskOptions, Channel, Progress, SendOptions
from ..config import Config
from ..envelopes import (
    DeadLetter,
    Envelope,
    Message,
    MessageReceipt,
    Payload,
    ReceiptStep,
    RelayStandby,
    UnknownMessage,
    address,
)
from ..errors import UsageError
from ..ids import fits_id
from .address_sender import AddressSender
from .channel_api import ChannelRelay
from .channel_plugins.channel_registry import ChannelRegistry, MessageHandler
from .delivery.attempts import Attempts, has_state
from .delivery.attribution import ActiveDeliveries
from .delivery.dead_letters import DeadLetters
from .delivery.dispatcher import Dispatcher
from .delivery.endpoint_queue import EndpointQueue, EndpointQueueView
from .delivery.maintenance import Maintenance
from .request_reply import RequestReply
from .scheduled_messages import Schedules
from .settings import Settings
from .storage.inbox import MessageInbox
from .storage.store import RelayStore, derived_id
from .submit import REPLY_PREFIX, SendRequest, Submitter, as_payload

LATE_S = 10.0
LOOK_S = 0.02
MAX_SEARCHED = 1_000_000
"""Messages among which an id is looked for by a part of it."""
INBOXES = ("relay.user", "relay.program", "relay.member")
"""Below these prefixes, every address is an inbox."""


class Relay:
    def __init__(self, bus: Bus, config: Config, *, settings: Settings | None = None) -> None:
        own = config.relay
        self.settings = settings or Settings()
        self.active_deliveries = ActiveDeliveries()
        self.store = RelayStore(
            bus,
            keep_s=own.keep_s,
            keep_unread_s=own.keep_unread_s,
            keep_dead_s=own.keep_dead_s,
            keep_keys_s=self.settings.keep_keys_s,
        )
        self.dispatcher = Dispatcher(self.store, self.settings, keep_unread_s=own.keep_unread_s)
        self.lease = ActiveLease(bus.table("relay"), self.settings.lease_s)
        self.submitter = Submitter(
            own, self.store, self.dispatcher, self.active_deliveries, self.check_active, self.wait_while_late
        )
        self.attempts = Attempts(
            self.dispatcher,
            self.store,
            self.settings,
            self.active_deliveries,
            self.submitter.send_answer,
            lambda: self.lease.valid,
        )
        self.maintenance = Maintenance(self.store, self.dispatcher)
        self.schedules = Schedules(config.schedules, self.send, self._report_schedule_failure)
        self.on_schedule_failed: Callable[[str, str], None] = lambda id, problem: None
        self.registry = ChannelRegistry(self.settings, self.dispatcher, self.attempts.run, self._connect)
        self.dead_letters = DeadLetters(self.store, self._resend)
        self.request_reply = RequestReply(self.store, self.dispatcher, self.submitter)
        self._ready = asyncio.Event()
        self._activated = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        for prefix in INBOXES:
            self.registry.add(self.registry.new_queue(prefix, "inbox", prefix, prefix=True))
        replies = self.registry.new_queue(
            REPLY_PREFIX, "ask", REPLY_PREFIX, prefix=True, max_concurrent=self.settings.concurrent
        )
        replies.deliver = self.request_reply.deliver
        self.registry.add(replies)

    async def __aenter__(self) -> "Relay":
        self._task = asyncio.create_task(self.lease.run(self._activate, self._deactivate, self._ready.set))
        waiter = asyncio.create_task(self._ready.wait())
        await asyncio.wait({self._task, waiter}, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        if self._task.done():
            self._task.result()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            await cancel_and_wait(self._task)
        await self.registry.stop()
        await self.lease.release()

    def _report_schedule_failure(self, id: str, problem: str) -> None:
        self.on_schedule_failed(id, problem)

    # --- active or standby ---

    @property
    def active(self) -> bool:
        return self._activated.is_set() and self.lease.valid

    async def until_active(self) -> None:
        await self._activated.wait()

    @property
    def _running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def wait_while_late(self) -> None:
        """Where no other relay is the active one, this one is, or will be in a moment: its lease was renewed late."""
        if self.active:  # every message comes by here, and a timer costs a tenth of it
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LATE_S):
                while not self.active and self.lease.other is None and self._running:  # noqa: ASYNC110 (time has no event)
                    await asyncio.sleep(LOOK_S)

    def check_active(self) -> None:
        if not self.active:
            raise RelayStandby(self.lease.other.description if self.lease.other else "")

    async def _activate(self) -> None:
        await self.dispatcher.recover()
        jobs = (self.maintenance.run(), self.submitter.retry_uncertain_writes(), self.schedules.run())
        self._tasks = [asyncio.create_task(job) for job in jobs]
        self._activated.set()
        await self.registry.start()
        self._ready.set()

    async def _deactivate(self) -> None:
        self._activated.clear()
        await cancel_and_wait(*self._tasks)
        await self.maintenance.save_low_water_mark()
        await self.registry.pause()
        await self.dispatcher.stop()

    # --- sending ---

    def sender(self, subject: str) -> AddressSender:
        """Its holder can send as that address: give it to nobody else."""
        return AddressSender(subject, self.submitter, self.request_reply)

    def _connect(self, queue: EndpointQueue) -> ChannelRelay:
        return ChannelRelay(queue, self.store, sender=self.sender, status=self.status, progress=self.progress)

    async def send(
        self, subject: str, payload: Payload | str, *, sender: str, id: str = "", **options: Unpack[SendOptions]
    ) -> MessageReceipt:
        """Stored when it returns; see `channels.base.Sender`. The same `id` again is the same message."""
        return await self.submitter.send(
            SendRequest(sender=sender, subject=subject, payload=as_payload(payload), id=id, **options)
        )

    async def ask(
        self,
        subject: str,
        payload: Payload | str,
        *,
        sender: str,
        timeout: float = 60.0,
        **options: Unpack[AskOptions],
    ) -> Envelope:
        """The answer; see `channels.base.Sender`."""
        return await self.sender(sender).ask(subject, payload, timeout=timeout, **options)

    async def _resend(self, dead_letter: DeadLetter) -> MessageReceipt:
        old = dead_letter.envelope
        return await self.submitter.send(
            SendRequest(
                id=derived_id(old.id, "again"),
                sender=old.sender,
                subject=old.subject,
                payload=old.payload,
                reply_to=old.reply_to,
                in_reply_to=old.in_reply_to,
                thread=old.thread,
                resend=True,
            )
        )

    # --- status ---

    async def status(self, id: str) -> MessageReceipt:
        if receipt := await self._receipt(id):
            return receipt
        raise UnknownMessage(id)

    async def _receipt(self, id: str) -> MessageReceipt | None:
        self.check_active()
        if message := self.dispatcher.in_flight.get(id):
            return replace(message.receipt, waiting=self.dispatcher.waiting_reason(message))
        return await self.store.receipt(id)

    async def message(self, id: str) -> Message:
        message = self.dispatcher.in_flight.get(id)
        if message is not None and message.envelope is not None:  # in memory, so that nothing is read for it
            return Message(receipt=await self.status(id), envelope=message.envelope)
        return await self.store.message(await self.status(id))

    async def trace(self, id: str) -> list[Message]:
        """Every message of its thread, in order, with its receipt."""
        return await self.thread((await self.status(id)).thread, id)

    async def thread(self, name: str, *members: str) -> list[Message]:
        """The messages of a thread that are still stored, those of `members` among them, in order. A thread is named by
        the id of its first message, unless the sender chose a name."""
        ids = {*members, *await self.store.thread_ids(name)}
        receipts = [receipt for id in ids if (receipt := await self._receipt(id))]
        receipts.sort(key=lambda receipt: (receipt.steps[0].at, receipt.seq))
        return [await self.store.message(receipt) for receipt in receipts]

    async def recent(self, limit: int = 100) -> list[MessageReceipt]:
        """The newest messages, newest first."""
        self.check_active()
        ids = sorted({*await self.store.newest_ids(limit), *self.dispatcher.in_flight}, reverse=True)[:limit]
        return [receipt for id in ids if (receipt := await self._receipt(id))]

    async def find_ids(self, part: str, limit: int) -> list[str]:
        """Ids that are meant by this part, the newest first: of messages, and of dead letters that never became one."""
        self.check_active()
        dead = (dead_letter.envelope.id for dead_letter in await self.store.dead_letters())
        known = {*await self.store.newest_ids(MAX_SEARCHED), *self.dispatcher.in_flight, *dead}
        return sorted((id for id in known if fits_id(id, part)), reverse=True)[:limit]

    async def progress(self, id: str, state: Progress) -> None:
        """Record that a delivered message got further: somebody has read it."""
        self.check_active()
        message = self.dispatcher.in_flight.get(id)
        receipt = await self.status(id)
        if not has_state(receipt, state):
            receipt = self.dispatcher.add_step(receipt, ReceiptStep(state, time.time()))
            if message is not None:
                message.receipt = receipt
            await self.store.save_receipt(receipt)
            self.dispatcher.notify(receipt)

    def subscribe(self, listener: Callable[[MessageReceipt], None]) -> Callable[[], None]:
        """Call `listener` with each receipt whose newest step is durable. Returns a function that unsubscribes."""
        self.dispatcher.listeners.append(listener)
        return lambda: self.dispatcher.listeners.remove(listener)

    # --- endpoints ---

    def inbox(self, subject: str) -> MessageInbox:
        self.check_active()
        subject = address(subject)
        queue = self.dispatcher.queues.match(subject)
        if queue is None or queue.kind != "inbox":
            raise UsageError(f"{subject} is not an inbox", field="subject", hint=f"Inboxes are below {INBOXES[0]}.")
        return MessageInbox(subject, self.dispatcher, self.store)

    def inboxes(self) -> dict[str, int]:
        """Address → number of unread messages, without empty inboxes."""
        self.check_active()
        queues = self.dispatcher.queues
        return {
            subject: len(mailbox)
            for subject, mailbox in sorted(self.dispatcher.mailboxes.items())
            if (queue := queues.match(subject)) is not None and queue.kind == "inbox"
        }

    def serve(
        self,
        subject: str,
        handler: MessageHandler,
        *,
        prefix: bool = False,
        max_concurrent: int | None = None,
        id: str = "",
    ) -> Callable[[], Awaitable[None]]:
        """Serve an address in this process; await the returned function to stop. A text that the handler returns is the
        answer."""
        return self.registry.serve(subject, handler, prefix=prefix, max_concurrent=max_concurrent, id=id)

    async def register(self, channel: Channel) -> None:
        """Start a channel and deliver to it. It inherits the messages of one that was unregistered with `keep`."""
        await self.registry.register(channel)

    def reserve_address(self, id: str, subject: str) -> None:
        """Accept messages for a channel that is still loading; they wait until it is registered."""
        self.registry.reserve_address(id, subject)

    async def unregister(self, id: str, *, keep: bool = False, grace_s: float | None = None) -> None:
        """Wait for running deliveries, then stop the channel. With `keep`, messages for its address wait."""
        await self.registry.unregister(id, keep=keep, grace_s=grace_s)

    def channels(self) -> list[EndpointQueueView]:
        return [view for view in self.endpoints() if view.kind == "channel"]

    def endpoints(self) -> list[EndpointQueueView]:
        return sorted((queue.view() for _, _, queue in self.dispatcher.queues.all()), key=lambda view: view.subject)
