"""The paths of Tieline's files on this machine. The code that writes a file creates its folder, mode 0700."""

import os
from collections.abc import Mapping
from pathlib import Path

from .environment import state_folder

LONGEST_SOCKET = 100
"""Bytes of a socket's path: Linux takes 107, macOS 103."""


def state(env: Mapping[str, str]) -> Path:
    """`$TIELINE_HOME`, else `$XDG_STATE_HOME/tieline`, else `~/.local/state/tieline`."""
    return Path(state_folder(env))


def bus_file(env: Mapping[str, str]) -> Path:
    return state(env) / "bus.db"


def socket_file(env: Mapping[str, str]) -> Path:
    """The unix socket of the hub that runs here. Only its owner can open its folder. Where the state folder is too
    deep for a socket, that is a short folder of our own in /tmp."""
    path = (state(env) / "own" / "hub.sock").absolute()
    if len(os.fsencode(path)) <= LONGEST_SOCKET:
        return path
    import hashlib

    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return Path("/tmp", f"tieline-{os.getuid()}-{name}", path.name)


def running_file(env: Mapping[str, str]) -> Path:
    """The address and process id of the hub that runs here; it exists while the hub runs."""
    return state(env) / "hub.json"


def ending_file(env: Mapping[str, str]) -> Path:
    """What a stopping daemon waits for, line by line; `tieline down` shows it."""
    return state(env) / "ending.txt"


def log_file(env: Mapping[str, str]) -> Path:
    return state(env) / "hub.log"


def audit_file(env: Mapping[str, str]) -> Path:
    """The audit log: sign-ins, decisions, refusals; mode 0600."""
    return state(env) / "audit.jsonl"


def search_file(env: Mapping[str, str]) -> Path:
    """The search index of the hub; built again when it is gone; mode 0600."""
    return state(env) / "search.db"


def node_file(env: Mapping[str, str]) -> Path:
    """The hub that this machine's node is joined to, and the node's key; mode 0600."""
    return state(env) / "node.json"


def agents_file(env: Mapping[str, str]) -> Path:
    """Features that agents reported when they ran here; mode 0600."""
    return state(env) / "agents.json"


def agent_checks_file(env: Mapping[str, str]) -> Path:
    """What `tieline agents test` saw agents do here; mode 0600."""
    return state(env) / "agent-checks.json"


def models_file(env: Mapping[str, str]) -> Path:
    """The models that agents listed; mode 0600."""
    return state(env) / "models.json"


def no_project(env: Mapping[str, str]) -> Path:
    """An empty directory, for an agent that is asked something which is about no project."""
    return state(env) / "no-project"


def snapshots(env: Mapping[str, str]) -> Path:
    """Snapshots of working directories at the start of sessions, a store for each directory."""
    return state(env) / "snapshots"


def worktrees(env: Mapping[str, str]) -> Path:
    """Git worktrees that sessions and members of teams work in, a folder for each session and team."""
    return state(env) / "worktrees"


def trusted_file(env: Mapping[str, str]) -> Path:
    """The code and rights of the configuration that a person has approved; mode 0600."""
    return state(env) / "trusted-code.json"


def phone(env: Mapping[str, str]) -> Path:
    """How phones reach the hub, and the local certificate authority with its key; mode 0700, its files 0600."""
    return state(env) / "phone"
