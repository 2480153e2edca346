"""Tunnels of other programs: stand-ins that check how they are called and print what the real ones print."""

import asyncio
import json
import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2 as httpx
import msgspec
import pytest
from tests.hub.conftest import Running
from tests.hub.phone.conftest import needs_network, with_phone

from tieline.hub.phone import phone_access, tunnels
from tieline.hub.phone.local_authority import LocalAuthority
from tieline.hub.phone.phone_access import PhoneAccess
from tieline.hub.phone.reach_check import check_reach
from tieline.processes import async_process
from tieline.protocol.phone import PhoneCheck, PhoneStatus
from tieline.testing.wait_for import eventually

TAILNET = "https://box.tail1234.ts.net"
QUICK = "https://plain-words-make-names.trycloudflare.com"
NGROK = "https://4f2a-203-0-113-9.ngrok-free.app"

STATUS = {
    "BackendState": "Running",
    "Self": {"DNSName": "box.tail1234.ts.net."},
    "CertDomains": ["box.tail1234.ts.net"],
}
STAND_IN = """\
#!{python}
import json, os, sys, time
from pathlib import Path
log = Path({log!r})
with log.open("a") as file:
    file.write(json.dumps({{"argv": sys.argv[1:], "pid": os.getpid(), "env": sorted(os.environ)}}) + "\\n")
{body}
"""
STAY = """
sys.stdout.flush()
while True:
    time.sleep(60)
"""
PRINTS = {
    "tailscale": f"""
        if sys.argv[1:] == ["status", "--json"]:
            print({json.dumps(STATUS)!r})
            sys.exit()
        print("Available within your tailnet:\\n\\n{TAILNET}/\\n|-- proxy " + sys.argv[-1])
        print("\\nPress Ctrl+C to exit.")
    """,
    "cloudflared": f"""
        print("2026-01-01T00:00:00Z INF Requesting new quick Tunnel on trycloudflare.com...", file=sys.stderr)
        print("2026-01-01T00:00:01Z INF +--------+", file=sys.stderr)
        print("2026-01-01T00:00:01Z INF |  {QUICK}  |", file=sys.stderr)
    """,
    "ngrok": f"""
        print(json.dumps({{"lvl": "info", "msg": "open config file", "err": "<nil>"}}))
        print(json.dumps({{"lvl": "info", "msg": "started tunnel", "name": "command_line", "url": "{NGROK}"}}))
    """,
}
PROGRAM = {"tailscale": "tailscale", "cloudflare": "cloudflared", "ngrok": "ngrok"}
ADDRESS = {"tailscale": TAILNET, "cloudflare": QUICK, "ngrok": NGROK}
ARGUMENTS: dict[str, Callable[[str], list[str]]] = {
    "tailscale": lambda url: ["serve", "--https=443", url],
    "cloudflare": lambda url: ["tunnel", "--no-autoupdate", "--url", url],
    "ngrok": lambda url: ["http", url, "--log=stdout", "--log-format=json"],
}


class StandIn:
    """A program of that name, in a directory of its own that is the hub's PATH."""

    def __init__(self, folder: Path, name: str, body: str, *, stay: bool = True) -> None:
        import sys

        self.log = folder / f"{name}.log"
        bin_folder = folder / "bin"
        bin_folder.mkdir(exist_ok=True)
        code = textwrap.dedent(body) + (STAY if stay else "")
        file = bin_folder / name
        file.write_text(STAND_IN.format(python=sys.executable, log=str(self.log), body=code))
        file.chmod(0o755)

    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def tunnels(self) -> list[dict[str, Any]]:
        return [call for call in self.calls() if call["argv"] != ["status", "--json"]]


@pytest.fixture(autouse=True)
def no_internet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses of stand-ins lead nowhere; what the check does is tested by itself below."""

    async def check(url: str, *, authority: bytes = b"") -> PhoneCheck:
        return PhoneCheck(ok=True, found=f"{url} was not called by this test")

    monkeypatch.setattr(phone_access, "check_reach", check)


def on_path(hub: Running, folder: Path) -> None:
    hub.env["PATH"] = f"{folder / 'bin'}:/usr/bin:/bin"  # type: ignore[index]


async def set_up(hub: Running, way: str) -> PhoneStatus:
    reply = await hub.client.post("/api/v1/phone", json={"way": way})
    assert reply.status_code == 200, reply.text
    return msgspec.json.decode(reply.content, type=PhoneStatus)


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("way", ["tailscale", "cloudflare", "ngrok"])
async def test_a_tunnel_is_called_as_it_should_be_and_ends_with_off(tmp_path: Path, way: str) -> None:
    stand_in = StandIn(tmp_path, PROGRAM[way], PRINTS[PROGRAM[way]])
    async with with_phone(tmp_path) as (hub, phone):
        on_path(hub, tmp_path)
        hub.env["ANTHROPIC_API_KEY"] = "secret"  # type: ignore[index]
        status = await set_up(hub, way)
        assert (status.state, status.way, status.url) == ("on", way, ADDRESS[way]), status
        (call,) = stand_in.tunnels()
        assert call["argv"] == ARGUMENTS[way](hub.url)
        assert "ANTHROPIC_API_KEY" not in call["env"] and "HOME" in call["env"]
        await allowed(hub, phone)
        assert (await hub.client.delete("/api/v1/phone")).status_code == 204
        assert not alive(call["pid"]), "off leaves no process"
        host = ADDRESS[way].removeprefix("https://")
        assert (await hub.client.get("/healthz", headers={"Host": host})).status_code == 403


async def test_off_does_not_wait_for_a_tunnel_that_reads_no_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_process, "CLOSE_GRACE_S", 3600.0)
    stand_in = StandIn(tmp_path, "cloudflared", PRINTS["cloudflared"])
    async with with_phone(tmp_path) as (hub, phone):
        on_path(hub, tmp_path)
        await set_up(hub, "cloudflare")
        (call,) = stand_in.tunnels()
        async with asyncio.timeout(30):
            await phone.turn_off()
        assert not alive(call["pid"])


async def allowed(hub: Running, phone: PhoneAccess) -> None:
    """Exactly the public name: with its Origin, and with links that lead there."""
    host = phone.url.removeprefix("https://")
    by_tunnel = {"Host": host}
    async with httpx.AsyncClient(base_url=hub.url, timeout=30.0, trust_env=False) as client:
        response = await client.get("/healthz", headers={**by_tunnel, "Origin": phone.url})
        assert response.status_code == 200 and response.headers["strict-transport-security"]
        for other in (f"x.{host}", f"{host}:8443", host.partition(".")[2]):
            assert (await client.get("/healthz", headers={"Host": other})).status_code == 403, other
        for origin in (f"http://{host}", f"{phone.url}:8443", "https://evil.test"):
            headers = {**by_tunnel, "Origin": origin}
            assert (await client.get("/healthz", headers=headers)).status_code == 403, origin
        key = {"Authorization": f"Bearer {hub.token}"}
        offer = await client.post("/api/v1/pairings", json={"kind": "page"}, headers={**by_tunnel, **key})
        assert offer.json()["url"].startswith(f"{phone.url}/#login=")


async def test_it_is_started_again_when_it_ends_and_with_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnels, "AGAIN", tunnels.Backoff(0.01, 0.02))
    stand_in = StandIn(tmp_path, "cloudflared", PRINTS["cloudflared"])
    monkeypatch.setattr("tests.hub.conftest.environment", path_environment(tmp_path))
    async with with_phone(tmp_path) as (hub, phone):
        await set_up(hub, "cloudflare")
        (first,) = stand_in.tunnels()
        os.kill(first["pid"], 9)
        await eventually(lambda: len(stand_in.tunnels()) == 2, "it was not started again")
        await eventually(lambda: phone.url == QUICK, "its address was not taken")
        (_, second) = stand_in.tunnels()
    assert not alive(second["pid"]), "the hub's end leaves no process"
    async with with_phone(tmp_path) as (hub, phone):
        await eventually(lambda: phone.url == QUICK, "it did not come back with the hub")
        third = stand_in.tunnels()[2]
        assert third["argv"][-1] == hub.url, "to the port that the hub has now"
    assert not alive(third["pid"])


def path_environment(folder: Path) -> Callable[[Path], dict[str, str]]:
    from tests.hub.conftest import environment

    return lambda path: {**environment(path), "PATH": f"{folder / 'bin'}:/usr/bin:/bin"}


COMPLAINTS = [
    ("ngrok", 'print(json.dumps({"lvl": "eror", "err": "authentication failed: ERR_NGROK_4018"}))', "ERR_NGROK_4018"),
    ("cloudflare", 'print("2026-01-01T00:00:00Z ERR no route to the edge", file=sys.stderr)', "no route to the edge"),
    ("tailscale", 'print("error: serve config denied: use sudo", file=sys.stderr)', "serve config denied"),
]


@pytest.mark.parametrize(("way", "body", "words"), COMPLAINTS)
async def test_why_it_does_not_come_up_is_said(tmp_path: Path, way: str, body: str, words: str) -> None:
    status = f"if sys.argv[1:] == ['status', '--json']:\n    print({json.dumps(STATUS)!r})\n    sys.exit()\n"
    StandIn(tmp_path, PROGRAM[way], f"{status}{body}\nsys.exit(1)", stay=False)
    async with with_phone(tmp_path) as (hub, _):
        on_path(hub, tmp_path)
        phone_status = await set_up(hub, way)
        assert phone_status.state == "failed" and not phone_status.url and words in phone_status.problem, phone_status


@pytest.mark.slow
async def test_tailscale_that_waits_for_a_person_says_what_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnels, "UP_S", 1.0)
    words = "Serve is not enabled on your tailnet.\\nTo enable, visit:\\n\\n  https://login.tailscale.com/f/serve"
    status = f"if sys.argv[1:] == ['status', '--json']:\n    print({json.dumps(STATUS)!r})\n    sys.exit()\n"
    StandIn(tmp_path, "tailscale", f'{status}print("{words}")')
    async with with_phone(tmp_path) as (hub, _):
        on_path(hub, tmp_path)
        phone_status = await set_up(hub, "tailscale")
        assert "To enable, visit: https://login.tailscale.com/f/serve" in phone_status.problem


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({**STATUS, "BackendState": "NeedsLogin"}, "tailscale up"),
        ({**STATUS, "CertDomains": None}, "HTTPS is off"),
        ("nonsense", "`tailscale status` failed"),
    ],
)
async def test_ways_say_what_they_need(tmp_path: Path, status: Any, why: str) -> None:
    StandIn(tmp_path, "tailscale", f"print({json.dumps(status)!r})", stay=False)
    StandIn(tmp_path, "ngrok", "", stay=False)
    async with with_phone(tmp_path) as (hub, _):
        on_path(hub, tmp_path)
        ways = {way["name"]: way for way in (await hub.client.get("/api/v1/phone/ways")).json()}
        assert not ways["tailscale"]["available"] and why in ways["tailscale"]["problem"]
        assert ways["ngrok"]["available"] and "cloudflared is not installed" in ways["cloudflare"]["problem"]
        assert all(way["who_reaches"] and way["who_reads"] for way in ways.values())
        refused = await hub.client.post("/api/v1/phone", json={"way": "tailscale"})
        assert refused.status_code == 409 and why in refused.json()["detail"]


@needs_network
async def test_mkcert_makes_the_certificate_of_the_local_network(tmp_path: Path) -> None:
    """The stand-in answers with a certificate that our own authority made: real TLS all the way."""
    from tieline.hub.phone.lan_addresses import lan_addresses

    root = tmp_path / "caroot"
    authority = await LocalAuthority.open(root, lan_addresses()[0])
    made = await authority.issue(lan_addresses()[:1], [])
    (root / "rootCA.pem").write_bytes((root / "authority.pem").read_bytes())
    body = f"""
        if sys.argv[1:] == ["-CAROOT"]:
            print({str(root)!r})
            sys.exit()
        assert sys.argv[1] == "-cert-file" and sys.argv[3] == "-key-file" and sys.argv[2] == sys.argv[4]
        Path(sys.argv[2]).write_bytes(Path({str(made)!r}).read_bytes())
    """
    stand_in = StandIn(tmp_path, "mkcert", body, stay=False)
    async with with_phone(tmp_path) as (hub, _):
        on_path(hub, tmp_path)
        status = await set_up(hub, "mkcert")
        assert status.state == "on" and status.trust_url, status
        assert stand_in.calls()[-1]["argv"][3] == str(tmp_path / "state" / "phone" / "mkcert.pem")
        assert stand_in.calls()[-1]["argv"][4] == str(lan_addresses()[0])
        assert (await check_reach(status.url, authority=authority.authority)).ok
        assert (tmp_path / "state" / "phone" / "mkcert.pem").stat().st_mode & 0o777 == 0o600


async def test_ssh_needs_nothing_but_a_command(tmp_path: Path) -> None:
    async with with_phone(tmp_path) as (hub, phone):
        status = await set_up(hub, "ssh")
        port = hub.serving.port
        assert status.url == f"http://localhost:{port}"
        assert status.command.startswith(f"ssh -N -L {port}:127.0.0.1:{port} ")
        assert phone.status().state == "off", "nothing was opened"


async def test_the_check_says_what_it_found(tmp_path: Path) -> None:
    async with with_phone(tmp_path) as (hub, _):
        plain = await check_reach(hub.url.replace("http:", "https:"))
        assert not plain.ok and "was not reached" in plain.found
    gone = await check_reach(hub.url.replace("http:", "https:"))
    assert not gone.ok and "was not reached" in gone.found
    async with asyncio.timeout(30):
        nowhere = await check_reach("https://name.invalid")
    assert not nowhere.ok
