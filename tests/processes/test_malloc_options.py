"""Memory that was needed for a moment goes back to the system."""

import platform
import subprocess
import sys

import pytest

from tieline.processes import libc, malloc_options

NEEDED_MB = 50
PROBE = f"""
def own_mb():
    (line,) = (line for line in open("/proc/self/status") if line.startswith("RssAnon"))
    return int(line.split()[1]) / 1024
before = own_mb()
large = bytearray(30 << 20)
del large  # from now on glibc would take blocks of that size from its heap, which only shrinks at its end
blocks = [bytearray(b"x" * (1 << 20)) for _ in range({NEEDED_MB})]
last = blocks.pop()
blocks.clear()
print(own_mb() - before)
"""

needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these options")


def left_mb(first: str) -> float:
    """What stays with a process that did this first."""
    ended = subprocess.run([sys.executable, "-P", "-c", first + PROBE], capture_output=True, text=True, timeout=60)
    assert not ended.stderr, ended.stderr
    return float(ended.stdout)


@needs_glibc
def test_it_goes_back() -> None:
    assert left_mb("") > NEEDED_MB / 2, "it would stay"
    first = "from tieline.processes.malloc_options import give_memory_back; assert give_memory_back()"
    assert left_mb(first) < NEEDED_MB / 5


@needs_glibc
def test_the_daemon_gives_it_back() -> None:
    assert left_mb("from tieline.bootstrap.__main__ import load; load()") < NEEDED_MB / 5


def test_another_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def none_such(name: str, *arguments: int | bytes) -> None:
        called.append(name)

    monkeypatch.setattr(malloc_options, "call_libc", none_such)
    assert malloc_options.give_memory_back() is False
    assert called == ["gnu_get_libc_version"]
    assert libc.call_libc("no_such_function") is None
