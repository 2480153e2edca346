"""A file as it is now, for an ask about a change of it: bounded, and nothing but regular files is ever opened for it.

The path comes from an agent. So a pipe or a device must not hold us, a huge file must not fill us, and a link must be
told: what changes is the file that it leads to.
"""

import asyncio
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..events import Ask, Edit

MAX_BYTES = 2 * 1024 * 1024
READ_TIMEOUT_S = 5.0
"""A file that does not answer (a mount that hangs) must not hold the ask."""
NOT_FOUND_HEADING = "not placed: this text is not in the file as it is now"


class EditPreview(Struct, frozen=True):
    """A change in its file, what has to be said about it, and what of it cannot be shown."""

    edit: Edit
    note: str = ""
    withheld: str = ""


class Unreadable(Exception):
    """There is something, and it cannot be shown. Its text says why, in words for a person."""


def read_text(path: str, cwd: str = "") -> str | None:
    """The text of the file. None: there is no such file. Raises Unreadable."""
    file = Path(cwd, path)
    try:
        _check(file.stat())  # before it is opened: opening a device can already have an effect
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            _check(os.fstat(descriptor))
            content = _read(descriptor)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise Unreadable(f"it cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if len(content) > MAX_BYTES:
        raise Unreadable("it is too large to be shown")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Unreadable(f"it is not text ({len(content):,} bytes)") from None


def _read(descriptor: int) -> bytes:
    """All of it, and a little more than permitted at the most: it may grow, or say nothing of its size."""
    parts: list[bytes] = []
    left = MAX_BYTES + 1
    while left > 0 and (part := os.read(descriptor, min(left, 65536))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _check(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Unreadable("it is not a regular file")
    if status.st_size > MAX_BYTES:
        raise Unreadable(f"it is too large to be shown ({status.st_size:,} bytes)")


def link_target(path: str, cwd: str) -> str:
    """The file that a path really leads to, where a link makes it another one; else empty."""
    lexical = os.path.normpath(Path(cwd, path))
    home = os.path.normpath(cwd)
    if lexical == home or lexical.startswith(home.rstrip("/") + "/"):  # the way to the directory itself is known
        expected = str(Path(os.path.realpath(home), os.path.relpath(lexical, home)))
    else:
        expected = lexical
    real = os.path.realpath(Path(cwd, path))
    return "" if real == os.path.normpath(expected) else real


async def note_links(ask: Ask, cwd: str) -> Ask:
    """The ask, which says where the files that it names really are."""
    if not isinstance(ask.action, Edit):
        return ask
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            notes = await asyncio.to_thread(_describe_links, ask.action.paths, cwd)
    except TimeoutError:
        notes = f"Whether a link leads elsewhere is not known: the files did not answer within {READ_TIMEOUT_S:g} s."
    return replace(ask, reason=" ".join(filter(None, (ask.reason, notes)))) if notes else ask


def _describe_links(paths: Iterable[str], cwd: str) -> str:
    links = ((path, link_target(path, cwd)) for path in paths if "\0" not in path)
    return " ".join(f"{path} is a link: what changes is {target}." for path, target in links if target)
