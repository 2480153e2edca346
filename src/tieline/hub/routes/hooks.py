"""The open door for webhooks. The channel behind it checks each request's signature before it believes a word of it."""

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Response, post
from litestar.params import FromPath

from ...errors import BusError
from ...messages import RelayStandby
from ...protocol.problems import MEDIA_TYPE, Problem
from ...relay.hooks import Hooked, HookRefused, HookRequest
from ..request import Asked, answer, hub_of
from ..spec import spec

if TYPE_CHECKING:
    from ..hub import Hub

MAX_AT_ONCE = 32
"""Requests that are worked on; a stranger can send as many as they like, and costs us no more than these."""

AGAIN_S = 5.0
"""When it is worth another try to whoever meets us in a bad moment: the same again is harmless."""


class Taken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The id by which the message can be asked for."""

    message: str = ""


@post(
    "/hooks/in/{channel:str}",
    tags=["hooks"],
    status_code=202,
    opt=spec(gives=Taken, status=202, problems=("NotFound", "Unauthenticated", "TooManyRequests")),
)
async def take(request: Asked, channel: FromPath[str]) -> Response[bytes]:
    """A webhook for a channel, signed as that channel wants it."""
    hub, busy = hub_of(request), _busy(request)
    try:
        if hub.channels is None or hub.relay is None:
            raise HookRefused(503, "no_relay", "this hub runs no relay")
        if not hub.relay.active:
            raise _standby()
        found = hub.channels.channel(channel)
        if found is None and hub.channels.starting(channel):
            raise HookRefused(503, "starting", "this channel is being started", retry_after_s=AGAIN_S)
        if not isinstance(found, Hooked):
            raise HookRefused(404, "no_webhook", "no channel of this name takes webhooks")
        if busy.locked():
            raise HookRefused(429, "busy", "too many requests at once", retry_after_s=1.0)
        async with busy:
            headers = {name.lower(): value for name, value in request.headers.items()}
            content = await request.body()
            if len(content) > found.max_body:
                raise HookRefused(413, "too_large", f"the body is larger than {found.max_body} bytes", field="body")
            try:
                reply = await found.receive(HookRequest(headers=headers, body=content))
            except RelayStandby:
                raise _standby() from None
            except BusError as error:
                raise HookRefused(503, "unavailable", error.message, retry_after_s=AGAIN_S) from None
            return answer(Taken(message=reply.message), reply.status)
    except HookRefused as error:
        hub.log.info("hook refused", channel=channel[:64], code=error.code)
        return _refusal(error, request.scope["state"].get("request", ""))


def _standby() -> HookRefused:
    """Another hub of this bus runs the relay; whoever sends it again may meet that one."""
    return HookRefused(503, "standby", "this hub's relay stands by", retry_after_s=AGAIN_S)


def _busy(request: Asked) -> asyncio.Semaphore:
    state = request.app.state
    if "hooks" not in state:
        state["hooks"] = asyncio.Semaphore(MAX_AT_ONCE)
    return state["hooks"]


def _refusal(error: HookRefused, instance: str) -> Response[bytes]:
    problem = Problem(
        status=error.status,
        title=HTTPStatus(error.status).phrase,
        detail=error.message,
        code=error.code,
        field=error.field,
        hint=error.hint,
        instance=instance,
    )
    headers: dict[str, str] = {}
    if error.retry_after_s is not None:
        headers["retry-after"] = str(max(1, round(error.retry_after_s)))
    return Response(msgspec.json.encode(problem), status_code=error.status, media_type=MEDIA_TYPE, headers=headers)


def routes(hub: "Hub") -> list[Any]:
    return [take]
