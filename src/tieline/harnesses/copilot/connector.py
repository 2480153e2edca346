"""Copilot CLI's terminals, read along: a hook names the session, whose record is in the folder of that name."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..terminals.hook_connector import HookConnector
from ..terminals.hooked_terminal import HookNote
from ..terminals.transcript_connector import is_plain
from .terminal import CopilotTerminal
from .transcript import head_of

RECORD = "events.jsonl"
PERMISSION_EVENT = "permissionRequest"


class CopilotConnector(HookConnector):
    harness = "copilot"
    terminal = CopilotTerminal
    start_event, end_event = "sessionStart", "sessionEnd"

    def __init__(self, env: Mapping[str, str]) -> None:
        self._states = Path(env.get("COPILOT_HOME") or Path(env.get("HOME", "/")) / ".copilot") / "session-state"
        super().__init__(env)

    async def answer_prompt(self, session: str, input: Mapping[str, Any], pid: int) -> str:
        """At once: the terminal shows its prompt when its hook is over."""
        terminal = self._terminals.get(session)
        answer = await terminal.answer_by_rule(HookNote(PERMISSION_EVENT, input, pid)) if terminal else None
        if answer is None:
            return ""
        return json.dumps({"behavior": answer.decision, **({"message": answer.reason} if answer.reason else {})})

    def _record(self, session: str, input: Mapping[str, Any]) -> Path | None:
        return self._states / session / RECORD if is_plain(session) else None

    def _is_record(self, path: str) -> bool:
        real, states = Path(os.path.realpath(path)), Path(os.path.realpath(self._states))
        return real.name == RECORD and real.parent.parent == states

    def _head(self, path: Path) -> tuple[str, float]:
        return head_of(path)
