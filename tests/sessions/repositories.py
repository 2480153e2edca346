"""Real git repositories for tests."""

import subprocess
from pathlib import Path


def git(cwd: Path | str, *arguments: str, check: bool = True) -> str:
    env = {
        "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com",
    }  # fmt: skip
    return subprocess.run(
        ["git", *arguments], cwd=cwd, env=env, check=check, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def make_repository(folder: Path) -> Path:
    """On the branch main, with one commit, and a user of its own."""
    (folder / "inner").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "Ada")
    git(folder, "config", "user.email", "ada@example.com")
    (folder / "shop.py").write_text("colour = 'red'\n")
    (folder / "inner/notes.txt").write_text("notes\n")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder
