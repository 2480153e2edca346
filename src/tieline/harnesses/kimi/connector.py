"""Kimi Code's terminals, read along: a hook names the session, whose record is in the folder of that name, below that
of its project."""

import os
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ..terminals.hook_connector import HookConnector
from .terminal import KimiTerminal
from .transcript import BELOW, MAIN, head_of

RECORD = Path("agents", MAIN, "wire.jsonl")
SESSION = re.compile(r"session_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MAX_PROJECTS = 10_000


class KimiConnector(HookConnector):
    harness = "kimi"
    terminal = KimiTerminal
    terminals_only = True  # its server and its part in an editor have the same hooks
    looks = True  # a task in the background that is over, or a time that has come, begins a turn

    def __init__(self, env: Mapping[str, str]) -> None:
        home = Path(env.get("KIMI_CODE_HOME") or Path(env.get("HOME", "/")) / ".kimi-code")
        self._records = home / "sessions"
        super().__init__(env)

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
