"""`tieline worktree` and `--worktree`: from the prompt to the merge, at a hub and without one."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.hub_process import HubProcess, Setting
from tests.cli.test_hub_verbs import ok
from tests.sessions.repositories import git, make_repository

from tieline.script import Run, Say
from tieline.testing.cli_process import CliProcess

pytestmark = pytest.mark.slow

SAYS = {"one": "echo one > one.txt", "two": "echo two > two.txt"}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Generator[Setting, None, None]:
    setting = Setting(tmp_path_factory.mktemp("worktree_verbs"))
    for name, command in SAYS.items():
        setting.agent(name, [Run(command)], [Say("Done.")])
    with HubProcess(setting):
        yield setting


@pytest.fixture
def repository(hub: Setting, tmp_path: Path) -> Path:
    return make_repository(tmp_path / "shop")


def begun(hub: Setting, repository: Path, agent: str, *more: str) -> str:
    """The id of a session that has done its work in a worktree."""
    where = ("--cwd", str(repository), "--policy", "full", *more)
    id = ok(hub, "send", "--new", agent, f"Make {agent}", *where).split()[0]
    hub.until(id, lambda record: record.turns == 1 and record.status == "idle")
    return id


def test_from_the_prompt_to_the_merge(hub: Setting, repository: Path) -> None:
    id = begun(hub, repository, "one", "--worktree")
    assert not (repository / "one.txt").exists()
    (listed,) = [each for each in json.loads(ok(hub, "worktree", "list", "--json")) if each["session"] == id]
    assert listed["worktree"]["branch"] == f"tieline/make-one-{id[-6:]}"
    assert (listed["worktree"]["into"], listed["uncommitted"], listed["files"]) == ("main", 1, 1)
    head, *rows = ok(hub, "worktree", "list").splitlines()
    assert head.split() == ["session", "branch", "base", "commits", "changed", "state", "what"]
    assert any("1 file, +1 −0" in row and "1 not committed" in row and "Make one" in row for row in rows)
    assert "+++ b/one.txt" in ok(hub, "worktree", "diff", id)
    output = ok(hub, "worktree", "rebase", id)
    assert output.startswith(f"1 file committed. tieline/make-one-{id[-6:]} is rebased on main")
    merged = ok(hub, "worktree", "merge", id[-8:])
    assert "is merged into main" in merged and "the worktree and its branch are removed" in merged
    assert (repository / "one.txt").read_text() == "one\n"
    assert git(repository, "status", "--porcelain") == ""
    assert id not in ok(hub, "worktree", "list", "--json")
    assert id in ok(hub, "worktree", "list", "--all", "--json")
    lines = [each for each in json.loads(ok(hub, "audit", "--json")) if each["what"] == "worktree"]
    assert {each["details"]["done"] for each in lines} == {"rebased", "merged"}
    again = hub.run("worktree", "merge", id)
    assert again.returncode == 2 and "is gone" in again.stderr


def test_two_sessions_at_once(hub: Setting, repository: Path) -> None:
    first, second = (begun(hub, repository, name, "--branch", name) for name in ("one", "two"))
    assert "one.txt" in ok(hub, "worktree", "diff", first) and "one.txt" not in ok(hub, "worktree", "diff", second)
    asked = hub.run("worktree", "discard", first)
    assert asked.returncode == 2 and "nothing was discarded" in asked.stderr
    output = ok(hub, "worktree", "discard", first, "--yes")
    assert output == f"one is discarded; to have it back: git branch one refs/tieline/discarded/{first}\n"
    assert git(repository, "show", f"refs/tieline/discarded/{first}:one.txt") == "one"
    outcome = json.loads(ok(hub, "worktree", "merge", second, "--json"))
    assert (outcome["done"], outcome["committed"], outcome["removed"]) == ("merged", 1, True)
    assert [path.name for path in repository.glob("*.txt")] == ["two.txt"]


def test_what_cannot_be_is_said(hub: Setting, repository: Path, tmp_path: Path) -> None:
    for more, words in (
        (("--cwd", str(tmp_path), "--worktree"), "is not in a git repository"),
        (("--cwd", str(repository), "--branch", "main"), "the branch main is checked out in"),
    ):
        ended = hub.run("send", "--new", "one", "x", "--policy", "full", *more)
        assert ended.returncode == 2 and words in ended.stderr, ended.stderr
    ended = hub.run("send", "abc", "x", "--worktree")
    assert ended.returncode == 2 and "--worktree needs --new" in ended.stderr
    plain = ok(hub, "send", "--new", "talker", "hello", "--cwd", str(repository)).split()[0]
    ended = hub.run("worktree", "merge", plain)
    assert ended.returncode == 2 and "has no worktree of its own" in ended.stderr


def test_without_a_hub(cli: CliProcess, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "shop")
    cli.agent("worker", [Run("echo one > one.txt")], [Say("Done.")])
    cli.agent("talker", [Say("Nothing to do.")])
    where = ("--cwd", str(repository), "--policy", "full")
    ended = cli.run("run", "worker", "make one", *where, "--worktree")
    assert ended.returncode == 0, ended.stderr
    assert not (repository / "one.txt").exists()
    branch = git(repository, "branch", "--format=%(refname:short)", "--list", "tieline/*")
    assert branch.startswith("tieline/make-one-") and f"on the branch {branch}" in ended.stderr
    path = ended.stderr.partition("its work is in ")[2].partition(",")[0]
    assert Path(path, "one.txt").read_text() == "one\n"
    assert f"git merge {branch} && git worktree remove {path}" in ended.stderr
    ended = cli.run("run", "talker", "say something", *where, "--branch", "quiet")
    assert ended.returncode == 0 and "nothing changed, the worktree is removed" in ended.stderr
    assert git(repository, "branch", "--list", "quiet") == ""
    assert git(repository, "worktree", "list").count("\n") == 1, "the first one's"
