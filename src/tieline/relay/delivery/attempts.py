"""Delivery attempts: call the endpoint and save the result. `offered` is durable before the endpoint is called, so that
an attempt that crashes the process is counted."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec.structs import replace

from ...envelopes import DeliveryResult, Envelope, MessageReceipt, ReceiptStep, RelayStandby, State
from ...errors import BusClosed, BusError, TielineError
from ..settings import Settings
from ..storage.store import RelayStore
from .attribution import ActiveDeliveries, AttemptContext
from .dispatcher import MAX_DETAIL, Dispatcher, expiry_outcome
from .endpoint_queue import Deliver, EndpointQueue, InFlight
from .timer import Timer

TIMEOUT_GRACE_S = 5.0
"""How long a delivery may run after its message expired: to interrupt an agent, to close a connection."""


class SendAnswer(Protocol):
    async def __call__(self, envelope: Envelope, text: str) -> tuple[str, str]:
        """The answer's id, or the reason why there is none."""
        ...


class _RunningDelivery:
    """A call of an endpoint, in the task that waits for it."""

    __slots__ = ("task", "timed_out", "until")

    def __init__(self, until: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.until = until
        self.timed_out = False


class Attempts:
    def __init__(
        self,
        dispatcher: Dispatcher,
        store: RelayStore,
        settings: Settings,
        active_deliveries: ActiveDeliveries,
        send_answer: SendAnswer,
        is_active: Callable[[], bool],
    ) -> None:
        self._dispatcher = dispatcher
        self._store = store
        self._settings = settings
        self._active_deliveries = active_deliveries
        self._send_answer = send_answer
        self._is_active = is_active
        self._running: dict[str, _RunningDelivery] = {}  # by message
        self._timeouts = Timer(self._time_out, self._running.__contains__)

    async def run(self, queue: EndpointQueue, message: InFlight) -> None:
        """An EndpointQueue calls this when it has room for the message."""
        try:
            await self._offer(queue, message)
        except (BusClosed, RelayStandby):
            pass  # the next active relay repeats the attempt
        except BusError as error:  # the attempt was not saved, so the endpoint was not called
            queue.record_error(error.message)
            self._dispatcher.retry_later(message, self._settings.room_wait_s)

    async def _offer(self, queue: EndpointQueue, message: InFlight) -> None:
        deliver, receipt, now = queue.deliver, message.receipt, time.time()
        if message.closed or deliver is None or not self._is_active():
            return
        envelope = message.envelope or await self._store.envelope(receipt)
        begun = has_state(receipt, "injected")
        refusal = self._end_reason(message, envelope, now) if not begun or envelope is None else None
        if refusal is not None or envelope is None:
            await self._dispatcher.end(message, envelope, *(refusal or ("dead", "body_lost")))
            return
        attempt = receipt.attempts + (not begun)
        context = AttemptContext(
            self._dispatcher,
            message,
            queue,
            envelope,
            attempt,
            self._active_deliveries,
            repeated=_outcome_unknown(receipt),
        )
        step = ReceiptStep("offered", now, attempt, channel=queue.id)
        message.receipt = offered = self._dispatcher.add_step(receipt, step, attempts=attempt, waiting="")
        message.waiting_reason = ""
        try:
            if not message.stored_as_offered:
                await self._store.save_receipt(offered)
            message.stored_as_offered = False
            self._dispatcher.notify(offered)
            result = await self._deliver(deliver, envelope, context)
        except BusError:  # it is not written down, so it was not offered
            message.receipt = (
                receipt if message.receipt is offered else replace(message.receipt, attempts=receipt.attempts)
            )
            raise
        except asyncio.CancelledError:
            message.receipt = replace(message.receipt, attempts=receipt.attempts)  # an interruption is not a failure
            with contextlib.suppress(BusError):
                await self._store.save_receipt(message.receipt, "interrupted")
            raise
        finally:
            self._active_deliveries.end(context)
        await self._until_saved(lambda: self._save_result(queue, message, envelope, result))

    def _end_reason(self, message: InFlight, envelope: Envelope | None, now: float) -> tuple[State, str] | None:
        if envelope is None:
            return "dead", "body_lost"
        if message.receipt.expires_at <= now:
            return expiry_outcome(message.waiting_reason)
        if message.receipt.attempts >= self._settings.attempts:
            return "dead", "gave_up"
        return None

    async def _deliver(self, deliver: Deliver, envelope: Envelope, context: AttemptContext) -> DeliveryResult:
        """One timer serves all deliveries: a timeout of its own would be an eighth of what a message costs."""
        until = max(context.expires_at, time.time()) + TIMEOUT_GRACE_S
        running = self._running[envelope.id] = _RunningDelivery(until)
        self._timeouts.add(until, envelope.id)
        try:
            return await deliver(envelope.subject, envelope, context)
        except asyncio.CancelledError:
            if not running.timed_out or running.task.cancelling() > 1:  # somebody else cancelled it
                raise
            return DeliveryResult(status="failed", reason="timeout", detail="the delivery took longer than allowed")
        except TielineError as error:
            return DeliveryResult(status="failed", reason="delivery_failed", detail=error.message)
        except Exception as error:
            return DeliveryResult(status="failed", reason="delivery_failed", detail=f"{type(error).__name__}: {error}")
        finally:
            del self._running[envelope.id]
            if running.timed_out:
                running.task.uncancel()

    def _time_out(self, id: str) -> None:
        running = self._running.get(id)
        if running is not None and running.until <= time.time():  # else it is a later attempt, which has more time
            running.timed_out = True
            running.task.cancel()

    async def _until_saved(self, save: Callable[[], Awaitable[None]]) -> None:
        """Retry until the result is saved: otherwise a full disk would cause a second delivery."""
        while True:
            try:
                return await save()
            except BusClosed:
                raise
            except BusError:
                await asyncio.sleep(self._settings.room_wait_s)

    async def _save_result(
        self, queue: EndpointQueue, message: InFlight, envelope: Envelope, result: DeliveryResult
    ) -> None:
        match result.status:
            case "delivered":
                await self._delivered(queue, message, envelope, result)
                queue.record_success()
            case "dead_lettered":
                await self._dispatcher.end(message, envelope, "dead", result.reason or "rejected", result.detail)
                queue.breaker.succeeded()  # the channel works, the message is undeliverable
            case "failed" if result.counts:
                await self._failed(queue, message, envelope, result)
                queue.record_failure(f"{result.reason}: {result.detail}" if result.detail else result.reason)
            case "failed":
                await self._postponed(queue, message, envelope, result)

    async def _delivered(
        self, queue: EndpointQueue, message: InFlight, envelope: Envelope, result: DeliveryResult
    ) -> None:
        add, receipt = self._dispatcher.add_step, message.receipt
        attempt, reason = receipt.attempts, result.reason
        if not has_state(receipt, "injected"):
            receipt = add(receipt, ReceiptStep("injected", time.time(), attempt, channel=queue.id))
        if result.response_text and envelope.reply_to:
            answer, problem = await self._send_answer(envelope, result.response_text)
            reason = reason or problem
            if answer:
                receipt = add(receipt, ReceiptStep("answered", time.time(), attempt), answer=answer)
        if reason:
            receipt = add(receipt, ReceiptStep(receipt.state, time.time(), attempt, reason, result.detail[:MAX_DETAIL]))
        receipt = replace(receipt, session=result.session_id or receipt.session, over=True)
        await self._store.save_receipt(receipt)
        message.receipt = receipt
        self._dispatcher.finish(message)

    async def _failed(
        self, queue: EndpointQueue, message: InFlight, envelope: Envelope, result: DeliveryResult
    ) -> None:
        receipt, now = message.receipt, time.time()
        attempt, reason = receipt.attempts, result.reason or "delivery_failed"
        wait = self._settings.wait_s(attempt) if result.retry_after_s is None else result.retry_after_s
        if attempt >= self._settings.attempts:
            await self._dispatcher.end(message, envelope, "dead", reason, result.detail)
        elif receipt.expires_at <= now + wait:  # no time for another attempt
            await self._dispatcher.end(message, envelope, "expired", reason, result.detail)
        else:
            step = ReceiptStep("failed", now, attempt, reason, result.detail[:MAX_DETAIL], queue.id)
            receipt = self._dispatcher.add_step(receipt, step)
            await self._store.save_receipt(receipt)
            self._retry_after(message, receipt, wait)

    async def _postponed(
        self, queue: EndpointQueue, message: InFlight, envelope: Envelope, result: DeliveryResult
    ) -> None:
        """Not counted as an attempt. Saved when the wait begins, not at every retry."""
        receipt = message.receipt
        if receipt.expires_at <= time.time():  # the deadline may have passed during the attempt, and fires only once
            await self._dispatcher.end(message, envelope, *expiry_outcome(result.reason), result.detail)
            return
        repeated = receipt.steps[-2:-1] and receipt.steps[-2].reason == result.reason
        steps = receipt.steps[:-1] if repeated else receipt.steps
        step = ReceiptStep("failed", time.time(), receipt.attempts, result.reason, result.detail[:MAX_DETAIL], queue.id)
        receipt = replace(receipt, steps=steps, attempts=max(0, receipt.attempts - 1), waiting=result.reason)
        receipt = receipt if repeated else self._dispatcher.add_step(receipt, step)
        await self._store.save_receipt(receipt)
        message.waiting_reason = result.reason
        self._retry_after(
            message, receipt, self._settings.room_wait_s if result.retry_after_s is None else result.retry_after_s
        )

    def _retry_after(self, message: InFlight, receipt: MessageReceipt, wait: float) -> None:
        message.receipt = receipt
        self._dispatcher.notify(receipt)
        self._dispatcher.retry_later(message, wait)


def has_state(receipt: MessageReceipt, state: str) -> bool:
    for step in receipt.steps:  # noqa: SIM110 (called for every message; a generator takes three times as long)
        if step.state == state:
            return True
    return False


def _outcome_unknown(receipt: MessageReceipt) -> bool:
    """Whether the result of the last attempt is unknown."""
    return bool(receipt.steps) and receipt.steps[-1].state in ("offered", "injected", "seen")
