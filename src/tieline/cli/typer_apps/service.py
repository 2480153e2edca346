"""The verbs about Tieline as a service of its user: service install, uninstall, status, run."""

from typing import TYPE_CHECKING, Annotated

import typer

from ..help import HelpCommand, family

if TYPE_CHECKING:
    from ...bootstrap.process_lock import StartResult
    from ..commands.service_manager import ServiceState

PANEL = "The hub"

Node = Annotated[bool, typer.Option("--node", help="A node of the hub that this machine is joined to, not a hub.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout.")]


def install(
    node: Node = False,
    print_only: Annotated[bool, typer.Option("--print", help="Show what would be written, and write nothing.")] = False,
    json: Json = False,
) -> None:
    """Start the hub now and after every reboot (systemd, or launchd on a Mac)."""
    from ... import config as configuration
    from ...bootstrap.process_lock import running_pid
    from ...errors import UsageError
    from ...node.hub_credentials import read_credentials
    from ..commands.service_manager import check_lasting, service_manager

    env = configuration.load().environ
    manager = service_manager(env)
    if print_only:
        print(manager.definition(node=node), end="")
        return
    if node:
        read_credentials(env, needed=True)
    check_lasting()
    manager.check()
    if (pid := running_pid(env)) and not manager.state().running:
        raise UsageError(f"one runs here already (process {pid})", hint="End it: `tieline down`, then install.")
    manager.install(node=node)
    state = manager.state()
    if json:
        _print_json(state)
        return
    print(f"Wrote {manager.file}, and started it.")
    print(f"Its log: `{manager.log}`. `tieline status` tells how it is, `tieline pair` lets a device in.")
    _tell_boot(state)
    print("It has the PATH of this shell, and none of its keys. `tieline service uninstall` takes it away.")


def uninstall(json: Json = False) -> None:
    """End the service and remove it. Sessions and messages stay."""
    from ... import config as configuration
    from ..commands.service_manager import service_manager

    manager = service_manager(configuration.load().environ)
    there = manager.file.exists()
    if there:
        manager.check()
        manager.uninstall()
    if json:
        _print_json(manager.state())
    else:
        print(f"Ended, and removed {manager.file}." if there else "No service is installed.")


def status(json: Json = False) -> None:
    """Whether the service is installed, runs, and starts by itself. Exit status 1 when it does not run."""
    from ... import config as configuration
    from ..commands.service_manager import service_manager

    manager = service_manager(configuration.load().environ)
    state = manager.state()
    if json:
        _print_json(state)
    elif not state.installed:
        print("No service is installed. `tieline service install` does it.")
    else:
        print(f"service  {state.what}, {state.state or 'unknown'}\nfile     {state.file}\nlog      {manager.log}")
        _tell_boot(state)
    raise typer.Exit(0 if state.running else 1)


def run(node: Node = False) -> None:
    """What the service runs: the hub, in the foreground. Its log has no link to sign in with."""
    from ... import config as configuration
    from ...bootstrap.daemon import run as run_here
    from ...bootstrap.process_lock import StartOptions

    def announce(started: "StartResult") -> None:
        print(f"Tieline is at {started.url}", flush=True)

    run_here(configuration.load(), StartOptions(what="node" if node else "hub"), announce, foreground=True)


def _tell_boot(state: "ServiceState") -> None:
    import sys

    if state.at_boot:
        print("It starts with the machine.")
    elif sys.platform == "darwin":
        print("It starts when you sign in.")
    else:
        print("It starts when you sign in; with the machine after `loginctl enable-linger`.")


def _print_json(state: "ServiceState") -> None:
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(state), indent=2).decode())


EXAMPLES = {
    install: """
tieline service install
tieline service install --node           after `tieline node join URL`
tieline service install --print
""",
    uninstall: """
tieline service uninstall
""",
    status: """
tieline service status
tieline service status --json | jq .running
""",
    run: """
tieline service run
tieline service run --node
""",
}


def add(app: typer.Typer) -> None:
    about = "The hub as a service, there after a reboot: install, uninstall, status, run."
    group = family(app, "service", about, panel=PANEL, examples="tieline service install")
    for verb, examples in EXAMPLES.items():
        group.command(cls=HelpCommand, epilog=examples)(verb)
