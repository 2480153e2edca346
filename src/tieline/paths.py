"""Where Tieline keeps things on this machine. Only names; whoever writes there makes the folder, mode 0700."""

from collections.abc import Mapping
from pathlib import Path

from .environment import state_folder


def state(env: Mapping[str, str]) -> Path:
    """`$TIELINE_HOME`, else `$XDG_STATE_HOME/tieline`, else `~/.local/state/tieline`."""
    return Path(state_folder(env))


def bus_file(env: Mapping[str, str]) -> Path:
    return state(env) / "bus.db"


def socket_file(env: Mapping[str, str]) -> Path:
    """The owner's way into the hub that runs here. Its folder is for its owner alone."""
    return state(env) / "own" / "hub.sock"


def running_file(env: Mapping[str, str]) -> Path:
    """Says that a hub runs here: its address and process, while it does."""
    return state(env) / "hub.json"


def ending_file(env: Mapping[str, str]) -> Path:
    """What a process that is told to end waits for, line by line, for `tieline down` to show."""
    return state(env) / "ending.txt"


def log_file(env: Mapping[str, str]) -> Path:
    return state(env) / "hub.log"


def audit_file(env: Mapping[str, str]) -> Path:
    """Who came in, who decided what, what was refused; mode 0600."""
    return state(env) / "audit.jsonl"


def node_file(env: Mapping[str, str]) -> Path:
    """Which hub this machine's node is joined to, and its key; mode 0600."""
    return state(env) / "node.json"


def agents_file(env: Mapping[str, str]) -> Path:
    """What agents said of themselves when they ran here; mode 0600."""
    return state(env) / "agents.json"


def snapshots(env: Mapping[str, str]) -> Path:
    """What directories held when sessions began in them, a store for each."""
    return state(env) / "snapshots"


def trusted_file(env: Mapping[str, str]) -> Path:
    """Which code and rights of the configuration a person agreed to; mode 0600."""
    return state(env) / "trusted-code.json"
