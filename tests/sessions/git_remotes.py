"""Remotes for tests: bare repositories behind git's own daemon, and a `gh` that writes down how it was called."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

GH = """#!/bin/sh
for argument in "$@"; do printf '%s\\n' "$argument" >> "{log}"; done
pwd >> "{log}.cwd"
echo "https://example.com/own/project/pull/7"
"""


@contextmanager
def git_daemon(folder: Path, port: int) -> Generator[str]:
    """Serves the bare repositories in a folder, also for pushing. Gives the address of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    argv = [
        "git", "daemon", "--reuseaddr", "--export-all", "--enable=receive-pack", "--listen=127.0.0.1",
        f"--port={port}", f"--base-path={folder}", "--verbose", str(folder),
    ]  # fmt: skip
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    daemon = subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, text=True)
    try:
        assert daemon.stderr is not None
        for line in daemon.stderr:
            if "Ready to rumble" in line:
                break
        yield f"git://127.0.0.1:{port}"
    finally:
        daemon.terminate()
        daemon.wait(10)
        assert daemon.stderr is not None
        daemon.stderr.close()


def bare_repository(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "--bare", "-b", "trunk"], cwd=made, check=True)
    return made


def stand_in_gh(folder: Path) -> Path:
    """Puts a `gh` into a folder. Returns where it writes its arguments."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "gh-told"
    program = folder / "gh"
    program.write_text(GH.format(log=log))
    program.chmod(0o755)
    return log
