"""Files of a repository that Tieline writes itself: whose lock is whose, and links that an agent laid there."""

import asyncio
import errno
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from tests.sessions.repositories import git, make_repository

from tieline.sessions import git_repository, git_writes
from tieline.sessions.git_repository import Repository
from tieline.sessions.safe_git import GitFailed
from tieline.sessions.worktrees import Worktrees
from tieline.testing.rig import scratch_env

REF = "refs/heads/main"


@pytest.fixture
def own(tmp_path: Path) -> Repository:
    repository = git_repository.find(str(make_repository(tmp_path / "shop")))
    assert repository is not None
    return repository


def dead_process() -> int:
    """The id of a process that is no more."""
    return int(subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True).stdout)


def lock(own: Repository, content: str) -> Path:
    path = Path(own.common_dir, f"{REF}.lock")
    path.write_text(content)
    return path


def test_a_lock_of_a_killed_process_of_ours_is_removed(own: Repository) -> None:
    left = lock(own, f"tieline {dead_process()} {platform.node()}\n")
    git_writes.write_ref(own, REF, own.commit, own.commit)
    assert not left.exists()


def test_of_many_that_find_such_a_lock_one_at_a_time_goes_on(own: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_writes, "RETRY_S", 0.001)
    monkeypatch.setattr(git_writes, "LOCK_S", 60.0)
    dead, inside, most = dead_process(), 0, 0

    def work() -> None:
        nonlocal inside, most
        with git_writes.locked(own.common_dir, REF):
            inside += 1
            most = max(most, inside)
            time.sleep(0)  # lets the others run
            inside -= 1

    with ThreadPoolExecutor(8) as pool:
        for _ in range(60):
            lock(own, f"tieline {dead} {platform.node()}\n")
            for future in [pool.submit(work) for _ in range(8)]:
                future.result()
    assert most == 1


SOMEBODY_ELSES = {
    "git's own": "",
    "ours, and at work": "tieline {alive} {machine}\n",
    "of another machine": "tieline {dead} another-{machine}\n",
    "not quite ours": "tieline {dead} {machine}\nmore\n",
}


@pytest.mark.parametrize("whose", SOMEBODY_ELSES)
def test_a_lock_of_somebody_else_is_waited_for_and_stays(
    own: Repository, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_writes, "LOCK_S", 0.1)
    content = SOMEBODY_ELSES[whose].format(alive=os.getpid(), dead=dead_process(), machine=platform.node())
    theirs = lock(own, content)
    with pytest.raises(GitFailed, match=r"main\.lock exists") as caught:
        git_writes.write_ref(own, REF, own.commit, own.commit)
    assert str(theirs) in caught.value.hint
    assert theirs.read_text() == content


def test_a_lock_says_whose_it_is_and_goes_with_its_holder(own: Repository) -> None:
    lock_file = Path(own.git_dir, "index.lock")
    with git_writes.locked(own.git_dir, "index"):
        assert lock_file.read_text() == f"tieline {os.getpid()} {platform.node()}\n"
    assert not lock_file.exists()
    before = git(own.top, "status", "--porcelain")
    index = Path(own.git_dir, "index").read_bytes()
    with git_writes.locked(own.git_dir, "index") as replace:
        replace(index)
    assert not lock_file.exists() and Path(own.git_dir, "index").read_bytes() == index
    assert git(own.top, "status", "--porcelain") == before


LINKS = ["worktrees", "admin", "HEAD", "HEAD.tieline", "commondir", "gitdir", "index", "tieline-base", "index.tieline"]


@pytest.mark.parametrize("link", LINKS)
async def test_no_link_is_followed_when_a_worktree_is_made(link: str, tmp_path: Path) -> None:
    """An agent may write into `.git`, and knows what its next worktree will be called."""
    repository = make_repository(tmp_path / "shop")
    trees = Worktrees(scratch_env(tmp_path / "home", path=os.defpath))
    tree = trees.find("0199a2", "work", "blue", str(repository))
    outside = tmp_path / "outside"
    outside.mkdir()
    victim = outside / "victim"
    victim.write_text("mine\n")
    admin = Path(tree.admin)
    if link == "worktrees":
        admin.parent.symlink_to(outside)
    elif link == "admin":
        admin.parent.mkdir()
        admin.symlink_to(outside)
    else:
        admin.mkdir(parents=True)
        (admin / link).symlink_to(victim)
    try:
        await trees.make(tree)
    except GitFailed as refused:
        assert link in ("worktrees", "admin", "tieline-base"), refused
    else:
        assert git(tree.path, "status", "--porcelain", "--branch") == "## blue"
    assert victim.read_text() == "mine\n"
    assert [path.name for path in outside.iterdir()] == ["victim"]


async def test_no_link_in_a_worktrees_own_files_is_followed(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "shop")
    trees = Worktrees(scratch_env(tmp_path / "home", path=os.defpath))
    tree = trees.find("0199a2", "work", "blue", str(repository))
    await trees.make(tree)
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    dot_git = Path(tree.path, ".git")
    await asyncio.to_thread(dot_git.unlink)
    dot_git.symlink_to(victim)
    Path(tree.admin, "index").unlink()  # so it is made again
    await trees.make(tree)
    assert victim.read_text() == "mine\n"
    assert git(tree.path, "status", "--porcelain", "--branch") == "## blue"


# --- references ----------------------------------------------------------------------------------------------------


def packed(own: Repository) -> str:
    return Path(own.common_dir, "packed-refs").read_text()


def test_a_reference_is_written_only_where_it_is_as_it_was(own: Repository) -> None:
    first = own.commit
    second = git(own.top, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "x")
    new = "refs/heads/new"
    with pytest.raises(GitFailed, match="changed concurrently"):
        git_writes.write_ref(own, REF, second, second)
    with pytest.raises(GitFailed, match="changed concurrently"):
        git_writes.write_ref(own, REF, "", second)
    with pytest.raises(GitFailed, match="changed concurrently"):
        git_writes.write_ref(own, new, first, second)
    with pytest.raises(GitFailed, match="changed concurrently"):
        git_writes.delete_ref(own, REF, second)
    assert (own.reference(REF), own.reference(new)) == (first, "")
    git_writes.write_ref(own, new, "", second)
    git_writes.write_ref(own, REF, None, second)
    assert git(own.top, "rev-parse", REF, new).split() == [second, second]
    assert not list(Path(own.common_dir, "refs").rglob("*.lock"))


def test_a_packed_branch_goes_and_all_others_stay(own: Repository) -> None:
    for name in ("a", "a-b", "x/a", "heads/deep/a"):
        git(own.top, "branch", name)
    git(own.top, "tag", "-a", "-m", "x", "a")  # its line has a second one with what it stands for
    git(own.top, "tag", "-a", "-m", "x", "z")
    git(own.top, "pack-refs", "--all")
    before = git(own.top, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    assert packed(own).count("^") == 2
    git(own.top, "update-ref", "refs/heads/a", git(own.top, "commit-tree", "HEAD^{tree}", "-m", "later"))
    for name in ("a", "heads/deep/a"):
        git_writes.delete_ref(own, f"refs/heads/{name}", own.ref(name))
    left = git(own.top, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    assert left == [line for line in before if line.split()[0] not in ("refs/heads/a", "refs/heads/heads/deep/a")]
    assert packed(own).count("^") == 2, "tags keep what they stand for"
    assert not Path(own.common_dir, "refs/heads/heads").exists() and Path(own.common_dir, "refs/heads").is_dir()


def test_folders_with_other_branches_stay(own: Repository) -> None:
    for name in ("x/a", "x/b"):
        git(own.top, "branch", name)
    git_writes.delete_ref(own, "refs/heads/x/a", own.commit)
    assert own.ref("x/b") == own.commit
    git_writes.delete_ref(own, "refs/heads/x/b", own.commit)
    assert not Path(own.common_dir, "refs/heads/x").exists() and Path(own.common_dir, "refs/heads").is_dir()


def test_references_that_are_not_all_read_are_not_written(own: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is behind the limit would be lost, or be made a second time."""
    for name in ("a", "z"):
        git(own.top, "branch", name)
    git(own.top, "pack-refs", "--all")
    whole, commit = packed(own), own.commit
    for module in (git_repository, git_writes):
        monkeypatch.setattr(module, "MAX_REFS", len(whole) - 20)  # the last branch is behind it
    assert not own.reference("refs/heads/z")
    with pytest.raises(GitFailed, match="more references than"):
        git_writes.delete_ref(own, "refs/heads/a", commit)
    with pytest.raises(GitFailed, match="more references than"):
        git_writes.write_ref(own, "refs/heads/z", "", commit)
    assert packed(own) == whole and not Path(own.common_dir, "refs/heads/z").exists()


def test_branches_that_cannot_be_beside_each_other(own: Repository) -> None:
    for name in ("a", "deep/er/b"):
        git(own.top, "branch", name)
    for pack in (False, True):
        if pack:
            git(own.top, "pack-refs", "--all")
        for ref in ("refs/heads/a/b", "refs/heads/a/b/c", "refs/heads/deep", "refs/heads/deep/er"):
            with pytest.raises(GitFailed, match=r"there (is|are)"):
                git_writes.check_new_ref(own, ref)
        for ref in ("refs/heads/ab", "refs/heads/deep/erb", "refs/heads/deep/x"):
            git_writes.check_new_ref(own, ref)


# --- locks, the index, reflogs, work files -------------------------------------------------------------------------


def test_a_full_disk_leaves_no_lock(own: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = own.commit
    with monkeypatch.context() as patched:
        patched.setattr(git_writes.os, "write", full)
        with pytest.raises(GitFailed, match="No space left"):
            git_writes.write_ref(own, REF, before, before)
    assert not list(Path(own.common_dir, "refs").rglob("*.lock"))
    git_writes.write_ref(own, REF, before, before)


def test_a_short_write_is_gone_on_with(own: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(git_writes.os, "write", lambda to, content: write(to, bytes(content)[:3]))  # type: ignore[arg-type]
        git_writes.replace_file(own.git_dir, "deep/file", b"0123456789")
    assert Path(own.git_dir, "deep/file").read_bytes() == b"0123456789"


def test_an_index_that_somebody_changed_stays(own: Repository, tmp_path: Path) -> None:
    index, new = Path(own.git_dir, "index"), tmp_path / "new"
    before = git_writes.read_index(own)
    assert before is not None
    new.write_bytes(before)
    os.utime(new, ns=(1_000_000_000, 1_000_000_000))
    for other in (None, before + b"x"):
        with pytest.raises(GitFailed, match="the index was changed concurrently"):
            git_writes.replace_index(own, other, new)
    assert index.stat().st_mtime_ns != 1_000_000_000 and not index.with_name("index.lock").exists()
    git_writes.replace_index(own, before, new)
    assert index.stat().st_mtime_ns == 1_000_000_000, "git compares the files' times with it"
    index.unlink()
    git_writes.replace_index(own, None, new)
    assert index.read_bytes() == before


def test_a_reflog_that_is_not_a_plain_file_is_left_alone(own: Repository, tmp_path: Path) -> None:
    head, branch = Path(own.git_dir, "logs/HEAD"), Path(own.common_dir, "logs/refs/heads/main")
    git_writes.append_reflogs(own, "main", "one\n")
    assert head.read_text().endswith("\none\n") and branch.read_text().endswith("\none\n")
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    head.unlink()
    os.link(victim, head)
    branch.unlink()
    branch.symlink_to(victim)
    git_writes.append_reflogs(own, "main", "two\n")
    head.unlink()
    os.mkfifo(head)
    git_writes.append_reflogs(own, "main", "three\n")
    assert victim.read_text() == "mine\n"
    head.unlink()
    git_writes.append_reflogs(own, "main", "four\n")
    assert not head.exists(), "none is kept"


def test_a_work_file_is_removed_with_the_folders_that_are_empty_then(tmp_path: Path) -> None:
    top, outside = tmp_path / "top", tmp_path / "outside"
    (top / "a/b/c").mkdir(parents=True)
    outside.mkdir()
    for file in (top / "a/b/c/x", top / "a/y", outside / "z"):
        file.write_text("x")
    (top / "link").symlink_to(outside)
    git_writes.remove_file(str(top), b"a/b/c/x")
    assert not (top / "a/b").exists() and (top / "a/y").exists()
    for gone in (b"a/b/c/x", b"a/y/x", b"nothing"):
        git_writes.remove_file(str(top), gone)
    with pytest.raises(OSError, match=r"directory|permitted"):
        git_writes.remove_file(str(top), b"a")  # a folder: what is in it was not asked for
    with suppress(OSError):
        git_writes.remove_file(str(top), b"link/z")
    assert (outside / "z").exists() and (top / "a/y").exists()
    git_writes.remove_file(str(top), b"link")
    assert not (top / "link").is_symlink() and (outside / "z").exists()
    git_writes.remove_file(str(top), b"a/y")
    assert list(top.iterdir()) == []
