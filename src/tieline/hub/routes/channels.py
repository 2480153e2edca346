"""The relay's channels: list, reload, test."""

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace
from starlette.responses import Response

from ...channels.base import Channel
from ...envelopes import Limits, MessageReceipt
from ...protocol.messages import ChannelReload, ChannelTest, ChannelTestView, ChannelView, ReloadView
from ...relay.channel_plugins.channel_reports import ChannelReport
from ...relay.channel_plugins.reload import ChannelSet
from ...relay.delivery.endpoint_queue import EndpointQueueView
from ..http.problems import NotFound, RequestRefused
from ..http.request import Request, json_response, parse_body
from ..http.route_spec import RouteSpec
from ..http.routing import get, post
from ..security.auth import actor_name
from .messages import OWNER, current_relay, relay_of, view_of

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["channels"]
TEST_S = 30.0
RETRY_S = 5.0
"""Retry-After while a channel starts."""


def channels_of(request: Request) -> ChannelSet:
    channels = request.hub.channels
    if channels is None:
        raise RequestRefused("BusError", "the relay is not running on this hub")
    return channels


@get("/api/v1/channels", tags=TAGS, spec=RouteSpec(response=list[ChannelView]))
async def channels(request: Request) -> Response:
    """All configured channels, with their state and last error."""
    return json_response(_views(request))


@post(
    "/api/v1/channels/reload", tags=TAGS, spec=RouteSpec(body=ChannelReload, body_required=False, response=ReloadView)
)
async def reload(request: Request) -> Response:
    """Reload the configuration: changed channels are rebuilt, broken ones retried. New code and rights wait
    for consent, except those that the caller repeats in `trust` as an earlier `waiting` named them."""
    wanted = await parse_body(request, ChannelReload, empty=ChannelReload())
    changes = await channels_of(request).reload(trust=wanted.trust)
    for words in changes.trusted:
        request.hub.audit.record("code", actor_name(request.context.known_device), request.context.via, trusted=words)
    return json_response(ReloadView(**asdict(changes), channels=tuple(_views(request))))


@post(
    "/api/v1/channels/{id}/test",
    tags=TAGS,
    spec=RouteSpec(
        body=ChannelTest, body_required=False, response=ChannelTestView, problems=("NotFound", "ChannelStarting")
    ),
)
async def test(request: Request, id: str) -> Response:
    """Send a test message through a channel and report its delivery. An answer is not waited for."""
    wanted = await parse_body(request, ChannelTest, empty=ChannelTest())
    channel = _channel(request, id)
    relay = await current_relay(request)
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    sent: list[str] = []

    def heard(receipt: MessageReceipt) -> None:
        tried = receipt.over or any(step.state == "failed" for step in receipt.steps)
        if sent and receipt.id == sent[0] and tried and not over.done():
            over.set_result(None)  # one attempt tells; the others would take their time

    unsubscribe = relay.subscribe(heard)
    try:
        to = wanted.to or channel.subject_prefix
        receipt = await relay.send(to, wanted.text, sender=OWNER, limits=Limits(ttl_s=TEST_S))
        sent.append(receipt.id)
        heard(await relay.status(receipt.id))
        await asyncio.wait({over}, timeout=TEST_S + 5)
    finally:
        unsubscribe()
        over.cancel()
    view = view_of(await relay.message(receipt.id))
    fine = view.state in ("injected", "seen", "answered")
    return json_response(ChannelTestView(channel=id, delivered=fine, message=view))


def _channel(request: Request, id: str) -> Channel:
    """The running channel. The refusal tells why it does not run, or that it is not configured."""
    channels = channels_of(request)
    if (channel := channels.channel(id)) is not None:
        return channel
    report = next((report for report in channels.reports() if report.id == id), None)
    if report is None:
        raise NotFound("channel", id)
    if report.state == "starting":
        hint = "Try again in a few seconds."
        raise RequestRefused("ChannelStarting", f"the channel {id!r} is starting", hint=hint, retry_s=RETRY_S)
    problem = report.problem or f"the channel {id!r} is disabled"
    raise RequestRefused("NotFound", problem, field=report.field, hint=report.hint)


def _views(request: Request) -> list[ChannelView]:
    queues = {queue.id: queue for queue in relay_of(request).channels()}
    return [_view(report, queues.get(report.id)) for report in channels_of(request).reports()]


def _view(report: ChannelReport, queue: EndpointQueueView | None) -> ChannelView:
    view = ChannelView(
        id=report.id,
        state=report.state,
        source=report.source,
        prefix=report.prefix,
        name=report.name,
        problem=report.problem,
        hint=report.hint,
        field=report.field,
        since=report.since,
        details=report.detail.detail if report.detail else {},
    )
    if queue is None or report.state in ("broken", "untrusted", "disabled"):
        return view
    return replace(
        view,
        state=queue.state if report.state == "running" else report.state,
        problem=report.problem or queue.problem,
        circuit=queue.circuit,
        waiting=queue.waiting,
        in_flight=queue.running,
        delivered=queue.delivered,
        failed=queue.failed,
        last_error=queue.last_error,
        last_error_at=queue.last_error_at,
    )


def routes(hub: "Hub") -> list[Any]:
    return [channels, reload, test]
