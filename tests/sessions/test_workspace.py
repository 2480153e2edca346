"""Diffs since a session began, with real git repositories."""

import subprocess
from pathlib import Path

import pytest

from tieline.sessions.workspace import GitFailed, branch, changes, snapshot

ENV = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
}


def git(place: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=place, env=ENV, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The hub's: it keeps its snapshots at home."""
    return {"PATH": ENV["PATH"], "HOME": str(tmp_path_factory.mktemp("home"))}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "trunk")
    (tmp_path / "kept.txt").write_text("one\n")
    (tmp_path / ".gitignore").write_text("ignored.txt\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


async def test_staged_unstaged_and_untracked_since_the_beginning(repository: Path, env: dict[str, str]) -> None:
    (repository / "dirty-before.txt").write_text("already here\n")
    before = await snapshot(str(repository), env)
    (repository / "kept.txt").write_text("one\ntwo\n")
    (repository / "staged.txt").write_text("staged\n")
    git(repository, "add", "staged.txt")
    (repository / "untracked.txt").write_text("untracked\n")
    (repository / "ignored.txt").write_text("ignored\n")
    status = git(repository, "status", "--porcelain")
    diff = await changes(str(repository), env, before)
    assert "+two" in diff
    assert "+staged" in diff
    assert "+untracked" in diff
    assert "ignored" not in diff
    assert "already here" not in diff, "it was there before the session began"
    assert git(repository, "status", "--porcelain") == status, "the user's index is untouched"


async def test_what_was_committed_meanwhile_counts(repository: Path, env: dict[str, str]) -> None:
    before = await snapshot(str(repository), env)
    (repository / "new.txt").write_text("new\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "second")
    assert "+new" in await changes(str(repository), env, before)


async def test_from_a_subdirectory_the_whole_tree_counts(repository: Path, env: dict[str, str]) -> None:
    inner = repository / "inner"
    inner.mkdir()
    before = await snapshot(str(inner), env)
    (repository / "outside.txt").write_text("outside\n")
    assert "+outside" in await changes(str(inner), env, before)


async def test_before_the_first_commit(tmp_path: Path, env: dict[str, str]) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk")
    before = await snapshot(str(tmp_path), env)
    (tmp_path / "new.txt").write_text("new\n")
    assert "+new" in await changes(str(tmp_path), env, before)


async def test_without_git(tmp_path: Path, env: dict[str, str]) -> None:
    assert await snapshot(str(tmp_path), env) == ""
    assert branch(str(tmp_path)) == ""
    with pytest.raises(GitFailed, match="not in a git repository"):
        await changes(str(tmp_path), env, "")


def test_branch(repository: Path) -> None:
    assert branch(str(repository)) == "trunk"
    git(repository, "checkout", "-q", "--detach")
    assert branch(str(repository)) == ""
