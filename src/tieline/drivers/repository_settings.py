"""The folders in which agents look for a repository's settings, rules, hooks and instructions; the last as text; which
settings are left out; and which files run although they are."""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ..events import Warning
from ..safe_file_read import read_inside, read_regular

MAX_LINK = 8192
"""Bytes of the file by which a linked worktree names its repository."""
MAX_INSTRUCTIONS = 32 * 1024
"""Of all of them together: an argument has no room for 128 KiB."""
MAX_SETTINGS = 256 * 1024
LEFT_OUT = "the repository's own settings are left out where commands are not allowed"


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


def settings_found(cwd: str, names: Sequence[str], home: str) -> tuple[str, ...]:
    """Which of these settings the repository has. Those of the person's own home are no repository's."""
    folders = _folders_above(cwd, home)
    return tuple(name for name in names if any(_holds_something(folder / name) for folder in folders))


def settings_left_out(cwd: str, names: Sequence[str], home: str, hint: str) -> tuple[Warning, ...]:
    """A warning that names those of the settings in the repository that its agent does not read. `hint`: what the
    person can do to have them read."""
    present = settings_found(cwd, names, home)
    return (Warning(f"{LEFT_OUT}: {', '.join(present)}. If you trust it: {hint}"),) if present else ()


def file_that_runs(cwd: str, patterns: Mapping[str, str], home: str) -> str:
    """The first file of the repository that its agent would run, whatever it is told; empty: none. `patterns`: names of
    such files, each with what its content has to match; one that cannot be read whole matches."""
    for folder in _folders_above(cwd, home):
        for name, content in patterns.items():
            for path in sorted(folder.glob(name)):
                text = _text_or_none(path) if content else ""
                if text is None or re.search(content, text, re.IGNORECASE):
                    return str(path)
    return ""


def _folders_above(cwd: str, home: str) -> list[Path]:
    """The folders of the repository that are above the session's, and its own; not the person's home."""
    above = {each for start in (Path(cwd).absolute(), Path(cwd).resolve()) for each in (start, *start.parents)}
    return [each for each in repository_folders(cwd) if each in above and str(each) != home]


def _holds_something(path: Path) -> bool:
    """An empty folder has no settings: Codex's sandbox leaves such ones wherever it may write, in /tmp for example."""
    try:
        return next(path.iterdir(), None) is not None
    except NotADirectoryError:
        return True
    except OSError:  # `Path.exists` raises for a folder that is closed to us, and the session would not open
        return os.path.lexists(path)


def _text_or_none(path: Path) -> str | None:
    with suppress(OSError):
        content = read_regular(path, MAX_SETTINGS + 1)
        return None if len(content) > MAX_SETTINGS else content.decode(errors="replace")
    return None


def _main_checkout(root: Path) -> Path | None:
    """Where this is the root of a linked worktree: that of the checkout whose repository it uses."""
    with suppress(OSError, UnicodeDecodeError):
        link = read_regular(root / ".git", MAX_LINK).decode()
        own = Path(os.path.normpath(root / link.partition("gitdir:")[2].strip()))
        if own.parent.name == "worktrees":  # …/.git/worktrees/NAME
            return own.parent.parent.parent
    return None
