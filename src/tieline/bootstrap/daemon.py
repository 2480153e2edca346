"""The daemon: chooses the concrete parts of a hub or node, puts them together and runs them.

A hub (with a node in the same process, or alone) or a node that is joined to a hub elsewhere. One of them per state
directory: a lock says so, which the kernel lets go of however its holder ends.
"""

import asyncio
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import msgspec
from msgspec.structs import replace

from .. import config as configuration
from .. import paths, state_directory
from ..background_tasks import cancel_and_wait
from ..bus import open_bus
from ..bus.base import Bus
from ..client.hub_address import RunningHub
from ..config import Config
from ..drivers.base import McpServer
from ..environment import state_folder
from ..errors import TielineError
from ..hub.app import build
from ..hub.http.server import ServerAddress, serve
from ..hub.hub import Hub
from ..hub.ops.logs import Logs, logger
from ..hub.phone.phone_access import PhoneAccess
from ..node.command_executor import CommandExecutor
from ..node.hub_credentials import HubCredentials, read_credentials, write_link_status
from ..node.hub_link import HubLink, LinkStatus
from ..node.node_identity import NodeIdentity, identify
from ..processes import subreaper
from ..schedules.manager import ScheduleManager
from ..schedules.scheduler import Scheduler
from ..sessions.manager import SessionManager
from ..teams.member_tools import MemberTools
from ..teams.teams import Teams
from ..teams.turn_commits import TeamWorktrees
from ..version import __version__
from .mesh import open_mesh
from .nats_server import nats_server
from .node_terminals import open_terminals
from .process_lock import REJOIN, StartOptions, StartResult, running_file, single_instance
from .relay import HubSessions, open_relay
from .shutdown_progress import ShutdownProgress

OPEN_FILES = 16_384
"""Three times the connections that a hub takes at once."""

# --- putting together -------------------------------------------------------------------------------------


@asynccontextmanager
async def node_on(
    bus: Bus,
    config: Config,
    identity: NodeIdentity,
    farewell: ShutdownProgress | None = None,
    team_server: McpServer | None = None,
) -> AsyncGenerator[CommandExecutor]:
    """This machine's sessions and agents. `team_server`: the MCP server of the hub, where that runs here too."""
    farewell = farewell or ShutdownProgress(config.environ)
    async with (
        SessionManager(bus, config, node=identity.id, team_server=team_server, ending=farewell.turns) as manager,
        CommandExecutor(manager, bus, config, identity=identity) as executor,
    ):
        yield executor


@asynccontextmanager
async def hub_on(
    config: Config, *, node: bool = True, rejoin: asyncio.Event | None = None, farewell: ShutdownProgress | None = None
) -> AsyncGenerator[tuple[Hub, ServerAddress]]:
    """A hub that serves, by what the configuration says, inside the block. `rejoin` is set when this machine joined
    another hub, or left it."""
    env = config.environ
    farewell = farewell or ShutdownProgress(env)
    async with AsyncExitStack() as stack:
        stack.callback(farewell.step, "")
        bus = await stack.enter_async_context(open_bus(config.bus_url()))
        local: CommandExecutor | None = None
        if node:
            local = await stack.enter_async_context(node_on(bus, config, identify(env), farewell, mcp_bridge(env)))
        hub = await stack.enter_async_context(Hub(bus, config, env=env, local=local))
        relay = await stack.enter_async_context(open_relay(hub, wait=False))
        mesh = await stack.enter_async_context(open_mesh(hub, relay, local.manager if local else None))
        worktrees = TeamWorktrees(config.environ)
        teams = Teams(bus, HubSessions(hub), worktrees=worktrees, keep_days=config.hub.keep_events_days)
        hub.teams = await stack.enter_async_context(teams)
        mesh.teams = MemberTools(bus, teams, worktrees)
        await stack.enter_async_context(Scheduler(bus, HubSessions(hub)))
        hub.schedules = ScheduleManager(bus)
        stack.callback(farewell.step, "the channels")
        if local is not None:
            await stack.enter_async_context(_linked(bus, local, env, rejoin or asyncio.Event()))
        app = build(hub)
        serving = await stack.enter_async_context(
            serve(
                app,
                host=config.hub.host,
                port=config.hub.port,
                config=config.hub,
                socket_path=paths.socket_file(env),
            )
        )
        stack.callback(farewell.step, "open connections")
        hub.url = config.hub.public_url or reachable(serving)
        phone = PhoneAccess(app, serving, hub_url=hub.url, env=hub.env, origins=hub.origins, audit=hub.audit)
        hub.phone = await stack.enter_async_context(phone)
        yield hub, serving


def mcp_bridge(env: Mapping[str, str]) -> McpServer:
    """How an agent of this machine reaches the hub's MCP server. What lies in its directory is not imported (-I)."""
    command = (sys.executable, "-I", "-m", "tieline", "mcp", "--no-start")
    return McpServer(command=command, env={"TIELINE_HOME": state_folder(env)})


def reachable(serving: ServerAddress) -> str:
    """Where other devices reach it: by the address that this machine has in its network, if it listens on all."""
    if serving.host not in ("", "0.0.0.0", "::"):
        return serving.url
    family = socket.AF_INET6 if serving.host == "::" else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("2001:db8::1" if serving.host == "::" else "192.0.2.1", 9))  # sends nothing
            return replace(serving, host=probe.getsockname()[0]).url
        except OSError:  # no network
            return serving.url


async def _link(
    bus: Bus, executor: CommandExecutor, env: Mapping[str, str], joined: HubCredentials, *, keep_days: float = 0.0
) -> None:
    """This machine's node, joined to a hub elsewhere until it is cancelled. How it is, is written down for those who
    ask; also how it ended. Raises KeyRefused, BusError."""
    log = logger("node")

    def changed(situation: LinkStatus) -> None:
        write_link_status(env, situation)
        log.info("link", hub=joined.url, state=situation.state, problem=situation.problem)

    link = HubLink(bus, executor, url=joined.url, key=joined.key, changed=changed, keep_days=keep_days)
    write_link_status(env, link.situation)
    try:
        await link.run()
    except TielineError as error:
        changed(LinkStatus(state="refused", problem=f"{error.message}. {error.hint}".strip()))
        raise
    except asyncio.CancelledError:
        write_link_status(env, None)
        raise


@asynccontextmanager
async def _linked(
    bus: Bus, executor: CommandExecutor, env: Mapping[str, str], again: asyncio.Event
) -> AsyncGenerator[None]:
    """A link to the hub that this machine is joined to, if it is; looked at anew whenever `again` is set."""

    async def link() -> None:
        try:
            if joined := read_credentials(env):
                await _link(bus, executor, env, joined)
            else:
                await executor.manager.rules.forget_joined()
        except TielineError as error:
            logger("node").error("no link", problem=error.message, hint=error.hint)
        except Exception:
            logger("node").exception("the link failed; `tieline down`, then `tieline up` connects again")

    async def keep_linking() -> None:
        while True:
            again.clear()
            linking = asyncio.create_task(link())
            try:
                await again.wait()
            finally:
                await cancel_and_wait(linking)

    task = asyncio.create_task(keep_linking())
    try:
        yield
    finally:
        await cancel_and_wait(task)


# --- running ----------------------------------------------------------------------------------------------


def configured(config: Config, order: StartOptions) -> Config:
    """The configuration with what was said on the command line."""
    hub = config.hub
    changes = {"host": order.host or hub.host, "insecure": order.insecure or hub.insecure}
    return replace(
        config,
        bus=order.bus or config.bus,
        hub=replace(hub, port=hub.port if order.port is None else order.port, **changes),
    )


async def run_hub(config: Config, order: StartOptions, *, started: Callable[[StartResult], None]) -> None:
    """Until a signal ends it. Raises AlreadyRunning, StateUnusable, BusError, UsageError, NoNatsServer."""
    env = config.environ
    rejoin = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(REJOIN, rejoin.set)
    with single_instance(env):
        state_directory.prepare(env)
        farewell = ShutdownProgress(env)
        async with AsyncExitStack() as stack:
            if order.nats:
                config = replace(config, bus=await stack.enter_async_context(nats_server(env)))
            hub, serving = await stack.enter_async_context(
                hub_on(config, node=order.node, rejoin=rejoin, farewell=farewell)
            )
            running = RunningHub(
                serving.url,
                os.getpid(),
                __version__,
                hub.dispatcher.local,
                config.source,
                serving.socket,
                "nats" if order.nats else order.bus.rpartition("@")[2],
            )
            with running_file(env, running):
                secret, _ = await hub.devices.offer("page", name="", by="owner")
                waiting = hub.channels.waiting() if hub.channels else ()
                stop = _end_signals()
                phone = (hub.phone.status().way or "") if hub.phone else ""
                login = f"{hub.url.rstrip('/')}/#login={secret}"
                started(StartResult(url=hub.url, login=login, phone=phone, waiting=waiting))
                hub.log.info("up", url=hub.url, node=hub.dispatcher.local)
                await _wait_for_signal(stop)
                hub.log.info("going down")
                farewell.begin(_stop_starting(hub.local))


async def run_node(config: Config, *, started: Callable[[StartResult], None]) -> None:
    """Joined, until a signal ends it. Raises KeyRefused when the hub has forgotten this machine."""
    env = config.environ
    joined = read_credentials(env, needed=True)
    assert joined is not None
    with single_instance(env):
        state_directory.prepare(env)
        farewell = ShutdownProgress(env)
        async with (
            open_bus(config.bus_url()) as bus,
            node_on(bus, config, identify(env), farewell) as executor,
            open_terminals(executor.manager, env),
        ):
            linking = _link(bus, executor, env, joined, keep_days=config.hub.keep_events_days)
            tasks = [asyncio.create_task(linking), asyncio.create_task(_wait_for_signal(_end_signals()))]
            started(StartResult(url=joined.url))
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if tasks[0].done():
                    tasks[0].result()
            finally:
                farewell.begin(_stop_starting(executor))
                await cancel_and_wait(*tasks)


def _stop_starting(node: CommandExecutor | None) -> int:
    """Nothing begins from here on; how many prompts wait for the next start."""
    if node is None:
        return 0
    node.manager.stop_starting()
    return sum(len(node.manager.prompts.waiting(id)) for id in node.manager.prompts.sessions())


ENDS = (signal.SIGTERM, signal.SIGINT)


def _end_signals() -> asyncio.Event:
    """Set by a signal to end. Made before anybody is told that it runs, or a signal right then would kill it."""
    stop = asyncio.Event()
    for number in ENDS:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def _wait_for_signal(stop: asyncio.Event) -> None:
    """Then the next signal kills."""
    try:
        await stop.wait()
    finally:
        for number in ENDS:
            asyncio.get_running_loop().remove_signal_handler(number)


def run(config: Config, order: StartOptions, started: Callable[[StartResult], None], *, foreground: bool) -> None:
    """In this process, with its log in the file and, in the foreground, on the terminal."""
    config = configured(config, order)
    subreaper.become()
    allow_open_files()
    with Logs(paths.log_file(config.environ), sys.stderr if foreground else None):
        asyncio.run(_run(config, order, started))


def allow_open_files() -> None:
    """As many as the connections and agents of a hub need; most systems give 1024 to who asks for no more."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if most == resource.RLIM_INFINITY else min(OPEN_FILES, most)
    if limit != resource.RLIM_INFINITY and limit < wanted:
        with suppress(OSError, ValueError):  # a system may have a limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


async def _run(config: Config, order: StartOptions, started: Callable[[StartResult], None]) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, subreaper.kill_orphans)
    if order.what == "node":
        await run_node(config, started=started)
    else:
        await run_hub(config, order, started=started)


def main(argument: str) -> int:
    """A process in the background: does what it is told and says on a descriptor how it began."""
    order = msgspec.json.decode(argument, type=StartOptions)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal it was started from may go

    def say(started: StartResult) -> None:
        nonlocal reported
        if not reported:
            reported = True
            os.write(order.ready, msgspec.json.encode(started) + b"\n")
            os.close(order.ready)

    reported = False
    try:
        run(configuration.load(), order, say, foreground=False)
    except BaseExceptionGroup as group:
        say(StartResult(problem=str(group.exceptions[0])))
        raise
    except TielineError as error:
        if reported:
            logger("daemon").error("ended", problem=error.message)
        say(StartResult(problem=error.message, hint=error.hint))
        return 1
    return 0
