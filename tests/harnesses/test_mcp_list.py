"""What the real harnesses say of our server after `tieline install`, in a fresh home with a hub."""

import re
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tieline.testing.harness_terminals import HOMES

pytestmark = pytest.mark.real

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"
TIELINE = str(Path(sys.executable).with_name("tieline"))
WAIT_S = 120.0
LISTED = {
    "claude-code": r"tieline: .* ✔ Connected",
    "opencode": r"tieline .*connected",
    "gemini": r"tieline: .* - Connected",
    "codex": r"tieline .* enabled",  # it does not connect to list them
}


def run(argv: tuple[str, ...], cwd: Path, env: Mapping[str, str]) -> str:
    done = subprocess.run(
        argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr  # Gemini CLI lists its servers there


@contextmanager
def hub(cwd: Path, env: Mapping[str, str]) -> Generator[None, None, None]:
    run((TIELINE, "up", "--port", "0"), cwd, env)
    try:
        yield
    finally:
        run((TIELINE, "down"), cwd, env)


@pytest.mark.parametrize("scope", ["global", "project"])
@pytest.mark.parametrize("harness", LISTED)
async def test_the_harness_shows_our_server(harness: str, scope: str, tmp_path: Path) -> None:
    async with HOMES[harness](tmp_path, BINARIES) as home:
        env = {**home.env, "MCP_TIMEOUT": "60000"}  # the hub imports its MCP server at the first request
        where = ("--project", str(home.project)) if scope == "project" else ("--global",)
        if (
            scope == "project"
        ):  # Claude Code believes an approval in it only where it cannot have come with the repository
            run(("git", "init", "-q"), home.project, env)
            (home.project / ".gitignore").write_text(".claude/settings.local.json\n")
        with hub(home.project, env):
            run((TIELINE, "install", harness, *where), home.project, env)
            assert "installed already" in run((TIELINE, "install", harness, *where), home.project, env)
            listed = run((home.argv[0], "mcp", "list"), home.project, env)
            assert re.search(LISTED[harness], listed), listed
            run((TIELINE, "uninstall", harness, *where), home.project, env)
