"""The shell driver with a small real command-line agent: `testing/shell_agent.py`."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ...api import open_session
from ...drivers.shell import driver as shell
from ...events import Event
from ...policy import PRESETS
from ...script import Reply
from .. import shell_agent
from ..rig import scratch_env
from ..stream_checks import collect

PROGRAM = str(Path(shell_agent.__file__))

TEXT: Mapping[str, Any] = {"prompt_by": "argument", "output": "text"}
"""The answer is what it prints; the turn ends when it exits."""

JSONL: Mapping[str, Any] = {
    "prompt_by": "stdin",
    "output": "jsonl",
    "done_when": {"type": "turn.completed"},
    "error_when": {"type": "turn.failed"},
    "error_field": "error.message",
    "text_field": "item.content[].text",
    "text_when": {"type": "item.completed", "item.kind": "message"},
    "thinking_field": "item.content[].text",
    "thinking_when": {"type": "item.completed", "item.kind": "thought"},
    "delta_field": "delta",
    "session_field": "session.id",
    "usage": {"input": "usage.in", "output": "usage.out", "cost_usd": "usage.cost"},
    "model_args": ["--model", "{model}"],
    "system_args": ["--instruction", "{system}"],
    "resume_args": ["--resume", "{session}"],
    "policy_args": {
        "read-only": ["--deny", "file_write", "--deny", "shell", "--deny", "network"],
        "edits": ["--deny", "shell", "--deny", "network"],
        "allow/deny/allow": {"args": ["--deny", "shell"], "file_write": "none", "network": "none"},
    },
}
"""The answer is in JSON lines, the turn ends with a completion event, and everything optional is there."""


class ShellRig:
    # A command line shows no tool calls and asks nothing; and every turn has a process of its own, so that the next
    # turn after a killed one simply works.
    limits = frozenset({"tools", "propose", "dead_after_kill"})

    def __init__(self, home: Path, base: Mapping[str, Any] = TEXT, **changes: Any) -> None:
        options = {**base, **changes}
        self.home = home / "agent"
        (self.home / "replies").mkdir(parents=True)
        self._played = 0
        command = [sys.executable, "-I", "-S", PROGRAM, "--dir", str(self.home), "--output", options["output"]]
        if options["prompt_by"] == "stdin":
            command.append("--stdin")
        given = {"command": command, "version_args": ["-I", PROGRAM, "--version"], **options}
        self.driver = shell.create("scripted-shell", given)
        self.options: Mapping[str, Any] = {"env": scratch_env(home / "home", path="/usr/bin:/bin")}

    def play(self, *replies: Reply) -> None:
        self.play_steps(*([msgspec.to_builtins(step) for step in reply] for reply in replies))

    def play_steps(self, *replies: list[dict[str, Any]]) -> None:
        """Replies as the agent's file has them, with the steps that are its own."""
        for reply in replies:
            self._played += 1
            (self.home / "replies" / f"{self._played:04}.json").write_bytes(msgspec.json.encode(reply))

    def heard(self) -> str:
        file = self.home / "heard.txt"
        return file.read_text() if file.exists() else ""

    def starts(self) -> list[dict[str, Any]]:
        """What each process was started with: its arguments, its prompt, its environment's MOOD."""
        return [msgspec.json.decode(line) for line in self.heard().splitlines() if line.startswith('{"argv"')]

    async def turn(self, cwd: Path, prompt: str = "hello", **changes: Any) -> list[Event]:
        """Take one turn, in a session of its own with the policy full."""
        options: dict[str, Any] = {"policy": PRESETS["full"], **self.options, **changes}
        async with open_session(self.driver, cwd=cwd, **options) as session:
            return await collect(session.turn(prompt))

    async def stalled(self) -> None:
        mark = self.home / "stalled"
        while not mark.exists():  # noqa: ASYNC110 (another process tells)
            await asyncio.sleep(0.01)
        mark.unlink()
