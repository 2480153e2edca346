"""The stream as server-sent events: the same frames, one way.

`GET /api/v1/stream/sse?after=&epoch=&sessions=a,b&events=&deltas=&visible=&snapshot=`. Events carry their place in the
log as `id`, `ready` where it begins; a browser that comes back by itself says the last one it saw as `Last-Event-ID`.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, get_args
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Receive, Send

from ...protocol.problems import Problem
from ...protocol.stream_frames import SnapshotMode, Subscribe
from ...protocol.views import DeviceView
from ..http.problems import RequestRefused, encode_problem, problem_from_error, problem_headers
from ..http.request_context import context_of
from .subscriber import Subscriber
from .websocket import CLOSE_S, ClientStreams, StreamClosing, check_subscription, start_subscription

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy in front must not wait for more
]
FIELDS = ("after", "epoch", "sessions", "events", "deltas", "visible", "snapshot")
MAX_QUERY = 16 * 1024


async def events(streams: ClientStreams, scope: Any, receive: Receive, send: Send) -> None:
    try:
        if scope["method"] != "GET":
            raise RequestRefused("UsageError", "method not allowed", field="method", hint="Use GET.")
        device = context_of(scope).known_device
        if streams.full:
            raise RequestRefused("TooManyRequests", "too many clients", retry_s=5.0)
        last = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"last-event-id"), "")
        wanted = subscription(scope["query_string"], last, streams.hub.fanout.epoch)
    except RequestRefused as error:
        await refuse(send, problem_from_error(error))
        return
    await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
    await _follow(streams, device, wanted, receive, send)


async def refuse(send: Send, problem: Problem) -> None:
    await send({"type": "http.response.start", "status": problem.status, "headers": problem_headers(problem)})
    await send({"type": "http.response.body", "body": encode_problem(problem)})


async def _follow(streams: ClientStreams, device: DeviceView, wanted: Subscribe, receive: Receive, send: Send) -> None:
    limit = asyncio.timeout(None)

    def drop(code: int, why: str) -> None:
        with suppress(RuntimeError):
            limit.reschedule(0)

    subscriber = Subscriber(streams.hub.fanout, send, drop, wire="sse_message")
    try:
        async with limit:
            closed = streams.register(device.id, drop)
            try:
                await start_subscription(streams.hub, subscriber, wanted)
                while (await receive())["type"] != "http.disconnect":
                    pass
            finally:
                closed()
    except (TimeoutError, StreamClosing):
        pass  # it ends, and the browser comes back by itself with its last id
    finally:
        await streams.hub.fanout.remove(subscriber)
        with suppress(Exception):  # whatever the server's way to say that nobody is there
            async with asyncio.timeout(CLOSE_S):
                await send({"type": "http.response.body", "body": b"", "more_body": False})


def subscription(query: bytes, last: str, epoch: str) -> Subscribe:
    """The subscription that the query asks for. The last id of a browser that came back is taken as one of this log:
    the browser does not send the log's epoch."""
    if len(query) > MAX_QUERY:
        raise RequestRefused("UsageError", "the query is too long", field="query")
    try:
        parameters = dict(parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=20, errors="strict"))
    except ValueError as error:
        raise RequestRefused("UsageError", f"invalid query: {error}", field="query") from None
    for name in parameters:
        if name not in FIELDS:
            raise RequestRefused(
                "UsageError", f"unknown parameter {name[:80]!r}", field=name[:80], hint=f"Known: {', '.join(FIELDS)}."
            )
    after = _number("Last-Event-ID", last) if last else _number("after", parameters.get("after", "0") or "0")
    sessions = parameters.get("sessions")
    wanted = Subscribe(
        after=after,
        epoch=parameters.get("epoch", "") or (epoch if last else ""),
        sessions=tuple(word for word in sessions.split(",") if word) if sessions is not None else None,
        events=_flag("events", parameters),
        deltas=_flag("deltas", parameters),
        visible=_flag("visible", parameters, "false"),  # the reader is more often a program than a person
        snapshot=_snapshot_mode(parameters.get("snapshot", "whole")),
    )
    try:
        check_subscription(wanted)
    except StreamClosing as bad:
        assert bad.problem is not None
        raise RequestRefused("UsageError", bad.problem.message, field=bad.problem.field) from None
    return wanted


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise RequestRefused("UsageError", f"{text[:40]!r} is not a cursor", field=name)
    return int(text)


def _snapshot_mode(value: str) -> SnapshotMode:
    try:
        return msgspec.convert(value, SnapshotMode)
    except msgspec.ValidationError:
        known = ", ".join(get_args(SnapshotMode))
        raise RequestRefused("UsageError", f"{value[:40]!r} is not one of {known}", field="snapshot") from None


def _flag(name: str, parameters: Mapping[str, str], otherwise: str = "true") -> bool:
    value = parameters.get(name, otherwise)
    if value not in ("true", "false", "1", "0"):
        raise RequestRefused("UsageError", f"{value[:40]!r} is neither true nor false", field=name)
    return value in ("true", "1")
