"""`tieline run` with the real agents is ended from outside in the middle of a turn: nothing of them is left."""

import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tieline.script import Say, Stall
from tieline.testing.rigs.acp import GeminiRig
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.rigs.codex import codex_rig
from tieline.testing.rigs.opencode import OpenCodeRig
from tieline.testing.wait_for import eventually

pytestmark = pytest.mark.real

BINARIES = Path(__file__).parents[1] / "agents/node_modules/.bin"
TIELINE = Path(sys.executable).parent / "tieline"

RIGS: dict[str, Callable[[Path], AbstractAsyncContextManager[Any]]] = {
    "claude-code": ClaudeCodeRig,
    "codex": lambda home: codex_rig(home, BINARIES / "codex"),
    "opencode": lambda home: OpenCodeRig(home, str(BINARIES / "opencode")),
    "gemini": lambda home: GeminiRig(home, BINARIES),
}


def carrying(mark: str) -> list[str]:
    """Processes with this in their environment, wherever they are and whoever their parent is."""
    command_lines: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"TEST_MARK={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                command_lines.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return command_lines


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
@pytest.mark.parametrize("name", RIGS)
async def test_nothing_is_left(name: str, number: signal.Signals, tmp_path: Path) -> None:
    folder = tmp_path / "place"
    folder.mkdir()
    async with RIGS[name](tmp_path / "home") as rig:
        rig.play([Say("The beginning. "), Stall()])
        own: dict[str, str] = dict(rig.options["env"])
        mark = msgspec.json.encode(str(tmp_path)).decode()
        env = {**own, "PATH": f"{BINARIES}:{own['PATH']}", "TEST_MARK": mark}
        options = ["--model", rig.options["model"]] if "model" in rig.options else []
        process = await asyncio.create_subprocess_exec(
            str(TIELINE),
            *("run", name, "tell me", "--json", *options),
            cwd=folder,
            env=env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(60):
                await rig.stalled()
            assert len(carrying(mark)) >= 2, "the agent is there"
            process.send_signal(number)
            async with asyncio.timeout(20):
                await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        await eventually(lambda: not carrying(mark), f"left over: {carrying(mark)}")
