"""Which directory is a repository, by its files alone: no git is run."""

from pathlib import Path

import pytest

from tieline.sessions.git_repository import at, find


def checkout(top: Path, git_dir: Path) -> Path:
    git_dir.mkdir(parents=True)
    (git_dir / "HEAD").write_text("ref: refs/heads/main\n")
    top.mkdir(parents=True, exist_ok=True)
    return top


def test_a_directory_below_its_top_is_in_it(tmp_path: Path) -> None:
    top = checkout(tmp_path / "work", tmp_path / "work/.git")
    (top / "src/deep").mkdir(parents=True)
    for directory in (top, top / "src", top / "src/deep"):
        found = find(str(directory))
        assert found is not None
        assert (found.top, found.git_dir, found.common_dir) == (str(top), f"{top}/.git", f"{top}/.git")
    assert at(str(top / "src")) is None, "its top only"
    (top / "src/.git").mkdir()
    found = find(str(top / "src/deep"))
    assert found is not None and found.top == str(top), "a folder that only looks like one"


@pytest.mark.parametrize("relative", [False, True])
def test_a_linked_worktree_names_its_repository(tmp_path: Path, relative: bool) -> None:
    own = tmp_path / "main/.git/worktrees/linked"
    top = checkout(tmp_path / "linked", own)
    (own / "commondir").write_text("../..\n")
    (top / ".git").write_text(f"gitdir: {'../main/.git/worktrees/linked' if relative else own}\n")
    repository = at(str(top))
    assert repository is not None
    assert (repository.top, repository.git_dir, repository.common_dir) == (str(top), str(own), f"{tmp_path}/main/.git")


@pytest.mark.parametrize("text", ["", "gitdir: ", "gitdir:", "gitdir", "other: {own}", "{own}", "gitdir: {own}/none"])
def test_a_file_that_names_none_is_none(tmp_path: Path, text: str) -> None:
    own = tmp_path / "own"
    top = checkout(tmp_path / "work", own)
    (top / "HEAD").write_text("ref: refs/heads/main\n")  # what is named is not the folder itself
    (top / ".git").write_text(text.format(own=own))
    assert at(str(top)) is None
    (top / ".git").write_text(f"gitdir: {own}")
    assert at(str(top)) is not None
