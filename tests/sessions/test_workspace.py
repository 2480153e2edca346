"""Diffs since a session began, with real git repositories."""

import subprocess
from pathlib import Path

import pytest

from tieline.sessions.workspace import GitFailed, branch, changes, snapshot

ENV = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
}


def git(place: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=place, env=ENV, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "trunk")
    (tmp_path / "kept.txt").write_text("one\n")
    (tmp_path / ".gitignore").write_text("ignored.txt\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


async def test_staged_unstaged_and_untracked_since_the_beginning(repository: Path) -> None:
    (repository / "dirty-before.txt").write_text("already here\n")
    before = await snapshot(str(repository), ENV)
    (repository / "kept.txt").write_text("one\ntwo\n")
    (repository / "staged.txt").write_text("staged\n")
    git(repository, "add", "staged.txt")
    (repository / "untracked.txt").write_text("untracked\n")
    (repository / "ignored.txt").write_text("ignored\n")
    status = git(repository, "status", "--porcelain")
    diff = await changes(str(repository), ENV, before)
    assert "+two" in diff
    assert "+staged" in diff
    assert "+untracked" in diff
    assert "ignored" not in diff
    assert "already here" not in diff, "it was there before the session began"
    assert git(repository, "status", "--porcelain") == status, "the user's index is untouched"


async def test_what_was_committed_meanwhile_counts(repository: Path) -> None:
    before = await snapshot(str(repository), ENV)
    (repository / "new.txt").write_text("new\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "second")
    assert "+new" in await changes(str(repository), ENV, before)


async def test_from_a_subdirectory_the_whole_tree_counts(repository: Path) -> None:
    inner = repository / "inner"
    inner.mkdir()
    before = await snapshot(str(inner), ENV)
    (repository / "outside.txt").write_text("outside\n")
    assert "+outside" in await changes(str(inner), ENV, before)


async def test_before_the_first_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk")
    before = await snapshot(str(tmp_path), ENV)
    (tmp_path / "new.txt").write_text("new\n")
    assert "+new" in await changes(str(tmp_path), ENV, before)


async def test_without_git(tmp_path: Path) -> None:
    assert await snapshot(str(tmp_path), ENV) == ""
    assert await branch(str(tmp_path), ENV) == ""
    with pytest.raises(GitFailed, match="not in a git repository"):
        await changes(str(tmp_path), ENV, "")


async def test_branch(repository: Path) -> None:
    assert await branch(str(repository), ENV) == "trunk"
    git(repository, "checkout", "-q", "--detach")
    assert await branch(str(repository), ENV) == ""
