"""Gemini CLI's terminals, read along: each hook names the file of its session's record."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..terminals.hook_connector import HookConnector
from .terminal import GeminiTerminal
from .transcript import head_of


class GeminiConnector(HookConnector):
    harness = "gemini"
    terminal = GeminiTerminal

    def __init__(self, env: Mapping[str, str]) -> None:
        self._chats = Path(env.get("GEMINI_CLI_HOME") or env.get("HOME", "/")) / ".gemini" / "tmp"
        super().__init__(env)

    def _record(self, session: str, input: Mapping[str, Any]) -> Path | None:
        path = input.get("transcript_path")
        return Path(path) if isinstance(path, str) else None

    def _is_record(self, path: str) -> bool:
        real, chats = Path(os.path.realpath(path)), Path(os.path.realpath(self._chats))
        return real.is_relative_to(chats) and real.parent.name == "chats" and real.suffix == ".jsonl"

    def _head(self, path: Path) -> tuple[str, float]:
        return head_of(path)
