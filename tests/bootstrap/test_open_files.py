"""How many files a daemon may open: more than a shell gives to whoever asks for no more."""

import resource
import subprocess
import sys

import pytest

from tieline.bootstrap.daemon import OPEN_FILES

ASK = """
import resource
from tieline.bootstrap.daemon import allow_open_files
allow_open_files()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def limits(ulimit: str) -> tuple[int, ...]:
    """What a daemon has that was started in a shell with those limits."""
    script = f'{ulimit}; exec "$0" -c "$1"'
    ended = subprocess.run(["/bin/sh", "-c", script, sys.executable, ASK], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return tuple(int(each) for each in ended.stdout.split())


def test_as_many_as_a_hub_needs() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 <= most < OPEN_FILES:
        pytest.skip(f"this machine allows {most} open files")
    assert limits("ulimit -S -n 200") == (OPEN_FILES, most)


def test_no_more_than_the_machine_allows() -> None:
    assert limits("ulimit -n 300") == (300, 300)


def test_a_higher_limit_stays() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 <= most < OPEN_FILES + 1:
        pytest.skip(f"this machine allows {most} open files")
    assert limits(f"ulimit -S -n {OPEN_FILES + 1}") == (OPEN_FILES + 1, most)
