"""What a person does with a session's changes: stage, commit, revert a file, discard all.

Nothing that the repository names is run: no hook, filter, monitor or signing program (see `safe_git`). What git
converts by itself (line endings, encodings) it converts. What is thrown away is first kept under a reference, as a
commit. A file that a filter converts is left to a terminal: without the filter it would be stored wrongly.

What cannot be undone by itself has two steps: a plan, with everything that will happen and a digest of it, and the
same again with that digest, which is refused when anything has changed meanwhile.
"""

import asyncio
import hashlib
import os
import re
import shlex
import shutil
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ..ask_parts import Part
from ..errors import UsageError
from ..processes.spawn import find as find_program
from ..safe_file_read import read_regular
from . import git_repository, git_writes
from .git_config import NOBODY, TELL_GIT, TIELINE, GitConfig, Identity, read_settings
from .git_repository import Repository
from .safe_git import HUGE, Git, GitFailed, copy_index, opened
from .workspace_diff import MAX_DIFF, beyond_link, store_of

FileStatus = Literal["added", "modified", "deleted", "untracked", "conflict"]
MAX_FILES = 2000
"""Changed files that are listed."""
MAX_CONFIG = 1024 * 1024
MAX_MESSAGE = 64 * 1024
MAX_SHOWN = 96 * 1024
"""Bytes of a diff in a plan; a plan crosses a link as one record."""
MAX_NAMED = 500
"""Files that a plan names."""
KEPT = "refs/tieline/discarded"
CONVERSIONS = b"* !filter !diff !merge\n"
"""Without the attributes that lead to a program. Those that git itself carries out stay."""
SETTINGS = ("core.autocrlf", "core.eol", "core.filemode", "core.symlinks", "core.ignorecase", "core.precomposeunicode")
"""What of a repository's configuration decides how its files are stored."""
_PLAIN = re.compile(r"[a-z]{1,10}")
_STATES: Mapping[str, FileStatus] = {"A": "added", "D": "deleted", "U": "conflict"}
_HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")


class ChangedFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that differs from the last commit."""

    path: str
    staged: FileStatus | None = None
    unstaged: FileStatus | None = None
    nested: bool = False  # a repository of its own: nothing is done with it


class WorkingTree(Struct, frozen=True, kw_only=True):
    """A session's repository, as far as it is not committed or pushed."""

    top: str = ""  # the folder whose files it keeps; empty: the session is in no repository
    branch: str = ""
    commit: str = ""
    author: str = ""  # who would commit; empty: git does not know
    remote: str = ""
    upstream: str = ""  # the remote's branch, such as origin/main
    ahead: int | None = None  # commits that the remote's branch did not have when it was last seen; None: never seen
    behind: int | None = None
    unfinished: str = ""  # what git is in the middle of, such as MERGE_HEAD
    skipped: tuple[str, ...] = ()  # what a commit in a terminal would also do: hooks, signing
    gh: bool = False  # whether pull requests can be opened from there
    files: tuple[ChangedFile, ...] = ()
    whole: bool = True  # otherwise there are more files


class ChangePlan(Struct, frozen=True, kw_only=True):
    """Everything that will happen, as people see it, and a digest of it."""

    title: str
    parts: tuple[Part, ...]
    digest: str


class ChangeOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was done; or, when it needs a confirmation, what would be."""

    done: str = ""
    plan: ChangePlan | None = None
    restore: str = ""  # the command that brings back what was thrown away
    url: str = ""  # of a pull request
    commit: str = ""


class PlanChanged(UsageError):
    """What would happen is not what was confirmed."""

    def __init__(self) -> None:
        super().__init__(
            "something has changed since this was shown; nothing was done",
            field="digest",
            hint="Look at what would happen now, then confirm that.",
        )


class Listing(Struct):
    staged: dict[bytes, FileStatus]
    unstaged: dict[bytes, FileStatus]

    @property
    def names(self) -> list[bytes]:
        """Those that something can be done with."""
        return sorted(name for name in {*self.staged, *self.unstaged} if not name.endswith(b"/"))


class OpenRepository(Struct):
    """A repository with a git directory of ours for it; its index is a copy of the user's own."""

    own: Repository
    git: Git
    index: bytes | None  # the user's own, as it was
    settings: GitConfig
    env: Mapping[str, str]
    head: str
    base: str  # the tree of the last commit, or an empty one
    attributes: bytes = b""  # those that are not in the tree

    def convert(self, but: bytes) -> None:
        """Git goes by the attributes from outside of the tree and those in it; `but` outranks them."""
        (self.git.directory / "info" / "attributes").write_bytes(self.attributes + b"\n" + but)

    @property
    def author(self) -> Identity | None:
        return self.settings.identity(self.env)

    def settled(self) -> None:
        """Raises UsageError while git is in the middle of something."""
        if self.own.unfinished:
            hint = "Finish or abort it in a terminal first."
            raise UsageError(f"a git operation is in progress there ({self.own.unfinished})", hint=hint)


@asynccontextmanager
async def open_repository(
    cwd: str, env: Mapping[str, str], *, keep: bool, within_s: float | None = None
) -> AsyncGenerator[OpenRepository]:
    """Open the repository for a block. With `keep`, new objects go to the repository; else they are deleted at the end
    of the block. Raises GitFailed."""
    own = await asyncio.to_thread(git_repository.find, cwd)
    if own is None:
        raise GitFailed(f"{cwd} is not in a git repository", hint="Run `git init` there.")
    objects = Path(own.common_dir, "objects")
    async with opened(
        own, env, store=store_of(own, env), keep=keep, objects=objects if keep else None, within_s=within_s
    ) as git:
        settings = await read_settings(git, own, env)
        if settings.own.get("extensions.refstorage", "files") != "files":
            raise GitFailed(f"{own.top} keeps its branches in a reftable, which Tieline does not write")
        index = await asyncio.to_thread(git_writes.read_index, own)
        if await asyncio.to_thread(copy_index, own, git.directory):
            (git.directory / "theirs").replace(git.index)
        head = own.commit
        tree = f"{head}^{{tree}}"
        base = await git.run("rev-parse", tree) if head else await git.run("mktree")
        repository = OpenRepository(own, git, index, settings, env, head, os.fsdecode(base).strip())
        with (git.directory / "config").open("a") as file:
            for name in SETTINGS:
                if _PLAIN.fullmatch(value := repository.settings.get(name).lower()):
                    file.write(f"[core]\n\t{name.removeprefix('core.')} = {value}\n")
        repository.attributes = await asyncio.to_thread(_outer_attributes, repository)
        repository.convert(CONVERSIONS)
        yield repository


async def working_tree(cwd: str, env: Mapping[str, str]) -> WorkingTree:
    """Empty when it is in no repository. Raises GitFailed."""
    if await asyncio.to_thread(git_repository.find, cwd) is None:
        return WorkingTree()
    async with open_repository(cwd, env, keep=False) as repository:
        own, git = repository.own, repository.git
        listing = await list_changes(repository)
        names = sorted({*listing.staged, *listing.unstaged})
        remote, branch, seen = upstream(repository)
        ahead = behind = None
        if seen and repository.head:
            counted = await git.run(
                "rev-list", "--left-right", "--count", f"{repository.head}...{seen}", codes=(0, 128)
            )
            if numbers := counted.split():
                ahead, behind = (int(number) for number in numbers)
        author = repository.author
        return WorkingTree(
            top=own.top,
            branch=own.branch,
            commit=repository.head,
            author=f"{author.name} <{author.email}>" if author else "",
            remote=remote,
            upstream=f"{remote}/{branch}" if seen else "",
            ahead=ahead,
            behind=behind,
            unfinished=own.unfinished,
            skipped=_skipped(repository),
            gh=bool(find_program("gh", git.path)),
            files=tuple(_file(listing, name) for name in names[:MAX_FILES]),
            whole=len(names) <= MAX_FILES,
        )


async def uncommitted(cwd: str, env: Mapping[str, str]) -> str:
    """A unified diff from the last commit to the files as they are. Raises GitFailed."""
    async with open_repository(cwd, env, keep=False) as repository:
        names = (await list_changes(repository)).names
        index = await _add(repository, names, shown=True)
        diff = await _diff(repository, index, limit=MAX_DIFF)
        cut = f"\n… cut: the diff is longer than {MAX_DIFF:,} bytes\n" if len(diff) > MAX_DIFF else ""
        return diff[:MAX_DIFF].decode(errors="replace") + cut


async def stage(cwd: str, env: Mapping[str, str], paths: Sequence[str], *, staged: bool = True) -> ChangeOutcome:
    """Raises UsageError for a path that has not changed, and GitFailed."""
    async with open_repository(cwd, env, keep=True) as repository:
        git, listing = repository.git, await list_changes(repository)
        names = _chosen(paths, listing.unstaged if staged else listing.staged)
        if staged:
            await _refuse_filtered(repository, names)
            await _update_index(repository, names)
        else:
            await _reset(repository, names)
        await git.run("update-index", "-q", "--refresh", "--ignore-submodules", codes=(0, 1))
        await _write_index(repository)
    what = "a file" if len(names) == 1 else f"{len(names)} files"
    return ChangeOutcome(done=f"{'staged' if staged else 'unstaged'} {what}")


async def commit(cwd: str, env: Mapping[str, str], message: str) -> ChangeOutcome:
    """What is staged, as the user. Raises UsageError and GitFailed."""
    text = message.strip()
    if not text or "\0" in text or len(text.encode()) > MAX_MESSAGE:
        raise UsageError("a commit needs a message", field="message", hint="Say in a line what it changes.")
    async with open_repository(cwd, env, keep=True) as repository:
        own, git, head = repository.own, repository.git, repository.head
        repository.settled()
        if not own.branch:
            raise UsageError("no branch is checked out", field="session", hint="Make one there: `git switch -c NAME`.")
        if (author := repository.author) is None:
            raise UsageError(NOBODY, field="author", hint=TELL_GIT)
        written = await _write_tree(repository)
        if written == repository.base:
            raise UsageError("nothing is staged", field="paths", hint="Choose the files of the commit first.")
        as_user = author.env() | ({"TZ": env["TZ"]} if "TZ" in env else {})
        parents = ("-p", head) if head else ()
        made = await git.run("commit-tree", written, *parents, "-F", "-", feed=f"{text}\n".encode(), env=as_user)
        new = os.fsdecode(made).strip()
        line = text.partition("\n")[0]
        by = await git.run("log", "-1", "--format=%cn <%ce> %cd", "--date=raw", "--no-show-signature", new)
        log = f"{head or git.no_object} {new} {by.decode(errors='replace').strip()}\tcommit: {line}\n"
        await asyncio.to_thread(git_writes.write_ref, own, f"refs/heads/{own.branch}", head, new)
        await asyncio.to_thread(git_writes.append_reflogs, own, own.branch, log)
    return ChangeOutcome(done=f"committed {new[:10]} on {own.branch}: {line}", commit=new)


async def revert(cwd: str, env: Mapping[str, str], paths: Sequence[str], *, digest: str = "") -> ChangeOutcome:
    """Takes files back to the last commit; without paths all of them. Without a digest it only says what would happen.
    Raises UsageError, PlanChanged and GitFailed."""
    async with open_repository(cwd, env, keep=bool(digest)) as repository:
        repository.settled()
        if not repository.head:
            raise UsageError("there is no commit to go back to", field="session", hint="Commit something first.")
        listing = await list_changes(repository)
        names = _chosen(paths, {**listing.staged, **listing.unstaged}) if paths else listing.names
        if not names:
            raise UsageError("nothing has changed", field="paths")
        await _refuse_filtered(repository, names)
        before = await _write_tree(repository)
        everything = await _add(repository, names)
        now = await _write_tree(repository, everything)
        plan = await _revert_plan(repository, listing, names, before, now, everything, all=not paths)
        if not digest:
            return ChangeOutcome(plan=plan)
        if digest != plan.digest:
            raise PlanChanged
        ref = await _keep(repository, before, now)
        restore = f"git restore --source={ref} -- " + " ".join(shlex.quote(f":/{path}") for path in paths or ("",))
        try:
            await _take_back(repository, names)
        except (GitFailed, OSError) as error:
            raise GitFailed(f"{error}; what was there is kept as {ref}", hint=f"Get it back: {restore}") from None
    what = shlex.quote(paths[0]) if len(paths) == 1 else f"{len(names)} files"
    return ChangeOutcome(done=f"{what} as in the last commit; what was there is kept as {ref}", restore=restore)


# --- parts ---------------------------------------------------------------------------------------------------


async def list_changes(repository: OpenRepository) -> Listing:
    git = repository.git
    await git.run("update-index", "-q", "--refresh", "--ignore-submodules", codes=(0, 1))
    options = ("--name-status", "-z", "--no-renames", "--ignore-submodules=all")
    staged, unstaged, others = await asyncio.gather(
        git.run("diff-index", "--cached", *options, repository.base),
        git.run("diff-files", *options),
        git.run("ls-files", "-z", "-o", "--exclude-standard"),
    )
    listing = Listing(_by_name(staged), _by_name(unstaged))
    for name in others.split(b"\0"):
        if name:
            listing.unstaged[name] = "untracked"
    return listing


def upstream(repository: OpenRepository) -> tuple[str, str, str]:
    """The remote and its branch that this one belongs to, and the commit that it had when it was last seen."""
    branch, config = repository.own.branch, repository.settings.own
    if not branch:
        return "", "", ""
    remotes = sorted({name.split(".", 1)[1].rpartition(".")[0] for name in config if _REMOTE_URL.fullmatch(name)})
    remote = config.get(f"branch.{branch}.remote", "")
    if remote not in remotes:
        remote = "origin" if "origin" in remotes else remotes[0] if len(remotes) == 1 else ""
    merge = config.get(f"branch.{branch}.merge", "")
    there = merge.removeprefix("refs/heads/") if merge.startswith("refs/heads/") else branch
    return (remote, there, repository.own.tracked(remote, there)) if remote else ("", "", "")


_REMOTE_URL = re.compile(r"remote\..+\.(?:push)?url", re.DOTALL)


def plan_of(title: str, parts: Iterable[Part], *facts: str) -> ChangePlan:
    """The digest is of the parts and of these facts."""
    shown = tuple(parts)
    hashed = hashlib.sha256(title.encode(errors="surrogateescape"))
    for text in (*(text for part in shown for text in (part.label, part.text)), *facts):
        content = text.encode(errors="surrogateescape")
        hashed.update(b"%d\0%b" % (len(content), content))
    return ChangePlan(title=title, parts=shown, digest=hashed.hexdigest()[:32])


async def _revert_plan(
    repository: OpenRepository, listing: Listing, names: list[bytes], before: str, now: str, index: Path, *, all: bool
) -> ChangePlan:
    states = [f"{_text(name)} ({_word(listing, name)})" for name in names[:MAX_NAMED]]
    if len(names) > MAX_NAMED:
        states.append(f"… and {len(names) - MAX_NAMED:,} more files")
    diff = await _diff(repository, index, limit=MAX_SHOWN, base=repository.base if all else "", names=names)
    title = f"Discard all changes in {repository.own.top}" if all else f"Take {len(names)} changed files back"
    if not all and len(names) == 1:
        title = f"Take {_text(names[0])} back to the last commit"
    parts = [
        Part("file" if len(names) == 1 else "files", "\n".join(states)),
        Part("last commit", repository.head),
        Part("change that is thrown away", diff[:MAX_SHOWN].decode(errors="replace"), "diff"),
    ]
    if len(diff) > MAX_SHOWN:
        parts.append(Part("cut", f"the change is longer than {MAX_SHOWN:,} bytes; look at it in the list of changes"))
    parts.append(Part("kept first", f"all of it, as a commit under {KEPT}/"))
    return plan_of(title, parts, before, now)


async def _keep(repository: OpenRepository, before: str, now: str) -> str:
    """A commit of the files as they are, and of what is staged where that is something else; the reference to it."""
    git, head = repository.git, repository.head
    parents = ["-p", head]
    if before not in (repository.base, now):
        made = await git.run("commit-tree", before, "-p", head, "-m", "What was staged", env=TIELINE.env())
        parents += ["-p", os.fsdecode(made).strip()]
    message = "What was there before Tieline took it back"
    kept = os.fsdecode(await git.run("commit-tree", now, *parents, "-m", message, env=TIELINE.env())).strip()
    ref = f"{KEPT}/{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{kept[:10]}"
    await asyncio.to_thread(git_writes.write_ref, repository.own, ref, None, kept)
    return ref


async def _take_back(repository: OpenRepository, names: list[bytes]) -> None:
    git = repository.git
    there = await _reset(repository, names)
    for name in names:
        if name not in there:
            await asyncio.to_thread(git_writes.remove_file, repository.own.top, name)
    files = [name for name in names if there.get(name, b"").startswith((b"100", b"120"))]
    if files:
        await git.run("checkout-index", "--force", "-u", "-z", "--stdin", feed=_lines(files))
    await _write_index(repository)


async def _reset(repository: OpenRepository, names: list[bytes]) -> dict[bytes, bytes]:
    """In our copy of the index these are as in the last commit. Returns those that it has, with their modes and ids."""
    wanted, there = set(names), dict[bytes, bytes]()
    for entry in (await repository.git.run("ls-tree", "-r", "-z", repository.base)).split(b"\0"):
        about, _, name = entry.partition(b"\t")
        if name in wanted:
            mode, _, id = about.split(b" ")
            there[name] = mode + b" " + id
    gone = [name for name in names if name not in there]
    nothing = b"0 " + repository.git.no_object.encode()
    feed = b"".join(b"%b\t%b\0" % (there.get(name, nothing), name) for name in (*gone, *there))
    # Each is first taken out: a file that became a folder must not stand beside itself.
    feed = b"".join(b"%b\t%b\0" % (nothing, name) for name in names) + feed
    await repository.git.run("update-index", "-z", "--index-info", feed=feed)
    return there


async def _add(repository: OpenRepository, names: list[bytes], *, shown: bool = False) -> Path:
    """An index with these files as they are. `shown`: huge ones are a line about them, as in other diffs."""
    git = repository.git
    index = git.directory / "everything"
    if git.index.exists():
        shutil.copy2(git.index, index)  # with its time, which counts
    huge = [name for name in names if shown and _size(repository.own.top, name) > HUGE]
    files = [name for name in names if name not in huge]
    await _update_index(repository, files, index)
    if huge:
        line = git.keep_text(f"(a file of more than {HUGE:,} bytes: too large to be shown)\n").encode()
        feed = b"".join(b"100644 %b\t%b\0" % (line, name) for name in huge)
        await git.run("update-index", "--add", "--replace", "-z", "--index-info", feed=feed, index=index)
    return index


async def _update_index(repository: OpenRepository, names: list[bytes], index: Path | None = None) -> None:
    """Takes these files into it as they are. One beyond a link is not in this tree any more."""
    git, base, links = repository.git, os.fsencode(repository.own.top) + b"/", dict[bytes, bool]()
    gone = [name for name in names if beyond_link(base, name, links)]
    if gone:
        feed = b"".join(b"0 %b\t%b\0" % (git.no_object.encode(), name) for name in gone)
        await git.run("update-index", "-z", "--index-info", feed=feed, index=index)
    feed = _lines(name for name in names if name not in gone)
    await git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", feed=feed, index=index)


async def _diff(
    repository: OpenRepository, index: Path, *, limit: int, base: str = "", names: Sequence[bytes] = ()
) -> bytes:
    options = ("-p", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--ignore-submodules=all")
    only = ("--", *map(os.fsdecode, names)) if names and not base else ()
    return await repository.git.run(
        "diff-index", "--cached", *options, base or repository.base, *only, index=index, limit=limit
    )


async def _refuse_filtered(repository: OpenRepository, names: list[bytes]) -> None:
    """Raises UsageError for files that a filter converts, such as those of Git LFS."""
    repository.convert(b"")
    output = await repository.git.run("check-attr", "-z", "--stdin", "filter", feed=_lines(names))
    repository.convert(CONVERSIONS)
    fields = output.split(b"\0")
    for name, value in zip(fields[0::3], fields[2::3], strict=False):
        if value not in (b"unspecified", b"unset"):
            raise UsageError(
                f"{_text(name)} is converted by the filter {_text(value)}, which Tieline does not run",
                field="paths",
                hint="Do this in a terminal.",
            )


async def _write_tree(repository: OpenRepository, index: Path | None = None) -> str:
    try:  # a partial clone goes without files that nobody looked at
        return os.fsdecode(await repository.git.run("write-tree", "--missing-ok", index=index)).strip()
    except GitFailed as error:
        if "unmerged" in error.message:
            raise UsageError("there are conflicts", field="paths", hint="Resolve them in a terminal first.") from None
        raise


async def _write_index(repository: OpenRepository) -> None:
    await asyncio.to_thread(git_writes.replace_index, repository.own, repository.index, repository.git.index)


def _outer_attributes(repository: OpenRepository) -> bytes:
    """The user's own, then the repository's, which count more."""
    home = repository.env.get("HOME", "")
    base = repository.env.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    users = repository.settings.get("core.attributesfile") or (f"{base}/git/attributes" if base else "")
    rules: list[bytes] = []
    for path in (re.sub(r"^~(?=/)", home, users), f"{repository.own.common_dir}/info/attributes"):
        with suppress(OSError, ValueError):
            rules.append(read_regular(path, MAX_CONFIG) if path.startswith("/") else b"")
    return b"\n".join(rules)


def _skipped(repository: OpenRepository) -> tuple[str, ...]:
    folder = f"{repository.own.common_dir}/hooks"
    hooks = repository.settings.get("core.hookspath") or any(os.access(f"{folder}/{name}", os.X_OK) for name in _HOOKS)
    signing = repository.settings.get("commit.gpgsign").lower() in ("true", "yes", "on", "1")
    return tuple(name for name, there in (("hooks", hooks), ("signing", signing)) if there)


def _chosen(paths: Sequence[str], changed: Mapping[bytes, FileStatus]) -> list[bytes]:
    names = sorted({os.fsencode(path) for path in paths})
    if not names:
        raise UsageError("no file is named", field="paths")
    for name in names:
        if name not in changed or name.endswith(b"/"):
            hint = "Look at the changes again."
            raise UsageError(f"no such change: {_text(name)}", field="paths", hint=hint)
    return names


def _file(listing: Listing, name: bytes) -> ChangedFile:
    return ChangedFile(
        path=_text(name),
        staged=listing.staged.get(name),
        unstaged=listing.unstaged.get(name),
        nested=name.endswith(b"/"),
    )


def _word(listing: Listing, name: bytes) -> str:
    states = (listing.staged.get(name), listing.unstaged.get(name))
    return ", ".join(dict.fromkeys(state for state in states if state))


def _by_name(listed: bytes) -> dict[bytes, FileStatus]:
    fields = listed.split(b"\0")
    pairs = zip(fields[0::2], fields[1::2], strict=False)
    files: dict[bytes, FileStatus] = {}
    for letter, name in pairs:
        if name and files.get(name) != "conflict":  # git lists a conflict twice
            files[name] = _STATES.get(letter[:1].decode(), "modified")
    return files


def _size(top: str, name: bytes) -> int:
    try:
        return os.lstat(os.fsencode(top) + b"/" + name).st_size
    except OSError:
        return 0


def _lines(names: Iterable[bytes]) -> bytes:
    return b"".join(name + b"\0" for name in names)


def _text(name: bytes) -> str:
    return name.decode(errors="replace")
