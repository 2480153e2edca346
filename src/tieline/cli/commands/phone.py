"""`tieline phone`: a way for a phone to reach the hub, set up and checked, and the code that signs the phone in."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from ... import config as configuration
from ... import paths
from ...bootstrap.process_lock import StartOptions, running_pid
from ...client.client import Client, connect
from ...config import Config
from ...errors import UsageError
from ...protocol.phone import PhoneSetup, PhoneStatus, PhoneWay
from ...protocol.request_bodies import Pairing
from ..terminal.formatting import on_terminal, print_json, print_words
from ..terminal.line_prompt import ask_line
from ..terminal.sanitize import one_line
from ..terminal.sign_in_link import show_code


class PhoneReport(Struct, frozen=True, kw_only=True):
    """As `--json` prints it."""

    status: PhoneStatus
    link: str = ""  # signs one browser in, once, within ten minutes


def show_ways(*, json: bool) -> int:
    async def work(client: Client) -> int:
        ways = await client.phone_ways()
        if json:
            print_json(ways)
            return 0
        status = await client.phone()
        for way in ways:
            _print_facts(_listed(way, status))
        return 0

    return _run(work)


def turn_off() -> int:
    config = configuration.load()
    if not running_pid(config.environ) and not config.environ.get("TIELINE_HUB"):
        (paths.phone(config.environ) / "way.json").unlink(missing_ok=True)
        print("No phone reaches this machine when the hub starts again.")
        return 0

    async def work() -> None:
        async with connect(config.environ) as client:
            await client.turn_off_phone()

    asyncio.run(work())
    print("Off: the hub is reached from this machine only. Paired phones stay paired (`tieline devices`).")
    return 0


def set_up(*, way: str, address: str, port: int, yes: bool, json: bool) -> int:
    async def work(client: Client) -> int:
        ways, status = await client.phone_ways(), await client.phone()
        chosen = choose(ways, way or status.way or "")
        if status.way != chosen.name and not yes:
            _confirm(chosen, ways, json=json)
        status = await client.set_up_phone(PhoneSetup(way=chosen.name, address=address, port=port))
        working = bool(status.url)
        link = ""
        if working:
            link = f"{status.url}/#login={(await client.pairing(Pairing(kind='page'))).secret}"
        if json:
            print_json(PhoneReport(status=status, link=link))
        elif working:
            _show(chosen, status, link)
        else:
            _show_problem(status)
        return 0 if working and (status.check is None or status.check.ok) else 1

    return _run(work)


def choose(ways: Sequence[PhoneWay], wanted: str) -> PhoneWay:
    """The way that was named, else the first that this machine has: they come in the order of recommendation."""
    names = ", ".join(way.name for way in ways)
    if wanted:
        chosen = next((way for way in ways if way.name == wanted), None)
        if chosen is None:
            raise UsageError(f"no way {wanted!r}", field="way", hint=f"There are: {names}.")
        if not chosen.available:
            raise UsageError(f"{chosen.title} is not available: {chosen.problem}", field="way")
        return chosen
    chosen = next((way for way in ways if way.available), None)
    if chosen is None:
        raise UsageError(
            "this machine has no way for a phone", field="way", hint="`tieline phone --list` says what each one needs."
        )
    return chosen


def _run(work: Callable[[Client], Awaitable[int]]) -> int:
    """With this machine's hub, which is started where none runs."""
    config = configuration.load()
    _ensure_hub(config)

    async def connected() -> int:
        async with connect(config.environ) as client:
            return await work(client)

    return asyncio.run(connected())


def _ensure_hub(config: Config) -> None:
    if config.environ.get("TIELINE_HUB") or running_pid(config.environ):
        return
    from .daemon_control import start_in_background

    started = start_in_background(config, StartOptions())
    print(f"The hub was not running; it is now, at {started.url}. `tieline down` ends it.", file=sys.stderr)


# --- what people see ------------------------------------------------------------------------------------------


def _confirm(way: PhoneWay, ways: Sequence[PhoneWay], *, json: bool) -> None:
    others = ", ".join(other.name for other in ways if other.available and other.name != way.name)
    if json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            f"{way.title} would be set up; cannot ask for your consent without a terminal",
            field="yes",
            hint=f"Add --yes{f', or choose another --way: {others}' if others else ''}.",
        )
    _print_facts(_facts(way))
    if others:
        print(f"  also here:  {others} (--way NAME; `tieline phone --list` tells about them)")
    try:
        answer = ask_line("Set it up? [Y/n] ").strip().lower()
    except EOFError:
        answer = "n"
    if answer not in ("", "y", "yes"):
        raise UsageError("nothing was changed", field="yes")


def _print_facts(lines: Sequence[str]) -> None:
    for line in lines:
        print_words(line, 14)


def _facts(way: PhoneWay) -> list[str]:
    lines = [f"{way.title}{f': {way.address}' if way.address else ''}"]
    lines.append(f"  reached by: {way.who_reaches}")
    lines.append(f"  read by:    {way.who_reads}")
    if way.trust:
        lines.append("  once:       the phone must trust a certificate; a page explains how")
    if way.name in ("cloudflare", "ngrok"):
        lines.append("  address:    another one after each start; phones are then paired again")
    elif not way.lasting:
        lines.append("  address:    this machine's; if it changes, phones are paired again")
    return lines


def _show(way: PhoneWay, status: PhoneStatus, link: str) -> None:
    _print_facts(_facts(way))
    print(f"On: {status.url}" + "".join(f" and {url}" for url in status.other_urls))
    if status.check is not None:
        print(f"{'Checked' if status.check.ok else 'Problem'}: {one_line(status.check.found, 300)}.")
        if way.trust and status.check.ok:
            print("A firewall of this machine, or a guest network, can still keep phones out.")
    if status.command:
        print(f"On the other computer, as long as it needs the page:\n  {status.command}")
    if status.trust_url:
        _show_trust(status)
    print(f"{'2. ' if status.trust_url else ''}Open this once, within ten minutes, to sign the phone in:\n  {link}")
    if not status.command:
        show_code(link)
    print("`tieline phone off` ends it. It comes back with the hub." if status.way not in ("ssh", "configured") else "")


def _show_trust(status: PhoneStatus) -> None:
    print("1. Only for a phone that does not trust this machine yet: open this page on it, within ten minutes.")
    print(f"  {status.trust_url}")
    show_code(status.trust_url)
    print("The certificate that the phone shows must have this SHA-256 fingerprint:")
    half = len(status.fingerprint) // 2 + 1
    print(f"  {status.fingerprint[:half]}\n  {status.fingerprint[half:]}")
    if sys.stdin.isatty() and on_terminal():
        try:
            ask_line("Press Enter when the phone trusts it. ")
        except EOFError:
            print()


def _show_problem(status: PhoneStatus) -> None:
    problem = status.problem or "it has not come up yet; `tieline phone` looks again"
    print(f"tieline: {one_line(problem, 400)}", file=sys.stderr)
    if status.hint:
        print(one_line(status.hint, 400), file=sys.stderr)


def _listed(way: PhoneWay, status: PhoneStatus) -> list[str]:
    first, *rest = _facts(way)
    on = ", on" if status.way == way.name else ""
    state = f"here{on}" if way.available else f"not here: {one_line(way.problem, 300)}"
    return [f"{way.name}: {first}", f"  state:      {state}", *rest]
