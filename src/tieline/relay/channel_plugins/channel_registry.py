"""The registered channels and handlers with their queues: started when the relay is active, paused when it is not."""

import asyncio
from collections.abc import Awaitable, Callable

from ...channels.base import MAX_CONCURRENT, Channel, DeliveryContext, RelayAccess
from ...envelopes import DeliveryResult, Envelope, address
from ...errors import UsageError
from ..delivery.circuit_breaker import CircuitBreaker
from ..delivery.dispatcher import Dispatcher
from ..delivery.endpoint_queue import EndpointKind, EndpointQueue, RunAttempt
from ..settings import Settings

MessageHandler = Callable[[Envelope, DeliveryContext], Awaitable[DeliveryResult | str | None]]

START_S = 30.0
STOP_S = 15.0


class ChannelRegistry:
    def __init__(
        self,
        settings: Settings,
        dispatcher: Dispatcher,
        run_attempt: RunAttempt,
        connect: Callable[[EndpointQueue], RelayAccess],
    ) -> None:
        """`connect` gives a channel its access to the relay."""
        self._settings = settings
        self._dispatcher = dispatcher
        self._run_attempt = run_attempt
        self._connect = connect
        self._channels: dict[str, Channel] = {}
        self._queues: dict[str, EndpointQueue] = {}  # of channels, also of those being replaced
        self._started: set[str] = set()
        self._running = False

    def new_queue(
        self,
        id: str,
        kind: EndpointKind,
        subject: str,
        *,
        prefix: bool,
        max_concurrent: int = MAX_CONCURRENT,
        serial: bool = False,
        display_name: str = "",
    ) -> EndpointQueue:
        settings = self._settings
        breaker = CircuitBreaker(settings.breaker_failures, settings.breaker_open_s, settings.breaker_longest_s)
        return EndpointQueue(
            id,
            kind,
            subject,
            self._run_attempt,
            prefix=prefix,
            breaker=breaker,
            max_concurrent=max_concurrent,
            serial=serial,
            display_name=display_name,
        )

    def add(self, queue: EndpointQueue) -> None:
        if not self._dispatcher.add_queue(queue):
            raise UsageError(f"{queue.subject} already has an endpoint", field="subject")
        if self._running:
            queue.resume()

    def serve(
        self, subject: str, handler: MessageHandler, *, prefix: bool, max_concurrent: int | None, id: str
    ) -> Callable[[], Awaitable[None]]:
        async def deliver(subject: str, envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
            context.working(subject)
            result = await handler(envelope, context)
            if isinstance(result, DeliveryResult):
                return result
            return DeliveryResult(status="delivered", response_text=result or "")

        subject = address(subject)
        limit = self._settings.concurrent if max_concurrent is None else max_concurrent
        queue = self.new_queue(id or subject, "handler", subject, prefix=prefix, max_concurrent=limit)
        queue.deliver = deliver
        self.add(queue)

        async def remove() -> None:
            await self.remove(queue)

        return remove

    async def remove(self, queue: EndpointQueue, grace_s: float | None = None) -> None:
        await queue.pause(self._settings.grace_s if grace_s is None else grace_s)
        self._dispatcher.remove_queue(queue)

    # --- channels ---

    async def register(self, channel: Channel) -> None:
        if channel.id in self._channels:
            raise UsageError(f"a channel {channel.id!r} is already registered", field="id")
        subject = address(channel.subject_prefix)
        queue = self._queues.get(channel.id)
        if queue is not None and queue.subject != subject:
            await self._remove_channel(queue)
            queue = None
        if queue is None:
            queue = self.new_queue(channel.id, "channel", subject, prefix=True)
            self.add(queue)
            self._queues[channel.id] = queue
        queue.max_concurrent = int(getattr(channel, "max_concurrent", MAX_CONCURRENT))
        queue.serial = bool(getattr(channel, "serial", False))
        queue.people = bool(getattr(channel, "people", False))
        queue.display_name = channel.display_name
        self._channels[channel.id] = channel
        if self._running:
            try:
                await self._start(channel, queue)
            except BaseException:
                del self._channels[channel.id]
                await self._remove_channel(queue)
                raise

    def reserve_address(self, id: str, subject: str) -> None:
        queue = self.new_queue(id, "channel", address(subject), prefix=True)
        self.add(queue)
        self._queues[id] = queue

    async def unregister(self, id: str, *, keep: bool, grace_s: float | None) -> None:
        channel, queue = self._channels.pop(id, None), self._queues.get(id)
        if queue is None:
            raise UsageError(f"no channel {id!r} is registered", field="id")
        await queue.pause(self._settings.grace_s if grace_s is None else grace_s)
        if channel is not None:
            await self._stop(channel)
        queue.deliver = queue.status = queue.unknown_address = None
        if not keep:
            await self._remove_channel(queue)

    async def _remove_channel(self, queue: EndpointQueue) -> None:
        self._queues.pop(queue.id, None)
        await self.remove(queue, 0.0)

    async def _start(self, channel: Channel, queue: EndpointQueue) -> None:
        queue.problem = ""
        async with asyncio.timeout(START_S):
            await channel.start(self._connect(queue))
        self._started.add(channel.id)
        queue.status = channel.status
        queue.unknown_address = getattr(channel, "unknown_address", None)
        queue.resume(channel.deliver)

    async def _stop(self, channel: Channel) -> None:
        if channel.id in self._started:
            self._started.discard(channel.id)
            try:
                async with asyncio.timeout(STOP_S):
                    await channel.stop()
            except Exception as error:  # a failing stop must not affect other channels
                if queue := self._queues.get(channel.id):
                    queue.problem = f"stop failed: {type(error).__name__}: {error}"[:500]

    # --- all of them ---

    async def start(self) -> None:
        """The relay is active. A channel that fails to start has a `problem`; its messages wait."""
        self._running = True
        for _, _, queue in list(self._dispatcher.queues.all()):
            if queue.id not in self._queues:
                queue.resume()
        for id, channel in list(self._channels.items()):
            try:
                await self._start(channel, self._queues[id])
            except Exception as error:
                self._queues[id].problem = f"start failed: {type(error).__name__}: {error}"[:500]

    async def pause(self) -> None:
        """The relay is no longer active: cancel deliveries after `stop_s`; the next active relay repeats them."""
        self._running = False
        queues = [queue for _, _, queue in self._dispatcher.queues.all()]
        await asyncio.gather(*(queue.pause(self._settings.stop_s) for queue in queues))
        await asyncio.gather(*map(self._stop, list(self._channels.values())))
        for queue in self._queues.values():
            queue.deliver = queue.status = queue.unknown_address = None

    async def stop(self) -> None:
        await self.pause()
        self._channels.clear()
