"""Descent: what an agent started is known to be that agent's, whatever it does to be nobody's."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tieline.processes import guard_client, process_table, spawn
from tieline.processes.ancestry import UNKNOWN, Ancestry, agent_ancestor, ancestry
from tieline.processes.async_process import Process
from tieline.testing.wait_for import eventually

ENV = {"PATH": "/usr/bin:/bin"}

ORPHAN = """
import os, signal, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(15, signal.SIG_IGN)
        signal.signal(1, signal.SIG_IGN)
        code = "import os, signal; print(os.getpid(), flush=True); os.dup2(2, 1); signal.pause()"
        os.chdir("/")
        os.execve(sys.executable, [sys.executable, "-I", "-c", code], {})
    os._exit(0)
os.wait()
signal.pause()
"""
"""Double fork, a session of its own, an emptied environment, SIGTERM ignored."""

SHELLS = {
    "setsid": "setsid {python} & wait",
    "nohup": "nohup {python} 2>/dev/null & wait",
    "env -i": "env -i {python} & wait",
    "all": "(setsid nohup env -i {python} 2>/dev/null &) ; sleep 300",
}
CHILD = "import os, signal; print(os.getpid(), flush=True); signal.pause()"


@asynccontextmanager
async def running(tmp_path: Path, *argv: str) -> AsyncGenerator[tuple[Process, str, int], None]:
    """A child, its mark, and the process that it tells of."""
    process = Process.start(argv, cwd=tmp_path, env=ENV)
    (mark,) = [mark for mark, pid in spawn.live().items() if pid == process.pid]
    async with process:
        async for batch in process.lines():
            yield process, mark, int(batch[0])
            return
    raise AssertionError("it told of nothing")


def parent(pid: int) -> int:
    process = process_table.process_info(pid)
    return process.parent if process else 0


def over(pid: int) -> bool:
    process = process_table.process_info(pid)
    return process is None or process.over


def test_a_person_descends_from_no_agent() -> None:
    assert agent_ancestor(os.getpid()) is None
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as shell:
        assert agent_ancestor(shell.pid) is None
        assert shell.stdin is not None
        shell.stdin.close()


@pytest.mark.parametrize("how", SHELLS)
async def test_what_a_shell_starts(tmp_path: Path, how: str) -> None:
    command = SHELLS[how].format(python=f'{sys.executable} -I -c "{CHILD}"')
    async with running(tmp_path, "/bin/sh", "-c", command) as (process, mark, pid):
        assert agent_ancestor(process.pid) == mark
        assert agent_ancestor(pid) == mark
        process.kill()
    await eventually(lambda: over(pid), "it outlives its agent")


async def test_a_daemon_that_was_left_behind(tmp_path: Path) -> None:
    async with running(tmp_path, sys.executable, "-I", "-c", ORPHAN) as (process, mark, pid):
        await eventually(lambda: parent(pid) in spawn.reapers(), "it has no new parent")
        assert pid not in process_table.marked({mark}) and os.getsid(pid) != process.pid
        assert agent_ancestor(pid) == mark
        process.signal(signal.SIGTERM)  # the agent leaves; the daemon does not
        assert await process.wait(10)
        assert agent_ancestor(pid) == mark
        assert not over(pid)
    await eventually(lambda: over(pid), "it outlives its agent")


async def test_each_is_of_its_own_agent(tmp_path: Path) -> None:
    async with running(tmp_path, sys.executable, "-I", "-c", ORPHAN) as (here, first_mark, first_pid):
        async with running(tmp_path, sys.executable, "-I", "-c", ORPHAN) as (there, second_mark, second_pid):
            assert (agent_ancestor(first_pid), agent_ancestor(second_pid)) == (first_mark, second_mark)
            there.kill()
        here.kill()


async def test_one_that_kills_its_reaper_ends(tmp_path: Path) -> None:
    """Whoever gets rid of it is an orphan of the guard, which ends it; meanwhile it is somebody's that is not known."""
    async with running(tmp_path, sys.executable, "-I", "-c", ORPHAN) as (process, mark, pid):
        guard = guard_client.pid()
        assert guard is not None
        os.kill(guard, signal.SIGSTOP)
        try:
            (reaper,) = [reaper for reaper, agent in spawn.reapers().items() if agent == mark]
            os.kill(reaper, signal.SIGKILL)
            await eventually(lambda: parent(pid) == guard, "it is nobody's")
            assert agent_ancestor(pid) == UNKNOWN
        finally:
            os.kill(guard, signal.SIGCONT)
        await eventually(lambda: over(pid) and over(process.pid), "it lives on")
        assert await process.wait(10)
        assert process.returncode == -signal.SIGKILL


async def test_a_guard_that_was_killed_changes_nothing_for_those_below_a_reaper(tmp_path: Path) -> None:
    async with running(tmp_path, sys.executable, "-I", "-c", ORPHAN) as (process, mark, pid):
        assert guard_client._guard is not None  # pyright: ignore[reportPrivateUsage]
        guard_client._guard.kill()  # pyright: ignore[reportPrivateUsage]
        assert agent_ancestor(pid) == mark
        process.kill()
    await eventually(lambda: over(pid), "it outlives its agent")


DAEMON = f"""
import os, signal, subprocess, sys
sys.path.insert(0, {str(Path(spawn.__file__).parents[2])!r})
from tieline.processes import guard_client, process_table, subreaper
from tieline.processes.ancestry import agent_ancestor
from tieline.processes.spawn import spawn
subreaper.become()
own = subprocess.Popen(["/bin/sh", "-c", "read word; exit 7"], stdin=subprocess.PIPE)
launched = spawn([sys.executable, "-I", "-c", sys.argv[1]], cwd="/", env={{}})
orphan, reaper = int(launched.child.stdout.readline()), launched.child.reaper
print(agent_ancestor(own.pid), agent_ancestor(orphan) == launched.mark)
os.kill(guard_client.pid(), signal.SIGKILL)
while process_table.process_info(reaper).parent != os.getpid():
    pass
subreaper.kill_orphans()
print(agent_ancestor(orphan) == launched.mark)
os.kill(reaper, signal.SIGKILL)
while process_table.process_info(orphan).parent != os.getpid():
    pass
print(agent_ancestor(orphan), agent_ancestor(os.getpid()))
while set(process_table.children()) - {{own.pid}}:  # the orphan, and whoever was killed before it, one by one
    subreaper.kill_orphans()
own.communicate(b"go\\n")
print(own.returncode, process_table.children())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has subreapers")
def test_an_agent_that_kills_the_guard_and_its_reaper_comes_to_the_daemon() -> None:
    """The daemon does not take it for a person, kills it, and leaves the daemon's own children alone."""
    ended = subprocess.run(
        [sys.executable, "-I", "-c", DAEMON, ORPHAN], capture_output=True, text=True, env={}, timeout=60
    )
    assert ended.stdout.splitlines() == ["None True", "True", "unknown None", "7 []"], ended.stdout + ended.stderr


def test_what_cannot_be_read_is_unknown() -> None:
    assert agent_ancestor(0) == UNKNOWN
    assert agent_ancestor(2**22 + 1) == UNKNOWN
    with subprocess.Popen(["/bin/true"]) as gone:
        gone.wait()
        assert agent_ancestor(gone.pid) == UNKNOWN


def info(pid: int, parent: int, start: int) -> process_table.ProcessInfo:
    return process_table.ProcessInfo(f"{pid} (sh) S {parent} 1 1 0 {'0 ' * 14}{start}".encode())


@pytest.mark.parametrize("start", [50, 40, 60], ids=["in the same moment", "before it", "after it"])
def test_a_number_that_became_anothers_while_it_was_looked_at(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent of 30 was 20, which ended; 30 came to the reaper 10, and a person's process got the number 20."""
    reads: list[int] = []
    before, after = info(30, 20, 50), info(30, 10, 50)
    theirs = {20: info(20, 1, start), 10: info(10, 1, 5), 1: info(1, 0, 1)}

    def read(pid: int) -> process_table.ProcessInfo:
        reads.append(pid)
        return theirs[pid] if pid != 30 else before if reads.count(30) == 1 else after

    monkeypatch.setattr(process_table, "process_info", read)
    monkeypatch.setattr(spawn, "reapers", lambda: {10: "mark"})
    if start < 50:  # then it is the same process as ever, and has only ended since
        assert ancestry(30) == Ancestry(None, (30, 20, 1)) and reads == [30, 20, 1]
    else:
        assert ancestry(30) == Ancestry("mark", (30, 10))


OTHER = f"""
import sys
sys.path.insert(0, {str(Path(spawn.__file__).parents[2])!r})
from tieline.processes.spawn import spawn
launched = spawn([sys.executable, "-I", "-c", sys.argv[1]], cwd="/", env={{}})
print(launched.child.stdout.readline().decode().strip(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another Tieline on this machine that has an agent, as `tieline run --standalone` or a node."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", OTHER, ORPHAN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}
    )
    yield process
    process.kill()
    process.communicate()


async def test_agents_of_another_tieline_here(other: subprocess.Popen[bytes]) -> None:
    assert other.stdout is not None
    pid = int(other.stdout.readline())
    assert agent_ancestor(pid) == UNKNOWN
    assert agent_ancestor(other.pid) is None, "whoever started it is no agent"
    other.kill()
    await eventually(lambda: over(pid), "it outlives its Tieline")


async def test_it_is_told_quickly(tmp_path: Path) -> None:
    async with running(tmp_path, sys.executable, "-I", "-c", ORPHAN) as (process, mark, pid):
        took: list[float] = []
        for _ in range(50):
            before = time.perf_counter()
            assert agent_ancestor(pid) == mark
            took.append(time.perf_counter() - before)
        assert min(took) < 0.001
        process.kill()


@pytest.mark.slow
async def test_one_that_forks_and_leaves_without_end_is_seen_at_every_moment(tmp_path: Path) -> None:
    """Its parent and its number change all the time: no moment of it looks like a person."""
    code = """
import os, time
print(os.getpid(), flush=True)
deadline = time.monotonic() + 20
while time.monotonic() < deadline:
    if os.fork():
        os._exit(0)
"""
    process = Process.start([sys.executable, "-I", "-c", code], cwd=tmp_path, env=ENV)
    (mark,) = [mark for mark, pid in spawn.live().items() if pid == process.pid]
    async with process:
        seen = 0
        deadline = time.monotonic() + 20
        while seen < 50 and time.monotonic() < deadline:
            for reaper in spawn.reapers():
                for pid in process_table.descendants(reaper):
                    ancestor = agent_ancestor(pid)
                    assert ancestor in (mark, UNKNOWN)
                    seen += ancestor == mark
        assert seen
        process.kill()


async def test_where_a_system_has_no_reapers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark and the group decide, and that is weaker."""
    monkeypatch.setattr(spawn, "REAPERS", False)
    command = f'setsid {sys.executable} -I -c "{CHILD}" & wait'
    async with running(tmp_path, "/bin/sh", "-c", command) as (process, mark, pid):
        assert not process.held
        assert agent_ancestor(process.pid) == mark
        assert agent_ancestor(pid) == mark
        process.kill()
    await eventually(lambda: over(pid), "it outlives its agent")
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
