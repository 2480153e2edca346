"""Functions of the C library, by either way."""

import subprocess
import sys
from pathlib import Path

import pytest

from tieline.processes import libc

SOURCE = Path(libc.__file__).parents[2]


@pytest.mark.parametrize("by", ["call_libc", "call_by_ctypes"])
def test_both_ways_to_the_library_work(by: str) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n"
        f"from tieline.processes.libc import {by} as call\n"
        "from tieline.processes.process_table import process_info\n"
        "def prctl(option, value): return call('prctl', option, value, 0, 0, 0)\n"
        "print(prctl(15, b'a-name\\0'), prctl(36, 1), prctl(12345, 1), call('no_such_function'))\n"
        "print(process_info('self').name)"
    )
    shown = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, env={}, timeout=60)
    assert shown.stdout == "0 0 -1 None\na-name\n", shown.stderr
