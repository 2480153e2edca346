"""Access on the wire: the caller, secrets to pair with, devices and their keys."""

from msgspec import Struct

from .views import DeviceKind, DeviceView


class Me(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who the hub takes the caller for."""

    device: DeviceView
    key: str = ""  # of a page that has just signed in: shown now and never again
    version: str = ""
    protocol: int = 1
    node: str = ""  # the hub's own node, if it has one
    url: str = ""  # where people reach the hub, as far as it knows


class Offer(Struct, frozen=True, kw_only=True):
    """A secret that lets one device in, once, soon. It is shown now and never again."""

    kind: DeviceKind
    secret: str
    url: str  # with the secret in its fragment, which no server and no log gets to see
    expires_at: float
    qr: str = ""  # a page's url as a picture, in a data: address; none where no camera could follow it
    here_only: bool = False  # nobody but the hub's own machine reaches the url


class Paired(Struct, frozen=True, kw_only=True):
    """A device's key: shown now and never again."""

    device: DeviceView
    key: str
    hub: str  # its address
