"""Connects to Copilot CLI's terminals. A hook names each session, whose record is in the folder of that name and is
read along. Where Copilot runs with `--experimental`, it has loaded our extension as well: that wakes an idle session,
and brings words into a running turn.
"""

import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ...mesh.harness_processes import starter_of
from ...mesh.plugin_connector import PluginConnector, PluginLink
from ...mesh.push import Rung, SessionObserver
from ...sessions.records import Remote
from ..terminals.hook_connector import HookConnector
from ..terminals.hooked_terminal import HookNote
from ..terminals.transcript_connector import is_plain
from .terminal import CopilotTerminal
from .transcript import head_of

RECORD = "events.jsonl"
PERMISSION_EVENT = "permissionRequest"
BY_EXTENSION: tuple[Remote, ...] = ("prompt", "steer", "abort")


class CopilotConnector(PluginConnector):
    harness = "copilot"
    in_memory: frozenset[Rung] = frozenset({"mid_turn"})

    def __init__(self, env: Mapping[str, str]) -> None:
        super().__init__(env)
        self.records = CopilotRecords(env, self)

    @asynccontextmanager
    async def open(self, observer: SessionObserver) -> AsyncGenerator[None, None]:
        self.records.attacher = self.attacher
        async with super().open(observer), self.records.open(observer):
            yield

    def process_of(self, link: PluginLink) -> int:
        """Its extension runs in a process of its own, which Copilot has started."""
        return (starter_of(link.process) if link.process else 0) or link.process

    def on_hook(self, session: str, event: str, input: Mapping[str, Any], pid: int) -> None:
        self.records.on_hook(session, event, input, pid)

    async def answer_prompt(self, session: str, input: Mapping[str, Any], pid: int) -> str:
        """At once: the terminal shows its prompt when its hook is over."""
        terminal = self.records.terminal_of(session)
        answer = await terminal.answer_by_rule(HookNote(PERMISSION_EVENT, input, pid)) if terminal else None
        if answer is None:
            return ""
        return json.dumps({"behavior": answer.decision, **({"message": answer.reason} if answer.reason else {})})


class CopilotRecords(HookConnector):
    """The sessions that hooks tell of, read along."""

    harness = "copilot"
    terminal = CopilotTerminal
    start_event, end_event = "sessionStart", "sessionEnd"

    def __init__(self, env: Mapping[str, str], extensions: PluginConnector) -> None:
        self._states = Path(env.get("COPILOT_HOME") or Path(env.get("HOME", "/")) / ".copilot") / "session-state"
        self._extensions = extensions
        super().__init__(env)

    def terminal_of(self, session: str) -> CopilotTerminal | None:
        terminal = self._terminals.get(session)
        return terminal if isinstance(terminal, CopilotTerminal) else None

    async def _look(self, observer: SessionObserver) -> None:
        await super()._look(observer)
        for id in self._terminals:
            if terminal := self.terminal_of(id):
                linked = self._extensions.link_of(id) is not None
                await terminal.reach(self._extensions, BY_EXTENSION if linked else ())

    def _record(self, session: str, input: Mapping[str, Any]) -> Path | None:
        return self._states / session / RECORD if is_plain(session) else None

    def _is_record(self, path: str) -> bool:
        real, states = Path(os.path.realpath(path)), Path(os.path.realpath(self._states))
        return real.name == RECORD and real.parent.parent == states

    def _head(self, path: Path) -> tuple[str, float]:
        return head_of(path)
