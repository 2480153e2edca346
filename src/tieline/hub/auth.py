"""Who is it? The owner by the token of this machine, everybody else by the key of their device.

The token is made at the first start and lies in a file that only its owner can read. A page carries its key in a
cookie that scripts cannot read; what it changes must say the CSRF value beside it, which another site cannot know.
"""

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

from .. import places
from ..errors import UsageError
from ..protocol.views import DeviceView
from .devices import OWNER, Devices, hashed
from .problems import Refused

COOKIE_AGE_S = 180 * 86400
MAX_KEY = 256


class Auth:
    def __init__(self, devices: Devices, token: str) -> None:
        self._devices = devices
        self._token = hashed(token)
        self._since = time.time()

    def device_of(self, token: str) -> DeviceView | None:
        """The device whose key or token it is."""
        if not token or len(token) > MAX_KEY:
            return None
        if hmac.compare_digest(hashed(token), self._token):
            return self.owner()
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


def owner_token(env: Mapping[str, str]) -> str:
    """This machine's token; made when there is none yet."""
    path = places.token_file(env)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = "tl_" + secrets.token_urlsafe(32)
    part = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    if not path.exists():
        # Whole under its name or not at all: a reader never sees half a token, and of two starters one wins.
        _write(part, made)
        try:
            os.link(part, path)
        except FileExistsError:
            pass
        finally:
            part.unlink()
    return _read(path)


def _write(path: Path, token: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor) as file:
        status = os.fstat(descriptor)
        if status.st_uid != os.getuid():
            raise UsageError(f"{path} belongs to somebody else", field="token", hint="Remove it; another one is made.")
        if status.st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
        token = file.read().strip()
    if len(token) < 20:
        raise UsageError(f"{path} holds no token", field="token", hint="Remove it; another one is made.")
    return token
