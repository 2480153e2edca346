"""Starts the hub (or a node) in the background or here, ends it, and tells how it is."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ... import config as configuration
from ... import environment, paths, state_directory
from ...bootstrap.process_lock import StartOptions, StartResult, read_running, running_pid
from ...client.client import Client, connect
from ...client.errors import HubError
from ...client.hub_address import RunningHub
from ...config import Config
from ...errors import TielineError, UsageError
from ...protocol.phone import PhoneStatus
from ...protocol.request_bodies import Pairing
from ...sessions.records import SessionRecord
from ..terminal.formatting import print_json, time_ago
from ..terminal.sanitize import clean, one_line
from ..terminal.sign_in_link import show_link
from .harnesses import HarnessReport, found_here

START_S = 60.0
STOP_S = 30.0
LOG_LINES = 20


class NotStarted(TielineError):
    pass


class NodeState(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    online: bool
    local: bool
    agents: tuple[str, ...]  # those that are ready


class StartReport(Struct, frozen=True, kw_only=True):
    """As `tieline up --json` tells it."""

    url: str
    login: str  # a link that signs one browser in, within ten minutes
    pid: int
    already: bool = False  # it ran before
    phone: str = ""  # the way that phones come by
    waiting: tuple[str, ...] = ()  # why channels wait for a person


class StopReport(Struct, frozen=True, kw_only=True):
    """As `tieline down --json` tells it."""

    pid: int  # 0: nothing ran
    killed: bool = False  # it did not end by itself


class DaemonReport(Struct, frozen=True, kw_only=True):
    """As `tieline status --json` tells it."""

    running: bool
    url: str = ""
    pid: int = 0
    version: str = ""
    nodes: tuple[NodeState, ...] = ()
    sessions: int = 0
    working: int = 0
    waiting: int = 0
    asks: int = 0
    phone: PhoneStatus = PhoneStatus()
    problem: str = ""
    config_problem: str = ""  # the first mistake in tieline.toml, which the next start would refuse
    harnesses: tuple[HarnessReport, ...] = ()


def start(order: StartOptions, *, foreground: bool, json: bool = False) -> int:
    config = configuration.load()
    if order.bus:
        _check_bus(order)
    if (pid := running_pid(config.environ)) and not foreground:
        return _report_running(config, pid, order, json=json)
    if foreground:
        from ...bootstrap.daemon import run  # all the parts: only where they are needed

        run(config, order, lambda started: _announce(config, started, json=json), foreground=True)
        return 0
    _announce(config, start_in_background(config, order), json=json)
    if not json:
        print("`tieline status` shows its state, `tieline down` stops it.")
    return 0


def _check_bus(order: StartOptions) -> None:
    """Here, where a mistake can still be told to whoever made it."""
    if order.nats:
        raise UsageError("--nats and --bus exclude each other", field="bus", hint="Give one of them.")
    from ...bus import open_bus

    open_bus(order.bus)  # opened when it is entered; the address is looked at now


def start_in_background(config: Config, order: StartOptions) -> StartResult:
    """Starts a process in a session of its own, and waits until it reports that it runs. Raises NotStarted with the end
    of its log."""
    env = config.environ
    log = paths.log_file(env)
    state_directory.make(env)
    before = log.stat().st_size if log.exists() else 0
    reading, writing = os.pipe()
    try:
        with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            process = subprocess.Popen(
                # -P: what lies in the working directory is not ours to import
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "tieline.bootstrap",
                    msgspec.json.encode(replace(order, ready=writing)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=dict(env),
                cwd="/",
                start_new_session=True,
                pass_fds=(writing,),
            )
        os.close(writing)
        writing = -1
        result = _read_start_result(reading, process)
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)
    if result.problem:
        raise NotStarted(result.problem, hint=result.hint or _log_tail(log, before))
    process.returncode = 0  # the process stays; Popen must not warn that nobody waited for it
    return result


def _read_start_result(reading: int, process: "subprocess.Popen[bytes]") -> StartResult:
    import select

    deadline = time.monotonic() + START_S
    data = b""
    while not data.endswith(b"\n"):
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            return StartResult(problem=f"it did not start within {START_S:g} s")
        chunk = os.read(reading, 65536)
        if not chunk:
            with suppress(subprocess.TimeoutExpired):
                process.wait(5.0)
            return StartResult(problem="it ended while starting")
        data += chunk
    result = msgspec.json.decode(data, type=StartResult)
    if result.problem:
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
    return result


def _log_tail(log: Path, before: int) -> str:
    with suppress(OSError), log.open("rb") as file:
        file.seek(before)
        lines = file.read()[-16000:].decode(errors="replace").splitlines()[-LOG_LINES:]
        return "\n  ".join([f"The end of {log}:", *lines])
    return f"See {log}."


def _report_running(config: Config, pid: int, order: StartOptions, *, json: bool) -> int:
    running = read_running(config.environ)
    if running is None:
        about = f"a node runs here already, or a hub that is just starting (process {pid})"
        raise NotStarted(about, hint="`tieline status` says which; `tieline down` ends it.")
    if differing := _differing(order, running):
        about = f"a hub runs here already (process {pid}), without {' and '.join(differing)}"
        raise NotStarted(about, hint="End it with `tieline down`, then start it again.")
    if not json:
        print(f"A hub runs here already (process {pid}). `tieline down` ends it.")

    async def offer() -> tuple[str, str]:
        async with connect(config.environ) as client:
            made, me, phone = await client.pairing(Pairing(kind="page")), await client.me(), await client.phone()
            return f"{me.url}/#login={made.secret}", phone.way or ""

    link, phone = asyncio.run(offer())
    if json:
        print_json(StartReport(url=running.url, login=link, pid=pid, already=True, phone=phone))
    else:
        show_link(link, running.url, phone=phone)
    return 0


def _differing(order: StartOptions, running: RunningHub) -> list[str]:
    """The options of this start that do not hold for the hub that runs."""
    at = urlsplit(running.url)
    wanted = {
        f"--host {order.host}": order.host not in ("", at.hostname),
        f"--port {order.port}": order.port not in (None, 0, at.port),
        f"--bus {order.bus.rpartition('@')[2]}": bool(order.bus) and order.bus.rpartition("@")[2] != running.bus,
        "--nats": order.nats and running.bus != "nats",
    }
    return [option for option, differs in wanted.items() if differs]


def _announce(config: Config, started: StartResult, *, json: bool) -> None:
    if json:
        pid = running_pid(config.environ)
        print_json(
            StartReport(url=started.url, login=started.login, pid=pid, phone=started.phone, waiting=started.waiting)
        )
        sys.stdout.flush()
        return
    show_link(started.login, started.url, phone=started.phone)
    if without := [each.harness for each in found_here(config) if each.installed != "yes"]:
        print(f"Harnesses here without Tieline: {', '.join(without)}. `tieline install` puts it into them.")
    for problem in started.waiting:
        print(
            f"A channel waits for you: {one_line(problem, 1000)}. If you have read it, run `tieline channels reload`."
        )


def stop(*, json: bool = False) -> int:
    env = environment.inherited()  # not by the configuration: a mistake in it keeps nobody from ending the hub
    pid = running_pid(env)
    killed = bool(pid) and not _end(env, pid, quiet=json)
    if json:
        print_json(StopReport(pid=pid, killed=killed))
    elif not pid:
        print("Nothing is running here.")
    else:
        print(f"Tieline did not end within {STOP_S:g} s and was killed." if killed else "Tieline has ended.")
    return int(killed)


def _end(env: Mapping[str, str], pid: int, *, quiet: bool) -> bool:
    """Whether it ended by itself."""
    ending = _ShutdownLog(env, quiet=quiet)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    over = _wait_until(lambda: ending.show() or running_pid(env) != pid, STOP_S)
    ending.show(last=True)
    if over:
        _wait_for_exit(pid, 5.0)  # all is closed by now; the interpreter takes a moment
        return True
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # its guard ends the agents
    wait_stopped(env, pid, 5.0)
    return False


class _ShutdownLog:
    """What it says while it ends, shown as it comes."""

    def __init__(self, env: Mapping[str, str], *, quiet: bool) -> None:
        self._file = paths.ending_file(env)
        self._quiet = quiet
        self._file.unlink(missing_ok=True)
        self._shown = 0

    def show(self, *, last: bool = False) -> bool:
        """Never true: it is asked in passing whether all is over."""
        with suppress(OSError):
            text = self._file.read_bytes()[self._shown :]
            whole = text[: text.rfind(b"\n") + 1]
            self._shown += len(whole)
            for line in () if self._quiet else whole.decode(errors="replace").splitlines():
                print(one_line(line, 200), flush=True)
            if last:
                self._file.unlink(missing_ok=True)
        return False


def wait_stopped(env: Mapping[str, str], pid: int, within: float) -> bool:
    """Wait until what runs here, runs here no longer. Whether it does not."""
    return _wait_until(lambda: running_pid(env) != pid, within)


def _wait_for_exit(pid: int, within: float) -> None:
    """Until it has exited, though its parent (in a container often a slow init) has not taken note of it yet."""
    if not hasattr(os, "pidfd_open"):
        _wait_until(lambda: not _is_alive(pid), within)
        return
    with suppress(OSError):  # it is gone
        descriptor = os.pidfd_open(pid)
        try:
            select.select([descriptor], [], [], within)
        finally:
            os.close(descriptor)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _wait_until(gone: Callable[[], bool], within: float) -> bool:
    deadline = time.monotonic() + within
    while not gone():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def show(*, json: bool) -> int:
    broken = ""
    try:
        config = configuration.load()
    except UsageError as error:  # what runs is shown all the same
        config, broken = Config(environ=environment.inherited()), error.message
    report = asyncio.run(_report(config))
    report = replace(report, harnesses=tuple(found_here(config)), config_problem=broken)
    if json:
        print_json(report)
    else:
        config_line = [f"config    {clean(broken)}"] if broken else []
        print("\n".join([*_lines(report), *config_line, *_harness_lines(report)]))
    return 0 if report.running and not report.problem and not broken else 1


async def _report(config: Config) -> DaemonReport:
    env = config.environ
    running = read_running(env)
    if running is None and not env.get("TIELINE_HUB"):
        pid = running_pid(env)
        return DaemonReport(
            running=False, pid=pid, problem="a node runs here: see `tieline node status`" if pid else ""
        )
    try:
        async with connect(env, patience_s=5.0) as client:
            return await _query_hub(client, running.pid if running else 0)
    except HubError as error:
        return DaemonReport(
            running=True,
            url=running.url if running else env.get("TIELINE_HUB", ""),
            pid=running.pid if running else 0,
            problem=error.message,
        )


async def _query_hub(client: Client, pid: int) -> DaemonReport:
    me, nodes, asks = await client.me(), await client.nodes(), await client.asks()
    sessions: list[SessionRecord] = await client.sessions()
    return DaemonReport(
        running=True,
        url=client.url,
        pid=pid,
        version=me.version,
        nodes=tuple(
            NodeState(
                id=node.id,
                name=node.name,
                online=node.online,
                local=node.id == me.node,
                agents=tuple(agent.name for agent in node.agents if agent.ready),
            )
            for node in nodes
        ),
        sessions=len(sessions),
        working=sum(session.status == "working" for session in sessions),
        waiting=sum(session.status == "waiting" for session in sessions),
        asks=len(asks),
        phone=await client.phone(),
    )


def _lines(report: DaemonReport) -> list[str]:
    if not report.running:
        return [report.problem or "Nothing is running here. `tieline up` starts the hub."]
    process = f" (process {report.pid})" if report.pid else ""
    if report.problem:
        return [f"hub       {report.url}{process}", f"problem   {clean(report.problem)}"]
    lines = [f"hub       {report.url}{process}, version {report.version}"]
    for node in report.nodes:
        state = "online" if node.online else "offline"
        agents = f": {', '.join(node.agents)}" if node.agents else ""
        here = ", here" if node.local else ""
        lines.append(f"machine   {one_line(node.name or node.id, 40)} ({state}{here}){one_line(agents, 200)}")
    lines.append(f"sessions  {report.sessions}: {report.working} working, {report.waiting} waiting for you")
    lines.append(f"asks      {report.asks} pending")
    if report.phone.way:
        phone_state = report.phone.url or report.phone.problem or "starting"
        lines.append(f"phones    {report.phone.way}: {one_line(phone_state, 200)}")
    return lines


def _harness_lines(report: DaemonReport) -> list[str]:
    words = {"yes": "Tieline is installed", "partly": "Tieline is installed in part", "no": "Tieline is not installed"}

    def installed(harness: HarnessReport) -> str:
        outdated = any(file.state == "outdated" for file in harness.files)
        return "Tieline is installed by another version" if outdated else words[harness.installed]

    return [
        f"harness   {each.harness}: {installed(each)}"
        + (f" ({one_line(each.hint, 80)})" if each.hint else "")
        + (f"; reads {each.reads} (agreed {time_ago(each.attached_at)} ago)" if each.attached_at else "")
        for each in report.harnesses
    ]
