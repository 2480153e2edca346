"""The connection to NATS: requests that are repeated until they are answered, and errors as `tieline.errors`.

All replies come to one inbox, so that thousands of requests can be open at the price of one subscription. A request
that is repeated must be safe to be done twice: publishes carry ids.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Protocol, TypeVar

import msgspec
import nats
import nats.errors
from nats.aio.client import Client, Server
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from ...backoff import Backoff
from ...errors import BusClosed, BusError, BusFull, BusUnavailable
from .cancellation import apart, propagate_cancel
from .url import NatsUrl

T = TypeVar("T")

CONNECT_S = 5.0
ANSWER_S = 5.0
"""How long one request waits for its reply before it is repeated."""

BOUND_S = 30.0
"""How long a request is repeated before BusUnavailable is raised."""

BACKOFF = Backoff(0.05, 2.0)
PING_S = 10

WRONG_LAST = (10071, 10164)
NO_MESSAGE = 10037
NO_STREAM = 10059
_FULL = (10002, 10023, 10028, 10047, 10077)
_OFF = (10039, 10076)
_LATER = (10005,)
"""No server for a replica of a new stream: one is down, and will be back."""


class ApiError(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class ApiReply(msgspec.Struct):
    error: ApiError | None = None


class NatsRefused(BusError):
    """An error reply of the server. `translated` makes a bus error of it unless the caller knows its code."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(f"the NATS server refused: {error.description} ({error.err_code})")
        self.code = error.err_code
        self.status = error.code


NO_JETSTREAM = BusError("the NATS server has no JetStream", hint="Start it with -js, or enable it for the account.")


class Interrupted(Protocol):
    def interrupted(self) -> None:
        """The connection was lost and is back, or the bus is closed."""
        ...


class NatsConnection:
    def __init__(self, client: Client, target: NatsUrl) -> None:
        self.client = client
        self.target = target
        self.closed = False
        self.listeners: set[Interrupted] = set()
        self.closing: set[Callable[[], None]] = set()  # to be called when the bus is closed
        self._asked: dict[str, asyncio.Future[Msg]] = {}
        self._numbers = count()
        self._inbox = ""
        self._loop = asyncio.get_running_loop()
        self._back = asyncio.Event()

    async def start(self) -> None:
        self._inbox = self.client.new_inbox()
        self._back.set()
        await self.subscribe(f"{self._inbox}.*", self._answered)
        with contextlib.suppress(TimeoutError):  # a cluster that is just electing its leader says nothing yet
            if status(await self.ask("$JS.API.INFO", b"", None, CONNECT_S)) == "503":
                raise NO_JETSTREAM

    async def close(self) -> None:
        self.closed = True
        for future in self._asked.values():
            if not future.done():
                future.set_exception(BusClosed())
        for listener in list(self.listeners):
            listener.interrupted()
        for close in list(self.closing):
            close()
        self._back.set()
        await self.client.close()

    async def subscribe(self, subject: str, arrived: Callable[[Msg], Awaitable[None]]) -> Subscription:
        """Raises as `send` does."""
        return await self._tell(
            self.client.subscribe(subject, cb=arrived)  # pyright: ignore[reportUnknownMemberType]
        )

    async def send(
        self, subject: str, payload: bytes, *, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """ConnectionError: it did not go out, and may the next time. BusClosed, also when it is closed meanwhile."""
        await self._tell(self.client.publish(subject, payload, reply=reply, headers=headers))

    async def _tell(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await propagate_cancel(work)
        except nats.errors.ConnectionClosedError:
            if self.closed:
                raise BusClosed from None
            raise BusUnavailable("the connection to NATS is closed for good", hint="Open the bus again.") from None
        except nats.errors.Error as error:
            raise ConnectionError(str(error)) from error

    # --- requests ---

    async def ask(self, subject: str, payload: bytes, headers: dict[str, str] | None, timeout: float) -> Msg:
        """One request; raises TimeoutError when there is no reply."""
        token = str(next(self._numbers))
        future: asyncio.Future[Msg] = self._loop.create_future()
        self._asked[token] = future
        timer = self._loop.call_later(timeout, _give_up, future)
        try:
            await self.send(subject, payload, reply=f"{self._inbox}.{token}", headers=headers)
            return await future
        except OSError as error:
            raise TimeoutError(str(error)) from error
        finally:
            timer.cancel()
            del self._asked[token]

    async def request_until_answered(
        self,
        subject: str,
        payload: bytes,
        accept: Callable[[Msg], T],
        *,
        headers: dict[str, str] | None = None,
        repair: Callable[[], Any] | None = None,
        bound: float = BOUND_S,
    ) -> T:
        """Repeats the request until `accept` takes the reply, for `bound` seconds. 503 (no responders) is retried."""
        deadline = self._loop.time() + bound
        failures = 0
        problem = "no reply"
        while True:
            if self.closed:
                raise BusClosed
            try:
                answer = await self.ask(subject, payload, headers, min(ANSWER_S, deadline - self._loop.time()))
                if status(answer) != "503":
                    return accept(answer)
                problem = "no responders"
                if repair is not None:
                    await repair()
            except TimeoutError as error:
                problem = str(error) or problem
            except NatsRefused as error:
                if error.status != 503 and error.code not in _LATER:
                    raise self.translated(error) from None
                problem = str(error)
            left = deadline - self._loop.time()
            failures += 1
            if left <= BACKOFF.limit(failures):
                raise BusUnavailable(f"NATS at {self.target.shown}: {problem} in {bound:g} s", hint="Try again later.")
            await self._pause(BACKOFF.delay(failures), left)

    async def api(self, call: str, request: Mapping[str, Any], type: "type[T]", bound: float = BOUND_S) -> T:
        """A request to the JetStream API. An error reply is raised as NatsRefused."""
        body = msgspec.json.encode(request)
        return await self.request_until_answered(
            f"$JS.API.{call}", body, lambda answer: accept(answer, type), bound=bound
        )

    def translated(self, error: NatsRefused) -> BusError:
        if error.code in _FULL:
            return BusFull(f"NATS at {self.target.shown}", str(error))
        if error.code in _OFF:
            return NO_JETSTREAM
        return error

    async def _pause(self, wait: float, left: float) -> None:
        if self._back.is_set():
            await asyncio.sleep(wait)
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._back.wait()

    async def _answered(self, message: Msg) -> None:
        future = self._asked.get(message.subject.rpartition(".")[2])
        if future is not None and not future.done():
            future.set_result(message)

    # --- connection lost and restored ---

    async def lost(self) -> None:
        self._back.clear()

    async def back(self) -> None:
        self._back.set()
        for listener in list(self.listeners):
            listener.interrupted()


def _give_up(future: "asyncio.Future[Msg]") -> None:
    if not future.done():
        future.set_exception(TimeoutError())


def accept(answer: Msg, type: "type[T]") -> T:
    outcome = msgspec.json.decode(answer.data, type=ApiReply)
    if outcome.error is not None:
        raise NatsRefused(outcome.error)
    return msgspec.json.decode(answer.data, type=type)


def status(message: Msg) -> str:
    """The status of a message from the server itself; empty for all others."""
    return (message.headers or {}).get("Status", "") if not message.data else ""


def unique() -> str:
    return secrets.token_hex(8)


@asynccontextmanager
async def connected(target: NatsUrl) -> AsyncGenerator[NatsConnection]:
    problems: list[Exception] = []
    client = Client()
    link = NatsConnection(client, target)

    async def error(problem: Exception) -> None:
        problems[:] = [problem]

    def next_server(servers: list[Server], info: dict[str, Any]) -> tuple[Server, float]:
        """The server with the fewest failures; the delay grows with them."""
        best = min(servers, key=lambda server: server.reconnects)
        return best, BACKOFF.delay(best.reconnects + 1) if best.reconnects else 0.0

    try:
        await apart(
            client.connect(
                list(target.servers),
                name="tieline",
                error_cb=error,
                disconnected_cb=link.lost,
                reconnected_cb=link.back,
                reconnect_to_server_handler=next_server,
                reconnect_time_wait=1,
                max_reconnect_attempts=-1,
                ping_interval=PING_S,
                connect_timeout=2,
                skip_subject_validation=True,  # they are checked by then, and once
            ),
            CONNECT_S,
        )
        await link.start()
    except (BusError, asyncio.CancelledError):
        await client.close()
        raise
    except (TimeoutError, nats.errors.Error, OSError) as failure:
        await client.close()
        reason = str(problems[0] if problems else failure) or "no answer"
        raise BusUnavailable(
            f"cannot reach NATS at {target.shown}: {reason}", hint="Is it running? `nats-server -js` starts one."
        ) from None
    try:
        yield link
    finally:
        await link.close()
