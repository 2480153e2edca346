"""`tieline pair`: a secret for one more device."""

import asyncio

import msgspec
from msgspec import Struct

from ... import environment
from ...client.client import connect
from ...errors import UsageError
from ...protocol.access import Offer
from ...protocol.request_bodies import Pairing
from ..terminal.sign_in_link import show_code


class PairingSecret(Struct, frozen=True):
    """As `--json` prints it: what `POST {url}/api/v1/pair` turns into a key."""

    url: str
    secret: str


def pair(*, node: bool, page: bool, client: bool, mesh: bool, name: str, json: bool = False) -> int:
    if node + page + client + mesh > 1:
        raise UsageError("give only one kind of device", field="pair", hint="--node, --page, --client or --mesh.")
    kind = "node" if node else "client" if client else "mesh" if mesh else "page"
    made = asyncio.run(_offer(Pairing(kind=kind, name=name)))
    if json:
        print(msgspec.json.encode(PairingSecret(made.url.partition("/#")[0], made.secret)).decode())
        return 0
    if kind == "node":
        print(f"On the other machine, once, within ten minutes:\n  tieline node join '{made.url}'")
    elif kind in ("client", "mesh"):
        print(f"For one program, once, within ten minutes:\n  {made.url}")
    else:
        print(f"Open this once, within ten minutes, to sign a browser in:\n  {made.url}")
    show_code(made.url)
    return 0


async def _offer(pairing: Pairing) -> Offer:
    async with connect(environment.inherited()) as client:
        return await client.pairing(pairing)
