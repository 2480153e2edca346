"""The folders in which agents look for a repository's settings, rules and hooks."""

import os
from contextlib import suppress
from pathlib import Path

from ..safe_file_read import read_regular

MAX_LINK = 8192
"""Bytes of the file by which a linked worktree names its repository."""


def repository_folders(cwd: str) -> list[Path]:
    """From the session's folder to the root of its repository, and of a linked worktree the main checkout's root as
    well; each by every name that it has, because agents compare names. Outside of a repository the folder alone."""
    folders: dict[Path, None] = {}
    for start in dict.fromkeys((Path(cwd).absolute(), Path(cwd).resolve())):
        upwards = [start, *start.parents]
        root = next((number for number, folder in enumerate(upwards) if (folder / ".git").exists()), 0)
        folders |= dict.fromkeys(upwards[: root + 1])
        if main := _main_checkout(upwards[root]):
            folders |= dict.fromkeys((main, main.resolve()))
    return list(folders)


def _main_checkout(root: Path) -> Path | None:
    """Where this is the root of a linked worktree: that of the checkout whose repository it uses."""
    with suppress(OSError, UnicodeDecodeError):
        link = read_regular(root / ".git", MAX_LINK).decode()
        own = Path(os.path.normpath(root / link.partition("gitdir:")[2].strip()))
        if own.parent.name == "worktrees":  # …/.git/worktrees/NAME
            return own.parent.parent.parent
    return None
