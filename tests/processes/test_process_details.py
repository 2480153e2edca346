"""What /proc says of other processes, and the signal that only reaches one which waits for it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tieline.processes.process_details import (
    arguments_of,
    began_at,
    catches,
    children_of,
    directory_of,
    environment_of,
    is_own,
    open_files,
    program_of,
    signal_if_caught,
)
from tieline.processes.process_table import all_processes, process_info, process_key

pytestmark = pytest.mark.skipif(not all_processes(), reason="needs /proc")

CATCHES = "signal.signal(signal.SIGUSR2, lambda *_: os.write(1, b'caught\\n'))"
PROGRAM = "import os, signal, sys\n{}\nprint('ready', flush=True)\nfor _ in sys.stdin: pass"


@contextmanager
def running(setup: str) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-S", "-c", PROGRAM.format(setup)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd="/", env={"A": "b=c"}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


def test_a_process_with_a_handler_gets_the_signal() -> None:
    with running(CATCHES) as process:
        assert catches(process.pid, signal.SIGUSR2) and not catches(process.pid, signal.SIGUSR1)
        assert signal_if_caught(process_key(process.pid), signal.SIGUSR2)
        assert process.stdout is not None
        assert process.stdout.readline() == "caught\n"


@pytest.mark.parametrize("setup", ["", "signal.signal(signal.SIGUSR2, signal.SIG_IGN)"])
def test_a_process_that_would_die_of_it_or_ignores_it_gets_none(setup: str) -> None:
    with running(setup) as process:
        assert not signal_if_caught(process_key(process.pid), signal.SIGUSR2)
        process.communicate("", timeout=60)
    assert process.returncode == 0


def test_another_process_with_its_number_gets_none() -> None:
    with running(CATCHES) as process:
        number, start = process_key(process.pid).split("-")
        assert not signal_if_caught(f"{number}-{int(start) - 1}", signal.SIGUSR2)
        output, _ = process.communicate("", timeout=60)
    assert output == ""
    assert not signal_if_caught(process_key(process.pid), signal.SIGUSR2)
    assert not signal_if_caught("", signal.SIGUSR2)


def test_what_proc_says_of_a_process() -> None:
    with running("held = open('/proc/self/stat')") as process:
        pid, info = process.pid, process_info(process.pid)
        assert info is not None
        assert abs(began_at(info.start) - time.time()) < 60
        assert arguments_of(pid)[:3] == [sys.executable, "-S", "-c"]
        assert environment_of(pid)["A"] == "b=c"
        assert os.path.samefile(program_of(pid), sys.executable)  # noqa: PTH121
        assert directory_of(pid) == "/" and is_own(pid)
        assert f"/proc/{pid}/stat" in open_files(pid)
        assert pid in children_of(os.getpid(), all_processes())
    assert (arguments_of(pid), environment_of(pid), program_of(pid), open_files(pid)) == ([], {}, "", [])
    assert not is_own(pid) and not catches(pid, signal.SIGUSR2)
