"""Pushes a session's branch, and opens a pull request for it with `gh`.

Git contacts the remote through our own git directory: of the repository's configuration only the address counts, and
that is shown. Which credentials and which ssh are used is the user's own configuration alone. An address on this
machine is refused: the hooks of a repository there would run. `gh` runs outside of the repository, so that it asks
git nothing about it.
"""

import asyncio
import os
import re
import shlex
from collections.abc import Mapping

from msgspec import Struct

from ..ask_parts import Part
from ..errors import UsageError
from ..processes.spawn import find as find_program
from . import git_writes
from .git_actions import ChangeOutcome, OpenRepository, PlanChanged, open_repository, plan_of, upstream
from .safe_git import GitFailed, as_user

PUSH_S = 100.0
"""How long a push or `gh` may take."""
PROTOCOLS = "https:http:ssh:git"
MAX_COMMITS = 100
"""Commits that a plan names."""
MAX_TEXT = 64 * 1024
GH_VARIABLES = (
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "GH_HOST",
    "GH_CONFIG_DIR",
)

_URL = re.compile(r"(?:https?|ssh|git)://(?:[^\s/@\x00-\x1f]+@)?[A-Za-z0-9\[][^\s\x00-\x1f\x7f]*")
_SCP = re.compile(r"(?:[A-Za-z0-9][\w.-]*@)?[A-Za-z0-9][\w.-]*:(?!:|//)[^\s\x00-\x1f\x7f]+")
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^/@]*@")
_HOSTED = re.compile(
    r"(?:(?:https?|ssh)://(?:[^/@]+@)?(?P<host>[\w.-]+)(?::\d+)?/|(?:[\w.-]+@)?(?P<scp>[\w.-]+):/?)"
    r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:\.git)?/?"
)
_PULL = re.compile(r"https://[^\s\x00-\x1f]+")


class _Target(Struct, frozen=True):
    remote: str
    branch: str
    """The remote's."""
    url: str
    seen: str
    """The commit that the branch had there when it was last seen."""

    @property
    def shown(self) -> str:
        return _without_password(self.url)


async def push(cwd: str, env: Mapping[str, str], *, digest: str = "") -> ChangeOutcome:
    """The branch to its remote, never by force. Without a digest it only says what would happen. Raises UsageError,
    PlanChanged and GitFailed."""
    async with open_repository(cwd, env, keep=False, within_s=PUSH_S) as repository:
        own, git, head = repository.own, repository.git, repository.head
        target = await _target(repository)
        if target.seen == head:
            raise UsageError(f"{target.remote}/{target.branch} has all commits already", field="session")
        hidden = (f"^{target.seen}",) if target.seen else ()
        log = ("log", "--format=%h %s", f"-{MAX_COMMITS}", "--no-show-signature", head, *hidden)
        new = (await git.run(*log, codes=(0, 128))).decode(errors="replace").rstrip()
        refspec = f"{head}:refs/heads/{target.branch}"
        plan = plan_of(
            f"Push {own.branch} to {target.remote}",
            [
                Part("address", target.shown),
                Part("branch", f"{own.branch} → {target.branch}" if own.branch != target.branch else own.branch),
                Part("commits", new or head, "code"),
                Part("command", f"git push {shlex.quote(target.shown)} {refspec}", "code"),
            ],
            target.url,
            head,
        )
        if not digest:
            return ChangeOutcome(plan=plan)
        if digest != plan.digest:
            raise PlanChanged
        try:
            await git.run_as_user(
                "push", "--porcelain", "--no-follow-tags", "--no-recurse-submodules", "--no-verify", "target", refspec,
                user=env, env={"GIT_ALLOW_PROTOCOL": PROTOCOLS},
            )  # fmt: skip
        except GitFailed as error:
            hint = "If the remote has other commits, fetch and merge them in a terminal."
            raise GitFailed(_without_password(error.message), hint=hint) from None
        if target.seen or repository.settings.own.get(f"remote.{target.remote}.fetch"):
            ref = f"refs/remotes/{target.remote}/{target.branch}"
            await asyncio.to_thread(git_writes.write_ref, own, ref, None, head)
    return ChangeOutcome(done=f"pushed {own.branch} to {target.shown}", commit=head)


async def open_pull_request(
    cwd: str, env: Mapping[str, str], title: str, body: str, *, digest: str = ""
) -> ChangeOutcome:
    """Open a pull request with `gh` for the branch as it was pushed. Raises UsageError, PlanChanged and GitFailed."""
    title = title.strip()
    if not title or "\n" in title or "\0" in title + body or len(title) + len(body) > MAX_TEXT:
        raise UsageError("a pull request needs a title of one line", field="title")
    async with open_repository(cwd, env, keep=False, within_s=PUSH_S) as repository:
        own, git = repository.own, repository.git
        gh = find_program("gh", git.path)
        if not gh:
            hint = "Install it from https://cli.github.com and run `gh auth login` there."
            raise UsageError("gh is not installed on the session's machine", field="gh", hint=hint)
        target = await _target(repository)
        if target.seen != repository.head:
            raise UsageError(
                f"{own.branch} differs from its remote branch", field="session", hint="Push the branch first."
            )
        hosted = _HOSTED.fullmatch(target.url)
        if hosted is None:
            raise UsageError(f"{target.shown} is not the address of a hosted repository", field="session")
        where = f"{hosted['host'] or hosted['scp']}/{hosted['owner']}/{hosted['name']}"
        # `=`: a text that begins with a dash stays a text.
        arguments = ("pr", "create", f"--repo={where}", f"--head={target.branch}", f"--title={title}", f"--body={body}")
        plan = plan_of(
            f"Open a pull request at {where}",
            [
                Part("repository", where),
                Part("branch", f"{target.branch} at {repository.head}"),
                Part("title", title),
                *([Part("body", body)] if body else []),
                Part("command", "gh " + " ".join(map(shlex.quote, arguments)), "code"),
            ],
        )
        if not digest:
            return ChangeOutcome(plan=plan)
        if digest != plan.digest:
            raise PlanChanged
        own_env = {name: env[name] for name in GH_VARIABLES if name in env}
        quiet = {"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1", "GIT_TERMINAL_PROMPT": "0"}
        # Our directory is the only one that a git which `gh` starts can find.
        kept = {"PATH": git.path, "GIT_DIR": str(git.directory), "GIT_ALLOW_PROTOCOL": PROTOCOLS}
        printed = await git.program(
            [gh, *arguments], {**as_user(env), **own_env, **quiet, **kept}, name="gh", limit=MAX_TEXT
        )
    match = _PULL.search(printed.decode(errors="replace"))
    url = match[0] if match else ""
    return ChangeOutcome(done=f"opened {url}" if url else "opened a pull request", url=url)


async def _target(repository: OpenRepository) -> _Target:
    """Where the branch goes. Our git directory knows it as the remote `target`, so that the user's own rewriting of
    addresses is in what is shown. Raises UsageError."""
    own, git = repository.own, repository.git
    if not own.branch or not repository.head:
        raise UsageError("no branch with a commit is checked out", field="session")
    remote, branch, seen = upstream(repository)
    if not remote:
        raise UsageError("the repository has no remote", field="session", hint="Add one: `git remote add origin …`.")
    own = repository.settings.own
    given = own.get(f"remote.{remote}.pushurl") or own.get(f"remote.{remote}.url", "")
    _check(given)
    await git.run("config", "--file", str(git.directory / "config"), "remote.target.url", given)
    printed = await git.run_as_user("remote", "get-url", "--push", "target", user=repository.env)
    url = os.fsdecode(printed).strip()
    _check(url)
    return _Target(remote, branch, url, seen)


def _check(url: str) -> None:
    if not (_URL.fullmatch(url) or _SCP.fullmatch(url)):
        raise UsageError(
            f"Tieline does not push to {_without_password(url)!r}",
            field="session",
            hint="It pushes to https, http, ssh and git addresses; push to others in a terminal.",
        )


def _without_password(text: str) -> str:
    return _PASSWORD.sub(r"\1:…@", text)
