"""The channels that are registered, and the other lanes: begun when the relay is active, halted when it is not."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ...channels.base import MAX_CONCURRENT, Channel, DeliveryContext
from ...envelopes import DeliveryResult, Envelope, address
from ...errors import UsageError
from ..delivery.endpoint_queue import EndpointQueue, Kind
from ..rules import Breaker
from ..senders import ChannelRelay

if TYPE_CHECKING:
    from ..relay import Relay

Handler = Callable[[Envelope, DeliveryContext], Awaitable[DeliveryResult | str | None]]

START_S = 30.0
STOP_S = 15.0


class ChannelRegistry:
    def __init__(self, relay: "Relay") -> None:
        self._relay = relay
        self._channels: dict[str, Channel] = {}
        self._lanes: dict[str, EndpointQueue] = {}  # of channels, also of those that are being replaced
        self._started: set[str] = set()
        self._running = False

    def lane(
        self,
        id: str,
        kind: Kind,
        subject: str,
        *,
        prefix: bool,
        max_concurrent: int = MAX_CONCURRENT,
        serial: bool = False,
        display_name: str = "",
    ) -> EndpointQueue:
        settings = self._relay.settings
        breaker = Breaker(settings.breaker_failures, settings.breaker_open_s, settings.breaker_longest_s)
        return EndpointQueue(
            id,
            kind,
            subject,
            self._relay.attempts.run,
            prefix=prefix,
            breaker=breaker,
            max_concurrent=max_concurrent,
            serial=serial,
            display_name=display_name,
        )

    def add(self, lane: EndpointQueue) -> None:
        if not self._relay.dispatch.add_queue(lane):
            raise UsageError(f"something answers for {lane.subject} already", field="subject")
        if self._running:
            lane.resume()

    def serve(
        self, subject: str, handler: Handler, *, prefix: bool, max_concurrent: int | None, id: str
    ) -> Callable[[], Awaitable[None]]:
        async def deliver(subject: str, envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
            context.working(subject)
            result = await handler(envelope, context)
            if isinstance(result, DeliveryResult):
                return result
            return DeliveryResult(status="delivered", response_text=result or "")

        subject = address(subject)
        most = self._relay.settings.concurrent if max_concurrent is None else max_concurrent
        lane = self.lane(id or subject, "handler", subject, prefix=prefix, max_concurrent=most)
        lane.deliver = deliver
        self.add(lane)

        async def remove() -> None:
            await self.remove(lane)

        return remove

    async def remove(self, lane: EndpointQueue, grace_s: float | None = None) -> None:
        await lane.pause(self._relay.settings.grace_s if grace_s is None else grace_s)
        self._relay.dispatch.remove_queue(lane)

    # --- channels ---

    async def register(self, channel: Channel) -> None:
        if channel.id in self._channels:
            raise UsageError(f"there is a channel {channel.id!r} already", field="id")
        subject = address(channel.subject_prefix)
        lane = self._lanes.get(channel.id)
        if lane is not None and lane.subject != subject:
            await self._forget(lane)
            lane = None
        if lane is None:
            lane = self.lane(channel.id, "channel", subject, prefix=True)
            self.add(lane)
            self._lanes[channel.id] = lane
        lane.max_concurrent = int(getattr(channel, "max_concurrent", MAX_CONCURRENT))
        lane.serial = bool(getattr(channel, "serial", False))
        lane.people = bool(getattr(channel, "people", False))
        lane.display_name = channel.display_name
        self._channels[channel.id] = channel
        if self._running:
            try:
                await self._start(channel, lane)
            except BaseException:
                del self._channels[channel.id]
                await self._forget(lane)
                raise

    def expect(self, id: str, subject: str) -> None:
        lane = self.lane(id, "channel", address(subject), prefix=True)
        self.add(lane)
        self._lanes[id] = lane

    async def unregister(self, id: str, *, keep: bool, grace_s: float | None) -> None:
        channel, lane = self._channels.pop(id, None), self._lanes.get(id)
        if lane is None:
            raise UsageError(f"there is no channel {id!r}", field="id")
        await lane.pause(self._relay.settings.grace_s if grace_s is None else grace_s)
        if channel is not None:
            await self._stop(channel)
        lane.deliver = lane.status = None
        if not keep:
            await self._forget(lane)

    async def _forget(self, lane: EndpointQueue) -> None:
        self._lanes.pop(lane.id, None)
        await self.remove(lane, 0.0)

    async def _start(self, channel: Channel, lane: EndpointQueue) -> None:
        lane.problem = ""
        async with asyncio.timeout(START_S):
            await channel.start(ChannelRelay(self._relay, lane))
        self._started.add(channel.id)
        lane.status = channel.status
        lane.resume(channel.deliver)

    async def _stop(self, channel: Channel) -> None:
        if channel.id in self._started:
            self._started.discard(channel.id)
            try:
                async with asyncio.timeout(STOP_S):
                    await channel.stop()
            except Exception as error:  # it is over anyway, and the others must not suffer from it
                if lane := self._lanes.get(channel.id):
                    lane.problem = f"it did not stop well: {type(error).__name__}: {error}"[:500]

    # --- all of them ---

    async def start(self) -> None:
        """The relay is active. A channel that does not start says so; its mail waits."""
        self._running = True
        for _, _, lane in list(self._relay.dispatch.lanes.all()):
            if lane.id not in self._lanes:
                lane.resume()
        for id, channel in list(self._channels.items()):
            try:
                await self._start(channel, self._lanes[id])
            except Exception as error:
                self._lanes[id].problem = f"it did not start: {type(error).__name__}: {error}"[:500]

    async def halt(self) -> None:
        """The relay is not active any longer: what runs is cut off, and made again by the next one."""
        self._running = False
        lanes = [lane for _, _, lane in self._relay.dispatch.lanes.all()]
        await asyncio.gather(*(lane.pause(self._relay.settings.stop_s) for lane in lanes))
        await asyncio.gather(*map(self._stop, list(self._channels.values())))
        for lane in self._lanes.values():
            lane.deliver = lane.status = None

    async def stop(self) -> None:
        await self.halt()
        self._channels.clear()
