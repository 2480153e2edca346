"""Inbound webhooks. The route is public: the channel checks each request's signature."""

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from ...channels.inbound_http import HookRefused, HookRequest, WebhookReceiver
from ...envelopes import RelayStandby
from ...errors import BusError
from ...protocol.problems import MEDIA_TYPE
from ..http.problems import encode_problem, make_problem
from ..http.request import Request, json_response
from ..http.route_spec import RouteSpec
from ..http.routing import post

if TYPE_CHECKING:
    from ..hub import Hub

MAX_AT_ONCE = 32
"""Concurrent requests: anybody can send some, so their cost is bounded."""

RETRY_S = 5.0
"""Retry-After; a repeated webhook is harmless."""


class WebhookAccepted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The id by which the message can be asked for."""

    message: str = ""


async def _take(request: Request, channel: str, busy: asyncio.Semaphore) -> Response:
    hub = request.hub
    try:
        if hub.channels is None or hub.relay is None:
            raise HookRefused(503, "no_relay", "the relay is not running on this hub")
        if not hub.relay.active:
            raise _standby()
        receiver = hub.channels.channel(channel)
        if receiver is None and hub.channels.starting(channel):
            raise HookRefused(503, "starting", "this channel is starting", retry_after_s=RETRY_S)
        if not isinstance(receiver, WebhookReceiver):
            raise HookRefused(404, "no_webhook", "no channel of this name takes webhooks")
        if busy.locked():
            raise HookRefused(429, "busy", "too many requests at once", retry_after_s=1.0)
        async with busy:
            body = await request.body()
            if len(body) > receiver.max_body:
                raise HookRefused(413, "too_large", f"the body is larger than {receiver.max_body} bytes", field="body")
            try:
                reply = await receiver.receive(HookRequest(headers=dict(request.headers), body=body))
            except RelayStandby:
                raise _standby() from None
            except BusError as error:
                raise HookRefused(503, "unavailable", error.message, retry_after_s=RETRY_S) from None
            return json_response(WebhookAccepted(message=reply.message), reply.status)
    except HookRefused as error:
        hub.log.info("hook refused", channel=channel[:64], code=error.code)
        return _refusal(error, request.context.id)


def _standby() -> HookRefused:
    """Another hub on this bus runs the relay; a retry may reach it."""
    return HookRefused(503, "standby", "this hub's relay is on standby", retry_after_s=RETRY_S)


def _refusal(error: HookRefused, instance: str) -> Response:
    problem = make_problem(error.code, error.status, error.message, error.field, error.hint, instance)
    headers: dict[str, str] = {}
    if error.retry_after_s is not None:
        headers["retry-after"] = str(max(1, round(error.retry_after_s)))
    return Response(encode_problem(problem), error.status, headers, MEDIA_TYPE)


def routes(hub: "Hub") -> list[Any]:
    busy = asyncio.Semaphore(MAX_AT_ONCE)

    @post(
        "/hooks/in/{channel}",
        tags=["hooks"],
        spec=RouteSpec(
            response=WebhookAccepted, status=202, problems=("NotFound", "Unauthenticated", "TooManyRequests")
        ),
    )
    async def take(request: Request, channel: str) -> Response:
        """Receive a webhook for a channel, signed as that channel requires."""
        return await _take(request, channel, busy)

    return [take]
