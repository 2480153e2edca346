"""Web Push: the key to subscribe with, this device's subscriptions, a test."""

from typing import TYPE_CHECKING, Any

from litestar import Response, delete, get, post
from litestar.params import FromPath

from ...protocol.bodies import PushSubscription
from ...protocol.push import PushKey, PushTest, PushView
from ..push import endpoints
from ..push.decide import Subscription
from ..request import Asked, answer, body, device_of, hub_of
from ..spec import spec

if TYPE_CHECKING:
    from ..hub import Hub

TAGS = ["push"]


@get("/api/v1/push/key", tags=TAGS, opt=spec(gives=PushKey, problems=("Unsupported",)))
async def key(request: Asked) -> Response[bytes]:
    """The key that a browser subscribes with."""
    return answer(PushKey(key=await hub_of(request).push.courier.key()))


@get("/api/v1/push/subscriptions", tags=TAGS, opt=spec(gives=list[PushView]))
async def subscriptions(request: Asked) -> Response[bytes]:
    """The subscriptions of this device."""
    return answer([_view(one) for one in hub_of(request).push.subscriptions.of(device_of(request).id)])


@post(
    "/api/v1/push/subscriptions",
    tags=TAGS,
    opt=spec(body=PushSubscription, gives=PushView, status=201, problems=("Unsupported",)),
)
async def subscribe(request: Asked) -> Response[bytes]:
    """Push to this browser. The same endpoint again changes its settings."""
    pushes = hub_of(request).push
    wanted = await body(request, PushSubscription)
    await pushes.courier.key()  # without the library it would be a promise that nobody keeps
    return answer(_view(await pushes.subscriptions.add(device_of(request).id, wanted)), 201)


@delete(
    "/api/v1/push/subscriptions/{subscription:str}",
    tags=TAGS,
    status_code=204,
    opt=spec(status=204, problems=("NotFound",)),
)
async def unsubscribe(request: Asked, subscription: FromPath[str]) -> None:
    """No more pushes to it."""
    found = hub_of(request).push.subscriptions
    await found.remove(found.get(device_of(request).id, subscription))


@post("/api/v1/push/test", tags=TAGS, status_code=200, opt=spec(gives=PushTest, problems=("NotFound", "Unsupported")))
async def test(request: Asked) -> Response[bytes]:
    """Send a test push to this device, now."""
    pushes = hub_of(request).push
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
    service = endpoints.parse(one.endpoint, loopback=True).host
    return PushView(id=one.id, service=service, content=one.content, created_at=one.created_at)


def routes(hub: "Hub") -> list[Any]:
    return [key, subscriptions, subscribe, unsubscribe, test]
