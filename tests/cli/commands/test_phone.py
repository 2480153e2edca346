"""`tieline phone` as a person and a program use it, with a hub that is a process of its own."""

import json
import ssl
from collections.abc import Generator
from pathlib import Path

import httpx2 as httpx
import pytest
from msgspec.structs import replace
from tests.cli.hub_process import HubProcess
from tests.hub.phone.conftest import needs_network

from tieline.cli.commands.phone import choose
from tieline.errors import UsageError
from tieline.hub.phone.lan_addresses import lan_addresses
from tieline.hub.phone.ways import DESCRIPTIONS
from tieline.testing.cli_process import CliProcess

STATE = "home/.local/state/tieline"


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Generator[CliProcess, None, None]:
    setting = CliProcess(tmp_path_factory.mktemp("phone"))
    with HubProcess(setting):
        yield setting


def phone(cli: CliProcess, *arguments: str) -> str:
    ended = cli.run("phone", *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def authority(cli: CliProcess) -> ssl.SSLContext:
    (file,) = Path(cli.env["HOME"]).parent.rglob("phone/authority.pem")
    return ssl.create_default_context(cafile=file)


@pytest.mark.slow
@needs_network
def test_the_whole_of_it_on_a_terminal(cli: CliProcess) -> None:
    with cli.terminal("phone", "--way", "lan", columns=120, rows=60) as terminal:
        terminal.expect("reached by: devices in the same network")
        terminal.expect("read by:    you and the phone")
        terminal.expect("Set it up? [Y/n]")
        terminal.send("\n")
        terminal.expect("On: https://")
        terminal.expect("Checked: ")
        terminal.expect("1. Only for a phone that does not trust this machine yet")
        terminal.expect("http://")
        terminal.expect("█▀")
        terminal.expect("fingerprint")
        terminal.expect("Press Enter")
        terminal.send("\n")
        terminal.expect("2. Open this once")
        terminal.expect("/#login=")
        terminal.expect("█▀")
        terminal.expect("`tieline phone off` ends it.")
        assert terminal.wait() == 0
    status = cli.run("status")
    assert f"phones    lan: https://{lan_addresses()[0]}" in status.stdout
    assert "Phones come by the way lan" in cli.run("up").stdout
    assert phone(cli, "off").startswith("Off:")
    assert "phones " not in cli.run("status").stdout


@needs_network
def test_for_programs(cli: CliProcess) -> None:
    ways = {way["name"]: way for way in json.loads(phone(cli, "--list", "--json"))}
    assert ways["lan"]["available"] and ways["lan"]["trust"] and ways["lan"]["push"]
    listed = phone(cli, "--list")
    assert all(way["title"] in listed for way in ways.values()) and "ngrok is not installed" in listed
    asked = cli.run("phone", "--way", "lan")
    assert asked.returncode != 0 and "--yes" in asked.stderr, "nobody is here to agree"
    report = json.loads(phone(cli, "--way", "lan", "--yes", "--json"))
    assert report["status"]["state"] == "on" and report["status"]["check"]["ok"]
    secret = report["link"].partition("#login=")[2]
    with httpx.Client(verify=authority(cli), trust_env=False, timeout=30.0) as client:
        response = client.post(f"{report['status']['url']}/api/v1/login", json={"secret": secret})
    assert response.status_code == 200, response.text
    again = json.loads(phone(cli, "--json"))
    assert again["status"]["url"] == report["status"]["url"], "it is set up: nothing to agree to"
    phone(cli, "off")


@needs_network
def test_no_is_no(cli: CliProcess) -> None:
    with cli.terminal("phone", "--way", "lan", columns=120) as terminal:
        terminal.expect("Set it up? [Y/n]")
        terminal.send("n\n")
        terminal.expect("nothing was changed")
        assert terminal.wait() != 0
    assert "phones " not in cli.run("status").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--way", "pigeon"), "There are: configured, tailscale, lan"),
        (("--way", "ngrok", "--yes"), "ngrok is not installed"),
        (("on",), "no action 'on'"),
        (("--way", "lan", "--yes", "--address", "203.0.113.5"), "not an address of this machine"),
    ],
)
def test_mistakes_say_what_to_do(cli: CliProcess, arguments: tuple[str, ...], words: str) -> None:
    ended = cli.run("phone", *arguments)
    assert ended.returncode != 0 and words in ended.stderr


def test_the_best_way_is_the_first_that_is_there() -> None:
    def best_of(*names: str) -> str:
        return choose([replace(way, available=way.name in names) for way in DESCRIPTIONS], "").name

    assert best_of("ngrok", "lan", "ssh") == "lan"
    assert best_of("lan", "tailscale", "cloudflare") == "tailscale", "it needs no certificate on the phone"
    assert best_of("configured", "tailscale") == "configured"
    with pytest.raises(UsageError, match="no way for a phone"):
        best_of()


def test_off_without_a_hub(tmp_path: Path) -> None:
    cli = CliProcess(tmp_path)
    assert "No phone reaches this machine" in phone(cli, "off")
