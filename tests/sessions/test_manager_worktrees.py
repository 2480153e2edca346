"""Sessions of a manager in worktrees: one agent's work is merged while others wait, work or rest."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.sessions.repositories import git, make_repository
from tests.sessions.test_manager import FULL, managing, until_done

from tieline.errors import UsageError
from tieline.script import Run, Say, Stall
from tieline.sessions.manager import SessionManager
from tieline.sessions.safe_git import GitFailed
from tieline.testing.wait_for import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "shop")


@asynccontextmanager
async def managing_at(tmp_path: Path, *replies: object) -> AsyncGenerator[SessionManager, None]:
    env = {"TIELINE_HOME": str(tmp_path / "state")}
    async with managing(f"sqlite://{tmp_path}/bus.db", list(replies), env=env) as manager:  # type: ignore[arg-type]
        yield manager


async def test_a_session_goes_on_after_its_merge(tmp_path: Path, repository: Path) -> None:
    replies = [[Run("if test -e one.txt; then echo 2 > two.txt; else echo 1 > one.txt; fi")], [Say("done")]]
    async with managing_at(tmp_path, *replies) as manager:
        made = await manager.create(cwd=str(repository), title="Two files", worktree=True, id="0199a2f7", policy=FULL)
        assert (made.branch, made.worktree is not None) == ("tieline/two-files-99a2f7", True)
        assert await manager.create(cwd=str(repository), worktree=True, id="0199a2f7") == made
        await manager.prompt(made.id, "one")
        await until_done(manager, made.id)
        status = await manager.worktree(made.id)
        assert (status.uncommitted, status.files, status.title) == (1, 1, "Two files")
        assert "+1" in await manager.diff(made.id, since="base")
        assert "+1" in await manager.diff(made.id)
        await eventually(lambda: manager.prompts.running(made.id) is None, "it does not end")
        assert (await manager.merge_worktree(made.id)).removed
        assert (repository / "one.txt").read_text() == "1\n"
        assert (await manager.worktree(made.id)).worktree.ended == "merged"
        seq = manager.get(made.id).seq
        await manager.prompt(made.id, "two")
        await until_done(manager, made.id, after=seq)
        await eventually(lambda: manager.prompts.running(made.id) is None, "it does not end")
        assert Path(made.cwd, "one.txt").exists() and Path(made.cwd, "two.txt").exists()
        fork = await manager.create(cwd=str(repository), id="0199a2f8")
        with pytest.raises(UsageError, match="has no worktree"):
            await manager.merge_worktree(fork.id)
        outcome = await manager.discard_worktree(made.id)
        assert git(repository, "show", f"{outcome.kept_as}:two.txt") == "2"


async def test_nothing_is_merged_while_a_turn_runs(tmp_path: Path, repository: Path) -> None:
    async with managing_at(tmp_path, [Stall()], [Say("over")]) as manager:
        made = await manager.create(cwd=str(repository), branch="blue", policy=FULL)
        await manager.prompt(made.id, "work")
        await eventually(lambda: manager.prompts.running(made.id) is not None, "it does not run")
        for change in (manager.merge_worktree, manager.rebase_worktree, manager.discard_worktree):
            with pytest.raises(UsageError, match="has work to do in this worktree"):
                await change(made.id)
        assert Path(made.cwd).is_dir()
        await manager.abort(made.id)


async def test_an_archived_session_keeps_its_work(tmp_path: Path, repository: Path) -> None:
    async with managing_at(tmp_path, [Run("echo 1 > one.txt")], [Say("one")]) as manager:
        made = await manager.create(cwd=str(repository), branch="blue", policy=FULL)
        await manager.prompt(made.id, "one")
        await until_done(manager, made.id)
        await eventually(lambda: manager.prompts.running(made.id) is None, "it does not end")
        await manager.close(made.id)
        await manager.update(made.id, archived=True)
        assert Path(made.cwd, "one.txt").read_text() == "1\n"
        assert (await manager.merge_worktree(made.id)).committed == 1
        assert (await manager.update(made.id, archived=False)).archived is False, "its directory is gone by now"


async def test_what_is_refused_leaves_nothing(tmp_path: Path, repository: Path) -> None:
    async with managing_at(tmp_path) as manager:
        with pytest.raises(UsageError):
            await manager.create("nobody", cwd=str(repository), worktree=True)
        with pytest.raises(GitFailed, match="is not in a git repository"):
            await manager.create(cwd=str(tmp_path), worktree=True)
        assert manager.sessions() == []
        assert git(repository, "branch", "--format=%(refname:short)") == "main"
        assert git(repository, "worktree", "list").count("\n") == 0
