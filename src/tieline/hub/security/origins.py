"""Checks Host and Origin: the hub's own names, and the pages that may use it.

A page of another site can make a browser send requests here, and can even make its own name point here. The first
says so in `Origin`, the second in `Host`; both are refused unless they are on the list.
"""

import ipaddress
import re
import socket
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from ...config import HubConfig
from ..http.problems import RequestRefused

_PORT = re.compile(r":([0-9]{1,5})$")

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Origins:
    def __init__(self, config: HubConfig) -> None:
        public = urlsplit(config.public_url)
        self.public = f"{public.scheme}://{public.netloc}".lower() if public.netloc else ""
        self.proxied = bool(public.netloc or config.hosts)
        """Whether a proxy may be in front of the hub: then loopback's address says nothing about where a caller is."""
        names = {*LOOPBACK, *map(host_name, config.hosts)}
        if public.netloc:
            names.add(host_name(public.netloc))
        if not is_loopback(config.host):
            own = socket.gethostname().lower()
            names |= {own, own.partition(".")[0] + ".local"}
            if not _unspecified(config.host):
                names.add(host_name(config.host))
        self._names = frozenset(names - {""})
        self._allowed = frozenset(origin.lower().rstrip("/") for origin in config.origins)
        self._phone: frozenset[str] = frozenset()
        self._phone_hosts: frozenset[str] = frozenset()
        self._phone_hsts = False

    def set_phone(self, urls: Iterable[str], *, hsts: bool = False) -> None:
        """The addresses of the way that phones come by now: with their ports, and no others. With `hsts`, browsers are
        told to come by TLS only: not to a name that this machine has for other things too."""
        self._phone = frozenset(url.lower().rstrip("/") for url in urls)
        self._phone_hosts = frozenset(urlsplit(url).netloc for url in self._phone)
        self._phone_hsts = hsts

    def check_host(self, host: str, scope: MutableMapping[str, Any]) -> None:
        name = host_name(host)
        if name in self._names or host.lower() in self._phone_hosts:
            return
        # An address is no name that could be made to point elsewhere: the one that was dialled is ours.
        server = scope.get("server")
        if name and server and name == server[0]:
            return
        raise RequestRefused(
            "Forbidden",
            f"unknown host {name[:80]!r}",
            field="Host",
            hint="To allow it, add it to hub.hosts in tieline.toml.",
        )

    def check_origin(self, method: str, headers: Mapping[str, str], scope: MutableMapping[str, Any]) -> str:
        """The origin, if it differs from our own but may call the hub; "" for our own or none."""
        origin = headers.get("origin")
        if origin is None:
            # Without an Origin it is a link (fine) or an embedding (not fine). Another port of this machine is the
            # same site to a browser: it is as foreign as any other.
            if headers.get("site") in ("cross-site", "same-site") and not (
                headers.get("mode") == "navigate" and method == "GET"
            ):
                raise RequestRefused("Forbidden", "cross-site request is not allowed", field="Sec-Fetch-Site")
            return ""
        normalized = origin.lower()
        host = headers.get("host", "").lower()
        scheme = "https" if self.is_tls(host, scope) else "http"
        if normalized == f"{scheme}://{host}" or (self.public and normalized == self.public):
            return ""
        if normalized in self._phone:
            return ""
        if normalized in self._allowed:
            return normalized
        raise self._refused(origin)

    def is_tls(self, host: str, scope: MutableMapping[str, Any]) -> bool:
        """Whether the browser reached us by TLS: ours, or that of the proxy in front."""
        url = f"https://{host.lower()}"
        return scope["scheme"] in ("https", "wss") or self.public == url or url in self._phone

    def use_hsts(self, host: str, scope: MutableMapping[str, Any]) -> bool:
        """Whether browsers shall come by TLS only from now on. Not for loopback's names: whatever else runs on this
        machine goes by them too."""
        if f"https://{host.lower()}" in self._phone and not self._phone_hsts:
            return False
        return self.is_tls(host, scope) and not is_loopback(host_name(host))

    @staticmethod
    def _refused(origin: str) -> RequestRefused:
        return RequestRefused(
            "Forbidden",
            f"origin {origin[:80]!r} is not allowed",
            field="Origin",
            hint="To allow it, add it to hub.origins in tieline.toml (hub.public_url for your own proxy).",
        )


def host_name(host: str) -> str:
    """Without port, brackets and the last dot."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() and ":" not in name else host).rstrip(".")


def is_loopback(host: str) -> bool:
    if host_name(host) == "localhost":
        return True
    try:
        return ipaddress.ip_address(host_name(host)).is_loopback
    except ValueError:
        return False


def _unspecified(host: str) -> bool:
    try:
        return not host or ipaddress.ip_address(host_name(host)).is_unspecified
    except ValueError:
        return False
