"""Joins this machine to a hub as a node, runs it, tells how it is, and leaves."""

import asyncio
import os
import signal
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit, urlunsplit

from msgspec import Struct

from ... import config as configuration
from ...bootstrap.process_lock import REJOIN, AlreadyRunning, StartOptions, read_running, running_pid
from ...client.client import Client
from ...client.errors import HubError
from ...config import Config
from ...errors import UsageError
from ...node.hub_credentials import (
    HubCredentials,
    forget_credentials,
    read_credentials,
    read_link_status,
    write_credentials,
    write_link_status,
)
from ...node.hub_link import LinkStatus, link_url
from ...node.node_identity import identify
from ...protocol.access import Paired
from ...protocol.request_bodies import Claim
from ..terminal.formatting import print_json
from ..terminal.sanitize import one_line
from .daemon_control import STOP_S, start_in_background, wait_stopped


class NodeReport(Struct, frozen=True, kw_only=True):
    """As `tieline node status --json` tells it."""

    joined: bool
    running: bool = False
    hub: str = ""
    state: str = "away"
    problem: str = ""
    limits: tuple[str, ...] = ()


class JoinReport(Struct, frozen=True, kw_only=True):
    """As `tieline node join --json` tells it."""

    hub: str
    name: str
    running: bool
    next: str  # what is left to do, or what was done


class LeaveReport(Struct, frozen=True, kw_only=True):
    """As `tieline node leave --json` tells it."""

    hub: str
    problem: str = ""


def join(url: str, *, secret: str, name: str, run: bool, json: bool = False) -> int:
    config = configuration.load()
    env = config.environ
    if read_credentials(env) is not None:
        raise UsageError("this machine is joined to a hub already", field="url", hint="Leave it: `tieline node leave`.")
    address, link_secret = split_link(url)
    link_url(address)
    secret = secret or link_secret
    if not secret:
        hint = "`tieline pair --node` on the hub's machine prints the whole link."
        raise UsageError("the URL has no secret", field="secret", hint=hint)
    me = identify(env)
    paired = asyncio.run(_pair(address, Claim(secret=secret, name=name or me.name, node=me.id)))
    write_credentials(env, HubCredentials(url=address, key=paired.key, device=paired.device.id))
    write_link_status(env, None)  # of another time
    running, follows = _go_on(config) if run else (False, "`tieline node run` lets it run agents here.")
    if json:
        print_json(JoinReport(hub=address, name=paired.device.name, running=running, next=follows))
    else:
        print(f"Joined {address} as {one_line(paired.device.name)}.\n{follows}")
    return 0


def _go_on(config: Config) -> tuple[bool, str]:
    """As a node, in the background. Whether one runs, and what to say about it."""
    env = config.environ
    pid, hub = running_pid(env), read_running(env)
    if hub is not None and hub.node:
        _send_signal(pid, REJOIN)
        return True, (
            f"What `tieline up` started here (process {pid}) is a node there now. `tieline node status` tells how."
        )
    if hub is not None:
        return False, f"A hub alone runs here (process {pid}). `tieline down`, then `tieline up`: hub here, node there."
    if pid and not wait_stopped(env, pid, STOP_S):  # a node that was told to end, as it left another hub
        raise AlreadyRunning(None)
    start_in_background(config, StartOptions(what="node"))
    return True, "It runs in the background. `tieline node status` shows its state, `tieline down` stops it."


def split_link(url: str) -> tuple[str, str]:
    """The hub's address and the secret, out of a link with one in its fragment."""
    parts = urlsplit(url)
    secret = parse_qs(parts.fragment).get("pair", [""])[0]
    return urlunsplit(parts._replace(fragment="", query="")).rstrip("/"), secret


async def _pair(address: str, claim: Claim) -> Paired:
    async with Client(address, "") as client:
        return await client.pair(claim)


def run(*, foreground: bool) -> int:
    config = configuration.load()
    joined = read_credentials(config.environ, needed=True)
    assert joined is not None
    if foreground:
        print(f"A node of {joined.url}. Ctrl-C ends it.", flush=True)
        from ...bootstrap.daemon import run as run_here

        run_here(config, StartOptions(what="node"), lambda started: None, foreground=True)
    else:
        start_in_background(config, StartOptions(what="node"))
        print(f"A node of {joined.url}, in the background.")
    return 0


def show(*, json: bool) -> int:
    report = _report(configuration.load())
    if json:
        print_json(report)
    elif not report.joined:
        print("This machine is not joined to a hub. `tieline node join URL` does it.")
    else:
        state = {"joined": "connected", "away": "not connected", "refused": "refused"}.get(report.state, report.state)
        runs = "runs" if report.running else "does not run"
        print(f"hub      {one_line(report.hub)}\nnode     {runs}, {one_line(state)}")
        if report.problem:
            print(f"problem  {one_line(report.problem, 500)}")
        if report.limits:
            print(f"without  {one_line(', '.join(report.limits), 500)} (the hub runs another version)")
    return 0 if report.state == "joined" else 1


def _report(config: Config) -> NodeReport:
    env = config.environ
    joined = read_credentials(env)
    if joined is None:
        return NodeReport(joined=False)
    running = bool(running_pid(env))
    situation = read_link_status(env)
    if not running and situation.state != "refused":
        situation = LinkStatus()  # it was killed: what it wrote down is not so any longer
    return NodeReport(
        joined=True,
        running=running,
        hub=joined.url,
        state=situation.state,
        problem=situation.problem,
        limits=situation.limits,
    )


def leave(*, json: bool = False) -> int:
    config = configuration.load()
    env = config.environ
    joined = read_credentials(env, needed=True)
    assert joined is not None
    try:
        asyncio.run(_log_out(joined))
        problem = ""
    except HubError as error:
        problem = f"The hub could not be notified ({error.message}): revoke this machine there."
    forget_credentials(env)
    if pid := running_pid(env):
        _send_signal(pid, REJOIN if read_running(env) else signal.SIGTERM)
    if json:
        print_json(LeaveReport(hub=joined.url, problem=problem))
    else:
        print("\n".join([f"Left {joined.url}.", *filter(None, [problem])]))
    return 1 if problem else 0


def _send_signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


async def _log_out(joined: HubCredentials) -> None:
    async with Client(joined.url, joined.key, patience_s=5.0) as client:
        await client.change("POST", "logout", type(None))
