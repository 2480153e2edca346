"""A git repository, read as data: nothing in it is believed to be harmless, and git itself is not asked.

Git runs programs that a repository names (filters, hooks, monitors), and an agent may have written them. So the few
facts that are needed are read from the files: where the work tree begins, the branch, a submodule's commit.
"""

import os
import re
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ..safe_file_read import read_regular

MAX_FACT = 64 * 1024
MAX_REFS = 16 * 1024 * 1024
UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
"""What is in a git directory while its owner merges, picks or rebases."""
MAX_SYMBOLIC = 5
"""References that only name another one, in a row."""
MAX_BRANCH = 200

_REF = re.compile(r"ref: (refs/[^\x00-\x20\x7f~^:?*\[\\]{1,500})")
_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})")
_BRANCH = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\]+")
_BARE = re.compile(rb"^\s*bare\s*=\s*\"?(?:true|yes|on|1)\b", re.IGNORECASE | re.MULTILINE)
_REFTABLE = re.compile(rb"^\s*refstorage\s*=\s*\"?reftable\b", re.IGNORECASE | re.MULTILINE)
_SHA256 = re.compile(rb"^\s*objectformat\s*=\s*\"?sha256\b", re.IGNORECASE | re.MULTILINE)


class Repository(Struct, frozen=True):
    top: str
    """The folder whose files it keeps."""
    git_dir: str
    common_dir: str
    """Another than `git_dir` in a linked worktree: the objects and branches are the main one's."""

    @property
    def branch(self) -> str:
        """The branch of HEAD. Empty when HEAD is detached, or the references are in a format that only git reads
        (reftable)."""
        match = _REF.fullmatch(_fact(f"{self.git_dir}/HEAD"))
        name = match[1].removeprefix("refs/heads/") if match else ""
        return "" if name.startswith(("refs/", ".")) else name

    @property
    def commit(self) -> str:
        """The commit of HEAD. Empty when there is none, or it cannot be read."""
        value = _fact(f"{self.git_dir}/HEAD")
        for _ in range(MAX_SYMBOLIC):
            if _COMMIT.fullmatch(value):
                return value
            match = _REF.fullmatch(value)
            if match is None or ".." in match[1]:
                return ""
            loose = _fact(f"{self.git_dir}/{match[1]}") or _fact(f"{self.common_dir}/{match[1]}")
            value = loose or self.packed(match[1])
        return ""

    def ref(self, branch: str) -> str:
        """The commit of a branch; empty when there is none, or it cannot be read."""
        return self.reference(f"refs/heads/{branch}")

    def reference(self, ref: str) -> str:
        """The same of any reference, by its whole name."""
        value = _fact(f"{self.common_dir}/{ref}") or self.packed(ref)
        return value if _COMMIT.fullmatch(value) else ""

    def tracked(self, remote: str, branch: str) -> str:
        """The commit that a remote's branch had when it was last seen; empty when it was not."""
        name = f"refs/remotes/{remote}/{branch}"
        value = "" if ".." in name else _fact(f"{self.common_dir}/{name}") or self.packed(name)
        return value if _COMMIT.fullmatch(value) else ""

    def has_below(self, ref: str) -> bool:
        """Whether there are references whose names go on after this one's with a slash."""
        with suppress(OSError):
            if any(files for _, _, files in os.walk(f"{self.common_dir}/{ref}")):
                return True
            content = read_regular(f"{self.common_dir}/packed-refs", MAX_REFS)
            return b" " + os.fsencode(ref) + b"/" in content
        return False

    @property
    def unfinished(self) -> str:
        """What its owner is in the middle of: the name of git's own file about it. Empty: nothing."""
        return next((name for name in UNFINISHED if os.path.lexists(f"{self.git_dir}/{name}")), "")

    @property
    def object_format(self) -> str:
        return "sha256" if _SHA256.search(self.config) else "sha1"

    @property
    def reftable(self) -> bool:
        """Its references are in a format that only git reads and writes."""
        return _REFTABLE.search(self.config) is not None

    @property
    def config(self) -> bytes:
        """The text of its configuration; empty when it cannot be read."""
        with suppress(OSError):
            return read_regular(f"{self.common_dir}/config", MAX_REFS)
        return b""

    def checkouts(self) -> "list[Repository]":
        """The work trees: the main one, and the linked ones whose files exist. A main work tree whose path is unknown
        has no `top`."""
        repositories: list[Repository] = []
        main = self.top if self.git_dir == self.common_dir else self.common_dir.removesuffix("/.git")
        if self.git_dir == self.common_dir or not _BARE.search(self.config):
            repositories.append(Repository("" if main == self.common_dir else main, self.common_dir, self.common_dir))
        with suppress(OSError):
            for name in sorted(os.listdir(f"{self.common_dir}/worktrees")):  # noqa: PTH208
                admin = f"{self.common_dir}/worktrees/{name}"
                where = os.path.normpath(Path(admin, _fact(f"{admin}/gitdir")))
                if os.path.basename(where) == ".git" and os.path.exists(where):  # noqa: PTH110, PTH119
                    repositories.append(Repository(os.path.dirname(where), admin, self.common_dir))  # noqa: PTH120
        return repositories

    def packed(self, ref: str) -> str:
        with suppress(OSError):
            content = read_regular(f"{self.common_dir}/packed-refs", MAX_REFS)
            line = re.search(rb"^([0-9a-f]+) " + re.escape(os.fsencode(ref)) + rb"$", content, re.MULTILINE)
            return line[1].decode() if line else ""
        return ""


def is_branch_name(name: str) -> bool:
    """As `git check-ref-format --branch` says."""
    return (
        len(name) <= MAX_BRANCH
        and _BRANCH.fullmatch(name) is not None
        and ".." not in name
        and "@{" not in name
        and name not in ("HEAD", "@")
        and not name.startswith("-")
        and not name.endswith(".")
        and all(part and not part.startswith(".") and not part.endswith(".lock") for part in name.split("/"))
    )


def find(cwd: str) -> Repository | None:
    """The repository in whose work tree this directory is."""
    directory = Path(cwd)
    for top in (directory, *directory.parents):
        if os.path.lexists(top / ".git") and (repository := at(str(top))):
            return repository
    return None


def at(top: str) -> Repository | None:
    """The repository whose work tree begins exactly here."""
    git_dir = f"{top}/.git"
    if not os.path.isdir(git_dir):  # noqa: PTH112 (asked in every folder above a session)
        word, _, where = _fact(git_dir).partition(": ")  # a linked worktree, or a submodule
        if word != "gitdir" or not where:
            return None
        git_dir = os.path.normpath(Path(top, where))
    if not _fact(f"{git_dir}/HEAD"):
        return None
    common = _fact(f"{git_dir}/commondir")
    return Repository(top, git_dir, os.path.normpath(Path(git_dir, common)) if common else git_dir)


def _fact(path: str) -> str:
    """The text of a file of one line; empty when it is not there, or is none."""
    try:
        return os.fsdecode(read_regular(path, MAX_FACT)).rstrip("\r\n")
    except (OSError, ValueError):  # ValueError: a null byte in a name
        return ""
