"""Names of hosts."""

from tieline.hub.origins import host_name, is_loopback


def test_names_without_port() -> None:
    assert [host_name(one) for one in ("A.b:80", "[::1]:1", "::1", "a.", "a:b", "")] == [
        "a.b",
        "::1",
        "::1",
        "a",
        "a:b",
        "",
    ]
    assert [is_loopback(one) for one in ("127.9.9.9", "::1", "localhost", "0.0.0.0", "", "10.0.0.1", "x")] == [
        True, True, True, False, False, False, False,
    ]  # fmt: skip
