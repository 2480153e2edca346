"""What a person does with a session's changes, in real repositories: nothing is lost, and nothing is done unseen."""

import subprocess
from collections.abc import Generator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from tests.bus.conftest import free_port
from tests.sessions.git_remotes import bare_repository, git_daemon, stand_in_gh

from tieline.errors import UsageError
from tieline.sessions import git_actions, git_remote, git_writes
from tieline.sessions.git_actions import ChangeOutcome, PlanChanged
from tieline.sessions.safe_git import GitFailed


class Work:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.top = folder / "project"
        self.env: Mapping[str, str] = {
            "PATH": f"{folder}/bin:/usr/bin:/bin",
            "HOME": str(folder / "home"),
            "TIELINE_HOME": str(folder / "state"),
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    @property
    def cwd(self) -> str:
        return str(self.top)

    def git(self, *arguments: str, at: Path | None = None) -> str:
        return self.run("git", *arguments, at=at)

    def run(self, *argv: str, at: Path | None = None) -> str:
        return subprocess.run(
            argv, cwd=at or self.top, env=dict(self.env), check=True, capture_output=True, text=True
        ).stdout

    def nested(self) -> None:
        (self.top / "nested").mkdir()
        self.git("init", "-q", at=self.top / "nested")

    def write(self, name: str, text: str) -> Path:
        file = self.top / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    async def files(self) -> dict[str, tuple[str | None, str | None]]:
        tree = await git_actions.working_tree(self.cwd, self.env)
        return {file.path: (file.staged, file.unstaged) for file in tree.files}

    async def stage(self, *paths: str) -> ChangeOutcome:
        return await git_actions.stage(self.cwd, self.env, paths)

    async def revert(self, *paths: str) -> ChangeOutcome:
        """Looks at what would happen, and agrees."""
        plan = (await git_actions.revert(self.cwd, self.env, paths)).plan
        assert plan is not None
        return await git_actions.revert(self.cwd, self.env, paths, digest=plan.digest)


@pytest.fixture
def work(tmp_path: Path) -> Work:
    made = Work(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text("[user]\n\tname = Ada Lane\n\temail = ada@example.com\n")
    made.top.mkdir()
    made.git("init", "-q", "-b", "trunk")
    made.write("a.txt", "one\n")
    made.write("src/b.txt", "one\n")
    made.write("gone.txt", "one\n")
    made.git("add", ".")
    made.git("commit", "-qm", "first")
    return made


@pytest.fixture
def remote(work: Work) -> Generator[Path]:
    """A bare repository that the branch can be pushed to."""
    folder = work.folder / "remotes"
    made = bare_repository(folder, "own/project.git")
    with git_daemon(folder, free_port()) as url:
        work.git("remote", "add", "origin", f"{url}/own/project.git")
        yield made


# --- status --------------------------------------------------------------------------------------------------


async def test_each_state_of_a_file_is_told(work: Work) -> None:
    work.write("a.txt", "two\n")
    work.write("src/b.txt", "two\n")
    work.git("add", "src/b.txt")
    work.write("src/b.txt", "three\n")
    (work.top / "gone.txt").unlink()
    work.write("new.txt", "new\n")
    work.write("added.txt", "new\n")
    work.git("add", "added.txt")
    work.write(".gitignore", "ignored.txt\n")
    work.write("ignored.txt", "x\n")
    work.nested()
    assert await work.files() == {
        ".gitignore": (None, "untracked"),
        "a.txt": (None, "modified"),
        "added.txt": ("added", None),
        "gone.txt": (None, "deleted"),
        "nested/": (None, "untracked"),
        "new.txt": (None, "untracked"),
        "src/b.txt": ("modified", "modified"),
    }
    tree = await git_actions.working_tree(str(work.top / "src"), work.env)  # also from a folder inside
    assert (tree.top, tree.branch, tree.author) == (work.cwd, "trunk", "Ada Lane <ada@example.com>")
    assert (tree.remote, tree.upstream, tree.ahead, tree.gh, tree.whole) == ("", "", None, False, True)


async def test_a_directory_without_a_repository_has_no_tree(tmp_path: Path) -> None:
    assert (await git_actions.working_tree(str(tmp_path), {"PATH": "/usr/bin:/bin"})).top == ""
    with pytest.raises(GitFailed, match="not in a git repository"):
        await git_actions.stage(str(tmp_path), {"PATH": "/usr/bin:/bin"}, ["a"])


async def test_an_empty_repository_can_have_its_first_commit(tmp_path: Path, work: Work) -> None:
    work.top = tmp_path / "fresh"
    work.top.mkdir()
    work.git("init", "-q", "-b", "trunk")
    work.write("a.txt", "one\n")
    assert await work.files() == {"a.txt": (None, "untracked")}
    await work.stage("a.txt")
    with pytest.raises(UsageError, match="no commit to go back to"):
        await work.revert("a.txt")
    await git_actions.commit(work.cwd, work.env, "first")
    assert work.git("log", "--format=%s %an") == "first Ada Lane\n"
    assert await work.files() == {}


async def test_a_conflict_is_told_and_nothing_is_committed_over_it(work: Work) -> None:
    work.git("checkout", "-qb", "side")
    work.write("a.txt", "side\n")
    work.git("commit", "-qam", "side")
    work.git("checkout", "-q", "trunk")
    work.write("a.txt", "trunk\n")
    work.git("commit", "-qam", "trunk")
    with pytest.raises(subprocess.CalledProcessError):
        work.git("merge", "side")
    assert (await work.files())["a.txt"] == ("conflict", "conflict")
    assert (await git_actions.working_tree(work.cwd, work.env)).unfinished == "MERGE_HEAD"
    for does in (git_actions.commit(work.cwd, work.env, "x"), work.revert("a.txt"), work.revert()):
        with pytest.raises(UsageError, match="git operation is in progress"):
            await does


async def test_the_diff_is_from_the_last_commit_to_the_files(work: Work) -> None:
    work.write("a.txt", "two\n")
    work.git("add", "a.txt")
    work.write("a.txt", "three\n")
    work.write("new.txt", "new\n")
    (work.top / "gone.txt").unlink()
    work.write("large.bin", "x" * (9 * 1024 * 1024))
    diff = await git_actions.uncommitted(work.cwd, work.env)
    assert "-one\n+three\n" in diff
    assert "+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n" in diff
    assert "deleted file mode 100644" in diff
    assert "+(a file of more than 8,388,608 bytes" in diff
    assert len(diff) < 2000


# --- stage and commit ----------------------------------------------------------------------------------------


async def test_chosen_files_are_staged_and_committed_as_the_user(work: Work) -> None:
    work.write("a.txt", "two\n")
    work.write("src/b.txt", "two\n")
    (work.top / "gone.txt").unlink()
    work.write("a name with ü.txt", "new\n")
    assert (await work.stage("a.txt", "gone.txt", "a name with ü.txt")).done == "staged 3 files"
    assert await work.files() == {
        "a.txt": ("modified", None),
        "a name with ü.txt": ("added", None),
        "gone.txt": ("deleted", None),
        "src/b.txt": (None, "modified"),
    }
    outcome = await git_actions.commit(work.cwd, work.env, "  Two\n\nand why  ")
    assert work.git("log", "-1", "--format=%H|%an|%ae|%cn|%B").strip() == (
        f"{outcome.commit}|Ada Lane|ada@example.com|Ada Lane|Two\n\nand why"
    )
    assert work.git("show", "--stat", "--format=", "HEAD").count("|") == 3
    assert work.git("status", "--porcelain") == " M src/b.txt\n"
    assert "commit: Two" in work.git("reflog", "-1")
    work.git("fsck", "--strict")


async def test_what_is_unstaged_stays_in_the_file(work: Work) -> None:
    work.write("a.txt", "two\n")
    work.write("new.txt", "new\n")
    await work.stage("a.txt", "new.txt")
    await git_actions.stage(work.cwd, work.env, ["a.txt", "new.txt"], staged=False)
    assert work.git("status", "--porcelain") == " M a.txt\n?? new.txt\n"
    assert (work.top / "a.txt").read_text() == "two\n"


@pytest.mark.parametrize(
    "path", ["../outside.txt", "/etc/passwd", "missing.txt", "gone.txt", "nested/", ".git/config", ""]
)
async def test_only_what_has_changed_can_be_named(work: Work, path: str) -> None:
    (work.folder / "outside.txt").write_text("x")
    work.nested()
    with pytest.raises(UsageError, match="no such change"):
        await work.stage(path)
    with pytest.raises(UsageError, match="no such change"):
        await work.revert(path)


async def test_a_commit_needs_a_message_an_author_a_branch_and_something_staged(work: Work) -> None:
    with pytest.raises(UsageError, match="needs a message"):
        await git_actions.commit(work.cwd, work.env, " \n ")
    with pytest.raises(UsageError, match="nothing is staged"):
        await git_actions.commit(work.cwd, work.env, "x")
    work.write("a.txt", "two\n")
    await work.stage("a.txt")
    with pytest.raises(UsageError, match="does not know who you are"):
        await git_actions.commit(work.cwd, {**work.env, "HOME": str(work.folder)}, "x")
    work.git("checkout", "-q", "--detach")
    with pytest.raises(UsageError, match="no branch"):
        await git_actions.commit(work.cwd, work.env, "x")


async def test_the_author_is_the_repositorys_own_where_it_has_one(work: Work) -> None:
    work.git("config", "user.email", "ada@work.example")
    (work.folder / "home" / "client").write_text("[user]\n\tname = Ada Client\n")
    with (work.folder / "home" / ".gitconfig").open("a") as file:
        file.write(f'[includeIf "gitdir:{work.top}/"]\n\tpath = client\n')
    tree = await git_actions.working_tree(work.cwd, work.env)
    assert tree.author == "Ada Client <ada@work.example>"


async def test_what_a_terminal_would_also_do_is_told(work: Work) -> None:
    hook = work.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    work.git("config", "commit.gpgsign", "true")
    assert (await git_actions.working_tree(work.cwd, work.env)).skipped == ("hooks", "signing")


async def test_line_endings_are_stored_as_git_stores_them(work: Work) -> None:
    work.write(".gitattributes", "*.txt text eol=crlf\n")
    (work.top / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    await work.stage("a.txt", ".gitattributes")
    assert work.git("show", ":a.txt") == "one\ntwo\n"
    await git_actions.commit(work.cwd, work.env, "x")
    (work.top / "a.txt").write_bytes(b"three\r\n")
    await work.revert("a.txt")
    assert (work.top / "a.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert work.git("status", "--porcelain") == ""


async def test_a_file_of_a_filter_is_left_to_a_terminal(work: Work) -> None:
    work.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    work.write("large.bin", "content\n")
    work.write("a.txt", "two\n")
    for does in (work.stage("large.bin"), work.revert("large.bin"), work.revert()):
        with pytest.raises(UsageError, match=r"large.bin is converted by the filter lfs"):
            await does
    await work.stage("a.txt")
    assert (work.top / "large.bin").read_text() == "content\n"


# --- revert and discard --------------------------------------------------------------------------------------


async def test_a_file_is_taken_back_and_kept(work: Work) -> None:
    work.write("a.txt", "staged\n")
    work.git("add", "a.txt")
    work.write("a.txt", "later\n")
    work.write("src/b.txt", "other\n")
    plan = (await git_actions.revert(work.cwd, work.env, ["a.txt"])).plan
    assert plan is not None
    shown = {part.label: part.text for part in plan.parts}
    assert shown["file"] == "a.txt (modified)"
    assert "-one\n+later\n" in shown["change that is thrown away"]
    assert "src/b.txt" not in shown["change that is thrown away"]
    assert (work.top / "a.txt").read_text() == "later\n", "a plan changes nothing"
    assert work.git("for-each-ref", "refs/tieline") == ""

    outcome = await git_actions.revert(work.cwd, work.env, ["a.txt"], digest=plan.digest)
    assert work.git("status", "--porcelain") == " M src/b.txt\n"
    assert (work.top / "a.txt").read_text() == "one\n"
    work.run("sh", "-c", outcome.restore, at=work.top / "src")
    assert (work.top / "a.txt").read_text() == "later\n"
    ref = work.git("for-each-ref", "--format=%(refname)", "refs/tieline/discarded").strip()
    assert work.git("show", f"{ref}^2:a.txt") == "staged\n", "what was staged is kept too"


async def test_everything_is_discarded_and_comes_back(work: Work) -> None:
    work.write("a.txt", "two\n")
    (work.top / "gone.txt").unlink()
    work.write("src/b.txt", "x\n").unlink()
    work.write("src/b.txt/inside.txt", "a folder now\n")
    work.write("deep/er/new.txt", "new\n")
    work.write("added.txt", "added\n")
    work.git("add", "added.txt")
    (work.top / "link").symlink_to("/etc/passwd")
    work.write(".git/info/exclude", "ignored.txt\n")
    work.write("ignored.txt", "stays\n")
    work.nested()
    outcome = await work.revert()
    assert work.git("status", "--porcelain") == "?? nested/\n"
    assert (work.top / "src/b.txt").read_text() == "one\n"
    assert not (work.top / "deep").exists()
    assert (work.top / "ignored.txt").read_text() == "stays\n"
    assert Path("/etc/passwd").exists()
    work.run("sh", "-c", outcome.restore)
    assert (work.top / "added.txt").read_text() == "added\n"
    assert (work.top / "deep/er/new.txt").read_text() == "new\n"
    assert (work.top / "src/b.txt/inside.txt").read_text() == "a folder now\n"
    assert (work.top / "link").is_symlink()
    assert not (work.top / "gone.txt").exists()


async def test_a_plan_of_very_much_stays_small_and_says_so(work: Work) -> None:
    for number in range(600):
        work.write(f"many/{number}.txt", "\x01" * 1000)
    plan = (await git_actions.revert(work.cwd, work.env, [])).plan
    assert plan is not None
    assert len(msgspec.json.encode(plan)) < 768 * 1024
    assert any("and 100 more files" in part.text for part in plan.parts)
    assert any(part.label == "cut" for part in plan.parts)
    await git_actions.revert(work.cwd, work.env, [], digest=plan.digest)
    assert work.git("status", "--porcelain") == ""


@pytest.mark.parametrize("meanwhile", ["the file", "the index", "another file", "the commit"])
async def test_what_has_changed_meanwhile_is_not_thrown_away(work: Work, meanwhile: str) -> None:
    work.write("a.txt", "two\n")
    plan = (await git_actions.revert(work.cwd, work.env, [])).plan
    assert plan is not None
    match meanwhile:
        case "the file":
            work.write("a.txt", "three\n")
        case "the index":
            work.git("add", "a.txt")
        case "another file":
            work.write("new.txt", "new\n")
        case _:
            work.git("commit", "-q", "--allow-empty", "-m", "x")
    with pytest.raises(PlanChanged):
        await git_actions.revert(work.cwd, work.env, [], digest=plan.digest)
    assert (work.top / "a.txt").read_text() in ("two\n", "three\n")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a lock that nobody will release."""
    monkeypatch.setattr(git_writes, "LOCK_S", 0.2)


@pytest.mark.usefixtures("impatient")
async def test_a_lock_of_another_git_is_respected(work: Work) -> None:
    work.write("a.txt", "two\n")
    (work.top / ".git/index.lock").write_text("")
    with pytest.raises(GitFailed, match=r"index.lock exists"):
        await work.stage("a.txt")
    assert (work.top / ".git/index.lock").exists()


# --- links that an agent laid --------------------------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("link", ["refs/heads", "refs", "logs/HEAD", "index.lock", "refs/tieline"])
async def test_no_link_leads_a_write_out_of_the_repository(work: Work, link: str) -> None:
    outside = work.folder / "outside"
    outside.mkdir()
    (outside / "trunk").write_text(work.git("rev-parse", "HEAD"))
    victim = outside / "victim"
    victim.write_text("untouched\n")
    path = work.top / ".git" / link
    work.git("pack-refs", "--all")
    if path.is_dir():
        for entry in sorted(path.rglob("*"), reverse=True):
            entry.rmdir() if entry.is_dir() else entry.unlink()
        path.rmdir()
    path.unlink(missing_ok=True)
    path.symlink_to(victim if link in ("logs/HEAD", "index.lock") else outside)
    was = {file.name: file.read_text() for file in outside.iterdir()}
    work.write("a.txt", "two\n")
    work.write("new.txt", "new\n")
    for does in (
        work.stage("a.txt"),
        git_actions.commit(work.cwd, work.env, "x"),
        work.revert("new.txt"),
        work.revert(),
    ):
        with suppress(GitFailed, UsageError):
            await does
    assert {file.name: file.read_text() for file in outside.iterdir()} == was


async def test_a_folder_that_became_a_link_is_not_emptied(work: Work) -> None:
    outside = work.folder / "outside"
    outside.mkdir()
    (outside / "b.txt").write_text("untouched\n")
    (work.top / "src/b.txt").unlink()
    (work.top / "src").rmdir()
    (work.top / "src").symlink_to(outside)
    await work.revert()
    assert (outside / "b.txt").read_text() == "untouched\n"
    assert (work.top / "src/b.txt").read_text() == "one\n"
    assert not (work.top / "src").is_symlink()


# --- push and pull request -----------------------------------------------------------------------------------


async def push(work: Work) -> ChangeOutcome:
    plan = (await git_remote.push(work.cwd, work.env)).plan
    assert plan is not None
    return await git_remote.push(work.cwd, work.env, digest=plan.digest)


async def test_a_branch_is_pushed_to_the_address_that_was_shown(work: Work, remote: Path) -> None:
    work.git("checkout", "-qb", "feature/x")
    work.write("a.txt", "two\n")
    await work.stage("a.txt")
    commit = (await git_actions.commit(work.cwd, work.env, "Two")).commit
    plan = (await git_remote.push(work.cwd, work.env)).plan
    assert plan is not None
    shown = {part.label: part.text for part in plan.parts}
    url = work.git("remote", "get-url", "origin").strip()
    assert shown["address"] == url
    assert shown["branch"] == "feature/x"
    assert shown["command"] == f"git push {url} {commit}:refs/heads/feature/x"
    assert [line[8:] for line in shown["commits"].split("\n")] == ["Two", "first"]
    assert (await git_remote.push(work.cwd, work.env, digest=plan.digest)).commit == commit
    assert work.git("rev-parse", "feature/x", at=remote).strip() == commit
    tree = await git_actions.working_tree(work.cwd, work.env)
    assert (tree.upstream, tree.ahead, tree.behind) == ("origin/feature/x", 0, 0)
    with pytest.raises(UsageError, match="has all commits already"):
        await git_remote.push(work.cwd, work.env)


async def test_nothing_is_pushed_over_what_the_remote_has(work: Work, remote: Path) -> None:
    await push(work)
    theirs = work.git("rev-parse", "trunk", at=remote).strip()
    work.git("commit", "-q", "--amend", "-m", "another first")
    with pytest.raises(GitFailed, match=r"rejected|failed to push"):
        await push(work)
    assert work.git("rev-parse", "trunk", at=remote).strip() == theirs


async def test_a_push_that_would_be_another_one_is_refused(work: Work, remote: Path) -> None:
    plan = (await git_remote.push(work.cwd, work.env)).plan
    assert plan is not None
    work.git("config", "remote.origin.pushurl", work.git("remote", "get-url", "origin").strip() + "/../elsewhere")
    with pytest.raises(PlanChanged):
        await git_remote.push(work.cwd, work.env, digest=plan.digest)
    work.git("config", "--unset", "remote.origin.pushurl")
    work.git("commit", "-q", "--allow-empty", "-m", "more")
    with pytest.raises(PlanChanged):
        await git_remote.push(work.cwd, work.env, digest=plan.digest)
    assert work.git("for-each-ref", at=remote) == ""


async def test_the_users_own_rewriting_of_addresses_is_in_what_is_shown(work: Work) -> None:
    work.git("remote", "add", "origin", "https://code.example/own/project.git")
    with (work.folder / "home" / ".gitconfig").open("a") as file:
        file.write('[url "ssh://git@code.example/"]\n\tpushInsteadOf = https://code.example/\n')
    plan = (await git_remote.push(work.cwd, work.env)).plan
    assert plan is not None
    assert plan.parts[0].text == "ssh://git@code.example/own/project.git"


@pytest.mark.parametrize(
    "url",
    [
        "/srv/project.git", "../project.git", "file:///srv/project.git", "ext::sh -c true", "ext::true",
        "-oProxyCommand=true:x", "ssh://-oProxyCommand=true/x", "fd::17", "https://", "", "a\nb", "C:\\x y", "::x",
        "x::y",
    ],
)  # fmt: skip
async def test_an_address_that_could_run_something_here_is_refused(work: Work, url: str) -> None:
    work.git("config", "remote.origin.url", url)
    with pytest.raises(UsageError, match=r"does not push to|no remote"):
        await git_remote.push(work.cwd, work.env)


@pytest.mark.parametrize(
    "url",
    [
        "https://code.example/own/project.git", "http://127.0.0.1:3000/a/b", "ssh://git@code.example:22/own/project",
        "git@code.example:own/project.git", "code.example:own/project", "git://127.0.0.1:9418/x", "https://[::1]/a/b",
    ],
)  # fmt: skip
async def test_addresses_that_people_have_are_shown_as_they_are(work: Work, url: str) -> None:
    work.git("config", "remote.origin.url", url)
    plan = (await git_remote.push(work.cwd, work.env)).plan
    assert plan is not None
    assert plan.parts[0].text == url


async def test_a_password_in_an_address_is_not_shown(work: Work) -> None:
    work.git("config", "remote.origin.url", "https://ada:s3cret@127.0.0.1:1/own/project.git")
    plan = (await git_remote.push(work.cwd, work.env)).plan
    assert plan is not None
    assert "s3cret" not in str(plan)
    with pytest.raises(GitFailed) as failed:
        await git_remote.push(work.cwd, work.env, digest=plan.digest)
    assert "s3cret" not in str(failed.value)


async def test_a_pull_request_is_opened_by_gh_outside_of_the_repository(work: Work, remote: Path) -> None:
    with pytest.raises(UsageError, match="gh is not installed"):
        await git_remote.open_pull_request(work.cwd, work.env, "Two", "why")
    log = stand_in_gh(work.folder / "bin")
    with pytest.raises(UsageError, match="differs from its remote branch"):
        await git_remote.open_pull_request(work.cwd, work.env, "Two", "why")
    await push(work)
    # A hosted address has no port of ours; what was pushed stays pushed.
    work.git("config", "remote.origin.url", "git@code.example:own/project.git")
    assert (await git_actions.working_tree(work.cwd, work.env)).gh
    plan = (await git_remote.open_pull_request(work.cwd, work.env, "--Two", "why\nand 'how'")).plan
    assert plan is not None
    assert not log.exists()
    outcome = await git_remote.open_pull_request(work.cwd, work.env, "--Two", "why\nand 'how'", digest=plan.digest)
    assert outcome.url == "https://example.com/own/project/pull/7"
    assert log.read_text() == (
        "pr\ncreate\n--repo=code.example/own/project\n--head=trunk\n--title=--Two\n--body=why\nand 'how'\n"
    )
    assert not (log.with_name("gh-told.cwd").read_text().strip() + "/").startswith(f"{work.cwd}/")
    with pytest.raises(PlanChanged):
        await git_remote.open_pull_request(work.cwd, work.env, "Two", "why", digest=plan.digest)


async def test_a_gh_of_the_repositorys_own_is_none(work: Work) -> None:
    stand_in_gh(work.top / "bin")
    tree = await git_actions.working_tree(work.cwd, {**work.env, "PATH": f"{work.top}/bin:.:/usr/bin:/bin"})
    assert not tree.gh
