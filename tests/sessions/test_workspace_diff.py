"""Diffs since a session began, with real git repositories."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from tieline import paths
from tieline.sessions import git_repository, workspace_diff
from tieline.sessions.safe_git import HUGE, opened
from tieline.sessions.workspace_diff import GitFailed, branch, changes, snapshot

ENV = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
}


def git(cwd: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=cwd, env=ENV, check=True, capture_output=True, text=True).stdout


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


def test_a_commit_whose_branch_is_packed(repository: Path) -> None:
    for name in ("early", "zulu"):
        git(repository, "branch", name)
    git(repository, "commit", "-qm", "second", "--allow-empty")
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git/refs/heads/trunk").exists()
    repo = git_repository.find(str(repository))
    assert repo is not None and repo.commit == git(repository, "rev-parse", "HEAD").strip()
    (repository / ".git/HEAD").write_text("ref: refs/heads/nothing\n")
    assert repo.commit == ""


async def test_attributes_of_the_tree_hide_nothing(repository: Path, env: dict[str, str]) -> None:
    (repository / ".gitattributes").write_text("*.txt -diff\n")
    before = await snapshot(str(repository), env)
    (repository / "kept.txt").write_text("two\n")
    assert "-one\n+two\n" in await changes(str(repository), env, before)


@pytest.mark.slow
async def test_a_submodule_is_shown_as_its_commit(repository: Path, env: dict[str, str]) -> None:
    inner = repository / "module"
    inner.mkdir()
    git(inner, "init", "-q", "-b", "trunk")
    (inner / "file.txt").write_text("one\n")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "first")
    git(repository, "add", "module")
    first = git(inner, "rev-parse", "HEAD").strip()
    before = await snapshot(str(repository), env)
    (inner / "file.txt").write_text("two\n")
    git(inner, "commit", "-qam", "second")
    git(inner, "pack-refs", "--all")  # where no file has its name
    second = git(inner, "rev-parse", "HEAD").strip()
    diff = await changes(str(repository), env, before)
    assert f"-Subproject commit {first}\n+Subproject commit {second}\n" in diff
    assert "two" in await changes(str(inner), env, await snapshot_of(inner, env, "one\n", "two\n"))


async def snapshot_of(folder: Path, env: dict[str, str], before: str, after: str) -> str:
    (folder / "file.txt").write_text(before)
    taken = await snapshot(str(folder), env)
    (folder / "file.txt").write_text(after)
    return taken


async def test_a_linked_worktree(
    repository: Path, env: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    linked = tmp_path_factory.mktemp("linked") / "tree"
    git(repository, "worktree", "add", "-q", "-b", "side", str(linked))
    assert branch(str(linked)) == "side"
    before = await snapshot(str(linked), env)
    (linked / "kept.txt").write_text("one\ntwo\n")
    assert "+two" in await changes(str(linked), env, before)
    assert await changes(str(repository), env, await snapshot(str(repository), env)) == ""


@pytest.mark.slow
async def test_huge_files_and_pointers_and_conversions(repository: Path, env: dict[str, str]) -> None:
    """What filters and line endings would convert is shown as it is in the files, and only where it changed."""
    git(repository, "config", "core.autocrlf", "true")
    (repository / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    (repository / "lines.txt").write_bytes(b"one\r\ntwo\r\n")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 5\n"
    (repository / "pointer.bin").write_text(pointer % "a")
    (repository / "huge.dat").write_bytes(b"x" * (HUGE + 1))
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "second")
    before = await snapshot(str(repository), env)
    assert await changes(str(repository), env, before) == ""
    with (repository / "huge.dat").open("ab") as file:
        file.write(b"y")
    (repository / "lines.txt").write_bytes(b"one\r\nthree\r\n")
    (repository / "pointer.bin").write_text(pointer % "b")
    (repository / "kept.txt").write_bytes(b"z" * (HUGE + 2))
    diff = await changes(str(repository), env, before)
    assert "-two\r\n+three\r\n" in diff and "-one" not in diff.partition("lines.txt")[2].partition("diff --git")[0]
    assert "-oid sha256:a\n+oid sha256:b\n" in diff
    assert f"+(a file of {HUGE + 2:,} bytes" in diff, "and what has just become huge"
    assert diff.count("too large to be shown") == 3
    objects = sum(file.stat().st_size for file in Path(env["HOME"]).rglob("*") if file.is_file())
    assert objects < HUGE // 2, "huge files are not copied"


@pytest.mark.slow
async def test_links_modes_and_kinds(repository: Path, env: dict[str, str]) -> None:
    (repository / "folder").mkdir()
    (repository / "folder/inside.txt").write_text("inside\n")
    (repository / "run.sh").write_text("echo\n")
    before = await snapshot(str(repository), env)
    (repository / "link").symlink_to("/etc/passwd")
    (repository / "run.sh").chmod(0o755)
    (repository / "folder").rename(repository.parent / f"{repository.name}-moved")
    (repository / "folder").symlink_to(repository.parent / f"{repository.name}-moved")
    (repository / "kept.txt").unlink()
    os.mkfifo(repository / "kept.txt")  # whoever opens it waits
    diff = await changes(str(repository), env, before)
    assert "new file mode 120000" in diff and "+/etc/passwd" in diff
    assert "old mode 100644\nnew mode 100755" in diff
    assert "-inside" in diff, "behind a link is not in the tree"
    assert "deleted file mode 100644" in diff and "-one" in diff


@pytest.mark.slow
async def test_ignored_files_count_if_they_were_added_by_force(repository: Path, env: dict[str, str]) -> None:
    (repository / "ignored.txt").write_text("forced\n")
    (repository / "later.txt").write_text("later\n")
    git(repository, "add", "-f", "ignored.txt")
    git(repository, "update-index", "--split-index")
    before = await snapshot(str(repository), env)
    (repository / "ignored.txt").write_text("changed\n")
    assert "-forced\n+changed\n" in await changes(str(repository), env, before)
    (repository / ".gitignore").write_text("*.txt\n")
    again = await snapshot(str(repository), env)
    (repository / "later.txt").write_text("ignored from now on\n")
    assert await changes(str(repository), env, again) == ""


async def test_the_ignore_rules_of_the_user_and_of_the_clone(repository: Path, env: dict[str, str]) -> None:
    before = await snapshot(str(repository), env)
    (Path(env["HOME"]) / ".config/git").mkdir(parents=True)
    (Path(env["HOME"]) / ".config/git/ignore").write_text("*.swp\n")
    (repository / ".git/info").mkdir(exist_ok=True)
    (repository / ".git/info/exclude").write_text("notes\n")
    for name in ("a.swp", "notes", "seen"):
        (repository / name).write_text(f"{name}\n")
    diff = await changes(str(repository), env, before)
    assert diff.count("diff --git") == 1 and "+seen" in diff


async def test_a_diff_that_is_too_long_says_so(
    repository: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_diff, "MAX_DIFF", 2000)
    before = await snapshot(str(repository), env)
    (repository / "long.txt").write_text("line\n" * 1000)
    diff = await changes(str(repository), env, before)
    assert len(diff) < 2100 and "… cut: the diff is longer than 2,000 bytes" in diff
    repo = git_repository.find(str(repository))
    assert repo is not None
    async with opened(repo, env, store=paths.snapshots(env) / "own", keep=False) as own:
        listed = await own.run("ls-files", "-o", limit=5)
    assert len(listed) == 6, "one more byte says that there is more"


async def test_the_repository_is_not_written_to(repository: Path, env: dict[str, str]) -> None:
    """Neither its objects nor its index; and the home may be the repository itself."""

    def inside() -> list[str]:
        return sorted(str(path) for path in (repository / ".git").rglob("*"))

    before, own = inside(), {**env, "HOME": str(repository)}
    began = await snapshot(str(repository), own)
    (repository / "new.txt").write_text("new\n")
    assert (await changes(str(repository), own, began)).count("diff --git") == 1
    assert inside() == before
    (objects,) = paths.snapshots(own).glob("*/objects")
    assert objects.stat().st_mode & 0o777 == 0o700, "what the files hold is their owner's alone"


async def test_sha256(tmp_path: Path, env: dict[str, str]) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256")
    (tmp_path / "one.txt").write_text("one\n")
    (tmp_path / "huge").write_bytes(b"x" * (HUGE + 1))
    git(tmp_path, "add", ".")
    before = await snapshot(str(tmp_path), env)
    assert len(before) == 64
    (tmp_path / "one.txt").write_text("two\n")
    assert "+two" in await changes(str(tmp_path), env, before)


async def test_sessions_that_begin_at_once_do_not_disturb_each_other(repository: Path, env: dict[str, str]) -> None:
    taken = await asyncio.gather(*(snapshot(str(repository), env) for _ in range(4)))
    assert len(set(taken)) == 1
    assert await changes(str(repository), env, taken[0]) == ""


def test_pipes_in_the_place_of_git_files_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".git")
    assert branch(str(tmp_path)) == ""
    (tmp_path / "inner/.git").mkdir(parents=True)
    os.mkfifo(tmp_path / "inner/.git/HEAD")
    assert branch(str(tmp_path / "inner")) == ""
