"""Who is at the other end of the owner's socket. The kernel says which process connected; that process's descent says
whether a person started it, or an agent.

A connection is whoever made it: it is looked at once, when it comes. What cannot be looked at is nobody we know.
"""

import os
import socket
import sys

from msgspec import Struct

from ...processes.ancestry import UNKNOWN, Ancestry, ancestry
from ...processes.process_table import read_entry
from ...processes.socket_peer import peer_process

MAX_COMMAND = 120
"""Characters of a caller's command that are told."""
MAX_CMDLINE = 4096
"""Bytes of it that are read."""
_PEERPIDFD = 77  # Linux 6.5; Python has no name for it yet


class LocalPeer(Struct, frozen=True, kw_only=True):
    pid: int = 0
    problem: str = ""  # why it is nobody we know
    mark: str | None = None  # of the agent that it descends from
    cwd: str = ""
    command: str = ""
    lineage: tuple[int, ...] = ()  # the process and those above it
    terminal: int = 0  # the terminal that controls it; 0: none

    @property
    def via(self) -> str:
        return f"pid {self.pid} {self.command}".rstrip()


def peer_of(connection: socket.socket) -> LocalPeer:
    """Never raises: a peer that cannot be identified has a `problem`."""
    try:
        pid, uid = peer_process(connection)
    except OSError as error:
        return LocalPeer(problem=f"the system does not say which process connected: {error.strerror}")
    if uid != os.getuid():
        return LocalPeer(pid=pid, problem="this socket is for the user who runs the hub")
    handle = _pidfd(connection)
    try:
        process_ancestry, cwd, command = ancestry(pid), _cwd(pid), _command(pid)
        if handle is not None and _has_exited(
            handle
        ):  # then what was read may belong to another process with the same pid
            return LocalPeer(pid=pid, problem="the process that connected is gone")
    except (OSError, ValueError):
        process_ancestry, cwd, command = Ancestry(UNKNOWN), "", ""
    finally:
        if handle is not None:
            os.close(handle)
    if process_ancestry.agent == UNKNOWN:
        why = "only a person may do this, and the hub cannot tell whether a person started this process"
        return LocalPeer(pid=pid, problem=why, command=command)
    return LocalPeer(
        pid=pid,
        mark=process_ancestry.agent,
        cwd=cwd,
        command=command,
        lineage=process_ancestry.processes,
        terminal=process_ancestry.terminal,
    )


def _pidfd(connection: socket.socket) -> int | None:
    """The process itself, not only its number; None where the system has none to give."""
    if sys.platform != "linux":
        return None
    try:
        return connection.getsockopt(socket.SOL_SOCKET, _PEERPIDFD)
    except OSError:
        return None


def _has_exited(handle: int) -> bool:
    import select

    return bool(select.select([handle], [], [], 0)[0])


def _cwd(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/cwd") if sys.platform == "linux" else ""  # noqa: PTH115


def _command(pid: int) -> str:
    """As a person would have typed it, short and printable."""
    if sys.platform != "linux":
        return ""
    words = [word.decode(errors="replace") for word in read_entry(pid, "cmdline", MAX_CMDLINE).split(b"\0")[:-1]]
    if len(words) > 1 and _name(words[0]).startswith("python") and not words[1].startswith("-"):
        words = words[1:]
    if words:
        words[0] = _name(words[0])
    text = " ".join(words)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= MAX_COMMAND else text[: MAX_COMMAND - 1] + "…"


def _name(program: str) -> str:
    return program.rstrip("/").rpartition("/")[2]
