"""`tieline devices`: who may talk to the hub, who let them in; and shutting them out."""

import sys
from collections.abc import Sequence

from ...client.client import Client
from ...errors import UsageError
from ...ids import short_id
from ...protocol.views import DeviceView
from .. import hub_connection
from ..errors import print_error
from ..terminal.formatting import print_json, time_ago
from ..terminal.line_prompt import ask_line
from ..terminal.sanitize import one_line
from ..terminal.tables import print_rows

TITLES = ("id", "name", "kind", "let in by", "seen", "since")
OWNER = "owner"


def show(*, json: bool) -> int:
    async def work(client: Client) -> int:
        devices = await client.devices()
        if json:
            print_json(devices)
            return 0
        rows = [_row(device, devices) for device in devices if device.id != OWNER]
        if not rows:
            print("No devices. Let one in: tieline pair")
        print_rows(TITLES, rows)
        return 0

    return hub_connection.run_with_client(work)


def revoke(given: str, *, let_in: bool | None) -> int:
    """`let_in`: also the devices that it let in; None asks, if a person is at the terminal."""

    async def work(client: Client) -> int:
        candidates = [candidate for candidate in await client.devices() if candidate.id != OWNER]
        device = hub_connection.pick("device", given, candidates, lambda candidate: candidate.id)
        others = descendants(device.id, candidates)
        names = ", ".join(_name(other) for other in others)
        also = bool(let_in)
        if let_in is None and others:
            if sys.stdin.isatty() and sys.stdout.isatty():
                also = _confirm(f"{_name(device)} let in {names}. Revoke these too? [Y/n] ")
            else:
                print_error(f"tieline: it paired {names}, which keep their access. `--let-in` revokes these too.")
        await client.revoke(device.id, let_in=also)
        print(f"Revoked {', '.join([_name(device), names] if also and others else [_name(device)])}.")
        return 0

    return hub_connection.run_with_client(work)


def descendants(id: str, devices: Sequence[DeviceView]) -> list[DeviceView]:
    """The devices that a device let in, directly or indirectly."""
    reached = [id]
    for pairer in reached:
        reached += [device.id for device in devices if device.by == pairer and device.id not in reached]
    return [device for device in devices if device.id in reached[1:]]


def _confirm(question: str) -> bool:
    try:
        answer = ask_line(question).strip().lower()
    except EOFError:
        raise UsageError("no answer: nothing was revoked", hint="Add --let-in or --only.") from None
    return answer in ("", "y", "yes")


def _name(device: DeviceView) -> str:
    return f"{one_line(device.name, 40)} ({short_id(device.id)})"


def _row(device: DeviceView, devices: Sequence[DeviceView]) -> tuple[str, ...]:
    by = next((_name(pairer) for pairer in devices if pairer.id == device.by and pairer.id != OWNER), "")
    return (
        short_id(device.id),
        one_line(device.name, 40) + (" (this one)" if device.current else ""),
        device.kind,
        by or (device.by if device.by in ("", OWNER) else f"{short_id(device.by)} (revoked)"),
        time_ago(device.seen_at),
        time_ago(device.created_at),
    )
