"""`tieline agents test` with the other agents that are tested: it passes for each of them, as a person would run it."""

import json
import shutil
from pathlib import Path

import pytest
from tests.asks.agents import BINARIES, MORE, binaries

from tieline.testing.cli_process import CliProcess

FOLDERS = {
    "copilot": BINARIES,
    "claude-agent-acp": MORE,
    "codex-acp": MORE,
    "kimi": MORE,
    "pi": MORE,
    "auggie": MORE,
    "vibe": binaries("vibe"),
    "openhands": binaries("openhands"),
}


@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", FOLDERS)
def test_it_passes(tmp_path: Path, name: str) -> None:
    node = Path(shutil.which("node") or "/usr/bin/node").parent
    cli = CliProcess(tmp_path, path=f"{FOLDERS[name]}:{node}:/usr/bin:/bin")
    ended = cli.run_program("agents", "test", name, "--json", timeout=800)
    result = json.loads(ended.stdout)
    failures = {check["name"]: check["detail"] for check in result["checks"] if check["outcome"] == "failed"}
    assert (failures, result["problem"], ended.returncode) == ({}, "", 0), ended.stderr
    passed = {check["name"] for check in result["checks"] if check["outcome"] == "passed"}
    assert passed >= {"text", "command", "edit", "policy", "ask", "denial", "withdrawn_ask", "model_error"}
