"""Which session a harness's process is at, as its hooks or its own files say: the hooks and the MCP server that one
process has started belong to the same session.
"""

from collections.abc import Container

from ..processes.process_table import process_info

MAX_ABOVE = 6
"""A harness starts hooks through shells and wrappers: so many processes above a hook may be the harness."""
MAX_KNOWN = 2000
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "fish"})

ProcessKey = tuple[str, int, int]
"""Harness, process, and its start, which tells it from a later one with the same number."""


def nearest_process(pid: int, names: Container[str]) -> str:
    """The nearest process of these names above this one, as an id that no other ever has; empty: there is none."""
    for _ in range(MAX_ABOVE):
        info = process_info(pid)
        if info is None or (parent := process_info(info.parent)) is None:
            return ""
        pid = info.parent
        if parent.name in names:
            return f"{parent.name}-{pid}-{parent.start}"
    return ""


def starter_of(pid: int) -> int:
    """The harness that started a hook with this process, through shells or not. 0: it cannot be told."""
    for _ in range(MAX_ABOVE):
        info = process_info(pid)
        if info is None or info.parent <= 1 or (parent := process_info(info.parent)) is None:
            return 0
        pid = info.parent
        if parent.name not in SHELLS:
            return pid
    return 0


class HarnessProcesses:
    def __init__(self) -> None:
        self._sessions: dict[ProcessKey, str] = {}

    def on_hook(self, pid: int, harness: str, session: str) -> None:
        """A hook that runs as this process is of that session."""
        for _ in range(MAX_ABOVE):
            info = process_info(pid)
            if info is None or info.parent <= 1 or (parent := process_info(info.parent)) is None:
                return
            pid = info.parent
            self._put((harness, pid, parent.start), session)

    def on_session(self, pid: int, harness: str, session: str) -> None:
        """The harness itself says that this process of its is at that session."""
        if info := process_info(pid):
            self._put((harness, pid, info.start), session)

    def _put(self, key: ProcessKey, session: str) -> None:
        self._sessions.pop(key, None)  # the latest last
        self._sessions[key] = session
        if len(self._sessions) > MAX_KNOWN:
            del self._sessions[next(iter(self._sessions))]

    def session_of(self, pid: int, harness: str) -> str:
        """The session of the MCP server that runs as this process; empty when its harness told of none yet. Only its
        own parent counts: farther up is what several harnesses have in common."""
        info = process_info(pid)
        parent = process_info(info.parent) if info is not None else None
        if info is None or parent is None:
            return ""
        return self._sessions.get((harness, info.parent, parent.start), "")
