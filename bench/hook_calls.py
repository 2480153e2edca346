"""What Tieline's hooks add to a turn of Claude Code: a call of our tool through `tieline mcp`, from the line that the
harness writes to the line that it reads, with the hub and without it.

A turn with one tool call has three of them. The rest of what we do there runs beside the turn.
"""

import asyncio
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.mesh.mcp_clients import PROGRAM

from tieline.client.hub_address import running_hub
from tieline.protocol.mesh import HOOK_TOOL

from .mesh import hub_beside
from .rows import Row, at_most

ROUNDS = 200
EVENTS = ("UserPromptSubmit", "PostToolUse", "Stop")
TURN_S = 0.37
"""What Claude Code itself says that a turn with one tool call takes, over a model that answers at once."""
SHARE = 0.05
SESSION = "5e8d8e0c-1111-4111-8111-111111111111"


class Bridge:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._count = 0

    def call(self, method: str, **params: Any) -> float:
        """Until it is answered; seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._count += 1
        message = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        start = time.perf_counter()
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        assert b'"result"' in self._process.stdout.readline()
        return time.perf_counter() - start

    def turn(self) -> float:
        """Its three hooks."""
        seconds = 0.0
        for event in EVENTS:
            arguments = {"event": event, "session_id": SESSION, "prompt_id": str(self._count), "tool_use_id": ""}
            seconds += self.call("tools/call", name=HOOK_TOOL, arguments=arguments)
        return seconds


@contextmanager
def bridge(env: Mapping[str, str]) -> Generator[Bridge, None, None]:
    environment = {**env, "TIELINE_HARNESS": "claude-code", "CLAUDE_CODE_SESSION_ID": SESSION}
    with subprocess.Popen(
        [PROGRAM, "mcp", "--no-start"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            yield Bridge(process)
        finally:
            process.kill()


async def rows(path: Path) -> list[Row]:
    away = {"HOME": str(path / "away"), "PATH": "/usr/bin:/bin"}
    async with hub_beside(path) as hub:
        assert running_hub(hub.env) is not None
        with bridge(hub.env) as ours, bridge(away) as down:
            client = {"name": "claude-code", "version": "2"}
            ours.call("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
            taken: list[tuple[float, float]] = []
            for number in range(ROUNDS + 20):
                times = await asyncio.to_thread(ours.turn), await asyncio.to_thread(down.turn)
                if number >= 20:  # before that, code runs for the first time
                    taken.append(times)
    note = f"seconds, against {SHARE:.0%} of a turn with a tool call, which takes Claude Code {TURN_S} s"
    names = ("the three hooks of a turn", "… with the hub down")
    medians = (statistics.median(times) for times in zip(*taken, strict=True))
    return [at_most(name, each, SHARE * TURN_S, 1, note) for name, each in zip(names, medians, strict=True)]


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as directory:
        return asyncio.run(rows(Path(directory)))


if __name__ == "__main__":
    for row in measure():
        print(row)
