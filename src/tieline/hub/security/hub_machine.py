"""Whether a request comes from the hub's own machine: some actions, such as opening the hub to others, are only done
there.

A key does not say where its device is. The owner's socket does. By TCP it is the caller's address, as far as that can
be trusted: a proxy or tunnel on this machine is at loopback as well, and speaks for callers elsewhere.
"""

from ..http.problems import RequestRefused
from ..http.request import Request
from .auth import OWNER
from .origins import is_loopback

_FORWARDED = (
    "x-forwarded-", "forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-", "tailscale-", "ngrok-"
)  # fmt: skip
"""How the names of headers begin by which proxies and tunnels say for whom they speak."""


def require_hub_machine(request: Request, act: str) -> None:
    """Raises RequestRefused, unless the caller is on the hub's machine."""
    if request.context.known_device.id == OWNER:
        return
    headers = request.headers
    here = (
        is_loopback(request.context.address)
        and is_loopback(headers.get("host", ""))  # the page's own address: a tunnel has another
        and not any(name.startswith(_FORWARDED) for name in headers)
        and not request.hub.origins.proxied  # the proxy that a person set up may say nothing
    )
    if not here:
        raise RequestRefused(
            "Forbidden",
            f"only the hub's own machine may {act}",
            hint="Open the page there by its address at localhost, or use `tieline phone` in a shell there.",
        )
