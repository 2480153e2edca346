"""The folders in which agents look for a repository's settings, rules, hooks and instructions; the last as text; and
which settings are left out."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..events import Warning
from ..safe_file_read import read_inside, read_regular

MAX_LINK = 8192
"""Bytes of the file by which a linked worktree names its repository."""
MAX_INSTRUCTIONS = 32 * 1024
"""Of all of them together: an argument has no room for 128 KiB."""


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


def repository_instructions(cwd: str, names: Sequence[str], *, above_only: bool = False) -> str:
    """The files of the first of these names that there is, from the repository's root to the session's folder, for an
    agent that does not read them by itself. No link leads out of a folder."""
    here = Path(cwd).absolute()
    folders = [each for each in repository_folders(cwd) if each in here.parents or (each == here and not above_only)]
    for name in names:
        texts: list[str] = []
        for folder in folders:
            with suppress(OSError):
                text = read_inside(str(folder), name, MAX_INSTRUCTIONS).decode(errors="replace")
                texts.append(
                    f"Instructions of the repository, in {folder / name}:\n\n{text.replace(chr(0), '').strip()}"
                )
        while sum(len(text.encode()) for text in texts) > MAX_INSTRUCTIONS:
            texts.pop()  # the nearest count most
        if texts:
            return "\n\n".join(reversed(texts))
    return ""


def settings_left_out(cwd: str, names: Sequence[str], home: str, hint: str) -> tuple[Warning, ...]:
    """Tells the person which of these settings the repository has, when its agent does not read them; `hint`: what to
    say if it should. Those of the person's own home are no repository's."""
    here = Path(cwd).absolute()
    folders = [each for each in repository_folders(cwd) if (each == here or each in here.parents) and str(each) != home]
    # `Path.exists` raises for a folder that is closed to us, and the session would not open.
    found = [name for name in names if any(os.path.exists(folder / name) for folder in folders)]  # noqa: PTH110
    if not found:
        return ()
    what = "the repository's own settings are left out where commands are not allowed"
    return (Warning(f"{what}: {', '.join(found)}. If you trust it: {hint}"),)


def _main_checkout(root: Path) -> Path | None:
    """Where this is the root of a linked worktree: that of the checkout whose repository it uses."""
    with suppress(OSError, UnicodeDecodeError):
        link = read_regular(root / ".git", MAX_LINK).decode()
        own = Path(os.path.normpath(root / link.partition("gitdir:")[2].strip()))
        if own.parent.name == "worktrees":  # …/.git/worktrees/NAME
            return own.parent.parent.parent
    return None
