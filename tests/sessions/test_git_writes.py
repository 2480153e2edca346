"""Files of a repository that Tieline writes itself: whose lock is whose, and links that an agent laid there."""

import asyncio
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
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
    found = git_repository.find(str(make_repository(tmp_path / "shop")))
    assert found is not None
    return found


def dead_process() -> int:
    """The id of a process that is no more."""
    return int(subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True).stdout)


def lock(own: Repository, content: str) -> Path:
    place = Path(own.common_dir, f"{REF}.lock")
    place.write_text(content)
    return place


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
            for one in [pool.submit(work) for _ in range(8)]:
                one.result()
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
    place = Path(own.git_dir, "index.lock")
    with git_writes.locked(own.git_dir, "index"):
        assert place.read_text() == f"tieline {os.getpid()} {platform.node()}\n"
    assert not place.exists()
    before = git(own.top, "status", "--porcelain")
    index = Path(own.git_dir, "index").read_bytes()
    with git_writes.locked(own.git_dir, "index") as replace:
        replace(index)
    assert not place.exists() and Path(own.git_dir, "index").read_bytes() == index
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
