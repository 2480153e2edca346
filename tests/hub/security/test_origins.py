"""Names of hosts."""

import pytest

from tieline.config import HubConfig
from tieline.hub.http.problems import RequestRefused
from tieline.hub.security.origins import Origins, host_name, is_loopback


def test_names_without_port() -> None:
    assert [host_name(host) for host in ("A.b:80", "[::1]:1", "::1", "a.", "a:b", "")] == [
        "a.b",
        "::1",
        "::1",
        "a",
        "a:b",
        "",
    ]
    assert [is_loopback(host) for host in ("127.9.9.9", "::1", "localhost", "0.0.0.0", "", "10.0.0.1", "x")] == [
        True, True, True, False, False, False, False,
    ]  # fmt: skip


def test_a_host_is_one_of_our_names_or_the_address_that_was_dialled() -> None:
    origins = Origins(HubConfig(hosts=("hub.test",)))
    dialled = {"server": ("192.0.2.7", 7433)}
    for ours in ("localhost:7433", "127.0.0.1", "HUB.test:7433", "192.0.2.7:7433"):
        origins.check_host(ours, dialled)
    for other in ("evil.test", "192.0.2.8:7433", ""):
        with pytest.raises(RequestRefused, match="unknown host"):
            origins.check_host(other, dialled)
    for unknown in ({}, {"server": None}):
        with pytest.raises(RequestRefused):
            origins.check_host("192.0.2.7", unknown)


def test_tls_only_is_asked_for_where_the_browser_came_by_tls() -> None:
    origins = Origins(HubConfig(hosts=("hub.test",)))
    assert origins.use_hsts("hub.test:7433", {"scheme": "https"})
    assert not origins.use_hsts("hub.test:7433", {"scheme": "http"})
    assert not origins.use_hsts("localhost:7433", {"scheme": "https"}), "whatever else runs here goes by that name too"
