"""The guard: when the parent dies, by whatever means, nothing that it started stays."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tieline.processes import process_table, spawn
from tieline.testing.wait_for import eventually

ROOT = Path(spawn.__file__).parents[2]

PARENT = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job is born without it
sys.path.insert(0, {root!r})
from tieline.processes.spawn import ahead, live, spawn
STUBBORN = "import signal; signal.signal(15, signal.SIG_IGN); print('there', flush=True); signal.pause()"
FAMILY = '''
import subprocess, sys, signal
there = subprocess.Popen([sys.executable, "-I", "-c", sys.argv[1]], start_new_session=True, stdout=subprocess.PIPE)
there.stdout.readline()
print("there", flush=True)
signal.pause()
'''
def start(*args):
    launched = spawn([sys.executable, "-I", "-c", *args], cwd="/", env=dict(PATH="/usr/bin:/bin"))
    assert launched.child.stdout.readline() == b"there\\n"
    return launched
def command(pid):
    with open(f"/proc/{{pid}}/cmdline", "rb") as file:
        return file.read()
def ready():
    print(*live(), flush=True)
    time.sleep(300)
"""


MARKER = f"of-{os.getpid()}"
"""An argument by which a child is found that nobody has a mark of."""


def commands(argument: str) -> list[int]:
    """Processes that were started with it, but for their parent."""
    pids: list[int] = []
    for pid in process_table.all_processes():
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().endswith(f"\0{argument}\0".encode()):
                pids.append(pid)
    return pids


class Parent:
    """A program of its own that starts children through `launch`."""

    def __init__(self, body: str) -> None:
        code = PARENT.format(root=str(ROOT)) + body
        self.popen = subprocess.Popen(
            [sys.executable, "-I", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={},
            start_new_session=True,
        )
        assert self.popen.stdout is not None
        self.marks = set(self.popen.stdout.readline().decode().split())

    async def gone(self, *, left: int = 0) -> None:
        await eventually(lambda: len(process_table.marked(self.marks)) == left, "marked processes are left", timeout=15)


@pytest.fixture
def parents() -> Iterator[list[Parent]]:
    parents: list[Parent] = []
    yield parents
    for parent in parents:
        with suppress(ProcessLookupError):
            os.killpg(parent.popen.pid, signal.SIGKILL)  # with its forks
        process_table.kill([], parent.marks, signal.SIGKILL)
        parent.popen.communicate()


def begin(parents: list[Parent], body: str, *, children: int) -> Parent:
    parent = Parent(body)
    parents.append(parent)
    assert len(process_table.marked(parent.marks)) == children
    return parent


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_parent_dies(parents: list[Parent], number: signal.Signals) -> None:
    parent = begin(parents, "start(STUBBORN); ready()", children=1)
    parent.popen.send_signal(number)
    await parent.gone()


@pytest.mark.slow
async def test_parent_dies_whose_guard_is_its_fork(parents: list[Parent]) -> None:
    """A head start's guard is forked, and watches over what is started later as well."""
    body = """
from tieline.processes import guard_client as module
early = ahead([sys.executable, "-I", "-c", STUBBORN], cwd="/", env={})
assert early.child.stdout.readline() == b"there\\n"
assert command(module._guard.pid) == command("self")
start(STUBBORN)
ready()
"""
    parent = begin(parents, body, children=2)
    parent.popen.kill()
    await parent.gone()


@pytest.mark.slow
async def test_a_forked_guard_that_was_killed_is_replaced(parents: list[Parent]) -> None:
    body = """
from tieline.processes import guard_client as module
early = ahead([sys.executable, "-I", "-c", STUBBORN], cwd="/", env={})
assert early.child.stdout.readline() == b"there\\n"
module._guard.kill()
start(STUBBORN)
assert command(module._guard.pid) != command("self")
ready()
"""
    parent = begin(parents, body, children=2)
    parent.popen.kill()
    await parent.gone()


@pytest.mark.slow
async def test_parent_exits_without_a_word(parents: list[Parent]) -> None:
    body = "start(STUBBORN); print(*live(), flush=True); sys.stdin.readline(); os._exit(0)"
    parent = begin(parents, body, children=1)
    assert parent.popen.stdin is not None
    parent.popen.stdin.write(b"\n")
    parent.popen.stdin.flush()
    await parent.gone()


@pytest.mark.slow
async def test_two_children_and_a_grandchild_in_its_own_session(parents: list[Parent]) -> None:
    parent = begin(parents, "start(STUBBORN); start(FAMILY, STUBBORN); ready()", children=3)
    assert len(parent.marks) == 2
    parent.popen.kill()
    await parent.gone()


async def test_child_gets_the_chance_to_leave_by_itself(parents: list[Parent], tmp_path: Path) -> None:
    log = tmp_path / "told"
    code = (
        "import signal\n"
        f"def leave(*_): open({str(log)!r}, 'a').write('term'); raise SystemExit\n"
        "signal.signal(15, leave); print('there', flush=True); signal.pause()"
    )
    parent = begin(parents, f"start({code!r}); ready()", children=1)
    parent.popen.kill()
    await parent.gone()
    assert log.read_text() == "term", "once, not twice"


@pytest.mark.slow
async def test_a_fork_of_the_parent_does_not_keep_the_guard_waiting(parents: list[Parent]) -> None:
    """It inherits the guard's input and, by its life, hides the parent's end from it."""
    body = """
child = start(STUBBORN)
if os.fork() == 0:
    os.environ.clear()
    time.sleep(60)
    os._exit(0)
ready()
"""
    parent = begin(parents, body, children=1)
    parent.popen.kill()
    await parent.gone()


async def test_a_fork_lets_go_of_the_guard(parents: list[Parent]) -> None:
    """Where there is no pidfd, the end of its input is all that tells the guard."""
    body = """
from tieline.processes import guard_client as module
start(STUBBORN)
held = module._guard.input
fork = os.fork()
if fork == 0:
    os._exit(0 if f"{held}" not in os.listdir("/proc/self/fd") else 1)
print(os.waitpid(fork, 0)[1], flush=True)
time.sleep(300)
"""
    parent = Parent(body)
    parents.append(parent)
    assert parent.marks == {"0"}


@pytest.mark.slow
async def test_a_fork_has_a_guard_of_its_own(parents: list[Parent]) -> None:
    """What the fork starts ends with the fork; what the parent started does not."""
    body = """
start(STUBBORN)
mine = list(live())
out, into = os.pipe()
if os.fork() == 0:
    assert not live()
    start(STUBBORN)
    os.write(into, " ".join([str(os.getpid()), *live()]).encode())
    time.sleep(300)
fork, mark = os.read(out, 1000).decode().split()
print(*mine, mark, flush=True)
sys.stdin = None
os.kill(int(fork), 9)
os.waitpid(int(fork), 0)
time.sleep(300)
"""
    parent = Parent(body)
    parents.append(parent)
    await parent.gone(left=1)
    parent.popen.kill()
    await parent.gone()


@pytest.mark.slow
async def test_a_guard_that_was_killed_is_replaced(parents: list[Parent]) -> None:
    """The new one knows all the children, also those that the old one was told of."""
    body = """
from tieline.processes import guard_client as module
start(STUBBORN)
module._guard.kill()
start(STUBBORN)
ready()
"""
    parent = begin(parents, body, children=2)
    parent.popen.kill()
    await parent.gone()


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before the order", "in the middle of it", "after it"])
async def test_killed_while_a_child_starts(parents: list[Parent], when: str) -> None:
    """No moment is unwatched: the reaper is there before the child."""
    body = f"""
from tieline.processes import spawn as module
given = module._send_request
def give(control, order, pipes):
    print("started", flush=True)
    if {when!r} == "in the middle of it":
        control.sendmsg([b"123"])
    if {when!r} == "after it":
        given(control, order, pipes)
    time.sleep(300)
module._send_request = give
start(STUBBORN, {MARKER!r})
"""
    parent = Parent(body)
    parents.append(parent)
    if when == "after it":
        await eventually(lambda: bool(commands(MARKER)), "the child never started")
    guard_pid = next(iter(process_table.descendants(parent.popen.pid)))
    parent.popen.kill()
    await eventually(lambda: not commands(MARKER) and not alive(guard_pid), "it stays")


WITHOUT = "from tieline.processes import spawn as module; module.REAPERS = False; "


@pytest.mark.slow
async def test_where_a_system_has_no_reapers(parents: list[Parent]) -> None:
    """The mark and the group decide, also for a guard that replaced another."""
    body = """
from tieline.processes import guard_client
start(STUBBORN)
guard_client._guard.kill()
start(FAMILY, STUBBORN)
ready()
"""
    parent = begin(parents, WITHOUT + body, children=3)
    parent.popen.kill()
    await parent.gone()


async def test_killed_while_a_child_starts_without_a_reaper(parents: list[Parent]) -> None:
    """The guard knows the mark before there is a child, so no moment is unwatched."""
    body = """
import subprocess
real = subprocess.Popen
def popen(argv, **options):
    child = real(argv, **options)
    if module.process_table.MARK in options["env"]:
        print(options["env"][module.process_table.MARK], flush=True)
        time.sleep(300)
    return child
subprocess.Popen = popen
start(STUBBORN)
"""
    parent = Parent(WITHOUT + body)
    parents.append(parent)
    await eventually(lambda: len(process_table.marked(parent.marks)) == 1, "the child never started")
    parent.popen.kill()
    await parent.gone()


@pytest.mark.slow
async def test_guard_leaves_with_its_parent(parents: list[Parent]) -> None:
    parent = Parent(
        "start(STUBBORN); from tieline.processes import guard_client as module; "
        "print(*live(), module._guard.pid, flush=True); time.sleep(300)"
    )
    *_, number = sorted(parent.marks, key=len, reverse=True)
    parents.append(parent)
    os.kill(int(number), 0)
    parent.popen.kill()
    await parent.gone()
    await eventually(lambda: not alive(int(number)), "the guard stays")


@pytest.mark.slow
async def test_forgotten_children_are_not_touched(parents: list[Parent]) -> None:
    """A child that was closed is no longer the guard's: another process may have its number by now."""
    forgets = (
        "child = start(STUBBORN); marks = list(live()); child.forget(); print(*marks, flush=True); time.sleep(300)"
    )
    parent = begin(parents, WITHOUT + forgets, children=1)
    parent.popen.kill()
    parent.popen.wait()
    end = begin(parents, "start(STUBBORN); ready()", children=1)
    end.popen.kill()
    await end.gone()  # as long as another guard takes from the parent's end to the last kill
    assert len(process_table.marked(parent.marks)) == 1


def test_marks_are_whole_words() -> None:
    assert process_table.marked({"0" * 15}) == []


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_is_said_about_the_guard_at_the_end() -> None:
    """It is there until we are gone: that is its purpose, and no leak."""
    code = "from tieline.processes.guard_client import send; send('+0 none\\n-none\\n')"
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-c", code], env={"PYTHONPATH": str(ROOT)}, capture_output=True, timeout=60
    )
    assert ended.returncode == 0 and not ended.stderr, ended.stderr.decode()
