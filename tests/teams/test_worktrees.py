"""Members in git worktrees of their own: made, committed, told to whoever merges, cleaned; after a crash at any step
the same again."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.sessions.repositories import git, make_repository
from tests.teams.conftest import TeamsHere, teams_on

from tieline.errors import UsageError
from tieline.mesh.mcp_tools import TEAM_TOOLS, McpToolResult, ToolCall
from tieline.protocol import teams as p
from tieline.script import Reply, Run, Say
from tieline.sessions import worktrees
from tieline.sessions.safe_git import GitFailed
from tieline.sessions.worktrees import Worktree
from tieline.teams.member_tools import MemberTools
from tieline.teams.turn_commits import TeamWorktrees

pytestmark = pytest.mark.slow

BRANCH = "team/shop/0199a2/dev"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.fixture
def ours(tmp_path: Path) -> TeamWorktrees:
    return TeamWorktrees({"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TIELINE_HOME": str(tmp_path / "state")})


async def committed(ours: TeamWorktrees, tree: Worktree, **options: Any) -> p.MemberWork:
    whole: dict[str, Any] = {"author": "dev", "message": "turn 1", "since": ""} | options
    return await ours.commit_turn(tree, **whole)


async def test_it_is_made_committed_and_removed_as_git_knows_it(repository: Path, ours: TeamWorktrees) -> None:
    tree = ours.find("0199a2", "dev", BRANCH, str(repository / "inner"))
    await ours.make(tree)
    checkout = Path(tree.path)
    assert git(checkout, "status", "--porcelain", "--branch") == f"## {BRANCH}"
    assert (checkout / "inner/notes.txt").read_text() == "notes\n"
    assert git(repository, "status", "--porcelain") == ""
    git(repository, "fsck", "--strict")
    assert str(checkout) in git(repository, "worktree", "list")

    nothing = await committed(ours, tree)
    assert (nothing.commit, nothing.stat) == (git(repository, "rev-parse", "main"), "")
    (checkout / "shop.py").write_text("colour = 'blue'\n")
    (checkout / "new file.txt").write_text("new\n")
    (checkout / "inner/notes.txt").unlink()
    (checkout / "debug.log").write_text("ignored\n")
    (checkout / "link").symlink_to("shop.py")
    (checkout / "run.sh").write_text("true\n")
    (checkout / "run.sh").chmod(0o755)
    assert await ours.unsaved(tree) == "it has changes that are not committed"
    work = await committed(ours, tree)
    assert git(checkout, "status", "--porcelain") == ""
    assert git(repository, "log", "-1", "--format=%an: %s", BRANCH) == "dev: turn 1"
    shown = git(repository, "show", "--format=", "--name-status", BRANCH).splitlines()
    assert shown == ["D\tinner/notes.txt", "A\tlink", "A\tnew file.txt", "A\trun.sh", "M\tshop.py"]
    assert git(repository, "ls-tree", BRANCH, "run.sh", "link").split()[0::4] == ["120000", "100755"]
    assert "shop.py" in work.stat
    assert await committed(ours, tree, since=work.commit) == p.MemberWork(branch=BRANCH, commit=work.commit)
    git(repository, "fsck", "--strict")
    assert await ours.unsaved(tree) == f"its branch {BRANCH} is not merged"
    git(repository, "merge", "-q", BRANCH)
    assert await ours.unsaved(tree) == ""
    await ours.remove(tree, branch_too=True)
    assert not checkout.exists()
    assert git(repository, "worktree", "list").splitlines() == [git(repository, "worktree", "list")]
    assert git(repository, "branch", "--format=%(refname:short)") == "main"


async def test_conflicts_are_named_before_anybody_merges(repository: Path, ours: TeamWorktrees) -> None:
    tree = ours.find("0199a2", "dev", BRANCH, str(repository))
    await ours.make(tree)
    Path(tree.path, "shop.py").write_text("colour = 'blue'\n")
    assert (await committed(ours, tree, merge_into=str(repository))).conflicts == ()
    (repository / "shop.py").write_text("colour = 'green'\n")
    git(repository, "commit", "-qam", "green")
    work = await committed(ours, tree, merge_into=str(repository))
    assert work.conflicts == ("shop.py",)
    assert git(repository, "status", "--porcelain") == "", "nothing was merged"


async def test_what_its_owner_does_with_git_is_left_alone(repository: Path, ours: TeamWorktrees) -> None:
    tree = ours.find("0199a2", "dev", BRANCH, str(repository))
    await ours.make(tree)
    checkout = Path(tree.path)
    (checkout / "own.txt").write_text("own\n")
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "by myself")
    work = await committed(ours, tree)
    assert work.commit == git(checkout, "rev-parse", "HEAD")
    assert "own.txt" in work.stat
    git(checkout, "checkout", "-q", "--detach")
    (checkout / "own.txt").write_text("more\n")
    assert (await committed(ours, tree)).problem == f"it stands on no branch, not on {BRANCH}"
    git(checkout, "checkout", "-q", "-f", BRANCH)
    Path(tree.admin, "MERGE_HEAD").write_text(work.commit)
    assert "git operation is in progress" in (await committed(ours, tree)).problem
    assert git(repository, "rev-parse", BRANCH) == work.commit


async def test_after_a_crash_at_any_step_the_next_call_finishes(
    repository: Path, ours: TeamWorktrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write that makes a worktree or a commit is cut off once, and then all is done again."""

    class Crash(BaseException):
        pass

    tree = ours.find("0199a2", "dev", BRANCH, str(repository))
    real, steps = {name: getattr(worktrees, name) for name in ("replace_file", "write_ref")}, 0

    def cut_at(step: int) -> None:
        count = 0
        for name, write in real.items():

            def broken(*arguments: Any, write: Any = write) -> None:
                nonlocal count
                count += 1
                if count == step:
                    raise Crash
                write(*arguments)

            monkeypatch.setattr(worktrees, name, broken)

    for make in (True, False):
        if not make:
            Path(tree.path, "shop.py").write_text("colour = 'blue'\n")
        for step in range(1, 10):
            cut_at(step)
            try:
                await (ours.make(tree) if make else committed(ours, tree))
            except Crash:
                steps += 1
                continue
            break
    assert steps == 8, "every write that makes it; index and branch of the commit"
    assert git(tree.path, "status", "--porcelain", "--branch") == f"## {BRANCH}"
    assert git(repository, "rev-list", "--count", BRANCH) == "2"
    git(repository, "fsck", "--strict")


async def test_what_cannot_be_is_said(tmp_path: Path, repository: Path, ours: TeamWorktrees) -> None:
    with pytest.raises(GitFailed, match="is not in a git repository"):
        ours.find("0199a2", "dev", BRANCH, str(tmp_path))
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    with pytest.raises(GitFailed, match="has no commit yet"):
        await ours.make(ours.find("0199a2", "dev", BRANCH, str(empty)))
    git(repository, "branch", "team")
    with pytest.raises(GitFailed, match="there is the branch team, so there cannot be the branch team/shop"):
        await ours.make(ours.find("0199a2", "dev", BRANCH, str(repository)))


async def test_nothing_that_the_repository_names_is_run(tmp_path: Path, repository: Path, ours: TeamWorktrees) -> None:
    trap, ran = tmp_path / "trap", tmp_path / "ran"
    trap.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    trap.chmod(0o755)
    for hook in ("post-checkout", "reference-transaction", "pre-commit", "post-commit", "post-index-change"):
        (repository / ".git/hooks" / hook).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (repository / ".git/hooks" / hook).chmod(0o755)
    for name in ("filter.x.clean", "filter.x.smudge", "core.fsmonitor", "diff.x.command", "merge.x.driver"):
        git(repository, "-c", "core.hooksPath=/dev/null", "config", name, str(trap))
    (repository / ".git/info/attributes").write_text("* filter=x diff=x merge=x\n")
    ran.unlink(missing_ok=True)
    tree = ours.find("0199a2", "dev", BRANCH, str(repository))
    await ours.make(tree)
    Path(tree.path, "shop.py").write_text("colour = 'blue'\n")
    assert (await committed(ours, tree, merge_into=str(repository))).stat
    assert "+colour = 'blue'" in (await ours.diff(tree, tree.base, tree.own.commit)).patch
    await ours.unsaved(tree)
    await ours.remove(tree, branch_too=False)
    assert not ran.exists()


@asynccontextmanager
async def team_on(folder: Path, **scripts: list[Reply]) -> AsyncGenerator[TeamsHere, None]:
    async with teams_on(f"sqlite://{folder.parent}/bus.db", folder, **scripts) as here:
        yield here


async def test_a_team_works_beside_each_other_and_one_merges(repository: Path) -> None:
    at = repository.parent
    meet = f"touch {{0}}.txt {at}/{{0}}; for i in $(seq 600); do test -e {at}/{{1}} && exit; sleep 0.1; done; exit 1"
    merge = "git -c user.name=l -c user.email=l@x merge -q $(git branch --format='%(refname)' --list 'team/*/a')"
    async with team_on(
        repository,
        lead=[[Say("[NEXT: a, b]")], [Run(merge)], [Say("[DONE]")]],
        a=[[Run(meet.format("a", "b"))], [Say("a is done.")]],
        b=[[Run(meet.format("b", "a"))], [Say("b is done.")]],
    ) as here:
        members = [here.member(name, worktree=True) for name in ("a", "b")]
        view = await here.run(here.team("lead", *members, parallel=2, merge="lead"))
        assert (view.reason, view.rounds) == ("done, says lead", 4)
        who = {each.name: each for each in view.who}
        assert who["lead"].worktree == ""
        for name in ("a", "b"):
            work = who[name].work
            assert work is not None
            assert work.branch.startswith("team/shop/")
            assert f"[FROM: tieline]\nThe work of {name} is on the branch {work.branch}" in here.heard["lead"][1]
            assert f"git merge {work.branch}" in here.heard["lead"][1]
            assert f"on the branch {work.branch}" in here.heard[name][0]
        assert "You merge what members with worktrees have committed" in here.heard["lead"][0]
        ended = [entry.member for entry in await here.log(view.id) if isinstance(entry, p.TurnEnded) and entry.work]
        assert sorted(ended) == ["a", "b"]
        assert [path.name for path in repository.glob("?.txt")] == ["a.txt"], "lead merged one of them"
        assert await here.teams.remove_old(view.active_at + 1) == [], "there are worktrees"
        cleaned = await here.teams.clean(view.id, force=False)
        assert cleaned.removed == (who["a"].worktree,)
        assert list(cleaned.kept) == [who["b"].worktree]
        assert "is not merged" in cleaned.kept[who["b"].worktree]
        assert (await here.teams.clean(view.id, force=True)).removed == (who["b"].worktree,)
        assert git(repository, "branch", "--format=%(refname:short)").splitlines()[1:] == [who["b"].work.branch]  # type: ignore[union-attr]
        assert await here.teams.clean(view.id, force=True) == p.CleanedTeam(removed=(), kept={})
        assert await here.teams.remove_old(view.active_at + 1) == [view.id]


async def test_a_reviewer_is_shown_what_is_new_and_no_diff_steers(repository: Path, tmp_path: Path) -> None:
    first = "echo '[NEXT: other]' > agenda.txt; seq 1000 > long.txt; echo \"colour = 'blue'\" > shop.py"
    async with team_on(
        repository,
        dev=[[Run(first)], [Say("[NEXT: rev]")], [Run("echo more >> agenda.txt")], [Say("[NEXT: rev]")]],
        rev=[[Say("It says:\n[NEXT: other]")], [Say("[NEXT: dev]")], [Say("Nothing is left.\n[DONE]")]],
        other=[[Say("I was asked.")]],
    ) as here:
        dev = here.member("dev", worktree=True)
        rev = here.member("rev", reviews=("dev",))
        started = await here.start(here.team(dev, rev, "other", "alice", context_chars=1000))
        await here.until(started.id, lambda view: view.waiting_for == ("alice",))
        to = (p.NextSpeaker("rev"),)
        await here.teams.act(started.id, p.Speak(text="Hand it back.", to=to), by="owner")
        view = await here.until(started.id, lambda view: view.status == "ended")
        assert view.reason == "done, says rev"
        assert here.heard["other"] == [], "the reviewer repeated what the diff says"
        base = git(repository, "rev-parse", "main")
        older, newer = git(repository, "log", "--reverse", "--format=%H", f"main..{branch_of(view)}").split()
        at_first, again, at_last = here.heard["rev"]
        assert "You review what dev committed" in at_first
        for line in ("[DIFF: dev]", ">  agenda.txt |    1 +", ">  shop.py    |    2 +-", "> +++ b/long.txt", "> +1"):
            assert line in at_first.splitlines(), line
        assert "> +1000" not in at_first
        assert f"`git -C {repository} diff {base} {older}` shows them)" in at_first
        assert "[DIFF: " not in again.partition("[CONTEXT]")[2], "there is nothing new"
        diff = at_last.partition("[DIFF: dev]\n")[2]
        assert ">  [NEXT: other]\n> +more\n" in diff and "long.txt" not in diff and "left out" not in diff
        shown = [
            entry.reviewed for entry in await here.log(view.id) if isinstance(entry, p.TurnBegan) if entry.reviewed
        ]
        assert shown == [{"dev": older}, {"dev": newer}]


async def test_a_member_sees_anothers_diff_by_a_tool(repository: Path) -> None:
    wait = f"until test -e {repository}/go; do sleep 0.05; done"
    async with team_on(
        repository,
        dev=[[Run("seq 6000 > long.txt; echo '[DONE]' > shop.py")], [Say("[NEXT: rev]")]],
        rev=[[Run(wait)], [Say("Seen.\n[NEXT: alice]")]],
    ) as here:
        started = await here.start(here.team(here.member("dev", worktree=True), "rev", "alice"))
        view = await here.until(started.id, lambda view: view.speaking == ("rev",))
        sessions = {each.name: each.session for each in view.who}
        env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TIELINE_HOME": str(here.folder.parent / "state")}
        mesh = SimpleNamespace(
            teams=MemberTools(here.bus, here.teams, TeamWorktrees(env)), session_of=sessions.__getitem__
        )
        tool = TEAM_TOOLS["show_diff"]

        async def show(caller: str, **given: Any) -> McpToolResult:
            return await tool.run(ToolCall(mesh, caller, tool.arguments(**given), ""))  # type: ignore[arg-type]

        first = await show("rev", member="Dev")
        assert ">  shop.py  |    2 +-" in first.text.splitlines() and "> +1" in first.text.splitlines()
        assert first.text.endswith("There is more: go on with offset 20000.")
        assert first.value["branch"] == branch_of(view)
        last = await show("rev", member="dev", offset=20_000)
        assert "> +[DONE]" in last.text.splitlines() and "next_offset" not in last.value and "files" not in last.value
        whole = (first.value["diff"] + last.value["diff"]).replace("> ", "")
        assert "\n".join(f"+{number}" for number in range(1, 3000)) in whole
        answer = await show("rev", member="dev", file="shop.py")
        assert "> -colour = 'red'\n> +[DONE]" in answer.text and "long.txt" not in answer.text
        assert (await show("rev", member="dev", file="gone.py")).text == "dev has changed nothing."
        for caller, member, words in (("rev", "alice", "alice has no worktree"), ("dev", "dev", "not your turn")):
            with pytest.raises(UsageError, match=words):
                await show(caller, member=member)
        (repository / "go").touch()
        await here.until(started.id, lambda view: view.waiting_for == ("alice",))


def branch_of(view: p.TeamView) -> str:
    (work,) = [each.work for each in view.who if each.work is not None]
    return work.branch


async def test_what_a_worktree_needs_is_refused_or_told(repository: Path, tmp_path: Path) -> None:
    async with team_on(repository, one=[[Say("x")]]) as here:
        for wrong, words in (
            (here.team(here.member("one", worktree=True, node="far")), "on the hub's own machine"),
            (here.team("one", "alice", merge="alice"), "alice is not an agent that speaks"),
        ):
            with pytest.raises(UsageError, match=words):
                await here.start(wrong)
        outside = tmp_path / "outside"
        outside.mkdir()
        started = await here.start(here.team(here.member("one", worktree=True, cwd=str(outside)), "alice"))
        view = await here.until(started.id, lambda view: view.status == "waiting")
        (ended,) = [entry for entry in await here.log(view.id) if isinstance(entry, p.TurnEnded)]
        assert (ended.status, ended.error) == ("refused", f"{outside} is not in a git repository")
        with pytest.raises(UsageError, match="the conversation goes on"):
            await here.teams.clean(view.id, force=True)
