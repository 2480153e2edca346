"""`tieline service install|uninstall|status|run`: the hub (or a node) as a service of its user."""

import sys

from ... import config as configuration
from ...bootstrap.process_lock import StartOptions, StartResult, running_pid
from ...errors import UsageError
from ...node.hub_credentials import read_credentials
from ..errors import FAILED
from ..terminal.formatting import print_json
from .service_manager import ServiceState, check_lasting, service_manager


def install(*, node: bool, print_only: bool, json: bool) -> int:
    env = configuration.load().environ
    manager = service_manager(env)
    check_lasting()
    if print_only:
        print(manager.definition(node=node), end="")
        return 0
    if node:
        read_credentials(env, needed=True)
    manager.check()
    if (pid := running_pid(env)) and not manager.state().running:
        raise UsageError(
            f"Tieline already runs here (process {pid})", hint="Stop it with `tieline down`, then install."
        )
    manager.install(node=node)
    state = manager.state()
    if json:
        print_json(state)
        return 0
    print(f"Wrote {manager.file}, and started it.")
    print(f"Log: `{manager.log}`. `tieline status` shows its state, `tieline pair` lets a device in.")
    _print_start(state)
    print("It has the PATH of this shell, and none of its keys. `tieline service uninstall` removes it.")
    return 0


def uninstall(*, json: bool) -> int:
    manager = service_manager(configuration.load().environ)
    installed = manager.file.exists()
    if installed:
        manager.check()
        manager.uninstall()
    if json:
        print_json(manager.state())
    else:
        print(f"Stopped, and removed {manager.file}." if installed else "No service is installed.")
    return 0


def show(*, json: bool) -> int:
    manager = service_manager(configuration.load().environ)
    state = manager.state()
    if json:
        print_json(state)
    elif not state.installed:
        print("No service is installed. `tieline service install` installs it.")
    else:
        print(f"service  {state.what}, {state.state or 'unknown'}\nfile     {state.file}\nlog      {manager.log}")
        _print_start(state)
    return 0 if state.running else FAILED


def run(*, node: bool) -> int:
    from ...bootstrap.daemon import run as run_daemon  # imports every part: only where it runs

    def announce(started: StartResult) -> None:
        print(f"Tieline is at {started.url}", flush=True)  # a log must hold no link to sign in with

    run_daemon(configuration.load(), StartOptions(what="node" if node else "hub"), announce, foreground=True)
    return 0


def _print_start(state: ServiceState) -> None:
    if state.at_boot:
        print("It starts with the machine.")
    elif sys.platform == "darwin":
        print("It starts when you sign in.")
    else:
        print("It starts when you sign in; with the machine after `loginctl enable-linger`.")
