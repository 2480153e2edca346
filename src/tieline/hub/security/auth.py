"""Who is it? The owner by the socket of this machine (`peers.py`), everybody else by the key of their device.

Nothing on the disk opens the hub. A page keeps its key itself and says it as every client does. It is no cookie:
browsers send those to every port of a host, and an agent's own server may be behind one.
"""

import time

from ...protocol.views import DeviceView
from .devices import OWNER, Devices

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


def actor_name(device: DeviceView) -> str:
    """Who did something, readable and not to be mistaken: a device chooses its name, but not the id beside it."""
    return OWNER if device.id == OWNER else f"{device.name} ({device.id[-6:]})"
