"""Tunnels: how each program is called, and how its output tells the address that it gives.

A tunnel's process belongs to the hub: it is started again when it ends, and ends with the hub, or when the way is
turned off.
"""

import asyncio
import json
import re
import signal
from collections.abc import Callable, Mapping
from typing import Any, cast

from msgspec import Struct

from ...background_tasks import background, cancel_and_wait
from ...backoff import Backoff
from ...processes.async_process import Process
from .programs import find_program, last_line, program_environment, run_program
from .way_status import Report, WayStatus

AGAIN = Backoff(first_s=2.0, longest_s=60.0)
LASTED_S = 60.0
"""A tunnel that was up for so long did not fail in a row."""
LOOK_S = 0.1
"""Between two looks at what it printed."""
UP_S = 45.0
"""From its start until it tells its address."""
MAX_OUTPUT = 64 * 1024
"""Bytes of its output that are kept, from the end."""


class Tunnel(Struct, frozen=True, kw_only=True):
    program: str
    arguments: Callable[[str], tuple[str, ...]]
    """From the hub's loopback URL."""
    address_in: Callable[[str], str]
    """The https address in what it printed so far; empty while there is none."""
    complaint_in: Callable[[str], str] = last_line
    """Why it does not work, from what it printed."""
    install: str = ""
    """Where it comes from."""


# --- what they print ------------------------------------------------------------------------------------------

_TAILNET = re.compile(r"https://[a-z0-9-]+(?:\.[a-z0-9-]+)+\.ts\.net(?=[/\s]|$)")
_QUICK_TUNNEL = re.compile(r"https://(?!api\.)[a-z0-9-]+\.trycloudflare\.com(?=[/\s|]|$)")
_PUBLIC_HTTPS = re.compile(r"https://[a-z0-9-]+(?:\.[a-z0-9-]+)+")
_LOG_PREFIX = re.compile(r"^\S+T\S+Z (?:ERR|WRN|INF|FTL) ")


def _first(pattern: re.Pattern[str]) -> Callable[[str], str]:
    def search(output: str) -> str:
        match = pattern.search(output)
        return match.group() if match else ""

    return search


def _tailscale_complaint(output: str) -> str:
    """Tailscale may wait for a person: `Serve is not enabled on your tailnet. To enable, visit: URL`."""
    if "not enabled" in output:
        return " ".join(output.split())[:300]
    return last_line(output)


def _cloudflare_complaint(output: str) -> str:
    errors = [line for line in output.splitlines() if re.search(r" (?:ERR|FTL) ", line)]
    return _LOG_PREFIX.sub("", errors[-1].strip())[:300] if errors else last_line(output)


def _ngrok_address(output: str) -> str:
    for line in _ngrok_lines(output):
        url = str(line.get("url", ""))
        if line.get("msg") == "started tunnel" and _PUBLIC_HTTPS.fullmatch(url):
            return url
    return ""


def _ngrok_complaint(output: str) -> str:
    errors = [str(line["err"]) for line in _ngrok_lines(output) if line.get("err") not in (None, "", "<nil>")]
    return " ".join(errors[-1].split())[:300] if errors else last_line(output)


def _ngrok_lines(output: str) -> list[dict[str, Any]]:
    """The entries of its log, a JSON object per line; other lines are left out."""
    entries: list[dict[str, Any]] = []
    for line in output.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            entries.append(cast("dict[str, Any]", value))
    return entries


TUNNELS: Mapping[str, Tunnel] = {
    # In the foreground (no --bg): what it serves ends with its process.
    "tailscale": Tunnel(
        program="tailscale",
        arguments=lambda url: ("serve", "--https=443", url),
        address_in=_first(_TAILNET),
        complaint_in=_tailscale_complaint,
        install="https://tailscale.com/download",
    ),
    "cloudflare": Tunnel(
        program="cloudflared",
        arguments=lambda url: ("tunnel", "--no-autoupdate", "--url", url),
        address_in=_first(_QUICK_TUNNEL),
        complaint_in=_cloudflare_complaint,
        install="https://github.com/cloudflare/cloudflared",
    ),
    "ngrok": Tunnel(
        program="ngrok",
        arguments=lambda url: ("http", url, "--log=stdout", "--log-format=json"),
        address_in=_ngrok_address,
        complaint_in=_ngrok_complaint,
        install="https://ngrok.com/download",
    ),
}


async def tailnet_address(program: str, env: Mapping[str, str]) -> tuple[str, str]:
    """The address that this machine would have in its tailnet, or why it has none."""
    output = await run_program((program, "status", "--json"), env)
    try:
        status = cast("dict[str, Any]", json.loads(output.stdout))
        state = str(status.get("BackendState", ""))
        own = cast("dict[str, Any]", status.get("Self") or {})
        name = str(own.get("DNSName") or "").rstrip(".")
        certified = status.get("CertDomains") or ()
    except (ValueError, AttributeError):
        return "", f"`tailscale status` failed: {output.complaint}"
    if state != "Running" or not name:
        return "", f"this machine is not in a tailnet ({state or 'unknown state'}): run `tailscale up`"
    if not certified:
        return "", "HTTPS is off in your tailnet: switch it on at https://login.tailscale.com/admin/dns"
    return f"https://{name}", ""


# --- running one ----------------------------------------------------------------------------------------------


async def run_tunnel(tunnel: Tunnel, target: str, env: Mapping[str, str], report: Report) -> None:
    """Until it is cancelled. What becomes of it is reported."""
    failures = 0
    while True:
        began = asyncio.get_running_loop().time()
        program = find_program(tunnel.program, env)
        if program:
            problem = await _run_once(tunnel, (program, *tunnel.arguments(target)), env, report)
        else:
            problem = f"the program {tunnel.program} is not on the hub's PATH"
        failures = 1 if asyncio.get_running_loop().time() - began > LASTED_S else failures + 1
        report(WayStatus(problem=problem, hint="The hub tries again by itself. `tieline phone off` ends it."))
        await asyncio.sleep(AGAIN.delay(failures))


async def _run_once(tunnel: Tunnel, argv: tuple[str, ...], env: Mapping[str, str], report: Report) -> str:
    """Runs the tunnel until it ends, and returns the reason why it ended."""
    output = bytearray()

    async def keep_output(process: Process) -> None:
        async for chunk in process.chunks():
            output.extend(chunk)
            del output[:-MAX_OUTPUT]

    try:
        async with Process.start(argv, cwd="/", env=program_environment(env)) as process:
            reading = background(keep_output(process), f"phone-{tunnel.program}")
            try:
                if url := await _address(tunnel, process, output):
                    report(WayStatus(urls=(url,)))
                    await process.wait(None)
            finally:
                process.signal(signal.SIGTERM)  # it reads no input: closing that would end no tunnel
                await cancel_and_wait(reading)
            words = _output_text(process, output)
            ended = f"{tunnel.program} ended" if process.returncode is not None else f"{tunnel.program} gave no address"
    except OSError as error:
        return f"{tunnel.program} cannot be started: {error.strerror or error}"
    complaint = tunnel.complaint_in(words)
    return f"{ended}: {complaint}" if complaint else ended


async def _address(tunnel: Tunnel, process: Process, output: bytearray) -> str:
    """The address that the program prints; empty when it ends first, or prints none in time."""
    deadline = asyncio.get_running_loop().time() + UP_S
    while asyncio.get_running_loop().time() < deadline:
        over = process.returncode is not None
        if url := tunnel.address_in(_output_text(process, output)):
            return "" if over else url
        if over or await process.wait(LOOK_S):
            return ""
    return ""


def _output_text(process: Process, output: bytearray) -> str:
    return f"{output.decode(errors='replace')}\n{process.stderr}"
