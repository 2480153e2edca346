"""Who works on which message: what they send meanwhile comes of it."""

import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...channels.base import Progress
from ...envelopes import Envelope, ReceiptStep
from ...envelopes import address as spelled

if TYPE_CHECKING:
    from .dispatcher import Dispatcher
    from .endpoint_queue import EndpointQueue, InFlight


class ActiveDelivery:
    """A message that somebody works on, and what is left of its calls."""

    __slots__ = ("calls_left", "envelope", "via")

    def __init__(self, envelope: Envelope, via: tuple[str, ...]) -> None:
        self.envelope = envelope
        self.calls_left = envelope.budget.calls_left
        self.via = via


class ActiveDeliveries:
    def __init__(self) -> None:
        self._by_address: dict[str, list[ActiveDelivery]] = {}
        self._of: dict[int, list[tuple[str, ActiveDelivery]]] = {}

    def begin(self, context: "AttemptContext", envelope: Envelope, at: str) -> None:
        work = ActiveDelivery(envelope, tuple(dict.fromkeys((envelope.subject, at))))
        self._by_address.setdefault(at, []).append(work)
        self._of.setdefault(id(context), []).append((at, work))

    def end(self, context: "AttemptContext") -> None:
        for at, work in self._of.pop(id(context), ()):
            works = self._by_address[at]
            works.remove(work)
            if not works:
                del self._by_address[at]

    def of(self, at: str) -> ActiveDelivery | None:
        """What an address works on; of several, the one with the least left."""
        works = self._by_address.get(at)
        return min(works, key=_left) if works else None


def _left(work: ActiveDelivery) -> tuple[int, int]:
    budget = work.envelope.budget
    return budget.max_hops - budget.hops, work.calls_left


class AttemptContext:
    """A delivery, as its channel sees it (`channels.base.DeliveryContext`)."""

    def __init__(
        self,
        dispatch: "Dispatcher",
        live: "InFlight",
        lane: "EndpointQueue",
        envelope: Envelope,
        attempt: int,
        works: ActiveDeliveries,
        *,
        repeated: bool,
    ) -> None:
        self.attempt = attempt
        self.expires_at = envelope.budget.expires_at
        self.repeated = repeated
        self._dispatch = dispatch
        self._live = live
        self._lane = lane
        self._envelope = envelope
        self._works = works

    async def progress(self, state: Progress, *, session: str = "") -> None:
        receipt = self._live.receipt
        if not any(step.state == state for step in receipt.steps):
            receipt = self._dispatch.add(receipt, ReceiptStep(state, time.time(), self.attempt, channel=self._lane.id))
            self._live.receipt = replace(receipt, session=session or receipt.session)
            await self._dispatch.note(self._live)

    def working(self, address: str) -> None:
        self._works.begin(self, self._envelope, spelled(address))
