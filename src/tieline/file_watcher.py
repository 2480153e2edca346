"""Watches files for changes, also files that do not exist yet. The caller finds out what changed."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path
from typing import Any

from .background_tasks import cancel_and_wait

DEBOUNCE_MS = 100
"""Changes within this time count as one: an editor writes, renames and touches."""
RETRY_S = 5.0
"""Pause after the system refused to watch: no rights, or too many watches."""

Signature = dict[Path, tuple[int, int, int] | None]


async def watch(files: Callable[[], Iterable[Path]]) -> AsyncGenerator[None, None]:
    """Yields once at first, then whenever one of the files may have changed, appeared or vanished."""
    import watchfiles

    library: Any = watchfiles  # one of its types is unknown to us
    seen: Signature | None = None
    while True:
        folders = {_existing_folder(file) for file in files()}
        stop = asyncio.Event()
        # Folders, not the files: an editor puts another file in the place of the old one.
        watching: AsyncGenerator[set[Any], None] = library.awatch(
            *folders, watch_filter=None, recursive=False, debounce=DEBOUNCE_MS, stop_event=stop
        )
        step: asyncio.Future[set[Any] | None] | None = None
        try:
            while True:
                step = asyncio.ensure_future(_next(watching))
                await asyncio.sleep(0)  # now it watches; what changed before is seen by the look below
                if (now := _signature(files())) != seen:
                    seen = now
                    yield
                if await step is None or {_existing_folder(file) for file in files()} != folders:
                    break
        except (OSError, RuntimeError):
            await asyncio.sleep(RETRY_S)
        finally:
            stop.set()
            if step is not None:
                await cancel_and_wait(step)
            await watching.aclose()


async def _next(watching: AsyncGenerator[set[Any], None]) -> set[Any] | None:
    return await anext(watching, None)


def _signature(files: Iterable[Path]) -> Signature:
    signature: Signature = {}
    for file in files:
        try:
            about = file.stat()
            signature[file] = (about.st_mtime_ns, about.st_size, about.st_ino)
        except OSError:
            signature[file] = None
    return signature


def _existing_folder(file: Path) -> Path:
    """The folder of the file, or the nearest existing one above."""
    folder = file.absolute().parent
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder
