"""Push subscriptions: browsers, each of a device, in a bus table. They are removed with their device."""

import hashlib
import time

import msgspec

from ...bus.base import Bus
from ...bus.table_cache import TableCache
from ...protocol.request_bodies import PushSubscription
from ..http.problems import NotFound, RequestRefused
from . import endpoint_check, vapid_keys
from .triggers import Subscription

TABLE = "push"
MAX_PER_DEVICE = 10

_decode = msgspec.json.Decoder(Subscription).decode


class Subscriptions:
    """`async with Subscriptions(bus) as subscriptions`."""

    def __init__(self, bus: Bus, *, loopback: bool = False) -> None:
        self._table = bus.table(TABLE)
        self._cache = TableCache(self._table, self._apply)
        self._known: dict[str, Subscription] = {}
        self._loopback = loopback

    async def __aenter__(self) -> "Subscriptions":
        await self._cache.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._cache.__aexit__()

    def all(self) -> list[Subscription]:
        return list(self._known.values())

    def of(self, device: str) -> list[Subscription]:
        """Oldest first."""
        return sorted(
            (subscription for subscription in self._known.values() if subscription.device == device),
            key=lambda subscription: subscription.created_at,
        )

    async def add(self, device: str, wanted: PushSubscription) -> Subscription:
        """The same endpoint again is the same subscription, with the new settings."""
        endpoint_check.parse(wanted.endpoint, loopback=self._loopback)
        subscription = Subscription(
            id=hashlib.sha256(wanted.endpoint.encode()).hexdigest()[:32],
            device=device,
            endpoint=wanted.endpoint,
            p256dh=_key(wanted, "p256dh", 65, b"\x04"),
            auth=_key(wanted, "auth", 16),
            content=wanted.content,
            created_at=time.time(),
        )
        for other in self._known.copy().values():  # a browser that changed its device, by signing in anew
            if other.id == subscription.id and other.device != device:
                await self.remove(other)
        for other in self.of(device)[: -MAX_PER_DEVICE + 1]:
            if other.id != subscription.id:
                await self.remove(other)
        await self._table.put(f"{device}.{subscription.id}", msgspec.json.encode(subscription))
        self._known[f"{device}.{subscription.id}"] = subscription
        return subscription

    def get(self, device: str, id: str) -> Subscription:
        subscription = self._known.get(f"{device}.{id}")
        if subscription is None:
            raise NotFound("subscription", id)
        return subscription

    async def remove(self, subscription: Subscription) -> None:
        key = f"{subscription.device}.{subscription.id}"
        self._known.pop(key, None)
        await self._table.delete(key)

    def _apply(self, key: str, value: bytes | None, is_news: bool) -> None:
        if value is None:
            self._known.pop(key, None)
        else:
            self._known[key] = _decode(value)


def _key(wanted: PushSubscription, name: str, size: int, head: bytes = b"") -> str:
    text = wanted.keys.get(name, "")
    try:
        data = vapid_keys.decode(text.rstrip("="))
    except ValueError:
        data = b""
    if len(data) != size or not data.startswith(head):
        raise RequestRefused("UsageError", f"{name} is not a key of {size} bytes in base64url", field=f"keys.{name}")
    return vapid_keys.encode(data)
