"""Lists directories to choose from: those in the home directory and those of sessions."""

import os
from collections.abc import Iterable
from pathlib import Path

from ..errors import UsageError
from ..protocol.views import DirectoryView

MOST_NAMES = 1000


def browse(path: str, *, home: str, also: Iterable[str] = ()) -> DirectoryView:
    """The directories inside one; empty is the home. Symbolic links count as what they point to, so that none leads
    out of what may be seen. Raises UsageError."""
    roots = [Path(root).resolve() for root in (home, *also) if root]
    if "\0" in path:
        raise UsageError("a path cannot contain null bytes", field="path")
    wanted = Path(os.path.normpath(Path(home, path))) if path else Path(home)
    directory = wanted.resolve()
    if not any(directory.is_relative_to(root) for root in roots):
        hint = "Only the home directory and the directories of sessions can be looked at. Type another one's path."
        raise UsageError(f"{path!r} cannot be read", field="path", hint=hint)
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries if entry.name[0] != "." and entry.is_dir())
    except OSError as error:
        raise UsageError(f"{path!r} cannot be read: {error.strerror}", field="path") from None
    parent = directory.parent
    shown = parent != directory and any(parent.is_relative_to(root) for root in roots)
    return DirectoryView(
        path=str(directory),
        parent=str(parent) if shown else "",
        names=tuple(names[:MOST_NAMES]),
        whole=len(names) <= MOST_NAMES,
    )
