"""Web Push: the key to subscribe with, this device's subscriptions, a test."""

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from ...protocol.push import PushKey, PushTest, PushView
from ...protocol.request_bodies import PushSubscription
from ..http.request import NO_CONTENT, Request, json_response, parse_body
from ..http.route_spec import RouteSpec
from ..http.routing import delete, get, post
from ..push import endpoint_check
from ..push.triggers import Subscription

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["push"]


@get("/api/v1/push/key", tags=TAGS, spec=RouteSpec(response=PushKey, problems=("Unsupported",)))
async def key(request: Request) -> Response:
    """The key that a browser subscribes with."""
    return json_response(PushKey(key=await request.hub.push.sender.key()))


@get("/api/v1/push/subscriptions", tags=TAGS, spec=RouteSpec(response=list[PushView]))
async def subscriptions(request: Request) -> Response:
    """The subscriptions of this device."""
    return json_response(
        [_view(subscription) for subscription in request.hub.push.subscriptions.of(request.context.known_device.id)]
    )


@post(
    "/api/v1/push/subscriptions",
    tags=TAGS,
    spec=RouteSpec(body=PushSubscription, response=PushView, status=201, problems=("Unsupported",)),
)
async def subscribe(request: Request) -> Response:
    """Push to this browser. The same endpoint again changes its settings."""
    pushes = request.hub.push
    wanted = await parse_body(request, PushSubscription)
    await pushes.sender.key()  # refuses here when the library is missing
    return json_response(_view(await pushes.subscriptions.add(request.context.known_device.id, wanted)), 201)


@delete(
    "/api/v1/push/subscriptions/{subscription}",
    tags=TAGS,
    spec=RouteSpec(status=204, problems=("NotFound",)),
)
async def unsubscribe(request: Request, subscription: str) -> Response:
    """Delete a subscription of this device."""
    store = request.hub.push.subscriptions
    await store.remove(store.get(request.context.known_device.id, subscription))
    return NO_CONTENT


@post("/api/v1/push/test", tags=TAGS, spec=RouteSpec(response=PushTest, problems=("NotFound", "Unsupported")))
async def test(request: Request) -> Response:
    """Send a test push to this device, now."""
    pushes = request.hub.push
    await pushes.sender.key()
    results = await pushes.test(request.context.known_device.id)
    return json_response(
        PushTest(
            sent=sum(result.state == "sent" for result in results),
            gone=sum(result.state == "gone" for result in results),
            problems=tuple(result.problem for result in results if result.state == "failed"),
        )
    )


def _view(subscription: Subscription) -> PushView:
    service = endpoint_check.parse(subscription.endpoint, loopback=True).host
    return PushView(
        id=subscription.id, service=service, content=subscription.content, created_at=subscription.created_at
    )


def routes(hub: "Hub") -> list[Any]:
    return [key, subscriptions, subscribe, unsubscribe, test]
