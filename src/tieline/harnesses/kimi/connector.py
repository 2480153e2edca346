"""Kimi Code's terminals, read along: a hook names the session, whose record is in the folder of that name, below that
of its project."""

import os
import re
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ...processes.process_details import is_own
from ...processes.process_table import process_info
from ..terminals.hook_connector import HookConnector, TerminalSession
from .terminal import KimiTerminal
from .transcript import BELOW, MAIN, head_of

RECORD = Path("agents", MAIN, "wire.jsonl")
SESSION = re.compile(r"session_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MAX_PROJECTS = 10_000


class KimiConnector(HookConnector):
    harness = "kimi"
    terminal = KimiTerminal
    looks = True  # a task in the background that is over, or a time that has come, begins a turn

    def __init__(self, env: Mapping[str, str]) -> None:
        home = Path(env.get("KIMI_CODE_HOME") or Path(env.get("HOME", "/")) / ".kimi-code")
        self._records = home / "sessions"
        super().__init__(env)

    def _find_terminal(self, session: str, input: Mapping[str, Any], pid: int) -> TerminalSession | None:
        """None for Kimi's server and its editor integration: they run the same hooks, but have no terminal."""
        terminal = super()._find_terminal(session, input, pid)
        if terminal is None or not terminal.process or sys.platform != "linux":
            return terminal
        info = process_info(terminal.process)
        return terminal if info is not None and info.terminal and is_own(terminal.process) else None

    def _record(self, session: str, input: Mapping[str, Any]) -> Path | None:
        """Its folder is there before the first hook."""
        if not SESSION.fullmatch(session):
            return None
        try:
            with os.scandir(self._records) as projects:
                for project in islice(projects, MAX_PROJECTS):
                    if (folder := Path(project.path, session)).is_dir():
                        return folder / RECORD
        except OSError:
            pass
        return None

    def _is_record(self, path: str) -> bool:
        real, records = Path(os.path.realpath(path)), Path(os.path.realpath(self._records))
        inner = real.parts[len(records.parts) :]
        return real.is_relative_to(records) and len(inner) == BELOW and Path(*inner[2:]) == RECORD

    def _head(self, path: Path) -> tuple[str, float]:
        return head_of(path)
