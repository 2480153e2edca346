"""Names of hosts, and the origins of pages."""

import socket
from contextlib import suppress
from typing import Any

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


# --- where a page comes from -----------------------------------------------------------------------------------------

HTTP, HTTPS = {"scheme": "http"}, {"scheme": "https"}


def hub_at(**more: Any) -> Origins:
    return Origins(HubConfig(origins=("https://Tools.example/",), public_url="https://Hub.example", **more))


@pytest.mark.parametrize(
    "origin, host, scope, answer",
    [
        ("http://localhost:7433", "localhost:7433", HTTP, ""),
        ("HTTP://LOCALHOST:7433", "Localhost:7433", HTTP, ""),
        ("https://localhost:7433", "localhost:7433", HTTPS, ""),
        ("https://hub.example", "localhost:7433", HTTP, ""),  # the proxy in front names another host
        ("https://tools.example", "localhost:7433", HTTP, "https://tools.example"),
    ],
)
def test_our_own_pages_and_those_that_are_configured_may_call(
    origin: str, host: str, scope: dict[str, str], answer: str
) -> None:
    assert hub_at().check_origin("POST", {"origin": origin, "host": host}, scope) == answer


@pytest.mark.parametrize(
    "origin, host, scope",
    [
        ("https://evil.example", "localhost:7433", HTTP),
        ("null", "localhost:7433", HTTP),
        ("", "localhost:7433", HTTP),
        ("http://localhost:1", "localhost:7433", HTTP),
        ("https://localhost:7433", "localhost:7433", HTTP),  # who came by no TLS has no page of ours by TLS
        ("http://localhost:7433", "localhost:7433", HTTPS),
        ("http://hub.example", "hub.example", HTTP),
        ("http://tools.example", "localhost:7433", HTTP),
    ],
)
def test_any_other_page_may_not(origin: str, host: str, scope: dict[str, str]) -> None:
    for method in ("GET", "POST", "WEBSOCKET"):
        with pytest.raises(RequestRefused, match="is not allowed") as refused:
            hub_at().check_origin(method, {"origin": origin, "host": host}, scope)
        assert (refused.value.code, refused.value.field) == ("Forbidden", "Origin")
        assert "hub.origins" in refused.value.hint


def test_without_a_public_name_no_origin_is_ours_by_being_empty() -> None:
    with pytest.raises(RequestRefused):
        Origins(HubConfig()).check_origin("POST", {"origin": "", "host": "localhost"}, HTTP)


def test_without_an_origin_it_is_a_link_or_no_browser() -> None:
    for headers in ({}, {"site": "none"}, {"site": "same-origin", "mode": "cors"}, {"mode": "no-cors"}):
        for method in ("GET", "POST"):
            assert hub_at().check_origin(method, headers, HTTP) == ""
    for site in ("cross-site", "same-site"):
        assert hub_at().check_origin("GET", {"site": site, "mode": "navigate"}, HTTP) == ""
        for method, mode in (("POST", "navigate"), ("GET", "no-cors"), ("GET", "websocket"), ("GET", "")):
            with pytest.raises(RequestRefused) as refused:
                hub_at().check_origin(method, {"site": site, "mode": mode}, HTTP)
            assert refused.value.field == "Sec-Fetch-Site"


def test_the_way_that_phones_come_by_is_ours_while_it_is_open() -> None:
    origins, phone = Origins(HubConfig()), {"origin": "https://box.local:8443", "host": "box.local:8443"}
    scope = {"scheme": "http", "server": ("192.0.2.7", 7433)}

    def is_open() -> bool:
        try:
            origins.check_host("box.local:8443", scope)
            return origins.check_origin("POST", phone, scope) == ""
        except RequestRefused:
            return False

    assert not is_open()
    origins.set_phone(["https://Box.local:8443/"])
    assert is_open()
    assert origins.check_origin("POST", {**phone, "host": "localhost"}, scope) == "", "a tunnel names another host"
    with pytest.raises(RequestRefused):
        origins.check_host("box.local", scope)  # that port alone
    assert origins.is_tls("BOX.local:8443", scope) and not origins.is_tls("box.local", scope)
    assert not origins.use_hsts("box.local:8443", scope), "a name that this machine has for other things too"
    origins.set_phone(["https://box.local:8443"], hsts=True)
    assert origins.use_hsts("BOX.local:8443", scope)
    origins.set_phone([])
    assert not is_open()


def test_by_tls_is_ours_or_that_of_the_proxy_in_front() -> None:
    for scheme, answer in (("https", True), ("wss", True), ("http", False), ("ws", False)):
        assert hub_at().is_tls("localhost", {"scheme": scheme}) == answer
        assert hub_at().is_tls("HUB.example", {"scheme": scheme})
        assert hub_at().is_tls("hub.example:80", {"scheme": scheme}) == answer


def test_a_proxy_may_be_in_front_where_another_name_is_configured() -> None:
    assert not Origins(HubConfig()).proxied
    assert Origins(HubConfig(hosts=("hub.test",))).proxied
    assert Origins(HubConfig(public_url="https://hub.test")).proxied


def test_a_hub_that_others_reach_has_this_machines_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Box.lan")

    def names(host: str) -> list[str]:
        origins = Origins(HubConfig(host=host, public_url="https://hub.test:8443"))
        accepted: list[str] = []
        for name in ("localhost", "hub.test", "box.lan", "box.local", "192.0.2.7", "0.0.0.0", "::", ""):
            with suppress(RequestRefused):
                origins.check_host(name, {})
                accepted.append(name)
        return accepted

    assert names("127.0.0.1") == ["localhost", "hub.test"]
    for everywhere in ("0.0.0.0", "::"):
        assert names(everywhere) == ["localhost", "hub.test", "box.lan", "box.local"]
    assert names("192.0.2.7") == ["localhost", "hub.test", "box.lan", "box.local", "192.0.2.7"]
    assert names("localhost") == ["localhost", "hub.test"]


def test_the_refused_host_is_named_and_how_to_allow_it() -> None:
    with pytest.raises(RequestRefused) as refused:
        hub_at().check_host("e" * 100, {})
    assert (refused.value.code, refused.value.field) == ("Forbidden", "Host")
    assert refused.value.message == f"unknown host {'e' * 80!r}"
    assert "hub.hosts" in refused.value.hint
