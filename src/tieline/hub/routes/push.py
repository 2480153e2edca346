"""Web Push: the key to subscribe with, this device's subscriptions, a test."""

from typing import TYPE_CHECKING, Any

from ...protocol.push import PushKey, PushTest, PushView
from ...protocol.request_bodies import PushSubscription
from ..http.request import DONE, Asked, Reply, answer, body, device_of
from ..http.route_spec import Spec
from ..http.routing import delete, get, post
from ..push import endpoint_check
from ..push.rules import Subscription

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["push"]


@get("/api/v1/push/key", tags=TAGS, spec=Spec(gives=PushKey, problems=("Unsupported",)))
async def key(request: Asked) -> Reply:
    """The key that a browser subscribes with."""
    return answer(PushKey(key=await request.hub.push.courier.key()))


@get("/api/v1/push/subscriptions", tags=TAGS, spec=Spec(gives=list[PushView]))
async def subscriptions(request: Asked) -> Reply:
    """The subscriptions of this device."""
    return answer([_view(one) for one in request.hub.push.subscriptions.of(device_of(request).id)])


@post(
    "/api/v1/push/subscriptions",
    tags=TAGS,
    spec=Spec(body=PushSubscription, gives=PushView, status=201, problems=("Unsupported",)),
)
async def subscribe(request: Asked) -> Reply:
    """Push to this browser. The same endpoint again changes its settings."""
    pushes = request.hub.push
    wanted = body(request, PushSubscription)
    await pushes.courier.key()  # without the library it would be a promise that nobody keeps
    return answer(_view(await pushes.subscriptions.add(device_of(request).id, wanted)), 201)


@delete(
    "/api/v1/push/subscriptions/{subscription}",
    tags=TAGS,
    spec=Spec(status=204, problems=("NotFound",)),
)
async def unsubscribe(request: Asked, subscription: str) -> Reply:
    """No more pushes to it."""
    found = request.hub.push.subscriptions
    await found.remove(found.get(device_of(request).id, subscription))
    return DONE


@post("/api/v1/push/test", tags=TAGS, spec=Spec(gives=PushTest, problems=("NotFound", "Unsupported")))
async def test(request: Asked) -> Reply:
    """Send a test push to this device, now."""
    pushes = request.hub.push
    await pushes.courier.key()
    results = await pushes.test(device_of(request).id)
    return answer(
        PushTest(
            sent=sum(one.state == "sent" for one in results),
            gone=sum(one.state == "gone" for one in results),
            problems=tuple(one.problem for one in results if one.state == "failed"),
        )
    )


def _view(one: Subscription) -> PushView:
    service = endpoint_check.parse(one.endpoint, loopback=True).host
    return PushView(id=one.id, service=service, content=one.content, created_at=one.created_at)


def routes(hub: "Hub") -> list[Any]:
    return [key, subscriptions, subscribe, unsubscribe, test]
