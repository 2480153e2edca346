"""Droid's terminals, read along: each hook names the file of its session's record."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..terminals.hook_connector import HookConnector
from ..terminals.transcript_connector import is_plain
from .terminal import DroidTerminal
from .transcript import head_of


class DroidConnector(HookConnector):
    harness = "droid"
    terminal = DroidTerminal
    looks = True  # a task in the background that is over begins a turn
    terminals_only = True  # its daemon and its part in an editor have the same hooks

    def __init__(self, env: Mapping[str, str]) -> None:
        self._records = Path(env.get("HOME", "/")) / ".factory" / "sessions"
        super().__init__(env)

    def _record(self, session: str, input: Mapping[str, Any]) -> Path | None:
        path = input.get("transcript_path")
        return Path(path) if isinstance(path, str) and is_plain(session) and Path(path).stem == session else None

    def _is_record(self, path: str) -> bool:
        real, records = Path(os.path.realpath(path)), Path(os.path.realpath(self._records))
        return real.suffix == ".jsonl" and real.parent.parent == records

    def _head(self, path: Path) -> tuple[str, float]:
        return head_of(path)
