"""Which project a directory belongs to: the main work tree of its git repository, in one spelling."""

import unicodedata
from pathlib import Path

from msgspec import Struct

from ..sessions import git_repository

MAX_PROJECT = 100


class Project(Struct, frozen=True):
    name: str
    branch: str = ""


def project_name(text: str) -> str:
    """The one spelling of a project's name."""
    return unicodedata.normalize("NFKC", text).strip().casefold()[:MAX_PROJECT]


def project_of(cwd: str) -> Project:
    """The project of a directory. Linked worktrees belong to the project of their repository. It reads a few files:
    call it in a thread."""
    if not cwd or not Path(cwd).is_absolute():
        return Project("")
    repository = git_repository.find(cwd)
    if repository is None:
        return Project(project_name(Path(cwd).name))
    common = Path(repository.common_dir)
    top = common.parent if common.name == ".git" else Path(repository.top)
    return Project(project_name(top.name), repository.branch)
