"""The ways that a phone can reach the hub: which of them this machine has, and what each means for safety."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from msgspec.structs import replace

from ...protocol.phone import PhoneWay
from ..security.origins import is_loopback
from .lan_addresses import lan_addresses
from .local_network import mkcert_root, url_of
from .programs import find_program
from .tunnels import TUNNELS, tailnet_address

SSH_PORT = 22
CONNECT_S = 2.0

DESCRIPTIONS: tuple[PhoneWay, ...] = (
    PhoneWay(
        name="configured",
        title="The address in tieline.toml",
        available=False,
        who_reaches="whoever reaches that address",
        who_reads="you and the phone, and your proxy if there is one",
    ),
    PhoneWay(
        name="tailscale",
        title="Tailscale",
        available=False,
        who_reaches="devices of your tailnet, wherever they are",
        who_reads="you and the phone",
    ),
    PhoneWay(
        name="lan",
        title="Local network, with a certificate of our own",
        available=False,
        who_reaches="devices in the same network (Wi-Fi)",
        who_reads="you and the phone",
        lasting=False,
        trust=True,
    ),
    PhoneWay(
        name="mkcert",
        title="Local network, with a certificate of mkcert",
        available=False,
        who_reaches="devices in the same network (Wi-Fi)",
        who_reads="you and the phone; mkcert's authority may certify any site, so guard its key",
        lasting=False,
        trust=True,
    ),
    PhoneWay(
        name="cloudflare",
        title="Cloudflare tunnel",
        available=False,
        who_reaches="everybody on the internet who learns the address; they still need a pairing",
        who_reads="you, the phone, and Cloudflare",
        lasting=False,
    ),
    PhoneWay(
        name="ngrok",
        title="ngrok",
        available=False,
        who_reaches="everybody on the internet who learns the address; they still need a pairing",
        who_reads="you, the phone, and ngrok",
        lasting=False,
    ),
    PhoneWay(
        name="ssh",
        title="SSH tunnel, from another computer",
        available=False,
        who_reaches="whoever can log in here by SSH",
        who_reads="you and that computer",
    ),
)


async def find_ways(env: Mapping[str, str], *, hub_url: str, local_url: str, port: int) -> list[PhoneWay]:
    """All ways, the recommended ones first. `hub_url` is where people reach the hub already, `local_url` where this
    machine does."""
    return list(
        await asyncio.gather(
            *(_looked_at(way, env, hub_url=hub_url, local_url=local_url, port=port) for way in DESCRIPTIONS)
        )
    )


async def _looked_at(way: PhoneWay, env: Mapping[str, str], *, hub_url: str, local_url: str, port: int) -> PhoneWay:
    address, problem = "", ""
    match way.name:
        case "configured":
            parts = urlsplit(hub_url)
            if parts.scheme == "https" and not is_loopback(parts.hostname or ""):
                address = hub_url
            else:
                problem = "neither hub.public_url nor hub.host with a certificate is set"
        case "lan":
            addresses = lan_addresses()
            address, problem = (
                (url_of(addresses[0], port), "") if addresses else ("", "this machine is not connected to a network")
            )
        case "mkcert":
            address, problem = await _mkcert(env, port)
        case "ssh":
            address, problem = await _ssh(port)
        case "tailscale" | "cloudflare" | "ngrok":
            address, problem = await _tunnel(way.name, env)
            if not problem and local_url.startswith("https"):
                problem = "the hub has a certificate of its own (hub.tls_certificate), which a tunnel does not expect"
    return replace(way, available=not problem, problem=problem, address="" if problem else address)


async def _tunnel(name: str, env: Mapping[str, str]) -> tuple[str, str]:
    tunnel = TUNNELS[name]
    program = find_program(tunnel.program, env)
    if not program:
        return "", f"{tunnel.program} is not installed: {tunnel.install}"
    return await tailnet_address(program, env) if name == "tailscale" else ("", "")


async def _mkcert(env: Mapping[str, str], port: int) -> tuple[str, str]:
    program = find_program("mkcert", env)
    if not program:
        return "", "mkcert is not installed: https://github.com/FiloSottile/mkcert"
    if await mkcert_root(program, env) is None:
        return "", "mkcert has no authority here: run `mkcert -install` once"
    addresses = lan_addresses()
    return (url_of(addresses[0], port), "") if addresses else ("", "this machine is not connected to a network")


async def _ssh(port: int) -> tuple[str, str]:
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection("127.0.0.1", SSH_PORT)
        writer.close()
        return f"http://localhost:{port}", ""
    return "", f"no SSH server answers on port {SSH_PORT} of this machine"
