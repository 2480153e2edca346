"""Who is at the hub's own machine, as far as a request can tell."""

from types import SimpleNamespace
from typing import Any

import pytest

from tieline.hub.http.problems import RequestRefused
from tieline.hub.security.auth import OWNER
from tieline.hub.security.hub_machine import require_hub_machine

HERE = {"host": "localhost:7433"}


def is_here(
    headers: dict[str, str], *, device: str = "a phone", address: str = "127.0.0.1", proxied: bool = False
) -> bool:
    context = SimpleNamespace(known_device=SimpleNamespace(id=device), address=address)
    hub = SimpleNamespace(origins=SimpleNamespace(proxied=proxied))
    request: Any = SimpleNamespace(context=context, headers=headers, hub=hub)
    try:
        require_hub_machine(request, "do it")
    except RequestRefused as refused:
        assert (refused.code, refused.message) == ("Forbidden", "only the hub's own machine may do it")
        assert "localhost" in refused.hint
        return False
    return True


def test_a_key_is_here_by_loopback_alone() -> None:
    for host in ("localhost:7433", "127.0.0.1", "[::1]:7433"):
        assert is_here({"host": host}) and is_here({"host": host}, address="::1")
        assert not is_here({"host": host}, address="192.0.2.7")
        assert not is_here({"host": host}, address="unknown")
    for host in ("board.example", "192.0.2.7", ""):
        assert not is_here({"host": host})
    assert not is_here({})


@pytest.mark.parametrize(
    "header",
    ["x-forwarded-for", "forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-ray", "tailscale-user",
     "ngrok-trace"],
)  # fmt: skip
def test_what_a_proxy_sends_is_from_elsewhere(header: str) -> None:
    assert not is_here({**HERE, header: ""})
    assert is_here({**HERE, f"a-{header}": ""})


def test_behind_a_proxy_that_is_configured_nobody_is_here_by_tcp() -> None:
    assert not is_here(HERE, proxied=True)


def test_the_owner_is_here_however_the_request_looks() -> None:
    assert is_here({"host": "board.example", "via": "x"}, device=OWNER, address="unknown", proxied=True)
