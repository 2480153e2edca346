"""The example of the client runs as it is, with a hub beside it."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.hub_process import HubProcess

from tieline.testing.cli_process import WAIT_S, CliProcess

EXAMPLE = Path(__file__).parents[2] / "examples/hub/follow.py"


@pytest.mark.slow
def test_it_follows_a_session_to_its_end(cli: CliProcess) -> None:
    with HubProcess(cli):
        ended = subprocess.run(
            [sys.executable, EXAMPLE], cwd=cli.place, env=cli.env, capture_output=True, text=True, timeout=WAIT_S
        )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.rstrip().endswith("success")
    assert "greeting.py" in ended.stdout and ended.stdout.count("allowed:") == 3
    assert (cli.place / "greeting.py").exists()
