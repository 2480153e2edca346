"""`tieline changes`: show, stage, unstage, commit, revert, discard, push."""

import json
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.bus.conftest import free_port
from tests.cli.hub_process import HubProcess, Setting
from tests.cli.test_hub_verbs import ok, started
from tests.sessions.git_remotes import bare_repository, git_daemon


def git(at: Path, *arguments: str) -> str:
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    return subprocess.run(["git", *who, *arguments], cwd=at, env=env, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Generator[Setting, None, None]:
    setting = Setting(tmp_path_factory.mktemp("change_verbs"))
    with HubProcess(setting):
        yield setting


@pytest.mark.slow
def test_from_a_change_to_the_remote(hub: Setting, tmp_path: Path) -> None:
    top = tmp_path / "project"
    top.mkdir()
    git(top, "init", "-q", "-b", "trunk")
    git(top, "config", "user.name", "Ada Lane")
    git(top, "config", "user.email", "ada@example.com")
    (top / "a.txt").write_text("one\n")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    session = started(hub, "talker", "hello", "--cwd", str(top))
    (top / "a.txt").write_text("two\n")
    (top / "new.txt").write_text("new\n")

    shown = ok(hub, "changes", session[-8:])
    assert shown.splitlines()[0].startswith("trunk · ")
    assert [line.split() for line in shown.splitlines()[2:]] == [["modified", "a.txt"], ["untracked", "new.txt"]]
    assert "-one\n+two\n" in ok(hub, "diff", session, "--uncommitted")

    assert ok(hub, "changes", "stage", session) == "staged 2 files\n"
    assert ok(hub, "changes", "unstage", session, "new.txt") == "unstaged a file\n"
    assert ok(hub, "changes", "commit", session, "-m", "Two").endswith("on trunk: Two\n")
    assert git(top, "log", "-1", "--format=%an %s") == "Ada Lane Two\n"

    refused = hub.run("changes", "revert", session, "new.txt")
    assert refused.returncode == 2 and "nothing was done" in refused.stderr and "+new" in refused.stdout
    assert (top / "new.txt").exists()
    plan = json.loads(ok(hub, "changes", "revert", session, "new.txt", "--json"))["plan"]
    assert len(plan["digest"]) == 32 and (top / "new.txt").exists()
    output = ok(hub, "changes", "revert", session, "new.txt", "--yes")
    assert "get it back: git restore --source=refs/tieline/discarded/" in output
    assert not (top / "new.txt").exists()

    (top / "a.txt").write_text("three\n")
    assert json.loads(ok(hub, "changes", "discard", session, "--yes", "--json"))["restore"]
    assert (top / "a.txt").read_text() == "two\n"

    remote = bare_repository(tmp_path / "remotes", "own/project.git")
    with git_daemon(tmp_path / "remotes", free_port()) as url:
        git(top, "remote", "add", "origin", f"{url}/own/project.git")
        output = ok(hub, "changes", "push", session, "--yes")
        assert f"address: {url}/own/project.git\n" in output
        assert f"pushed trunk to {url}/own/project.git" in output
    assert git(remote, "log", "-1", "--format=%s", "trunk") == "Two\n"
    assert "origin/trunk: 0 ahead, 0 behind" in ok(hub, "changes", session)
    missing = hub.run("changes", "pr", session, "--title", "Two", "--yes")
    assert missing.returncode == 2 and "gh is not installed" in missing.stderr
