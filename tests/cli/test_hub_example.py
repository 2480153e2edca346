"""The examples of the client run as they are, with a hub beside them."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.hub_process import HubProcess

from tieline.testing.cli_process import WAIT_S, CliProcess

EXAMPLES = [Path(__file__).parents[2] / "examples/hub" / name for name in ("follow.py", "turn.py")]


@pytest.mark.slow
def test_they_follow_a_session_to_its_end(cli: CliProcess) -> None:
    with HubProcess(cli):
        for example in EXAMPLES:
            ended = subprocess.run(
                [sys.executable, example], cwd=cli.place, env=cli.env, capture_output=True, text=True, timeout=WAIT_S
            )
            assert ended.returncode == 0, ended.stderr
            assert ended.stdout.rstrip().endswith("success"), example
            assert "greeting.py" in ended.stdout and ended.stdout.count("allowed:") == 3
            (cli.place / "greeting.py").unlink()
