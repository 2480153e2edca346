"""Git, used so that a repository runs nothing: through a git directory that is made here for one use.

Configuration, attributes, hooks and references are ours; of the repository git sees the files, its ignore rules and,
as data, its objects. The attributes of our directory outrank those in the tree, so no filter, conversion or driver is
ever looked up; and there is no configuration that could name a program.
"""

import asyncio
import hashlib
import os
import shutil
import tempfile
import zlib
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from .. import paths
from ..errors import TielineError
from ..processes.async_process import Process
from ..processes.spawn import find
from ..safe_file_read import read_regular
from .git_repository import Repository

GIT_TIMEOUT_S = 60.0
HUGE = 8 * 1024 * 1024
"""Files of more bytes are not read; a line about them stands in their place."""
MAX_INDEX = 512 * 1024 * 1024
MAX_IGNORE = 1024 * 1024
MAX_SHARED = 8
MAX_OUTPUT = 256 * 1024 * 1024
SLICE = 64 * 1024
USER_VARIABLES = (
    "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GIT_SSH", "GIT_SSH_COMMAND",
    "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_SSL_CAINFO", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
)  # fmt: skip
"""What a program needs to act as the user: their configuration, their keys, their way to the network."""

# `!name` is "not specified", and outranks whatever a .gitattributes in the tree says.
ATTRIBUTES = "* !filter !text !eol !crlf !ident !working-tree-encoding !diff !merge !whitespace !delta !encoding\n"
CONFIG = f"""\
[core]
\trepositoryformatversion = 1
\tbare = false
\thooksPath = /dev/null
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\tfsmonitor = false
\tsplitIndex = false
\tautocrlf = false
\tpager = cat
\tbigFileThreshold = {HUGE}
\tcompression = 1
[extensions]
\tobjectFormat = %s
[protocol]
\tallow = never
[gc]
\tauto = 0
[maintenance]
\tauto = false
[submodule]
\trecurse = false
"""


class GitFailed(TielineError):
    pass


class Git:
    """Our git directory for one repository. Made by `opened`."""

    def __init__(self, repository: Repository, directory: Path, env: Mapping[str, str], objects: Path | None) -> None:
        self._top = repository.top
        self._format = repository.object_format
        self._objects = objects or directory / "objects"
        self.algorithm = self._format  # of its objects' ids, as hashlib names it
        self.no_object = "0" * (64 if self._format == "sha256" else 40)
        self.directory = directory
        self.index = directory / "index"
        self.path = _path(env.get("PATH", ""), repository)
        self._program = find("git", self.path)
        self._env = {
            "PATH": self.path,
            "LC_ALL": "C",
            "GIT_DIR": str(directory),
            "GIT_WORK_TREE": repository.top,
            "GIT_OBJECT_DIRECTORY": str(self._objects),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_LITERAL_PATHSPECS": "1",
        }

    def set_up(self, repository: Repository, env: Mapping[str, str], borrowed: Iterable[Path]) -> None:
        """Writes what git needs to take `place` for a repository."""
        for folder in ("objects", "refs", "info"):
            (self.directory / folder).mkdir()
        (self.directory / "HEAD").write_text("ref: refs/heads/none\n")
        (self.directory / "config").write_text(CONFIG % self._format)
        (self.directory / "info" / "attributes").write_text(ATTRIBUTES)
        (self.directory / "info" / "exclude").write_bytes(_ignored(repository, env) + _state(repository, env))
        self._objects.mkdir(parents=True, exist_ok=True, mode=0o700)
        others = [*map(str, borrowed), f"{repository.common_dir}/objects"]
        self._env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = ":".join(map(_quoted, others))

    async def run(
        self,
        *arguments: str,
        index: Path | None = None,
        feed: bytes = b"",
        limit: int = MAX_OUTPUT,
        env: Mapping[str, str] | None = None,
        codes: tuple[int, ...] = (0,),
    ) -> bytes:
        """What it printed; more than `limit` is cut off, and the command with it. Raises GitFailed, unless it ended
        with one of these codes."""
        env = {**self._env, **(env or {}), "GIT_INDEX_FILE": str(index or self.index)}
        return await self.program(
            [self._program, *arguments], env, cwd=self._top, feed=feed, limit=limit, codes=codes, name="git"
        )

    async def run_as_user(
        self,
        *arguments: str,
        user: Mapping[str, str],
        env: Mapping[str, str] | None = None,
        codes: tuple[int, ...] = (0,),
    ) -> bytes:
        """With the user's own configuration and keys, outside of the work tree. The configuration of our directory
        still counts more, and of the repository's there is nothing. Raises GitFailed."""
        own = {name: value for name, value in self._env.items() if not name.startswith("GIT_CONFIG_")}
        return await self.program(
            [self._program, *arguments], {**own, **as_user(user), **(env or {})}, codes=codes, name="git"
        )

    async def program(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        cwd: str = "",
        feed: bytes = b"",
        limit: int = MAX_OUTPUT,
        codes: tuple[int, ...] = (0,),
        name: str = "",
    ) -> bytes:
        """What a program printed; it runs in our directory unless told otherwise. Raises GitFailed."""
        output = bytearray()
        name = f"{name or argv[0]} {argv[1]}"
        try:
            async with Process.start(argv, cwd=cwd or str(self.directory), env=env) as process:
                with suppress(ConnectionError):  # it ended early: its exit status says why
                    for start in range(0, len(feed), SLICE):
                        await process.write(feed[start : start + SLICE])
                process.close_stdin()
                async for chunk in process.chunks():
                    output += chunk
                    if len(output) > limit:
                        process.kill()
                        return bytes(output[: limit + 1])
                await process.wait(GIT_TIMEOUT_S)
        except OSError as error:
            raise GitFailed(f"{name} did not run in {self._top}: {error}") from None
        if process.returncode not in codes:
            raise GitFailed(f"{name} failed in {self._top}: {process.stderr.strip()}")
        return bytes(output)

    def keep_text(self, text: str) -> str:
        """Write a text as a blob and give its id. It writes git's file format itself, which is cheaper than a
        process."""
        content = text.encode()
        whole = b"blob %d\0%b" % (len(content), content)
        id = hashlib.new(self._format, whole, usedforsecurity=False).hexdigest()
        path = self._objects / id[:2] / id[2:]
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            draft = self.directory / f"blob-{id}"
            draft.write_bytes(zlib.compress(whole))
            draft.replace(path)
        return id


@asynccontextmanager
async def opened(
    repository: Repository,
    env: Mapping[str, str],
    *,
    store: Path,
    keep: bool,
    objects: Path | None = None,
    within_s: float | None = None,
) -> AsyncGenerator[Git, None]:
    """A git directory of our own for this block, which is limited in time. With `keep`, new objects go to `objects`, or
    to the store; else they are deleted at the end of the block. Raises GitFailed."""
    kept = objects or store / "objects"
    within_s = within_s or GIT_TIMEOUT_S
    if not find("git", _path(env.get("PATH", ""), repository)):
        raise GitFailed("git is not installed", hint="Install git to have diffs.")
    try:
        store.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Beside the store: the index moves between them by its name alone.
        directory = Path(tempfile.mkdtemp(prefix="git-", dir=store))
    except OSError as error:
        raise GitFailed(f"{store} cannot be written: {error.strerror}") from None
    try:
        async with asyncio.timeout(within_s):
            git = Git(repository, directory, env, kept if keep else None)
            git.set_up(repository, env, () if keep else (kept,))
            yield git
    except TimeoutError:
        raise GitFailed(f"git took longer than {within_s:g} s in {repository.top}") from None
    except OSError as error:
        raise GitFailed(f"{repository.top} cannot be read: {error}") from None
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def as_user(env: Mapping[str, str]) -> dict[str, str]:
    return {name: env[name] for name in USER_VARIABLES if name in env}


def copy_index(repository: Repository, directory: Path) -> bool:
    """Copy the user's own index, with the parts that a split index refers to. Gives whether there is an index."""
    try:
        # Keep the index's time: git reads every file that is not older than the index, even if its size and time match.
        written = os.stat(f"{repository.git_dir}/index").st_mtime_ns  # noqa: PTH116
        content = read_regular(f"{repository.git_dir}/index", MAX_INDEX)
        (directory / "theirs").write_bytes(content)
        os.utime(directory / "theirs", ns=(written, written))
        names = [name for name in os.listdir(repository.git_dir) if name.startswith("sharedindex.")]  # noqa: PTH208
        for name in sorted(names)[:MAX_SHARED]:
            (directory / name).write_bytes(read_regular(f"{repository.git_dir}/{name}", MAX_INDEX))
    except OSError:
        return False
    return True


def _ignored(repository: Repository, env: Mapping[str, str]) -> bytes:
    """Ignore rules from outside the tree: the user's own, then the repository's, which count more."""
    home = env.get("HOME", "")
    base = env.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    rules: list[bytes] = []
    for path in ([f"{base}/git/ignore"] if base else []) + [f"{repository.common_dir}/info/exclude"]:
        with suppress(OSError):
            rules.append(read_regular(path, MAX_IGNORE))
    return b"\n".join(rules)


def _state(repository: Repository, env: Mapping[str, str]) -> bytes:
    """A rule against our own state, where somebody keeps their home, or us, in a repository."""
    own, top = os.path.realpath(paths.state(env)), os.path.realpath(repository.top)
    inner = own.removeprefix(f"{top}/")
    return (
        b""
        if inner == own
        else b"\n/" + b"".join(b"\\%c" % c if c in b"\\*?[ " else b"%c" % c for c in os.fsencode(inner))
    )


def _path(path: str, repository: Repository) -> str:
    """The PATH without the folders that the repository could write to: `.`, and those in one of its work trees."""
    tops = {repository.top, *(checkout.top for checkout in repository.checkouts() if checkout.top)}
    inside = tuple(os.path.realpath(top) + "/" for top in tops)
    return ":".join(
        folder
        for folder in path.split(":")
        if folder.startswith("/") and not (os.path.realpath(folder) + "/").startswith(inside)
    )


def _quoted(path: str) -> str:
    """As git takes a path in a list that colons divide."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
