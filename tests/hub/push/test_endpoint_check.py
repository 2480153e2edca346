"""Where a push may go: never into the network that the hub stands in."""

import asyncio
import socket
from typing import Any

import pytest

from tieline.hub.http.problems import RequestRefused
from tieline.hub.push import endpoint_check

PRIVATE = [
    "https://127.0.0.1/x",
    "https://localhost/x",
    "https://a.localhost/x",
    "https://10.0.0.1/x",
    "https://172.16.0.9/x",
    "https://192.168.1.1/x",
    "https://169.254.169.254/latest/meta-data",
    "https://100.64.0.1/x",
    "https://0.0.0.0/x",
    "https://224.0.0.1/x",
    "https://[::1]/x",
    "https://[fe80::1]/x",
    "https://[fc00::1]/x",
    "https://[::ffff:10.0.0.1]/x",
    "https://[2002:0a00:0001::1]/x",
]
BAD = [
    "",
    "push.example.com",
    "ftp://push.example.com/x",
    "http://push.example.com/x",
    "http://8.8.8.8/x",
    "https://user:secret@push.example.com/x",
    "https://push.example.com:99999/x",
    "https:///x",
    "https://push.example.com/a b",
    "https://push.example.com/\n",
    "https://[::1/x",
    "https://push.example.com/" + "x" * 3000,
]


@pytest.mark.parametrize("text", [*PRIVATE, *BAD])
def test_refused(text: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        endpoint_check.parse(text)
    assert caught.value.field == "endpoint"


def test_the_public_internet_is_fine() -> None:
    endpoint = endpoint_check.parse("https://push.example.com/send/abc?x=1")
    assert (endpoint.host, endpoint.port, endpoint.path, endpoint.origin) == (
        "push.example.com",
        443,
        "/send/abc?x=1",
        "https://push.example.com",
    )
    assert endpoint.at("2a00::1") == "https://[2a00::1]:443/send/abc?x=1"
    assert endpoint_check.parse("https://8.8.8.8:8443/x").origin == "https://8.8.8.8:8443"


def test_loopback_is_a_setting_of_tests() -> None:
    assert endpoint_check.parse("http://127.0.0.1:1234/x", loopback=True).port == 1234
    with pytest.raises(RequestRefused):
        endpoint_check.parse("http://10.0.0.1/x", loopback=True)
    with pytest.raises(RequestRefused):
        endpoint_check.parse("http://push.example.com/x", loopback=True)


async def test_a_name_that_points_inside_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when only one of its addresses does: which one is taken is not for the name to say."""
    addresses = ["93.184.216.34"]

    async def resolved(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in addresses]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolved)
    endpoint = endpoint_check.parse("https://push.example.com/x")
    assert await endpoint_check.resolve(endpoint) == "93.184.216.34"
    addresses.append("10.0.0.1")
    with pytest.raises(RequestRefused, match="public internet"):
        await endpoint_check.resolve(endpoint)
