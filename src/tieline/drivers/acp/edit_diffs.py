"""The changes that an ACP agent asks about, placed in their files as they are now. Some tell whole texts."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from ...events import Edit
from ..current_file import LOOK_S, NOT_FOUND, Drawn, Unreadable, file_text
from ..unified_diff import replaced, unified
from .tools import Change


async def looked_at(edit: Edit, changes: Sequence[Change], cwd: str) -> Drawn:
    try:
        async with asyncio.timeout(LOOK_S):
            diff, notes, withheld = await asyncio.to_thread(_placed, changes, cwd)
    except TimeoutError:
        return Drawn(edit, withheld=f"The files as they are now: they did not answer within {LOOK_S:g} s.")
    return Drawn(replace(edit, diff=diff), notes, withheld)


def _placed(changes: Sequence[Change], cwd: str) -> tuple[str, str, str]:
    parts: list[str] = []
    notes: list[str] = []
    withheld = ""
    for path, old, new in changes:
        name = path.removeprefix(f"{cwd}/")
        try:
            text = file_text(path, cwd)
        except Unreadable as error:
            parts.append(unified(name, old, new))
            notes.append(f"{name}: {error}.")
            if not old:
                withheld = f"What is in {name} now, and would be gone: {error}."
            continue
        if text is None or text == old:
            parts.append(unified(name, old or None, new))
        elif not old:
            parts.append(unified(name, text, new))
        elif diff := replaced(name, text, old, new):
            parts.append(diff)
        else:
            parts.append(unified(name, old, new, heading=NOT_FOUND))
            notes.append(f"{name} has changed since, or never had this text: the lines are not placed.")
    return "".join(parts), " ".join(notes), withheld
