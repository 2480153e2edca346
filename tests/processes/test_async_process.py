"""Child processes, for real: what comes out, what goes in, and how they end."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tieline.processes import async_process as wire
from tieline.processes import process_table, spawn
from tieline.processes.async_process import Process
from tieline.testing.wait_for import eventually
from tieline.wire.jsonrpc import Peer
from tieline.wire.lines import LineTooLong

ENV = {"PATH": "/usr/bin:/bin"}


def start(code: str, *, cwd: Path, max_line: int = wire.MAX_LINE) -> Process:
    """A child that runs a piece of Python."""
    return Process.start([sys.executable, "-I", "-c", code], cwd=cwd, env=ENV, max_line=max_line)


@asynccontextmanager
async def ended(process: Process) -> AsyncGenerator[Process, None]:
    """The block of a process, after which nothing may be left of it."""
    (mark,) = [mark for mark, pid in spawn.live().items() if pid == process.pid]
    async with asyncio.timeout(30):
        async with process:
            yield process
    assert mark not in spawn.live()
    assert not process_table.marked({mark})
    assert process.returncode is not None


async def read(process: Process) -> list[bytes]:
    return [line async for batch in process.lines() for line in batch]


async def first_line(process: Process) -> bytes:
    async for batch in process.lines():
        return batch[0]
    raise AssertionError("it printed nothing")


def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less patience, where a test is about losing it."""
    monkeypatch.setattr(wire, "CLOSE_GRACE_S", 0.2)
    monkeypatch.setattr(wire, "TERM_GRACE_S", 0.2)


# --- streams -----------------------------------------------------------------------------------------------


async def test_lines_and_status(tmp_path: Path) -> None:
    async with ended(start("print('one'); print('two', end=''); raise SystemExit(7)", cwd=tmp_path)) as process:
        assert await read(process) == [b"one", b"two"]
        assert await process.wait(10)
        assert process.returncode == 7


async def test_input_and_its_end(tmp_path: Path) -> None:
    code = "import sys; print(sys.stdin.readline().strip()); print(len(sys.stdin.read()))"
    async with ended(start(code, cwd=tmp_path)) as process:
        await process.write(b"hello\n")
        await process.write(b"x" * 1_000_000)
        process.close_stdin()
        assert await read(process) == [b"hello", b"1000000"]


async def test_megabyte_lines(tmp_path: Path) -> None:
    code = "import sys\nfor n in (1, 5): sys.stdout.write('x' * n * 1_000_000 + '\\n')"
    async with ended(start(code, cwd=tmp_path)) as process:
        assert [len(line) for line in await read(process)] == [1_000_000, 5_000_000]


@pytest.mark.slow
async def test_line_too_long(tmp_path: Path) -> None:
    code = "import sys; print('first'); sys.stdout.write('y' * 10_000_000)"
    async with ended(start(code, cwd=tmp_path, max_line=1_000_000)) as process:
        seen: list[bytes] = []
        with pytest.raises(LineTooLong, match="more than 1000000 bytes"):
            async for batch in process.lines():
                seen += batch
        assert seen == [b"first"]


async def test_chunks_come_before_their_line_is_whole(tmp_path: Path) -> None:
    code = "import sys; print('half a', end='', flush=True); sys.stdin.read(); print(' line')"
    async with ended(start(code, cwd=tmp_path)) as process:
        seen = b""
        async for chunk in process.chunks():
            seen += chunk
            if seen == b"half a":
                process.close_stdin()
        assert seen == b"half a line\n"


async def test_stderr_is_kept_bounded(tmp_path: Path) -> None:
    code = "import sys; sys.stderr.write('e' * 3_000_000 + 'the last words'); print('done')"
    async with ended(start(code, cwd=tmp_path)) as process:
        assert await read(process) == [b"done"]
        assert await process.wait(10)
        assert process.stderr.endswith("the last words"), "complete once it has exited"
        assert len(process.stderr) == wire.STDERR_KEPT


async def test_stderr_held_open_by_a_descendant_does_not_hold_the_exit(tmp_path: Path) -> None:
    code = """
import subprocess, sys
sys.stderr.write("last words"); sys.stderr.flush()
subprocess.Popen(["sleep", "300"], start_new_session=True)
"""
    async with ended(start(code, cwd=tmp_path)) as process:
        assert await process.wait(10)
        assert process.stderr == "last words"


async def test_last_heard(tmp_path: Path) -> None:
    async with ended(start("import sys; sys.stdin.readline(); sys.stderr.write('!')", cwd=tmp_path)) as process:
        before = process.last_heard
        await process.write(b"\n")
        assert await process.wait(10)
        assert process.last_heard > before


async def test_write_to_one_that_does_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "WRITE_TIMEOUT_S", 0.2)
    short(monkeypatch)
    async with ended(start("import time; time.sleep(300)", cwd=tmp_path)) as process:
        with pytest.raises(TimeoutError):
            await process.write(b"x" * 10_000_000)


async def test_write_to_one_that_is_gone(tmp_path: Path) -> None:
    async with ended(start("", cwd=tmp_path)) as process:
        assert await process.wait(10)
        with pytest.raises(ConnectionError):
            for _ in range(100):
                await process.write(b"x" * 100_000)


# --- ends --------------------------------------------------------------------------------------------------

ORDER = """
import signal, sys
def leave(number, frame):
    open("order", "a").write("term\\n")
    raise SystemExit(5)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
sys.stdin.read()
open("order", "a").write("eof\\n")
signal.pause()
"""


async def test_stop_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First its input ends, then SIGTERM; it is not killed when that is enough."""
    short(monkeypatch)
    async with ended(start(ORDER, cwd=tmp_path)) as process:
        assert await first_line(process) == b"ready"
    assert (tmp_path / "order").read_text() == "eof\nterm\n"
    assert process.returncode == 5


async def test_one_that_leaves_at_the_end_of_its_input_is_left_alone(tmp_path: Path) -> None:
    code = "import sys; print('ready', flush=True); sys.stdin.read(); raise SystemExit(3)"
    async with ended(start(code, cwd=tmp_path)) as process:
        assert await first_line(process) == b"ready"
    assert process.returncode == 3


async def test_one_that_ignores_sigterm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short(monkeypatch)
    code = (
        "import signal; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); [signal.pause() for _ in 'xx']"
    )
    async with ended(start(code, cwd=tmp_path)) as process:
        assert await first_line(process) == b"ready"
    assert process.returncode == -signal.SIGKILL


FAMILY = """
import subprocess, sys, signal
code = "import signal; signal.signal(15, signal.SIG_IGN); print('there', flush=True); [signal.pause() for _ in 'xx']"
there = subprocess.Popen([sys.executable, "-I", "-c", code], start_new_session=True, stdout=subprocess.PIPE)
there.stdout.readline()
print(there.pid, flush=True)
"""


@pytest.mark.parametrize("then", ["signal.pause()", "raise SystemExit(0)", "import os; os.kill(os.getpid(), 9)"])
async def test_grandchild_in_its_own_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str) -> None:
    """Also when its parent has left long before."""
    short(monkeypatch)
    async with ended(start(FAMILY + then, cwd=tmp_path)) as process:
        grandchild = int(await first_line(process))
        if "pause" not in then:
            assert await process.wait(10)
        os.kill(grandchild, 0)
    await eventually(lambda: gone(grandchild), "the grandchild lives on")


@pytest.mark.skipif(not spawn.REAPERS, reason="its reaper has the list")
@pytest.mark.parametrize("leaves", [False, True])
async def test_all_processes_are_looked_at_only_where_something_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    """A machine has hundreds, and a hub ends dozens of gits for one merge."""
    left = "os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '60')" if leaves else ""
    looks: list[int] = []
    real = process_table.all_processes

    def all_processes() -> list[int]:
        looks.append(1)
        return real()

    monkeypatch.setattr(process_table, "all_processes", all_processes)
    async with start(f"import os; {left}", cwd=tmp_path) as process:
        assert await process.wait(30)
    assert bool(looks) == leaves


async def test_kill_ends_the_stream(tmp_path: Path) -> None:
    async with ended(start("import time; print('ready', flush=True); time.sleep(300)", cwd=tmp_path)) as process:
        seen: list[bytes] = []
        async for batch in process.lines():
            seen += batch
            process.kill()
        assert seen == [b"ready"]
        assert await process.wait(10)
        assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("cancellations", [1, 2])
async def test_cancelled_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cancellations: int) -> None:
    """A second cancellation, while it waits for the end, loses its patience but nothing else."""
    monkeypatch.setattr(wire, "TERM_GRACE_S", 0.2)
    code = (
        "import signal; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); [signal.pause() for _ in 'xx']"
    )
    process = start(code, cwd=tmp_path)
    ready, ending = asyncio.Event(), asyncio.Event()
    close = process.close_stdin
    monkeypatch.setattr(process, "close_stdin", lambda: (ending.set(), close()))

    async def use() -> None:
        async with ended(process):
            await first_line(process)
            ready.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(use())
    await ready.wait()
    task.cancel()
    if cancellations == 2:
        await ending.wait()
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not process_table.marked(set(spawn.live()))
    assert process.returncode == -signal.SIGKILL


async def test_cancelled_before_it_is_attached(tmp_path: Path) -> None:
    process = start("import time; time.sleep(300)", cwd=tmp_path)

    async def use() -> None:
        async with process:
            raise AssertionError("it was cancelled before that")

    task = asyncio.create_task(use())
    await asyncio.sleep(0)  # it has entered, and waits for its first pipe
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert process.pid not in spawn.live().values()
    assert process.returncode == -signal.SIGKILL


async def test_killed_from_outside(tmp_path: Path) -> None:
    async with ended(start("import time; print('ready', flush=True); time.sleep(300)", cwd=tmp_path)) as process:
        assert await first_line(process) == b"ready"
        os.kill(process.pid, signal.SIGKILL)
        assert await process.wait(10)
        assert process.returncode == -signal.SIGKILL


async def test_its_number_stays_its_own_until_the_block_is_left(tmp_path: Path) -> None:
    """An exited child is not reaped before: a signal to its group can never hit a stranger."""
    async with ended(start("", cwd=tmp_path)) as process:
        assert await process.wait(10)
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert state == "Z"


async def test_somebody_else_asked_first(tmp_path: Path) -> None:
    async with ended(start("raise SystemExit(4)", cwd=tmp_path)) as process:
        assert process._child.wait(10)  # pyright: ignore[reportPrivateUsage]
        assert await process.wait(10)
        assert process.returncode == 4


async def test_two_children(tmp_path: Path) -> None:
    code = "import sys; print('ready', flush=True); print(sys.stdin.read())"
    async with ended(start(code, cwd=tmp_path)) as first:
        async with ended(start(code, cwd=tmp_path)) as second:
            assert await first_line(second) == b"ready"
        await first.write(b"still here")
        first.close_stdin()
        assert await read(first) == [b"ready", b"still here"]


# --- starts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["no-such-program"], FileNotFoundError),
        (["/etc/passwd"], PermissionError),
        (["/bin/echo", "nul\0l"], ValueError),
        (["/bin/echo", "x" * 3_000_000], OSError),
    ],
)
async def test_what_cannot_be_started(tmp_path: Path, argv: list[str], problem: type[Exception]) -> None:
    before = spawn.live()
    with pytest.raises(problem):
        Process.start(argv, cwd=tmp_path, env=ENV)
    assert spawn.live() == before


async def test_no_such_directory(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Process.start(["/bin/true"], cwd=tmp_path / "missing", env=ENV)


async def test_environment_and_session_are_its_own(tmp_path: Path) -> None:
    code = "import os; print(sorted(os.environ)); print(os.getsid(0) == os.getpid()); print(os.getcwd())"
    async with ended(start(code, cwd=tmp_path)) as process:
        names, own_session, cwd = await read(process)
    assert b"TIELINE_CHILD" in names
    assert b"HOME" not in names
    assert own_session == b"True"
    assert cwd.decode() == str(tmp_path)


async def test_it_has_its_three_streams_and_no_other_descriptor(tmp_path: Path) -> None:
    """One more would be a way to its reaper, or keep its output open."""
    code = "import os; print([fd for fd in range(100) if os.path.exists(f'/proc/self/fd/{fd}')])"
    async with ended(start(code, cwd=tmp_path)) as process:
        assert await read(process) == [b"[0, 1, 2]"]


async def test_waiting_costs_no_more_than_its_bound(tmp_path: Path) -> None:
    async with ended(start("import sys; sys.stdin.read()", cwd=tmp_path)) as process:
        before = time.monotonic()
        assert not await process.wait(0.05)
        assert time.monotonic() - before < 5


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


# --- started ahead -----------------------------------------------------------------------------------------

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"


async def test_what_was_said_ahead_is_not_said_again(tmp_path: Path) -> None:
    argv = [sys.executable, "-I", "-c", ECHO]
    early = spawn.ahead(argv, cwd=tmp_path, env=ENV)
    early.write_ahead(b"one\ntwo\n")
    process = Process.start(argv, cwd=tmp_path, env=ENV, words=b"one\ntwo\nthree\n")
    assert process.pid == early.pid
    async with ended(process):
        await process.write(b"one\n")
        await process.write(b"two\nthree\n")
        await process.write(b"four\n")
        process.close_stdin()
        assert await read(process) == [b"one", b"two", b"three", b"four"]


async def test_an_answer_may_come_before_its_request(tmp_path: Path) -> None:
    """What was said ahead is answered at once, whether or not we have got to asking."""

    class Deaf:
        def notified(self, method: str, params: dict[str, Any]) -> None: ...
        async def requested(self, method: str, params: dict[str, Any]) -> Any: ...
        def garbage(self, line: bytes) -> None: ...
        def gone(self, reason: str) -> None: ...

    answer = '{"id":1,"result":"hello"}\\n{"id":2,"result":"opened"}\\n{"method":"over"}'
    argv = [sys.executable, "-I", "-c", f"input(); input(); print('{answer}', flush=True); input()"]
    early = spawn.ahead(argv, cwd=tmp_path, env=ENV)
    words = b'{"id":1,"method":"hi","params":{}}\n{"id":2,"method":"open","params":{}}\n'
    early.write_ahead(words)
    over = asyncio.Event()
    listener = Deaf()
    listener.notified = lambda method, params: over.set()
    process = Process.start(argv, cwd=tmp_path, env=ENV, words=words)
    async with ended(process), Peer(process, listener, version=None) as peer:
        await over.wait()  # both answers are here
        assert await peer.request("hi", {}, timeout=10) == "hello"
        assert await peer.request("open", {}, timeout=10) == "opened"


async def test_one_that_was_told_something_else_is_not_taken(tmp_path: Path) -> None:
    argv = [sys.executable, "-I", "-c", ECHO]
    early = spawn.ahead(argv, cwd=tmp_path, env=ENV)
    early.write_ahead(b"something else\n")
    process = Process.start(argv, cwd=tmp_path, env=ENV, words=b"one\n")
    assert process.pid != early.pid
    assert not process_table.marked({early.mark})
    async with ended(process):
        await process.write(b"one\n")
        process.close_stdin()
        assert await read(process) == [b"one"]


async def test_too_much_is_not_said_ahead(tmp_path: Path) -> None:
    argv = [sys.executable, "-I", "-c", ECHO]
    early = spawn.ahead(argv, cwd=tmp_path, env=ENV)
    early.write_ahead(b"x" * (spawn.MAX_WRITTEN_AHEAD + 1))
    assert early.written_ahead == b""
    async with ended(Process.start(argv, cwd=tmp_path, env=ENV)) as process:
        assert process.pid == early.pid


def test_find(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "program"
    program.parent.mkdir()
    program.write_text("")
    assert spawn.find("program", f"/nowhere:{program.parent}") == "", "it cannot be executed"
    program.chmod(0o755)
    assert spawn.find("program", f"/nowhere:{program.parent}") == str(program)
    assert spawn.find(str(program), "") == str(program)
    assert spawn.find("bin", str(tmp_path)) == "", "a directory is no program"
