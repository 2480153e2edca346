"""Authentication: the owner by this machine's socket (`local_peer.py`), others by their device's key.

No file on disk holds a key. A page stores its key and sends it as every client does. It is no cookie:
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
        """The device of an agent's processes on this machine."""
        return DeviceView(
            id=f"session-{session}",
            name=f"session {session}",
            kind="client",
            created_at=self._since,
            seen_at=time.time(),
            current=False,
        )


def actor_name(device: DeviceView) -> str:
    """Name and id of a device, for people: the name is the device's choice, the id is not."""
    return OWNER if device.id == OWNER else f"{device.name} ({device.id[-6:]})"
