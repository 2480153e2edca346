"""The command line in a directory of its own, with an environment from scratch."""

from pathlib import Path

import pytest

from tieline.testing.cli_process import CliProcess


@pytest.fixture
def cli(tmp_path: Path) -> CliProcess:
    return CliProcess(tmp_path)
