"""One attempt to deliver a message, and how it ends. Every step is durable before the next is taken: `offered` before
a channel is called, so that an attempt that takes the process down is counted."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from ...envelopes import DeadLetter, DeliveryResult, Envelope, MessageReceipt, ReceiptStep, RelayStandby, State
from ...errors import BusClosed, BusError, TielineError
from ..settings import Settings
from ..storage.store import RelayStore
from .attribution import ActiveDeliveries, AttemptContext
from .endpoint_queue import Deliver, EndpointQueue, InFlight

if TYPE_CHECKING:
    from .dispatcher import Dispatcher

OVERTIME_S = 5.0
"""What a delivery may take beyond its message's time: to interrupt an agent, to close a connection."""
MAX_DETAIL = 500


class Answering(Protocol):
    async def __call__(self, envelope: Envelope, text: str) -> tuple[str, str]:
        """The answer's id, or a reason why there is none."""
        ...


class Attempts:
    def __init__(
        self,
        dispatch: "Dispatcher",
        ledger: RelayStore,
        settings: Settings,
        works: ActiveDeliveries,
        answer: Answering,
        valid: Callable[[], bool],
    ) -> None:
        self._dispatch = dispatch
        self._ledger = ledger
        self._settings = settings
        self._works = works
        self._answer = answer
        self._valid = valid  # whether we are still the active relay

    async def run(self, lane: EndpointQueue, live: InFlight) -> None:
        """Called by a lane when it has room for it."""
        try:
            await self._offer(lane, live)
        except (BusClosed, RelayStandby):
            pass  # the next one makes it again
        except BusError as error:  # nothing was offered that is not written down
            lane.note(error.message)
            self._dispatch.later(live, self._settings.room_wait_s)

    async def _offer(self, lane: EndpointQueue, live: InFlight) -> None:
        deliver, receipt, now = lane.deliver, live.receipt, time.time()
        if live.gone or deliver is None or not self._valid():
            return
        envelope = live.envelope or await self._ledger.envelope(receipt)
        begun = reached(receipt, "injected")
        refusal = self._pointless(live, envelope, now) if not begun or envelope is None else None
        if refusal is not None or envelope is None:
            await self.end(live, envelope, *(refusal or ("dead", "body_lost")))
            return
        attempt = receipt.attempts + (not begun)
        context = AttemptContext(
            self._dispatch, live, lane, envelope, attempt, self._works, repeated=_unsettled(receipt)
        )
        step = ReceiptStep("offered", now, attempt, channel=lane.id)
        live.receipt = offered = self._dispatch.add(receipt, step, attempts=attempt, waiting="")
        live.waiting = ""
        try:
            if not live.noted:
                await self._ledger.keep(offered)
            live.noted = False
            self._dispatch.tell(offered)
            result = await self._deliver(deliver, envelope, context)
        except BusError:  # it is not written down, so it was not offered
            live.receipt = receipt if live.receipt is offered else replace(live.receipt, attempts=receipt.attempts)
            raise
        except asyncio.CancelledError:
            live.receipt = replace(live.receipt, attempts=receipt.attempts)  # that was not its fault
            with contextlib.suppress(BusError):
                await self._ledger.keep(live.receipt, "interrupted")
            raise
        finally:
            self._works.end(context)
        await self._insist(lambda: self._settle(lane, live, envelope, result))

    def _pointless(self, live: InFlight, envelope: Envelope | None, now: float) -> tuple[State, str] | None:
        if envelope is None:
            return "dead", "body_lost"
        if live.receipt.expires_at <= now:
            return late(live.waiting)
        if live.receipt.attempts >= self._settings.attempts:
            return "dead", "gave_up"
        return None

    async def _deliver(self, deliver: Deliver, envelope: Envelope, context: AttemptContext) -> DeliveryResult:
        timeout = max(0.0, context.expires_at - time.time()) + OVERTIME_S
        try:
            async with asyncio.timeout(timeout):
                return await deliver(envelope.subject, envelope, context)
        except TimeoutError:
            return DeliveryResult(status="failed", reason="timeout", detail="the delivery took longer than allowed")
        except TielineError as error:
            return DeliveryResult(status="failed", reason="delivery_failed", detail=error.message)
        except Exception as error:
            return DeliveryResult(status="failed", reason="delivery_failed", detail=f"{type(error).__name__}: {error}")

    async def _insist(self, settle: Callable[[], Awaitable[None]]) -> None:
        """How it ended must be written down: to deliver it again because of a full disk would be worse."""
        while True:
            try:
                return await settle()
            except BusClosed:
                raise
            except BusError:
                await asyncio.sleep(self._settings.room_wait_s)

    async def _settle(self, lane: EndpointQueue, live: InFlight, envelope: Envelope, result: DeliveryResult) -> None:
        match result.status:
            case "delivered":
                await self._delivered(lane, live, envelope, result)
                lane.succeeded()
            case "dead_lettered":
                await self.end(live, envelope, "dead", result.reason or "rejected", result.detail)
                lane.breaker.succeeded()  # the channel works: it is the message that cannot be delivered
            case "failed" if result.counts:
                await self._failed(lane, live, envelope, result)
                lane.went_wrong(f"{result.reason}: {result.detail}" if result.detail else result.reason)
            case "failed":
                await self._held_up(lane, live, envelope, result)

    async def _delivered(self, lane: EndpointQueue, live: InFlight, envelope: Envelope, result: DeliveryResult) -> None:
        add, receipt = self._dispatch.add, live.receipt
        attempt, reason = receipt.attempts, result.reason
        if not reached(receipt, "injected"):
            receipt = add(receipt, ReceiptStep("injected", time.time(), attempt, channel=lane.id))
        if result.response_text and envelope.reply_to:
            answer, problem = await self._answer(envelope, result.response_text)
            reason = reason or problem
            if answer:
                receipt = add(receipt, ReceiptStep("answered", time.time(), attempt), answer=answer)
        if reason:
            receipt = add(receipt, ReceiptStep(receipt.state, time.time(), attempt, reason, result.detail[:MAX_DETAIL]))
        receipt = replace(receipt, session=result.session_id or receipt.session, over=True)
        await self._ledger.keep(receipt)
        live.receipt = receipt
        self._dispatch.forget(live)

    async def _failed(self, lane: EndpointQueue, live: InFlight, envelope: Envelope, result: DeliveryResult) -> None:
        receipt, now = live.receipt, time.time()
        attempt, reason = receipt.attempts, result.reason or "delivery_failed"
        wait = self._settings.wait_s(attempt) if result.retry_after_s is None else result.retry_after_s
        if attempt >= self._settings.attempts:
            await self.end(live, envelope, "dead", reason, result.detail)
        elif receipt.expires_at <= now + wait:  # there will be no other attempt
            await self.end(live, envelope, "expired", reason, result.detail)
        else:
            step = ReceiptStep("failed", now, attempt, reason, result.detail[:MAX_DETAIL], lane.id)
            receipt = self._dispatch.add(receipt, step)
            await self._ledger.keep(receipt)
            self._wait(live, receipt, wait)

    async def _held_up(self, lane: EndpointQueue, live: InFlight, envelope: Envelope, result: DeliveryResult) -> None:
        """No attempt, it only has to wait. Written down when it begins to wait, not each time it is looked at."""
        receipt = live.receipt
        if receipt.expires_at <= time.time():  # its deadline may have passed while it ran, and does not come again
            await self.end(live, envelope, *late(result.reason), result.detail)
            return
        again = receipt.steps[-2:-1] and receipt.steps[-2].reason == result.reason
        steps = receipt.steps[:-1] if again else receipt.steps
        step = ReceiptStep("failed", time.time(), receipt.attempts, result.reason, result.detail[:MAX_DETAIL], lane.id)
        receipt = replace(receipt, steps=steps, attempts=max(0, receipt.attempts - 1), waiting=result.reason)
        receipt = receipt if again else self._dispatch.add(receipt, step)
        await self._ledger.keep(receipt)
        live.waiting = result.reason
        self._wait(live, receipt, self._settings.room_wait_s if result.retry_after_s is None else result.retry_after_s)

    def _wait(self, live: InFlight, receipt: MessageReceipt, wait: float) -> None:
        live.receipt = receipt
        self._dispatch.tell(receipt)
        self._dispatch.later(live, wait)

    async def end(self, live: InFlight, envelope: Envelope | None, state: State, reason: str, detail: str = "") -> None:
        """Dead or expired. The letter is kept before the receipt says so: what is over is never looked at again."""
        now, receipt = time.time(), live.receipt
        if envelope is not None:
            letter = DeadLetter(
                envelope=envelope,
                reason=reason,
                detail=detail[:MAX_DETAIL],
                attempts=receipt.attempts,
                at=now,
                state="expired" if state == "expired" else "dead",
            )
            await self._ledger.bury(letter)
        step = ReceiptStep(state, now, receipt.attempts, reason, detail[:MAX_DETAIL])
        receipt = self._dispatch.add(receipt, step, over=True, waiting="")
        await self._ledger.keep(receipt)
        live.receipt = receipt
        self._dispatch.forget(live)


def late(waiting: str) -> tuple[State, str]:
    """How a message ends whose time is up, by what it waited for."""
    if waiting == "max_concurrent_exceeded":
        return "dead", waiting
    return "expired", waiting or "ttl_expired"


def reached(receipt: MessageReceipt, state: str) -> bool:
    return any(step.state == state for step in receipt.steps)


def _unsettled(receipt: MessageReceipt) -> bool:
    """Whether its last attempt has no known end."""
    return bool(receipt.steps) and receipt.steps[-1].state in ("offered", "injected", "seen")
