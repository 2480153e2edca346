"""What the daemon's process imports before it serves: every start pays for it."""

import subprocess
import sys


def lines_of(code: str) -> list[str]:
    ended = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return ended.stdout.splitlines()


def test_the_daemon_starts_without_what_it_needs_later_or_never() -> None:
    code = (
        "import gc, sys; from tieline.bootstrap.__main__ import load; load()\n"
        "print(sorted({'rich', 'httpx2', 'typer', 'mcp', 'nats', 'cryptography'} & sys.modules.keys()))\n"
        "import rich.console; print(gc.isenabled(), gc.get_freeze_count() > 10_000)"
    )
    imported, collected = lines_of(code)
    assert imported == "[]"
    assert collected == "True True", "a channel may still use Rich, and garbage is collected"


def test_rich_that_is_there_already_stays() -> None:
    code = "import sys, rich; from tieline.bootstrap.__main__ import load; load(); print(sys.modules['rich'] is rich)"
    assert lines_of(code) == ["True"]
