"""Sessions of MCP servers, known by the process that started them: real processes below a stand-in for a harness."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

from tieline.mesh.harness_processes import MAX_KNOWN, HarnessProcesses

HARNESS = """
import subprocess, sys
children = [subprocess.Popen(argv, stdin=subprocess.PIPE) for argv in (["sleep", "60"], ["sh", "-c", "sleep 60; true"])]
print(*(child.pid for child in children), flush=True)
sys.stdin.read()
for child in children:
    child.kill()
    child.wait()  # else it may be seen once more, as an orphan of a subreaper above us
"""


@contextmanager
def harness() -> Generator[tuple[int, int]]:
    """The process ids of its MCP server and of a shell that runs its hook."""
    argv = [sys.executable, "-c", HARNESS]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        server, hook = map(int, process.stdout.readline().split())
        yield server, hook
        process.stdin.close()


def test_hooks_and_the_server_of_one_process_are_one_session() -> None:
    known = HarnessProcesses()
    with harness() as (server, hook), harness() as (other, _):
        assert known.session_of(server, "gemini") == ""
        known.on_hook(hook, "gemini", "s-1")
        assert known.session_of(server, "gemini") == "s-1"
        assert known.session_of(server, "qwen") == ""
        assert known.session_of(other, "gemini") == ""  # both have us above them, which says nothing
        known.on_hook(hook, "gemini", "s-2")
        assert known.session_of(server, "gemini") == "s-2"


def test_processes_that_are_gone_are_nobody() -> None:
    known = HarnessProcesses()
    with harness() as (server, hook):
        known.on_hook(hook, "gemini", "s-1")
    assert known.session_of(server, "gemini") == ""
    known.on_hook(hook, "gemini", "s-1")


def test_what_is_known_is_bounded() -> None:
    known = HarnessProcesses()
    for number in range(MAX_KNOWN + 10):
        known.on_hook(os.getpid(), f"harness-{number}", "s")
    assert len(known._sessions) <= MAX_KNOWN  # pyright: ignore[reportPrivateUsage]
