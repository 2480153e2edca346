"""The real Codex writes its configuration file: neither of us loses what the other one wrote."""

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tieline.harnesses import installer
from tieline.harnesses.base import InstallOptions
from tieline.harnesses.codex.integration import Codex
from tieline.testing.harness_terminals import codex_home

pytestmark = pytest.mark.real

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"
WAIT_S = 60.0


async def test_what_codex_writes_beside_ours_and_below_ours_stays(tmp_path: Path) -> None:
    async with codex_home(tmp_path, BINARIES) as home:
        config = home.home / ".codex" / "config.toml"
        before = tomllib.loads(config.read_text())

        def codex(*arguments: str) -> None:
            argv = (*home.argv, *arguments)
            done = subprocess.run(argv, cwd=home.project, env=home.env, capture_output=True, text=True, timeout=WAIT_S)
            assert done.returncode == 0, done.stdout + done.stderr

        def change(plan: Callable[[Codex, InstallOptions], list[installer.FileChange]], program: str) -> None:
            options = InstallOptions(env=home.env, program=program, python=sys.executable)
            installer.apply(plan(Codex(), options), home.env)

        change(installer.plan_install, "/old/tieline")
        codex("features", "enable", "unified_exec")  # a table before our last comment
        codex("mcp", "add", "other", "--", "echo")  # all servers are written anew
        change(installer.plan_install, "/new/tieline")
        servers = tomllib.loads(config.read_text())["mcp_servers"]
        assert servers["tieline"]["command"] == "/new/tieline"
        assert servers["other"]["command"] == "echo"
        change(installer.plan_uninstall, "/new/tieline")
        assert "tieline" not in config.read_text()
        after = tomllib.loads(config.read_text())
        assert after.pop("mcp_servers") == {"other": {"command": "echo"}}
        assert after.pop("features")["unified_exec"] is True
        assert after == {key: value for key, value in before.items() if key != "features"}
