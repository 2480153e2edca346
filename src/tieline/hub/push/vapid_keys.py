"""The key pair by which push services know this hub. Made at the first start and kept on the bus: all hubs share it,
since a browser subscribes for one key.

The libraries come with the extra `push` and are loaded when they are first needed.
"""

import asyncio
import base64
import time
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ...bus.base import Bus
from ...errors import Conflict
from ..http.problems import RequestRefused

TABLE = "hub"
KEY = "vapid"
SIGNED_FOR_S = 12 * 3600


async def signer() -> Any:
    """`py_vapid.Vapid02`. Raises Refused with what to install, also when only what encrypts is missing."""
    return await asyncio.to_thread(_load, "py_vapid", "Vapid02", "pywebpush")


async def encrypter() -> Any:
    """`pywebpush.WebPusher`, which brings two HTTP clients with it: it is loaded when there is something to push."""
    return await asyncio.to_thread(_load, "pywebpush", "WebPusher")


def _load(module: str, name: str, *others: str) -> Any:
    try:
        for other in others:
            if find_spec(other) is None:
                raise ModuleNotFoundError(f"No module named {other!r}")
        return getattr(import_module(module), name)
    except ImportError as error:
        raise RequestRefused(
            "Unsupported", f"Web Push needs a library that is not installed: {error}", hint="Install tieline[push]."
        ) from None


class Vapid:
    """The pair. `public` is what a browser subscribes with (`applicationServerKey`)."""

    def __init__(self, key: Any) -> None:
        self._key = key
        number = key.public_key.public_numbers()
        self.public = encode(b"\x04" + number.x.to_bytes(32, "big") + number.y.to_bytes(32, "big"))

    def headers(self, origin: str, contact: str) -> dict[str, str]:
        claims = {"aud": origin, "sub": contact, "exp": int(time.time()) + SIGNED_FOR_S}
        return self._key.sign(claims)


async def load_or_create(bus: Bus) -> Vapid:
    """The pair of this bus's hubs; the first one makes it. Raises Refused without the libraries."""
    vapid = await signer()
    table = bus.table(TABLE)
    entry = await table.get(KEY)
    if entry is None:
        made = vapid()
        made.generate_keys()
        raw = encode(made.private_key.private_numbers().private_value.to_bytes(32, "big"))
        try:
            await table.put(KEY, raw.encode(), expect=0)
            return Vapid(made)
        except Conflict:  # another hub was faster
            entry = await table.get(KEY)
            assert entry is not None
    return Vapid(vapid.from_raw(entry.value))


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """Raises ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
