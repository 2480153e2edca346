"""Every way in which a repository can make git run a program, and the hub's own use of git: none of them runs.

Each row also shows that it is no dud: plain git does run the program.
"""

import re
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.bus.conftest import free_port
from tests.sessions.git_remotes import bare_repository, git_daemon, stand_in_gh

from tieline.errors import UsageError
from tieline.sessions import git_actions, git_remote, git_repository
from tieline.sessions.git_actions import ChangeOutcome
from tieline.sessions.records import SessionRecord
from tieline.sessions.safe_git import GitFailed
from tieline.sessions.session_worktrees import SessionWorktrees
from tieline.sessions.startup_files_fingerprint import fingerprint
from tieline.sessions.workspace_diff import branch, changes, snapshot
from tieline.sessions.worktrees import Worktrees

pytestmark = pytest.mark.slow

HOOKS = (
    "applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg",
    "commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update",
    "proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc",
    "post-rewrite", "sendemail-validate", "fsmonitor-watchman", "p4-changelist", "p4-prepare-changelist",
    "p4-post-changelist", "p4-pre-submit", "post-index-change",
)  # fmt: skip
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.com")
DIRTY = "name.txt"


def scene(commands: str) -> tuple[str, ...]:
    return (*IDENTITY, "-c", f"alias.scene=!{commands}", "scene")


class Trap(NamedTuple):
    """`plant(repository, program)` sets it; `bait` is what makes plain git step into it."""

    plant: Callable[[Path, str], None]
    bait: tuple[str, ...] = ("add", "--all")


def configure(repository: Path, name: str, value: str) -> None:
    git(repository, "config", name, value)


def attribute(repository: Path, line: str) -> None:
    (repository / ".gitattributes").write_text(line + "\n")


def setting(name: str, *, attributes: str = "", value: str = "{program}") -> Callable[[Path, str], None]:
    def plant(repository: Path, program: str) -> None:
        configure(repository, name, value.format(program=program))
        if attributes:
            attribute(repository, attributes)

    return plant


def hooks(repository: Path, program: str) -> None:
    (repository / ".git/hooks").mkdir(exist_ok=True)
    for name in HOOKS:
        (repository / ".git/hooks" / name).symlink_to(program)


def hooks_elsewhere(repository: Path, program: str) -> None:
    (repository / "hooks").mkdir()
    (repository / "hooks/post-index-change").symlink_to(program)
    configure(repository, "core.hooksPath", "hooks")


def info_attributes(repository: Path, program: str) -> None:
    configure(repository, "filter.x.clean", program)
    (repository / ".git/info").mkdir(exist_ok=True)
    (repository / ".git/info/attributes").write_text("* filter=x\n")


def attributes_elsewhere(repository: Path, program: str) -> None:
    (repository / "attributes").write_text("* filter=x\n")
    configure(repository, "core.attributesFile", str(repository / "attributes"))
    configure(repository, "filter.x.clean", program)


def macro(repository: Path, program: str) -> None:
    configure(repository, "filter.x.clean", program)
    attribute(repository, "[attr]text filter=x\n* text")


def deep_attributes(repository: Path, program: str) -> None:
    configure(repository, "filter.x.clean", program)
    (repository / "inner").mkdir()
    (repository / "inner/.gitattributes").write_text("*.txt filter=x\n")
    (repository / "inner/more.txt").write_text("more\n")


def included(repository: Path, program: str) -> None:
    (repository / "more.cfg").write_text(f'[filter "x"]\n\tclean = {program}\n')
    configure(repository, "include.path", str(repository / "more.cfg"))
    attribute(repository, "* filter=x")


def included_if(repository: Path, program: str) -> None:
    (repository / "more.cfg").write_text(f'[filter "x"]\n\tclean = {program}\n')
    configure(repository, "includeIf.onbranch:**.path", str(repository / "more.cfg"))
    attribute(repository, "* filter=x")


def config_worktree(repository: Path, program: str) -> None:
    configure(repository, "extensions.worktreeConfig", "true")
    git(repository, "config", "--worktree", "filter.x.clean", program)
    attribute(repository, "* filter=x")


def git_file(repository: Path, program: str) -> None:
    """`.git` is a file, and what it points to is the trap."""
    configure(repository, "filter.x.clean", program)
    (repository / ".git").rename(repository.parent / "elsewhere")
    (repository / ".git").write_text(f"gitdir: {repository.parent / 'elsewhere'}\n")
    attribute(repository, "* filter=x")


def linked(repository: Path, program: str) -> None:
    """The files are a linked worktree of a repository that is the trap."""
    main = repository.parent / "main"
    repository.rename(main)
    git(main, "worktree", "add", "-q", "--detach", str(repository))
    git(repository, "checkout", "-q", "-b", "side")
    configure(main, "filter.x.clean", program)
    attribute(repository, "* filter=x")


def submodule(repository: Path, program: str) -> None:
    inner = repository / "module"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "file.txt").write_text("one\n")
    git(inner, "add", ".")
    git(inner, *IDENTITY, "commit", "-qm", "inner")
    git(repository, "add", "module")
    configure(inner, "core.fsmonitor", program)
    (inner / "file.txt").write_text("two\n")


def nested_bare(repository: Path, program: str) -> None:
    """An embedded bare repository in which the session works."""
    inner = repository / "bare"
    inner.mkdir()
    git(inner, "init", "-q", "--bare")
    configure(inner, "core.fsmonitor", program)
    configure(inner, "core.bare", "false")
    configure(inner, "core.worktree", str(repository))


def promised(repository: Path, program: str) -> None:
    """A partial clone, whose missing objects are fetched by a program."""
    configure(repository, "core.repositoryformatversion", "1")
    configure(repository, "extensions.partialClone", "origin")
    configure(repository, "remote.origin.url", f"ext::{program}")
    configure(repository, "remote.origin.promisor", "true")
    configure(repository, "protocol.ext.allow", "always")
    blob = git(repository, "rev-parse", "HEAD:kept.txt").strip()
    (repository / ".git/objects" / blob[:2] / blob[2:]).unlink()


def on_the_path(repository: Path, program: str) -> None:
    """A virtual environment in the work tree, first on the hub's PATH, with a git of its own."""
    (repository / "bin").mkdir()
    (repository / "bin/git").symlink_to(program)


def remote(url: str, **settings: str) -> Callable[[Path, str], None]:
    """The remote's address, and what else the repository says about it."""

    def plant(repository: Path, program: str) -> None:
        configure(repository, "remote.origin.url", url.format(program=program))
        for name, value in settings.items():
            configure(repository, name.replace("_", "."), value.format(program=program))

    return plant


def rewritten(repository: Path, program: str) -> None:
    configure(repository, "remote.origin.url", "https://nowhere.invalid/own/project")
    configure(repository, f"url.ext::{program}.insteadOf", "https://nowhere.invalid/own/project")
    configure(repository, "protocol.ext.allow", "always")


def local_remote(repository: Path, program: str) -> None:
    """A repository on this machine, whose hooks would run."""
    there = repository.parent / "there.git"
    git(repository, "init", "-q", "--bare", str(there))
    (there / "hooks").mkdir(exist_ok=True)
    (there / "hooks/post-receive").symlink_to(program)
    configure(repository, "remote.origin.url", str(there))


def signed_commits(repository: Path, program: str) -> None:
    configure(repository, "gpg.program", program)
    configure(repository, "commit.gpgSign", "true")


def merged_by(how: str) -> tuple[str, ...]:
    """Two branches that change different files become one."""
    return scene(
        f"git checkout -qb o && echo o > {DIRTY} && git commit -qam o && git checkout -q trunk"
        f" && echo t > kept.txt && git commit -qam t && git {how} o"
    )


FILTERED = "* filter=x"
PUSH = ("push", "origin", "HEAD:refs/heads/x")
NOWHERE = "ssh://nowhere.invalid/own/project"
PUSH_TRAPS: dict[str, Trap] = {
    "ssh of a push": Trap(remote(NOWHERE, core_sshCommand="{program}"), PUSH),
    "credentials of a push": Trap(
        remote("http://{program}@127.0.0.1:1/x", credential_helper="!{program}"),
        ("-c", "core.askPass=false", "credential", "fill"),
    ),
    "askpass of a push": Trap(remote(NOWHERE, core_askPass="{program}"), ("credential", "fill")),
    "an ext address": Trap(remote("ext::{program}", protocol_ext_allow="always"), PUSH),
    "an ext push address": Trap(
        remote("https://nowhere.invalid/x", remote_origin_pushurl="ext::{program}", protocol_ext_allow="always"), PUSH
    ),
    "a rewritten address": Trap(rewritten, PUSH),
    "receive-pack of the remote": Trap(remote("{program}/..", remote_origin_receivepack="{program}"), PUSH),
    "a proxy of a push": Trap(remote("git://127.0.0.1:1/x", core_gitProxy="{program}"), PUSH),
    "hooks of a remote on this machine": Trap(local_remote, PUSH),
    "signed commits": Trap(signed_commits, (*IDENTITY, "commit", "--allow-empty", "-m", "x")),
}
TRAPS: dict[str, Trap] = {
    "filter clean": Trap(setting("filter.x.clean", attributes=FILTERED)),
    "filter process": Trap(setting("filter.x.process", attributes=FILTERED)),
    "filter smudge": Trap(setting("filter.x.smudge", attributes=FILTERED), ("checkout", "-f", "HEAD~0", "--", ".")),
    "filter by a macro": Trap(macro),
    "filter in a folder": Trap(deep_attributes),
    "filter by info/attributes": Trap(info_attributes),
    "filter by core.attributesFile": Trap(attributes_elsewhere),
    "textconv": Trap(setting("diff.x.textconv", attributes="* diff=x"), ("diff",)),
    "external diff": Trap(setting("diff.external"), ("diff",)),
    "diff driver": Trap(setting("diff.x.command", attributes="* diff=x"), ("diff",)),
    "merge driver": Trap(
        setting("merge.x.driver", attributes="* merge=x"),
        scene(
            f"git checkout -qb o && echo o > {DIRTY} && git commit -qam o && git checkout -q trunk"
            f" && echo t > {DIRTY} && git commit -qam t && git merge o"
        ),
    ),
    "smudge in a merge": Trap(setting("filter.x.smudge", attributes=FILTERED), merged_by("merge")),
    "hooks": Trap(hooks),
    "hooks of a merge": Trap(hooks, merged_by("merge")),
    "hooks of a rebase": Trap(hooks, merged_by("rebase")),
    "hooks elsewhere": Trap(hooks_elsewhere),
    "fsmonitor": Trap(setting("core.fsmonitor"), ("status",)),
    "pager": Trap(setting("core.pager"), ("grep", "-O", "one")),
    "editor": Trap(setting("core.editor"), (*IDENTITY, "commit", "--allow-empty")),
    "sequence editor": Trap(setting("sequence.editor"), scene("git commit -qam x && git rebase -i --root")),
    "gpg": Trap(setting("gpg.program"), (*IDENTITY, "commit", "-S", "--allow-empty", "-m", "x")),
    "ssh": Trap(setting("core.sshCommand"), ("ls-remote", "ssh://nowhere.invalid/x")),
    "proxy": Trap(setting("core.gitProxy"), ("ls-remote", "git://nowhere.invalid/x")),
    "credentials": Trap(
        setting("credential.helper", value="!{program}"), ("-c", "core.askPass=false", "credential", "fill")
    ),
    "alias": Trap(setting("alias.x", value="!{program}"), ("x",)),
    "trailer": Trap(setting("trailer.x.cmd"), ("interpret-trailers", "--trailer", "x=y", DIRTY)),
    "include": Trap(included),
    "include if": Trap(included_if),
    "config.worktree": Trap(config_worktree),
    ".git as a file": Trap(git_file),
    "a linked worktree": Trap(linked),
    "a submodule": Trap(submodule, ("status",)),
    "an embedded bare repository": Trap(nested_bare, ("-C", "bare", "status")),
    "missing objects of a partial clone": Trap(promised, ("diff",)),
    "a git of its own": Trap(on_the_path, ()),
}


def git(cwd: Path, *arguments: str, check: bool = True) -> str:
    env = {"PATH": f"{cwd}/bin:/usr/bin:/bin", "HOME": str(cwd.parent), "GIT_CONFIG_NOSYSTEM": "1", "TERM": "dumb"}
    program = "git" if arguments else str(cwd / "bin/git")
    return subprocess.run(
        [program, *arguments],
        cwd=cwd,
        env=env,
        check=check,
        capture_output=True,
        text=True,
        timeout=60,
        input="protocol=https\nhost=nowhere.invalid\n\n",
    ).stdout


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("template")
    git(made, "init", "-q", "-b", "trunk")
    (made / "kept.txt").write_text("one\n")
    (made / DIRTY).write_text("before\n")
    git(made, "add", ".")
    git(made, *IDENTITY, "commit", "-qm", "first")
    return made


@pytest.mark.parametrize("trap", TRAPS)
async def test_nothing_of_it_runs_and_the_diff_is_right(trap: str, template: Path, tmp_path: Path) -> None:
    repository, ran = tmp_path / "repository", tmp_path / "ran"
    shutil.copytree(template, repository)
    program = tmp_path / "canary"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\n')
    program.chmod(0o755)
    TRAPS[trap].plant(repository, str(program))
    env = {"PATH": f"{repository}/bin:.:/usr/bin:/bin", "HOME": str(tmp_path / "home")}
    ran.unlink(missing_ok=True)  # planting with git may have stepped into it

    began = await snapshot(str(repository), env)  # as before a first prompt, even a read-only one
    (repository / DIRTY).write_text("after\n")
    (repository / "new.txt").write_text("new\n")
    diff = await changes(str(repository), env, began)
    fingerprint(str(repository), env)
    assert not ran.exists(), ran.read_text()
    assert branch(str(repository)) in ("trunk", "side")
    assert began
    assert diff.count("diff --git") == 2, diff
    assert f"--- a/{DIRTY}\n+++ b/{DIRTY}\n@@ -1 +1 @@\n-before\n+after\n" in diff
    assert "+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n" in diff

    if trap == "a submodule":
        inner = await snapshot(str(repository / "module"), env)
        (repository / "module/file.txt").write_text("three\n")
        assert "-two\n+three\n" in await changes(str(repository / "module"), env, inner)
        assert not ran.exists(), "and not from inside it either"

    git(repository, *TRAPS[trap].bait, check=False)
    assert ran.exists(), "plain git does not run it either: the row proves nothing"


ACTIONS_LEFT_TO_A_TERMINAL = (
    "include",
    "include if",
    "config.worktree",
    ".git as a file",
    "a linked worktree",
    "smudge in a merge",
)
"""Traps by a filter, whose files are not staged or taken back."""


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    folder = tmp_path_factory.mktemp("hosted")
    with git_daemon(folder, free_port()) as url:
        yield f"{folder} {url}"


@pytest.mark.parametrize("trap", [*TRAPS, *PUSH_TRAPS])
async def test_nothing_of_it_runs_whatever_a_person_does(
    trap: str, template: Path, tmp_path: Path, hosted: str
) -> None:
    repository, ran = tmp_path / "repository", tmp_path / "ran"
    shutil.copytree(template, repository)
    program = tmp_path / "canary"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\n')
    program.chmod(0o755)
    folder, url = hosted.split()
    name = re.sub(r"\W", "-", trap)
    bare_repository(Path(folder), f"own/{name}.git")
    git(repository, "remote", "add", "origin", f"{url}/own/{name}.git")
    log = stand_in_gh(tmp_path / "bin")
    planted = {**TRAPS, **PUSH_TRAPS}[trap]
    planted.plant(repository, str(program))
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.gitconfig").write_text("[user]\n\tname = a\n\temail = a@example.com\n")
    env = {
        "PATH": f"{repository}/bin:.:{tmp_path}/bin:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    ran.unlink(missing_ok=True)  # planting with git may have stepped into it
    cwd = str(repository)

    def tamper() -> None:
        (repository / DIRTY).write_text("after\n")
        (repository / "new.txt").write_text("new\n")

    async def confirmed(does: Callable[[str], Awaitable[ChangeOutcome]]) -> ChangeOutcome:
        plan = (await does("")).plan
        assert plan is not None
        return await does(plan.digest)

    tamper()
    tree = await git_actions.working_tree(cwd, env)
    assert {DIRTY, "new.txt"} <= {file.path for file in tree.files}
    assert "-before\n+after\n" in await git_actions.uncommitted(cwd, env)
    if "filter" in trap or trap in ACTIONS_LEFT_TO_A_TERMINAL:
        inner = "inner/more.txt" if trap == "filter in a folder" else DIRTY
        (repository / inner).write_text("after that\n")
        for does in (git_actions.stage, git_actions.revert):
            with pytest.raises(UsageError, match="converted by the filter x"):
                await does(cwd, env, [inner])
        assert not ran.exists(), ran.read_text()
        return
    await git_actions.stage(cwd, env, [DIRTY, "new.txt"])
    await git_actions.stage(cwd, env, ["new.txt"], staged=False)
    made = await git_actions.commit(cwd, env, "by a person")
    repo = git_repository.find(cwd)
    assert repo is not None
    assert made.commit == repo.commit
    await confirmed(lambda digest: git_actions.revert(cwd, env, ["new.txt"], digest=digest))
    assert not (repository / "new.txt").exists()
    tamper()
    (repository / DIRTY).write_text("again\n")
    await confirmed(lambda digest: git_actions.revert(cwd, env, [], digest=digest))
    assert (repository / DIRTY).read_text() == "after\n"
    pushed = True
    try:
        await confirmed(lambda digest: git_remote.push(cwd, env, digest=digest))
    except (GitFailed, UsageError):
        pushed = False
    usual = trap not in PUSH_TRAPS or trap == "signed commits"
    assert pushed == (usual and trap != "missing objects of a partial clone")
    if pushed:
        assert not ran.exists(), ran.read_text()
        configure(repository, "remote.origin.url", f"git@nowhere.invalid:own/{name}.git")  # gh wants a hosted one
        ran.unlink(missing_ok=True)
        outcome = await confirmed(lambda digest: git_remote.open_pull_request(cwd, env, "x", "y", digest=digest))
        assert outcome.url
        assert f"--repo=nowhere.invalid/own/{name}" in log.read_text()
    assert not ran.exists(), ran.read_text()

    if trap in PUSH_TRAPS:
        git(repository, *planted.bait, check=False)
        assert ran.exists(), "plain git does not run it either: the row proves nothing"


@pytest.mark.parametrize("trap", TRAPS)
async def test_nothing_of_it_runs_when_a_worktree_is_merged(trap: str, template: Path, tmp_path: Path) -> None:
    """Made, compared, rebased, merged with a commit, discarded: the test above shows that each row is no dud."""
    repository, ran = tmp_path / "repository", tmp_path / "ran"
    shutil.copytree(template, repository)
    program = tmp_path / "canary"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\n')
    program.chmod(0o755)
    for name, value in (("user.name", "a"), ("user.email", "a@example.com")):
        configure(repository, name, value)
    TRAPS[trap].plant(repository, str(program))
    env = {"PATH": f"{repository}/bin:.:/usr/bin:/bin", "HOME": str(tmp_path), "TIELINE_HOME": str(tmp_path / "state")}
    ours = SessionWorktrees(Worktrees(env))
    if trap == "a submodule":  # it is staged
        git(repository, "commit", "-qm", "module")
    ran.unlink(missing_ok=True)

    async def begin(id: str, line: int = 0) -> SessionRecord:
        cwd, tree = await ours.create(id, str(repository), f"branch-{id}")
        lines = Path(cwd, DIRTY).read_text().splitlines()
        lines = lines if len(lines) > 1 else ["first", *"abcdefgh", "last"]
        lines[line] = f"by {id}"
        Path(cwd, DIRTY).write_text("\n".join(lines) + "\n")
        Path(cwd, f"{id}.txt").write_text("new\n")
        return SessionRecord(id=id, agent="codex", cwd=cwd, title=id, worktree=tree)

    if trap == "missing objects of a partial clone":
        with pytest.raises(GitFailed):  # it is not fetched
            await begin("one")
    else:
        record = await begin("one")
        assert (await ours.status(record)).files == 2
        assert "+by one\n" in await ours.diff(record)
        await ours.merge(record)
        two, three, four = [await begin(id, line) for id, line in (("two", 0), ("three", -1), ("four", 0))]
        await ours.discard(four)
        await ours.merge(three)
        two, _ = await ours.rebase(two)  # the base has changed the same file at another place
        four = await begin("four")
        await ours.merge(two)
        with pytest.raises(GitFailed):
            await ours.merge(four)  # at the same place
        assert (repository / DIRTY).read_text().split("\n")[::9] == ["by two", "by three"]
    assert not ran.exists(), ran.read_text()
