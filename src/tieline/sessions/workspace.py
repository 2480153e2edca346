"""What changed in a session's directory since it began, by git: staged, unstaged and untracked alike.

A snapshot is a tree object written through an index of its own; neither the user's index nor their files are touched.
"""

import asyncio
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ..errors import TielineError
from ..wire.process import Process

GIT_TIMEOUT_S = 60.0
MAX_DIFF = 16 * 1024 * 1024
"""A diff longer than this is cut, and says so."""


class GitFailed(TielineError):
    pass


async def snapshot(cwd: str, env: Mapping[str, str]) -> str:
    """The directory's state as a git tree id; empty when it is not in a git work tree."""
    if not _may_be_git(cwd, env):
        return ""
    try:
        await _git(cwd, env, "rev-parse", "--is-inside-work-tree")
    except (GitFailed, OSError):
        return ""
    with tempfile.TemporaryDirectory(prefix="tieline-index-") as scratch:
        own = {**env, "GIT_INDEX_FILE": str(Path(scratch, "index"))}
        with suppress(GitFailed):  # no commit yet: an empty index is the right start
            await _git(cwd, own, "read-tree", "HEAD")
        await _git(cwd, own, "add", "--all", "--", ":/")
        return (await _git(cwd, own, "write-tree")).strip()


async def changes(cwd: str, env: Mapping[str, str], since: str) -> str:
    """A unified diff from a snapshot to now."""
    now = await snapshot(cwd, env)
    if not since or not now:
        raise GitFailed(f"{cwd} is not in a git repository", hint="Run `git init` there to have diffs.")
    diff = await _git(cwd, env, "diff", "--no-color", "--no-ext-diff", "--find-renames", since, now)
    if len(diff) > MAX_DIFF:
        return diff[:MAX_DIFF] + f"\n… cut: the whole diff has {len(diff)} characters\n"
    return diff


async def branch(cwd: str, env: Mapping[str, str]) -> str:
    """The checked-out branch; empty when there is none."""
    if not _may_be_git(cwd, env):
        return ""
    try:
        return (await _git(cwd, env, "symbolic-ref", "--short", "-q", "HEAD")).strip()
    except (GitFailed, OSError):
        return ""


def _may_be_git(cwd: str, env: Mapping[str, str]) -> bool:
    """Whether it is worth asking git: a thousand sessions in plain directories start no thousand processes."""
    place = Path(cwd)
    return "GIT_DIR" in env or any((parent / ".git").exists() for parent in (place, *place.parents))


async def _git(cwd: str, env: Mapping[str, str], *arguments: str) -> str:
    # No prompts, no locks taken for refreshing, no user hooks: this must never disturb or block.
    own = {**env, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    output: list[bytes] = []
    process = Process.start(["git", "-c", "core.fsmonitor=false", *arguments], cwd=cwd, env=own)
    try:
        async with asyncio.timeout(GIT_TIMEOUT_S), process:
            process.close_stdin()
            async for batch in process.lines():
                output += batch
            await process.wait(GIT_TIMEOUT_S)
    except TimeoutError:
        raise GitFailed(f"git {arguments[0]} took longer than {GIT_TIMEOUT_S:g} s in {cwd}") from None
    if process.returncode:
        raise GitFailed(f"git {arguments[0]} failed in {cwd}: {process.stderr.strip()}")
    return os.fsdecode(b"\n".join(output)) + ("\n" if output else "")
