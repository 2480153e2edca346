"""Which message an address is working on: what the address sends meanwhile inherits that message's budget."""

import time

from msgspec.structs import replace

from ...channels.base import Progress
from ...envelopes import Envelope, ReceiptStep
from ...envelopes import address as normalize_address
from .dispatcher import Dispatcher
from .endpoint_queue import EndpointQueue, InFlight


class ActiveDelivery:
    """A message that an address is working on, and how many calls are left to it."""

    __slots__ = ("calls_left", "envelope", "via")

    def __init__(self, envelope: Envelope, via: tuple[str, ...]) -> None:
        self.envelope = envelope
        self.calls_left = envelope.budget.calls_left
        self.via = via


class ActiveDeliveries:
    def __init__(self) -> None:
        self._by_address: dict[str, list[ActiveDelivery]] = {}
        self._by_context: dict[int, list[tuple[str, ActiveDelivery]]] = {}

    def begin(self, context: object, envelope: Envelope, address: str) -> None:
        """Until `end` with the same context."""
        delivery = ActiveDelivery(envelope, tuple(dict.fromkeys((envelope.subject, address))))
        self._by_address.setdefault(address, []).append(delivery)
        self._by_context.setdefault(id(context), []).append((address, delivery))

    def end(self, context: object) -> None:
        for address, delivery in self._by_context.pop(id(context), ()):
            deliveries = self._by_address[address]
            deliveries.remove(delivery)
            if not deliveries:
                del self._by_address[address]

    def for_address(self, address: str) -> ActiveDelivery | None:
        """The delivery that the address works on; of several, the one with the smallest budget."""
        deliveries = self._by_address.get(address)
        return min(deliveries, key=_remaining) if deliveries else None


def _remaining(delivery: ActiveDelivery) -> tuple[int, int]:
    budget = delivery.envelope.budget
    return budget.max_hops - budget.hops, delivery.calls_left


class AttemptContext:
    """The `channels.base.DeliveryContext` of one attempt."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        message: InFlight,
        queue: EndpointQueue,
        envelope: Envelope,
        attempt: int,
        active_deliveries: ActiveDeliveries,
        *,
        repeated: bool,
    ) -> None:
        self.attempt = attempt
        self.expires_at = envelope.budget.expires_at
        self.repeated = repeated
        self._dispatcher = dispatcher
        self._message = message
        self._queue = queue
        self._envelope = envelope
        self._active_deliveries = active_deliveries

    async def progress(self, state: Progress, *, session: str = "") -> None:
        receipt = self._message.receipt
        if not any(step.state == state for step in receipt.steps):
            step = ReceiptStep(state, time.time(), self.attempt, channel=self._queue.id)
            receipt = self._dispatcher.add_step(receipt, step)
            self._message.receipt = replace(receipt, session=session or receipt.session)
            await self._dispatcher.save_progress(self._message)

    def working(self, address: str) -> None:
        self._active_deliveries.begin(self, self._envelope, normalize_address(address))
