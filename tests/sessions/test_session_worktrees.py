"""Sessions in git worktrees of their own: made, compared, merged, rebased, discarded; no work is ever lost, and after a
kill at any moment the next call goes on. Real git in real repositories."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.sessions.repositories import git, make_repository

from tieline.sessions import git_merge
from tieline.sessions.git_repository import is_branch_name
from tieline.sessions.records import SessionRecord
from tieline.sessions.safe_git import GitFailed
from tieline.sessions.session_worktrees import SessionWorktrees, default_branch
from tieline.sessions.worktrees import Worktrees

pytestmark = pytest.mark.slow

ID = "0199a2f00dbabe"


def service(folder: Path, *, home: str = "/nonexistent") -> SessionWorktrees:
    env = {"PATH": "/usr/bin:/bin", "HOME": home, "TIELINE_HOME": str(folder / "state")}
    return SessionWorktrees(Worktrees(env))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "shop")


@pytest.fixture
def ours(tmp_path: Path) -> SessionWorktrees:
    return service(tmp_path)


async def begin(ours: SessionWorktrees, cwd: Path, branch: str = "blue", id: str = ID) -> SessionRecord:
    path, tree = await ours.create(id, str(cwd), branch)
    return SessionRecord(id=id, agent="codex", cwd=path, title="Make it blue", worktree=tree)


def write(record: SessionRecord, name: str = "shop.py", text: str = "colour = 'blue'\n") -> None:
    assert record.worktree is not None
    Path(record.worktree.path, name).write_text(text)


def files(folder: Path) -> dict[str, str]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and ".git" not in path.parts]
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


def check(repository: Path) -> None:
    """Git finds nothing wrong, and nothing of ours is left over."""
    git(repository, "fsck", "--strict")
    assert git(repository, "status", "--porcelain") == ""
    assert git(repository, "worktree", "prune", "--dry-run") == ""
    assert list((repository / ".git").rglob("*.lock")) == []
    assert not (repository / ".git" / git_merge.JOURNAL).exists()


# --- making ------------------------------------------------------------------------------------------------------


async def test_it_begins_with_the_last_commit_on_a_branch_of_its_own(repository: Path, ours: SessionWorktrees) -> None:
    (repository / "shop.py").write_text("not committed\n")
    record = await begin(ours, repository / "inner")
    tree = record.worktree
    assert tree is not None
    assert (tree.branch, tree.into, tree.repository) == ("blue", "main", str(repository))
    assert tree.base == git(repository, "rev-parse", "main")
    assert record.cwd == f"{tree.path}/inner"
    assert Path(tree.path).name == "shop", "lists show the project's name"
    assert git(record.cwd, "status", "--porcelain", "--branch") == "## blue"
    assert Path(tree.path, "shop.py").read_text() == "colour = 'red'\n"
    assert (repository / "shop.py").read_text() == "not committed\n"
    assert await begin(ours, repository / "inner") == record, "the same session again is the same worktree"


async def test_two_sessions_do_not_see_each_other(repository: Path, ours: SessionWorktrees) -> None:
    first, second = await asyncio.gather(
        begin(ours, repository, "one", "0199a2one"), begin(ours, repository, "other", "0199a2other")
    )
    write(first, "one.txt", "one\n")
    write(second, "other.txt", "other\n")
    assert not Path(second.cwd, "one.txt").exists() and not Path(first.cwd, "other.txt").exists()
    assert not (repository / "one.txt").exists()
    for record in (first, second):
        _, outcome = await ours.merge(record)
        assert (outcome.committed, outcome.removed) == (1, True)
    assert {"one.txt", "other.txt"} <= files(repository).keys()
    check(repository)


NAMES = {
    "blue": True, "tieline/make-it-blue-1": True, "grün": True, "a.b": True, "": False, "a b": False, "-a": False,
    "a..b": False, "a/": False, "/a": False, "a//b": False, ".a": False, "a/.b": False, "a.lock": False,
    "a.lock/b": False, "a~1": False, "a^": False, "a:b": False, "a?": False, "a*": False, "a[": False, "a\\b": False,
    "a@{b": False, "@": False, "HEAD": False, "a.": False, "a\nb": False, "a\x7f": False, "a" * 201: False,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_branch_is_named_as_git_would_let_it_be(name: str, repository: Path) -> None:
    assert is_branch_name(name) is NAMES[name]
    if "\0" not in name and len(name) <= 200 and name not in ("HEAD", "@"):  # those stand for a branch there
        verdict = subprocess.run(["git", "check-ref-format", "--branch", name], cwd=repository, capture_output=True)
        assert (verdict.returncode == 0) is NAMES[name]


@pytest.mark.parametrize(
    ("title", "branch"),
    [
        ("Fix the failing test!", "tieline/fix-the-failing-test-babe12"),
        ("", "tieline/session-babe12"),
        ("../../etc", "tieline/etc-babe12"),
        ("日本語", "tieline/session-babe12"),
        ("x" * 99, f"tieline/{'x' * 40}-babe12"),
    ],
)
def test_a_branch_is_named_by_what_the_session_is_about(title: str, branch: str) -> None:
    assert default_branch(title, "0199a2babe12") == branch
    assert is_branch_name(branch)


async def test_what_cannot_be_is_said(tmp_path: Path, repository: Path, ours: SessionWorktrees) -> None:
    outside, empty = tmp_path / "outside", tmp_path / "empty"
    outside.mkdir()
    empty.mkdir()
    git(empty, "init", "-q")
    git(repository, "branch", "team/one")
    git(repository, "branch", "packed/one")
    git(repository, "pack-refs", "--all")
    git(repository, "worktree", "add", "-q", "-b", "taken", str(tmp_path / "linked"))
    for cwd, branch, words in (
        (outside, "b", "is not in a git repository"),
        (empty, "b", "has no commit yet"),
        (repository, "main", f"the branch main is checked out in {repository}"),
        (repository, "taken", f"the branch taken is checked out in {tmp_path}/linked"),
        (repository, "a b", "'a b' cannot be the name of a branch"),
        (repository, "packed", "there are branches below packed/"),
        (repository, "packed/one/two", "there is the branch packed/one"),
    ):
        with pytest.raises(GitFailed, match=words):
            await begin(ours, cwd, branch)
        assert git(repository, "branch", "--list", "b") == ""
    git(repository, "fsck", "--strict")


async def test_a_branch_that_exists_is_gone_on_with(repository: Path, ours: SessionWorktrees) -> None:
    git(repository, "checkout", "-q", "-b", "blue")
    (repository / "more.txt").write_text("more\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "more")
    git(repository, "checkout", "-q", "main")
    record = await begin(ours, repository)
    assert Path(record.cwd, "more.txt").read_text() == "more\n"
    status = await ours.status(record)
    assert (status.ahead, status.behind, status.files) == (1, 0, 1)


# --- comparing ---------------------------------------------------------------------------------------------------


async def test_it_is_compared_with_the_base_as_it_is_now(repository: Path, ours: SessionWorktrees) -> None:
    record = await begin(ours, repository)
    status = await ours.status(record)
    assert (status.ahead, status.behind, status.uncommitted, status.files, status.problem) == (0, 0, 0, 0, "")
    assert await ours.diff(record) == ""
    write(record)
    git(record.cwd, "commit", "-qam", "blue")
    write(record, "new.txt", "one\ntwo\n")
    (repository / "inner/notes.txt").write_text("other notes\n")
    git(repository, "commit", "-qam", "other notes")
    before = git(repository, "count-objects")
    status = await ours.status(record)
    assert (status.ahead, status.behind, status.uncommitted) == (1, 1, 1)
    assert (status.files, status.insertions, status.deletions, status.conflicts) == (2, 3, 1, ())
    diff = await ours.diff(record)
    assert "+colour = 'blue'" in diff and "+++ b/new.txt" in diff and "notes" not in diff
    assert git(repository, "count-objects") == before, "looking leaves nothing in the repository"
    (repository / "shop.py").write_text("colour = 'green'\n")
    git(repository, "commit", "-qam", "green")
    assert (await ours.status(record)).conflicts == ("shop.py",)


# --- merging -----------------------------------------------------------------------------------------------------


async def test_a_merge_commits_what_is_not_committed_and_cleans_up(repository: Path, ours: SessionWorktrees) -> None:
    record = await begin(ours, repository)
    write(record)
    write(record, "new file.txt", "new\n")
    Path(record.cwd, "inner/notes.txt").unlink()
    Path(record.cwd, "debug.log").write_text("ignored\n")
    (repository / "unrelated.txt").write_text("mine\n")
    record, outcome = await ours.merge(record)
    assert (outcome.done, outcome.into, outcome.committed, outcome.removed) == ("merged", "main", 3, True)
    assert outcome.commit == git(repository, "rev-parse", "main")
    assert git(repository, "log", "-1", "--format=%an <%ae>: %s") == "Ada <ada@example.com>: Make it blue"
    assert files(repository) == {
        ".gitignore": "*.log\n", "shop.py": "colour = 'blue'\n", "new file.txt": "new\n", "unrelated.txt": "mine\n",
    }  # fmt: skip
    assert git(repository, "status", "--porcelain") == "?? unrelated.txt"
    assert git(repository, "branch", "--format=%(refname:short)") == "main"
    assert git(repository, "worktree", "list").count("\n") == 0
    assert record.worktree is not None and record.worktree.ended == "merged"
    assert not Path(record.cwd).exists()
    (repository / "unrelated.txt").unlink()
    check(repository)
    with pytest.raises(GitFailed, match="is gone") as caught:
        await ours.merge(record)
    assert caught.value.hint == "Prompt the session: it gets a new one."


async def test_a_base_that_went_on_gets_a_merge_commit(repository: Path, ours: SessionWorktrees) -> None:
    record = await begin(ours, repository)
    write(record)
    (repository / "inner/notes.txt").write_text("other notes\n")
    git(repository, "commit", "-qam", "other notes")
    await ours.merge(record)
    assert git(repository, "log", "-1", "--format=%an: %s") == "Ada: Merge branch 'blue'"
    assert len(git(repository, "log", "-1", "--format=%P").split()) == 2
    assert files(repository)["shop.py"] == "colour = 'blue'\n"
    assert files(repository)["inner/notes.txt"] == "other notes\n"
    check(repository)


async def test_a_conflict_changes_nothing_and_names_the_files(repository: Path, ours: SessionWorktrees) -> None:
    record = await begin(ours, repository)
    write(record)
    (repository / "shop.py").write_text("colour = 'green'\n")
    git(repository, "commit", "-qam", "green")
    main = git(repository, "rev-parse", "main")
    for change in (ours.merge, ours.rebase):
        with pytest.raises(git_merge.MergeConflict, match=r"blue .*main: .*shop\.py") as caught:
            await change(record)
        assert "Nothing was" in caught.value.hint
        assert git(repository, "rev-parse", "main") == main
        check(repository)
        assert Path(record.cwd, "shop.py").read_text() == "colour = 'blue'\n"
        assert git(record.cwd, "status", "--porcelain") == "", "it was committed on its own branch"


def staged(repository: Path) -> None:
    (repository / "staged.txt").write_text("staged\n")
    git(repository, "add", "staged.txt")


def changed(repository: Path) -> None:
    (repository / "shop.py").write_text("my own\n")


def deleted(repository: Path) -> None:
    (repository / "shop.py").unlink()


def in_the_way(repository: Path) -> None:
    (repository / "new.txt").write_text("mine\n")


def ignored_in_the_way(repository: Path) -> None:
    (repository / ".git/info/exclude").write_text("new.txt\n")
    (repository / "new.txt").write_text("mine\n")


def folder_in_the_way(repository: Path) -> None:
    (repository / "new.txt").mkdir()
    (repository / "new.txt/mine").write_text("mine\n")


def merging(repository: Path) -> None:
    (repository / ".git/MERGE_HEAD").write_text(git(repository, "rev-parse", "HEAD"))


def linked_away(repository: Path) -> None:
    (repository / "shop.py").rename(repository.parent / "shop.py")
    (repository / "shop.py").symlink_to(repository.parent / "shop.py")


IN_THE_WAY: dict[Callable[[Path], None], str] = {
    staged: "has staged changes: staged.txt",
    changed: "has changes of its own in shop.py",
    deleted: "has changes of its own in shop.py",
    in_the_way: "has changes of its own in new.txt",
    ignored_in_the_way: "has changes of its own in new.txt",
    folder_in_the_way: "has changes of its own in new.txt",
    linked_away: "has changes of its own in shop.py",
    merging: "git operation is in progress",
}


@pytest.mark.parametrize("obstacle", IN_THE_WAY)
async def test_what_a_person_has_in_the_base_is_never_touched(
    obstacle: Callable[[Path], None], repository: Path, ours: SessionWorktrees
) -> None:
    record = await begin(ours, repository)
    write(record)
    write(record, "new.txt", "new\n")
    git(record.cwd, "add", "new.txt")
    git(record.cwd, "commit", "-qm", "new")
    obstacle(repository)
    before, main = files(repository), git(repository, "rev-parse", "main")
    status = git(repository, "status", "--porcelain")
    with pytest.raises(GitFailed, match=IN_THE_WAY[obstacle]):
        await ours.merge(record)
    assert files(repository) == before
    assert git(repository, "rev-parse", "main") == main
    assert git(repository, "status", "--porcelain") == status
    assert Path(record.cwd, "new.txt").read_text() == "new\n"
    assert list((repository / ".git").glob("*.lock")) == []


async def test_other_changes_of_a_person_stay_as_they_are(repository: Path, ours: SessionWorktrees) -> None:
    record = await begin(ours, repository)
    write(record)
    (repository / "inner/notes.txt").write_text("my own notes\n")
    await ours.merge(record)
    assert git(repository, "status", "--porcelain").split() == ["M", "inner/notes.txt"]
    assert files(repository)["inner/notes.txt"] == "my own notes\n"
    assert files(repository)["shop.py"] == "colour = 'blue'\n"


async def test_a_base_that_is_not_checked_out_is_merged_too(repository: Path, ours: SessionWorktrees) -> None:
    record = await begin(ours, repository)
    write(record)
    git(repository, "checkout", "-q", "-b", "elsewhere")
    await ours.merge(record)
    assert git(repository, "show", "main:shop.py") == "colour = 'blue'"
    assert files(repository)["shop.py"] == "colour = 'red'\n"
    check(repository)


async def test_a_base_in_a_linked_worktree_is_merged_there(
    tmp_path: Path, repository: Path, ours: SessionWorktrees
) -> None:
    linked = tmp_path / "linked"
    git(repository, "worktree", "add", "-q", "-b", "side", str(linked))
    record = await begin(ours, linked)
    assert record.worktree is not None and record.worktree.into == "side"
    write(record)
    await ours.merge(record)
    assert (linked / "shop.py").read_text() == "colour = 'blue'\n"
    assert (repository / "shop.py").read_text() == "colour = 'red'\n"
    assert git(linked, "status", "--porcelain") == ""


async def test_a_branch_that_git_has_packed_is_removed_whole(repository: Path, ours: SessionWorktrees) -> None:
    record = await begin(ours, repository)
    git(repository, "pack-refs", "--all")
    write(record)
    await ours.merge(record)
    assert git(repository, "branch", "--format=%(refname:short)") == "main"
    check(repository)


async def test_without_a_base_branch_or_a_name_it_says_what_to_do(repository: Path, ours: SessionWorktrees) -> None:
    git(repository, "checkout", "-q", "--detach")
    detached = await begin(ours, repository, "one", "0199a2one")
    write(detached)
    with pytest.raises(GitFailed, match="did not start on a branch"):
        await ours.merge(detached)
    git(repository, "checkout", "-q", "main")
    git(repository, "config", "--unset", "user.name")
    nobody = await begin(ours, repository, "two", "0199a2two")
    write(nobody)
    with pytest.raises(GitFailed, match="git does not know who you are") as caught:
        await ours.merge(nobody)
    assert "git config --global user.name" in caught.value.hint
    assert Path(nobody.cwd, "shop.py").read_text() == "colour = 'blue'\n"


async def test_a_merge_is_by_the_name_that_git_would_use(repository: Path, tmp_path: Path) -> None:
    """The user's configuration may have another name for the repositories of a client (includeIf)."""
    home = tmp_path / "home"
    home.mkdir()
    ours = service(tmp_path, home=str(home))
    git(repository, "config", "--unset", "user.name")
    (home / "client").write_text("[user]\n\tname = Ada Client\n")
    (home / ".gitconfig").write_text(f'[user]\n\tname = Ada\n[includeIf "gitdir:{repository}/"]\n\tpath = client\n')
    record = await begin(ours, repository)
    write(record)
    await ours.merge(record)
    assert git(repository, "log", "-1", "--format=%an %cn") == "Ada Client Ada Client"


@pytest.mark.parametrize("late", ["a file", "a change", "a commit"])
async def test_what_comes_while_it_is_merged_is_not_removed(
    repository: Path, ours: SessionWorktrees, late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent may have left something running there. What it writes then is neither merged nor lost."""
    record = await begin(ours, repository)
    write(record)
    move = ours._move  # pyright: ignore[reportPrivateUsage]

    async def meanwhile(*args: Any) -> None:
        await move(*args)
        write(record, "late.txt" if late == "a file" else "shop.py", "late\n")
        if late == "a commit":
            git(record.cwd, "commit", "-q", "-am", "late")

    with monkeypatch.context() as patched:
        patched.setattr(ours, "_move", meanwhile)
        record, outcome = await ours.merge(record)
    assert not outcome.removed and "since" in outcome.kept and record.worktree is not None and not record.worktree.ended
    assert (repository / "shop.py").read_text() == "colour = 'blue'\n"
    record, outcome = await ours.merge(record)
    assert outcome.removed and not outcome.kept
    assert (repository / ("late.txt" if late == "a file" else "shop.py")).read_text() == "late\n"
    check(repository)


async def test_a_repository_inside_it_is_not_removed(repository: Path, ours: SessionWorktrees) -> None:
    record = await begin(ours, repository)
    write(record)
    make_repository(Path(record.cwd) / "vendor")
    _, outcome = await ours.merge(record)
    assert outcome.kept == "vendor in it is a repository of its own"
    assert Path(record.cwd, "vendor/shop.py").exists()
    with pytest.raises(GitFailed, match=r"vendor in .* is a repository of its own"):
        await ours.discard(record)
    assert Path(record.cwd, "vendor/shop.py").exists()


# --- rebasing ----------------------------------------------------------------------------------------------------


async def test_its_commits_are_made_anew_on_the_base(repository: Path, ours: SessionWorktrees) -> None:
    record = await begin(ours, repository)
    write(record)
    git(record.cwd, "-c", "user.name=Eve", "commit", "-qam", "blue\n\nwith a body", "--author=Eve <eve@example.com>")
    write(record, "new.txt", "new\n")
    (repository / "inner/notes.txt").write_text("other notes\n")
    (repository / "more.txt").write_text("more\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "other notes")
    rebased, outcome = await ours.rebase(record)
    assert (outcome.done, outcome.committed) == ("rebased", 1)
    assert rebased.worktree is not None and rebased.worktree.base == git(repository, "rev-parse", "main")
    log = git(record.cwd, "log", "--format=%an/%cn: %B", "main..blue").split("\n\n")
    assert [line.strip() for line in log] == ["Ada/Ada: Make it blue", "Eve/Ada: blue", "with a body"]
    assert git(record.cwd, "status", "--porcelain", "--branch") == "## blue"
    assert files(Path(record.cwd)).keys() == {".gitignore", "shop.py", "new.txt", "more.txt", "inner/notes.txt"}
    status = await ours.status(rebased)
    assert (status.ahead, status.behind) == (2, 0)
    assert await ours.rebase(rebased) == (rebased, replace(outcome, committed=0)), "again it changes nothing"
    check(repository)
    await ours.merge(rebased)
    assert len(git(repository, "log", "-1", "--format=%P").split()) == 1, "fast-forward"


async def test_a_commit_that_the_base_has_already_is_left_out(repository: Path, ours: SessionWorktrees) -> None:
    record = await begin(ours, repository)
    write(record)
    git(record.cwd, "commit", "-qam", "blue")
    write(record, "new.txt", "new\n")
    (repository / "more.txt").write_text("more\n")
    (repository / "shop.py").write_text("colour = 'blue'\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "the same, and more")
    await ours.rebase(record)
    assert git(record.cwd, "log", "--format=%s", "main..blue") == "Make it blue"


async def test_a_branch_with_merges_is_not_rebased(repository: Path, ours: SessionWorktrees) -> None:
    record = await begin(ours, repository)
    write(record)
    git(record.cwd, "commit", "-qam", "blue")
    for name in ("one", "two"):
        (repository / f"{name}.txt").write_text(name)
        git(repository, "add", ".")
        git(repository, "commit", "-qm", name)
        if name == "one":
            git(record.cwd, "merge", "-q", "--no-edit", "main")
    with pytest.raises(GitFailed, match="merge commits"):
        await ours.rebase(record)


# --- discarding --------------------------------------------------------------------------------------------------


async def test_what_is_discarded_can_be_had_back(repository: Path, ours: SessionWorktrees) -> None:
    record = await begin(ours, repository)
    write(record)
    git(record.cwd, "commit", "-qam", "blue")
    write(record, "new.txt", "not even committed\n")
    record, outcome = await ours.discard(record)
    assert (outcome.committed, outcome.kept_as) == (1, f"refs/tieline/discarded/{ID}")
    assert git(repository, "branch", "--format=%(refname:short)") == "main"
    assert not Path(record.cwd).exists()
    check(repository)
    git(repository, "gc", "-q", "--prune=now")
    git(repository, "branch", "back", outcome.kept_as)
    assert git(repository, "show", "back:new.txt") == "not even committed"
    assert git(repository, "show", "back:shop.py") == "colour = 'blue'"


async def test_work_beside_its_branch_is_kept_as_well(repository: Path, ours: SessionWorktrees) -> None:
    """The agent went to another branch, or is in the middle of a merge: all of it is kept."""
    record = await begin(ours, repository)
    write(record)
    git(record.cwd, "commit", "-qam", "on its branch")
    git(record.cwd, "checkout", "-q", "--detach", "main")
    write(record, "apart.txt", "apart\n")
    git(record.cwd, "add", ".")
    git(record.cwd, "commit", "-qm", "on none")
    write(record, "files.txt", "only in the files\n")
    Path(str(git(record.cwd, "rev-parse", "--git-dir")), "MERGE_HEAD").write_text("x")
    with pytest.raises(GitFailed, match="it stands on no branch, not on blue"):
        await ours.merge(record)
    _, outcome = await ours.discard(record)
    kept = git(repository, "log", "--format=%s", outcome.kept_as).splitlines()
    assert {"on its branch", "on none", "Discarded: Make it blue"} <= set(kept)
    assert git(repository, "show", f"{outcome.kept_as}:files.txt") == "only in the files"


async def test_nothing_is_kept_of_what_is_merged_or_never_was(repository: Path, ours: SessionWorktrees) -> None:
    record = await begin(ours, repository)
    _, outcome = await ours.discard(record)
    assert outcome.kept_as == ""
    assert git(repository, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


async def test_each_discarded_work_of_a_session_is_kept(repository: Path, ours: SessionWorktrees) -> None:
    record = await begin(ours, repository)
    for number in (1, 2):
        write(record, "new.txt", f"{number}\n")
        record, _ = await ours.discard(record)
        record = await ours.make_again(record)
    refs = git(repository, "for-each-ref", "--format=%(refname)", "refs/tieline").splitlines()
    assert [git(repository, "show", f"{ref}:new.txt") for ref in refs] == ["1", "2"]


async def test_after_its_end_it_is_made_again_from_the_base(repository: Path, ours: SessionWorktrees) -> None:
    record = await begin(ours, repository / "inner")
    write(record)
    record, _ = await ours.merge(record)
    git(repository, "checkout", "-q", "-b", "elsewhere", "HEAD~1")
    again = await ours.make_again(record)
    assert again.worktree is not None and again.worktree.ended == ""
    assert again.cwd == record.cwd and Path(again.cwd).is_dir()
    assert Path(again.worktree.path, "shop.py").read_text() == "colour = 'blue'\n"
    assert again.worktree.base == git(repository, "rev-parse", "main")


async def test_files_that_somebody_removed_leave_the_branch(repository: Path, ours: SessionWorktrees) -> None:
    record = await begin(ours, repository)
    write(record)
    git(record.cwd, "commit", "-qam", "blue")
    assert record.worktree is not None
    git(repository, "worktree", "remove", "--force", record.worktree.path)
    assert "its files are gone; what was committed is on the branch blue" in (await ours.status(record)).problem
    await ours.merge(record)
    assert files(repository)["shop.py"] == "colour = 'blue'\n"
    check(repository)


# --- kills -------------------------------------------------------------------------------------------------------

DRIVE = """
import asyncio, os, signal, sys
from pathlib import Path
import msgspec
from tests.sessions.test_session_worktrees import begin, service
from tieline.sessions import git_merge, safe_git, session_worktrees, worktrees
from tieline.sessions.records import SessionRecord

place, step, what = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
count = 0

def count_down(*arguments):
    global count
    count += 1
    if count == step:
        os.kill(os.getpid(), signal.SIGKILL)

def cut(module, name):
    real = getattr(module, name)
    def counted(*arguments, **options):
        count_down()
        return real(*arguments, **options)
    setattr(module, name, counted)

for module in (git_merge, session_worktrees, worktrees):
    for name in ("replace_file", "write_ref", "delete_ref"):
        if hasattr(module, name):
            cut(module, name)
cut(worktrees.shutil, "rmtree")
run = safe_git.Git.run
async def counted(self, *arguments, **options):
    count_down()
    if arguments[0] in ("read-tree", "checkout-index") and count + 1 == step:  # in the middle of the files
        await run(self, *arguments, **options)
        for path in sorted(Path(self._top).rglob("*.txt"))[:1]:
            path.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return await run(self, *arguments, **options)
safe_git.Git.run = counted

async def main():
    ours = service(place)
    record = msgspec.json.decode((place / "record.json").read_bytes(), type=SessionRecord)
    if what == "create":
        await begin(ours, place / "shop")
    else:
        await getattr(ours, what)(record)
    print("done")

asyncio.run(main())
"""


@pytest.mark.parametrize("what", ["create", "merge", "rebase", "discard"])
async def test_killed_at_any_step_the_same_call_goes_on(what: str, tmp_path: Path) -> None:
    """SIGKILL before every write and every use of git, one after the other in the same repository."""
    repository, ours = make_repository(tmp_path / "shop"), service(tmp_path)
    for number in range(8):
        (repository / f"{number}.txt").write_text(f"{number}\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "numbers")
    record = SessionRecord(id=ID, agent="codex", cwd="")
    if what != "create":
        record = await begin(ours, repository)
        for number in range(0, 8, 2):
            write(record, f"{number}.txt", f"{number} changed\n")
        write(record, "new.txt", "new\n")
        Path(record.cwd, "1.txt").unlink()
        (repository / "inner/notes.txt").write_text("other notes\n")
        (repository / "3.txt").write_text("changed in the base\n")
        git(repository, "commit", "-qam", "other notes")
    (tmp_path / "record.json").write_bytes(msgspec.json.encode(record))
    drive = tmp_path / "drive.py"
    drive.write_text(DRIVE)
    kills = 0
    for step in range(1, 200):
        ran = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, str(drive), str(tmp_path), str(step), what],
            cwd=Path(__file__).parents[2],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if ran.returncode == 0:
            break
        assert ran.returncode == -signal.SIGKILL, ran.stderr
        kills += 1
    assert kills > 3
    if what == "create":
        record = await begin(ours, repository)
        assert git(record.cwd, "status", "--porcelain", "--branch") == "## blue"
    elif what == "merge":
        shown = files(repository)
        assert shown["0.txt"] == "0 changed\n" and shown["new.txt"] == "new\n" and "1.txt" not in shown
        assert shown["3.txt"] == "changed in the base\n" and shown["inner/notes.txt"] == "other notes\n"
        assert git(repository, "branch", "--format=%(refname:short)") == "main"
        assert not Path(record.cwd).exists()
    elif what == "rebase":
        shown = files(Path(record.cwd))
        assert shown["0.txt"] == "0 changed\n" and shown["3.txt"] == "changed in the base\n"
        assert git(record.cwd, "rev-list", "--count", "main..blue") == "1"
        assert git(record.cwd, "status", "--porcelain", "--branch") == "## blue"
    else:
        (ref, *_) = git(repository, "for-each-ref", "--format=%(refname)", "refs/tieline").splitlines()
        assert git(repository, "show", f"{ref}:new.txt") == "new"
        assert not Path(record.cwd).exists()
    check(repository)
