"""Diffs of the edits that an ACP agent asks about, against the current files."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from ...events import Edit
from ..current_file import NOT_FOUND_HEADING, READ_TIMEOUT_S, EditPreview, Unreadable, read_text
from ..unified_diff import replacement_diff, unified_diff
from .tools import TextChange


async def preview_edit(edit: Edit, changes: Sequence[TextChange], everywhere: Sequence[bool], cwd: str) -> EditPreview:
    """`everywhere`: which of the changes are made wherever their text is."""
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            diff, notes, withheld = await asyncio.to_thread(_diff_current, changes, everywhere, cwd)
    except TimeoutError:
        return EditPreview(
            edit, withheld=f"The files as they are now: they did not answer within {READ_TIMEOUT_S:g} s."
        )
    return EditPreview(replace(edit, diff=diff), notes, withheld)


def _diff_current(changes: Sequence[TextChange], everywhere: Sequence[bool], cwd: str) -> tuple[str, str, str]:
    parts: list[str] = []
    notes: list[str] = []
    withheld = ""
    for (path, old, new), all_of_it in zip(changes, everywhere, strict=True):
        name = path.removeprefix(f"{cwd}/")
        try:
            text = read_text(path, cwd)
        except Unreadable as error:
            parts.append(unified_diff(name, old, new))
            notes.append(f"{name}: {error}.")
            if not old:
                withheld = f"What is in {name} now, and would be gone: {error}."
            elif all_of_it:
                withheld = f"How many places of {name} it changes: {error}."
            continue
        if text is None or text == old:
            parts.append(unified_diff(name, old or None, new))
        elif not old:
            parts.append(unified_diff(name, text, new))
        elif diff := replacement_diff(name, text, old, new, everywhere=all_of_it):
            parts.append(diff)
        else:
            parts.append(unified_diff(name, old, new, heading=NOT_FOUND_HEADING))
            notes.append(f"{name} has changed since, or never had this text: the lines are not placed.")
    return "".join(parts), " ".join(notes), withheld
