"""Real git repositories for tests."""

import subprocess
from pathlib import Path


def git(place: Path | str, *arguments: str, check: bool = True) -> str:
    env = {
        "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com",
    }  # fmt: skip
    return subprocess.run(
        ["git", *arguments], cwd=place, env=env, check=check, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def make_repository(place: Path) -> Path:
    """On the branch main, with one commit, and a user of its own."""
    (place / "inner").mkdir(parents=True)
    git(place, "init", "-q", "-b", "main")
    git(place, "config", "user.name", "Ada")
    git(place, "config", "user.email", "ada@example.com")
    (place / "shop.py").write_text("colour = 'red'\n")
    (place / "inner/notes.txt").write_text("notes\n")
    (place / ".gitignore").write_text("*.log\n")
    git(place, "add", ".")
    git(place, "commit", "-qm", "first")
    return place
