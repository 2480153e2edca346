"""Git is bounded in output and in time, and nothing of it is left."""

import os
import stat
from pathlib import Path

import pytest

from tieline.processes.process_table import process_info
from tieline.sessions import git_repository, safe_git
from tieline.sessions.git_repository import Repository
from tieline.sessions.safe_git import GitFailed, opened
from tieline.testing.wait_for import eventually


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository, and beside it a program in git's place that goes wrong as the test says."""
    (tmp_path / "project" / ".git" / "objects").mkdir(parents=True)
    (tmp_path / "project" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "bin").mkdir()
    return tmp_path


def repository_in(work: Path) -> Repository:
    repository = git_repository.find(str(work / "project"))
    assert repository is not None
    return repository


def git_that(work: Path, does: str) -> dict[str, str]:
    program = work / "bin" / "git"
    program.write_text(f"#!/bin/sh\ntrap '' TERM PIPE HUP\necho $$ > {work}/pid\n{does}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{work / 'bin'}:{os.defpath}", "HOME": str(work)}


def is_over(work: Path) -> bool:
    info = process_info(int((work / "pid").read_text()))
    return info is None or info.over


async def test_output_without_end_is_cut_off_and_its_command_killed(work: Path) -> None:
    env = git_that(work, "while true; do echo 0123456789; done 2>/dev/null")
    async with opened(repository_in(work), env, store=work / "store", keep=False) as git:
        assert len(await git.run("diff", limit=1000)) == 1001
        await eventually(lambda: is_over(work), "git goes on")
    assert list((work / "store").glob("git-*")) == []


@pytest.mark.slow
async def test_a_command_that_hangs_is_killed_after_the_limit(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_git, "GIT_TIMEOUT_S", 2.0)
    env = git_that(work, "while true; do sleep 0.05; done")
    with pytest.raises(GitFailed, match=r"longer than 2 s in .*project"):
        async with opened(repository_in(work), env, store=work / "store", keep=False) as git:
            await git.run("diff")
    await eventually(lambda: is_over(work), "git goes on")
    assert list((work / "store").glob("git-*")) == []


async def test_a_command_that_fails_says_what_git_said(work: Path) -> None:
    env = git_that(work, "echo 'fatal: bad object' >&2; exit 128")
    async with opened(repository_in(work), env, store=work / "store", keep=False) as git:
        with pytest.raises(GitFailed, match=r"git diff failed in .*: fatal: bad object"):
            await git.run("diff")
        assert await git.run("diff", codes=(0, 128)) == b""
