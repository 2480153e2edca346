"""The hooks that a harness calls through `tieline mcp`: a turn of a person waits for them, so they wait for no hub."""

import json
import os
import select
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.mesh.mcp_clients import PROGRAM

from tieline.cli.mcp.stdio_bridge import HOOK_S
from tieline.paths import state as state_directory
from tieline.protocol.mesh import HOOK_TOOL
from tieline.testing.rig import scratch_env

BOUND_S = 60.0
NOTHING = {"content": [{"type": "text", "text": "{}"}]}


class StartedBridge:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._count = 0

    def hook(self) -> Any:
        """What the harness is answered."""
        self._count += 1
        arguments = {"event": "UserPromptSubmit", "session_id": "s-1"}
        params = {"name": HOOK_TOOL, "arguments": arguments}
        call = {"jsonrpc": "2.0", "id": self._count, "method": "tools/call", "params": params}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(call).encode() + b"\n")
        self._process.stdin.flush()
        assert select.select([self._process.stdout], [], [], BOUND_S)[0], "it does not answer"
        answer = json.loads(self._process.stdout.readline())
        assert answer["id"] == self._count
        return answer.get("result")


@contextmanager
def started_bridge(env: dict[str, str]) -> Generator[StartedBridge, None, None]:
    with subprocess.Popen(
        [PROGRAM, "mcp", "--harness", "claude-code"],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield StartedBridge(process)
        finally:
            process.kill()


def test_without_a_hub_a_hook_says_nothing_and_starts_none(tmp_path: Path) -> None:
    env = scratch_env(tmp_path, path=os.defpath)
    with started_bridge(env) as bridge:
        assert [bridge.hook() for _ in range(3)] == [NOTHING] * 3
    assert not state_directory(env).exists()


@pytest.mark.slow
def test_a_hub_that_does_not_answer_holds_a_hook_up_for_a_moment_only(tmp_path: Path) -> None:
    env = scratch_env(tmp_path / "home", path=os.defpath)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        state = state_directory(env)
        state.mkdir(parents=True)
        (state / "hub.json").write_text(json.dumps({"pid": os.getpid(), "socket": str(tmp_path / "s")}))
        with started_bridge(env) as bridge:
            start = time.monotonic()
            assert bridge.hook() == NOTHING
            assert time.monotonic() - start >= HOOK_S
