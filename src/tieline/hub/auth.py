"""Who is it? The owner by the socket of this machine (`peers.py`), everybody else by the key of their device.

Nothing on the disk opens the hub. A page carries its key in a cookie that scripts cannot read; what it changes must
say the CSRF value beside it, which another site cannot know.
"""

import hashlib
import hmac
import time

from ..protocol.views import DeviceView
from .devices import OWNER, Devices
from .problems import Refused

COOKIE_AGE_S = 180 * 86400
MAX_KEY = 256


class Auth:
    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._since = time.time()

    def device_of(self, token: str) -> DeviceView | None:
        """The device whose key it is."""
        if not token or len(token) > MAX_KEY:
            return None
        device = self._devices.device_of(token)
        return None if device is None else self._devices.view(device)

    def check_csrf(self, key: str, said: str) -> None:
        """What changes something by a cookie was sent by our own page, which alone can read this value."""
        if not hmac.compare_digest(csrf_of(key).encode(), said.encode()):
            raise Refused(
                "Forbidden",
                "a change by cookie says the CSRF value",
                field="X-Tieline-CSRF",
                hint="GET /api/v1/me tells it.",
            )

    def owner(self) -> DeviceView:
        return DeviceView(
            id=OWNER, name="this machine", kind="client", created_at=self._since, seen_at=time.time(), current=False
        )

    def agent(self, session: str) -> DeviceView:
        """Whatever an agent of this machine started."""
        return DeviceView(
            id=f"session-{session}",
            name=f"session {session}",
            kind="client",
            created_at=self._since,
            seen_at=time.time(),
            current=False,
        )


def signature(device: DeviceView) -> str:
    """Who did something, readable and not to be mistaken: a device chooses its name, but not the id beside it."""
    return OWNER if device.id == OWNER else f"{device.name} ({device.id[-6:]})"


def csrf_of(key: str) -> str:
    """Bound to the cookie's key: nothing to keep, nothing to guess."""
    return hmac.new(key.encode(), b"tieline csrf", hashlib.sha256).hexdigest()


def cookie_name(port: int) -> str:
    """Cookies do not tell ports apart: two hubs on one machine must not take each other's."""
    return f"tieline-{port}"


def cookie(name: str, value: str, *, secure: bool, age_s: int = COOKIE_AGE_S) -> str:
    parts = [f"{name}={value}", "Path=/", f"Max-Age={age_s}", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, "Secure"] if secure else parts)
