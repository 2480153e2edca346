"""A team's conversation, as `tieline team` tells of it."""

import json
import time
from collections.abc import Callable

from tieline.testing.cli_process import WAIT_S, CliProcess

TEAM = """\
name = "shop"
[[members]]
name = "architect"
agent = "planner"
role = "designs"
instructions = "You design."
[[members]]
name = "developer"
agent = "coder"
[[members]]
name = "alice"
human = true
[conversation]
max_rounds = 12
"""


def run(cli: CliProcess, *arguments: str, status: int = 0) -> str:
    ended = cli.run("team", *arguments)
    assert ended.returncode == status, ended.stdout + ended.stderr
    return ended.stdout


def wait_until(true: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, otherwise


def state(cli: CliProcess, id: str) -> str:
    return str(json.loads(run(cli, "show", id, "--json")).get("status", "running"))  # the usual one is left out
