"""Devices that may use the hub, with a key each, and the single-use secrets that pair new ones.

Keys and secrets are random, 256 bits, and kept only as their SHA-256: whoever reads the bus can use none of them.
They live in bus tables, so every hub on one bus knows them; a revocation takes effect at once here, and on the other
hubs as soon as they hear of it.
"""

import asyncio
import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...background_tasks import background, cancel_and_wait
from ...bus.base import Bus, Table
from ...bus.table_cache import TableCache
from ...errors import BusClosed, BusError, Conflict
from ...ids import new_id
from ...protocol.views import DeviceKind, DeviceView
from ..http.problems import NotFound, RequestRefused

PAIRING_S = 600
"""How long a secret lets a device in: long enough to walk to the other machine."""
MAX_DEVICES = 1000
UNUSED_S = 90 * 86400.0
"""A device that is not used for so long has to be paired anew."""
SEEN_EVERY_S = 60.0
"""How often it is written down when devices were last seen."""
PROPAGATION_S = 1.0
"""For the bus to tell of a new device, which may come to another hub with its next request."""
OWNER = "owner"
"""The id of whoever comes by this machine's socket and is no agent: no device, and always known."""


class Device(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    name: str
    hash: str
    kind: DeviceKind = "client"
    created_at: float = 0.0
    seen_at: float = 0.0
    node: str = ""
    by: str = ""  # whose secret let it in


class PairingRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: DeviceKind
    expires_at: float
    name: str = ""
    by: str = ""


_device = msgspec.json.Decoder(Device).decode
_pairing = msgspec.json.Decoder(PairingRecord).decode
_encode = msgspec.json.encode


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


class Devices:
    """`async with Devices(bus) as devices`."""

    def __init__(self, bus: Bus) -> None:
        self._table: Table = bus.table("devices")
        self._pairings: Table = bus.table("pairings")
        self._devices: dict[str, Device] = {}
        self._by_hash: dict[str, str] = {}
        self._seen: dict[str, float] = {}
        self._revoked: set[str] = set()  # by us, until the bus tells it: what it tells before is older
        self._unconfirmed: dict[str, asyncio.Event] = {}
        self._callbacks: list[Callable[[str], None]] = []
        self._open: Counter[str] = Counter()  # connections that are open
        self.on_expired: Callable[[DeviceView], None] = lambda device: None  # called with each that expires
        self._cache = TableCache(self._table, self._apply)
        self._upkeep: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Devices":
        await self._cache.__aenter__()
        self._upkeep = background(self._update_seen(), "devices-seen")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._upkeep is not None:
            await cancel_and_wait(self._upkeep)
        await self._cache.__aexit__()
        with suppress(BusError):
            await self._write_seen()

    # --- keys ------------------------------------------------------------------------------------------

    def device_of(self, key: str) -> Device | None:
        """Whose key it is. The look-up is by hash, so its time tells nothing about the key."""
        id = self._by_hash.get(hash_secret(key))
        if id is None:
            return None
        if self._unused(self._devices[id]):
            return None
        self._seen[id] = time.time()
        return self._devices[id]

    def list(self) -> list[DeviceView]:
        """Oldest first."""
        return [self.view(device) for device in sorted(self._devices.values(), key=lambda device: device.created_at)]

    def knows(self, id: str) -> bool:
        """Whether it may (still) talk to the hub."""
        return id == OWNER or id in self._devices

    def view(self, device: Device) -> DeviceView:
        return DeviceView(
            id=device.id,
            name=device.name,
            kind=device.kind,
            created_at=device.created_at,
            seen_at=max(device.seen_at, self._seen.get(device.id, 0.0)),
            node=device.node,
            by=device.by,
        )

    def paired_by(self, id: str) -> tuple[str, ...]:
        """The devices that a device paired, directly or indirectly."""
        ids = [id]
        for pairer in ids:
            ids += [device.id for device in self._devices.values() if device.by == pairer and device.id not in ids]
        return tuple(ids[1:])

    def connected(self, id: str) -> Callable[[], None]:
        """Counts the device as connected until the returned function is called."""
        if id not in self._devices:  # the owner, or an agent's session
            return lambda: None
        self._open[id] += 1

        def closed() -> None:
            self._seen[id] = time.time()
            self._open[id] -= 1
            if not self._open[id]:
                del self._open[id]

        return closed

    async def add(self, kind: DeviceKind, name: str, *, node: str = "", by: str = "") -> tuple[Device, str]:
        """A new device and its key, which is not kept. When it is given out, the bus has told all hubs about it."""
        if len(self._devices) >= MAX_DEVICES:
            raise RequestRefused(
                "Conflict", f"the limit of {MAX_DEVICES} devices is reached", hint="Revoke unused devices first."
            )
        key = "tl_" + secrets.token_urlsafe(32)
        now = time.time()
        device = Device(
            id=new_id(),
            name=name or kind,
            hash=hash_secret(key),
            kind=kind,
            created_at=now,
            seen_at=now,
            node=node,
            by=by,
        )
        heard = self._unconfirmed[device.id] = asyncio.Event()
        try:
            await self._table.put(device.id, _encode(device), expect=0)
            self._store(device)
            with suppress(TimeoutError):
                async with asyncio.timeout(PROPAGATION_S):
                    await heard.wait()
        finally:
            del self._unconfirmed[device.id]
        return device, key

    async def revoke(self, id: str) -> None:
        """Invalidates its key and closes its connections before this returns."""
        if id not in self._devices:
            raise NotFound("device", id)
        self._revoked.add(id)
        try:
            await self._table.delete(id)
        except BusError:
            self._revoked.discard(id)
            raise
        self._remove(id)

    def on_revoke(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Called with the device's id, at once. Gives the function that ends it."""
        self._callbacks.append(callback)

        def unsubscribe() -> None:
            with suppress(ValueError):
                self._callbacks.remove(callback)

        return unsubscribe

    # --- pairing ---------------------------------------------------------------------------------------

    async def offer(self, kind: DeviceKind, *, name: str = "", by: str = "") -> tuple[str, float]:
        """A secret that lets one device in, and when it ends."""
        secret = secrets.token_urlsafe(32)
        expires_at = time.time() + PAIRING_S
        record = PairingRecord(kind=kind, expires_at=expires_at, name=name, by=by)
        await self._pairings.put(hash_secret(secret), _encode(record), expect=0, ttl=PAIRING_S)
        return secret, expires_at

    async def claim(
        self, secret: str, kinds: tuple[DeviceKind, ...], *, name: str = "", node: str = ""
    ) -> tuple[Device, str]:
        """Exchanges a secret for a device; a secret works once."""
        refused = RequestRefused(
            "Unauthenticated",
            "the secret is wrong, used or expired",
            field="secret",
            hint="Create a new one: `tieline pair`.",
        )
        entry = await self._pairings.get(hash_secret(secret))
        if entry is None:
            raise refused
        pairing = _pairing(entry.value)
        if pairing.expires_at < time.time() or not self.knows(
            pairing.by or OWNER
        ):  # the device that made the pairing was revoked
            raise refused
        if pairing.kind not in kinds:
            raise RequestRefused("Forbidden", f"this secret is for a {pairing.kind}", field="secret")
        if pairing.kind == "node" and not node:
            raise RequestRefused("UsageError", "a node must send its id", field="node")
        if pairing.kind == "node" and (own := [device for device in self._devices.values() if device.node == node]):
            # Otherwise any holder of a secret could impersonate a known node.
            hint = f"Revoke its device {own[0].name!r} ({own[0].id}) on the hub's page first, then join again."
            raise RequestRefused("Conflict", "this node is already paired", field="node", hint=hint)
        try:
            await self._pairings.delete(entry.key, expect=entry.revision)
        except Conflict:
            raise refused from None
        # A name that the owner gave counts more than what a browser calls itself.
        own = node if pairing.kind == "node" else ""
        return await self.add(pairing.kind, pairing.name or name, node=own, by=pairing.by)

    # --- inside ----------------------------------------------------------------------------------------

    def _store(self, device: Device) -> None:
        if old := self._devices.get(device.id):
            self._by_hash.pop(old.hash, None)
        self._devices[device.id] = device
        self._by_hash[device.hash] = device.id

    def _remove(self, id: str) -> None:
        device = self._devices.pop(id, None)
        if device is None:
            return
        self._by_hash.pop(device.hash, None)
        self._seen.pop(id, None)
        for callback in tuple(self._callbacks):
            callback(id)

    def _apply(self, key: str, value: bytes | None, is_news: bool) -> None:
        """A change of the table, also by other hubs. It may lag behind local changes."""
        if value is None:
            self._revoked.discard(key)
            self._remove(key)
        elif key not in self._revoked:
            self._store(_device(value))
            if heard := self._unconfirmed.get(key):
                heard.set()

    async def _update_seen(self) -> None:
        while True:
            await asyncio.sleep(SEEN_EVERY_S)
            try:
                await self._write_seen()
                await self.expire()
            except BusClosed:
                return
            except BusError:
                continue

    def _unused(self, device: Device) -> bool:
        last = max(device.created_at, device.seen_at, self._seen.get(device.id, 0.0))
        return device.id not in self._open and last < time.time() - UNUSED_S

    async def expire(self) -> None:
        """Revokes devices that were not used for UNUSED_S."""
        for device in [candidate for candidate in self._devices.values() if self._unused(candidate)]:
            await self.revoke(device.id)
            self.on_expired(self.view(device))

    async def _write_seen(self) -> None:
        for id in self._open:
            self._seen[id] = time.time()
        for id, at in list(self._seen.items()):
            entry = await self._table.get(id)
            if entry is None:
                continue
            device = _device(entry.value)
            if at - device.seen_at >= SEEN_EVERY_S:
                with suppress(Conflict):  # revoked meanwhile: it must not come back
                    await self._table.put(id, _encode(replace(device, seen_at=at)), expect=entry.revision)
