"""What the daemon's process imports before it serves: every start pays for it."""

import subprocess
import sys


def output_of(code: str) -> str:
    ended = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return ended.stdout.strip()


def test_the_daemon_starts_without_what_it_needs_later_or_never() -> None:
    code = (
        "import sys; from tieline.bootstrap.__main__ import load; load()\n"
        "print(sorted({'rich', 'httpx2', 'typer', 'mcp', 'nats', 'cryptography'} & sys.modules.keys()))"
    )
    assert output_of(code) == "[]"


def test_a_channel_may_use_rich_and_garbage_is_collected() -> None:
    code = (
        "import gc; from tieline.bootstrap.__main__ import load; load()\n"
        "import rich.console; print(gc.isenabled(), gc.get_freeze_count() > 10_000)"
    )
    assert output_of(code) == "True True"


def test_rich_that_is_there_already_stays() -> None:
    code = "import sys, rich; from tieline.bootstrap.__main__ import load; load(); print(sys.modules['rich'] is rich)"
    assert output_of(code) == "True"
