"""What Claude Code's editing tools do to a file: as the call alone tells it, and against the file as it is now.

For its own driver and for the agents that bring it over ACP.
"""

import asyncio
from typing import Any, cast

import msgspec

from ..events import Edit
from ..wire.json_object import JsonObject
from .current_file import NOT_FOUND_HEADING, READ_TIMEOUT_S, EditPreview, Unreadable, read_text
from .unified_diff import replacement_diff, unchanged_hunk, unified_diff

EDIT_TOOLS = frozenset({"Write", "Edit", "NotebookEdit"})

SAME_HEADING = "the file has this very content already"
FRAGMENT_HEADING = "counted in the text that is replaced"
WHOLE_HEADING = "the file's whole content from now on"


def edit_without_file(name: str, given: JsonObject) -> Edit:
    """The change without a look at the file, which may have been made already. Raises KeyError."""
    if name == "NotebookEdit":
        path, heading = str(given["notebook_path"]), f"cell {given.get('cell_id') or ''}"
        return Edit((path,), unified_diff(path, "", str(given.get("new_source") or ""), heading=heading))
    path = str(given["file_path"])
    if name == "Write":
        return Edit((path,), unified_diff(path, "", str(given["content"]), heading=WHOLE_HEADING))
    return Edit((path,), _fragment(path, str(given["old_string"]), str(given["new_string"]), FRAGMENT_HEADING))


def _fragment(path: str, old: str, new: str, heading: str) -> str:
    """Two parts of a text, whose last lines go on in the file: they do not lack their newline."""
    if not old.endswith("\n") and not new.endswith("\n"):
        old, new = f"{old}\n" if old else "", f"{new}\n" if new else ""
    return unified_diff(path, old, new, heading=heading) or unchanged_hunk(path, old, heading)


async def preview_edit(name: str, given: JsonObject, cwd: str) -> EditPreview | None:
    """The change in its file; None: it is not an edit, or not of a shape that we know."""
    if name not in EDIT_TOOLS:
        return None
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            return await asyncio.to_thread(read_and_preview, name, given, cwd)
    except (KeyError, TypeError):
        return None
    except TimeoutError:
        return EditPreview(
            edit_without_file(name, given),
            withheld=f"The file as it is now: it did not answer within {READ_TIMEOUT_S:g} s.",
        )


def read_and_preview(name: str, given: JsonObject, cwd: str = "") -> EditPreview:
    """Reads the file. Raises KeyError, TypeError for an input that is not what the tool takes."""
    match name:
        case "Write":
            return _write(str(given["file_path"]), str(given["content"]), cwd)
        case "Edit":
            old, new = str(given["old_string"]), str(given["new_string"])
            return _edit(str(given["file_path"]), old, new, everywhere=bool(given.get("replace_all")), cwd=cwd)
        case _:
            return _notebook(str(given["notebook_path"]), given, cwd)


def _write(path: str, content: str, cwd: str) -> EditPreview:
    try:
        before = read_text(path, cwd)
    except Unreadable as error:
        what = f"What is in {path} now, and would be gone: {error}."
        return EditPreview(
            Edit((path,), unified_diff(path, "", content) or unchanged_hunk(path, "", SAME_HEADING)), withheld=what
        )
    return EditPreview(
        Edit((path,), unified_diff(path, before, content) or unchanged_hunk(path, content, SAME_HEADING))
    )


def _edit(path: str, old: str, new: str, *, everywhere: bool, cwd: str) -> EditPreview:
    text, problem = _read(path, cwd)
    if not old and not problem:  # it makes a new file, or fills an empty one
        return EditPreview(
            Edit((path,), unified_diff(path, text, (text or "") + new) or unchanged_hunk(path, new, SAME_HEADING))
        )
    if text is not None:
        if old not in text and "\r\n" in text:  # Claude Code looks for it without these, and writes them again
            text = text.replace("\r\n", "\n")
        gone = f"{old}\n" if not new and not old.endswith("\n") and f"{old}\n" in text else old
        if diff := replacement_diff(path, text, gone, new, everywhere=everywhere):
            return EditPreview(Edit((path,), diff))
    raw = Edit((path,), _fragment(path, old, new, NOT_FOUND_HEADING))
    if problem:
        note = f"The change cannot be placed in {path}: {problem}."
        return EditPreview(raw, note, f"How many places of {path} it changes: {problem}." if everywhere else "")
    return EditPreview(raw, f"{path} has changed since, or never had this text: the lines are not placed.")


def _notebook(path: str, given: JsonObject, cwd: str) -> EditPreview:
    cell, mode, new = (
        str(given.get("cell_id") or ""),
        str(given.get("edit_mode") or "replace"),
        str(given.get("new_source") or ""),
    )
    kind = f" ({given['cell_type']})" if given.get("cell_type") else ""
    if mode == "insert":
        heading = f"new cell{kind} after {cell}" if cell else f"new first cell{kind}"
        return EditPreview(
            Edit((path,), unified_diff(path, "", new, heading=heading) or unchanged_hunk(path, "", heading))
        )
    text, problem = _read(path, cwd)
    before = None if text is None else _cell_source(text, cell)
    after = "" if mode == "delete" else new
    if before is None:
        heading = f"cell {cell}, whose text now is not known"
        why = problem or "there is no such cell in the notebook"
        diff = unified_diff(path, "", after, heading=heading) or unchanged_hunk(path, "", heading)
        return EditPreview(Edit((path,), diff), withheld=f"What is in the cell {cell} of {path} now: {why}.")
    heading = f"cell {cell}{kind}, {'deleted' if mode == 'delete' else 'replaced'}"
    return EditPreview(
        Edit((path,), unified_diff(path, before, after, heading=heading) or unchanged_hunk(path, before, heading))
    )


def _read(path: str, cwd: str) -> tuple[str | None, str]:
    """The text, and why it could not be read."""
    try:
        return read_text(path, cwd), ""
    except Unreadable as error:
        return None, str(error)


def _cell_source(notebook: str, cell: str) -> str | None:
    """The source of a cell, by its id or, as Claude Code counts them, by `cell-N`."""
    try:
        cells: list[Any] = msgspec.json.decode(notebook)["cells"]
        for number, each in enumerate(cells):
            if cell in (each.get("id"), f"cell-{number}"):
                source: Any = each["source"]
                return source if isinstance(source, str) else "".join(map(str, cast("list[Any]", source)))
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError):
        return None
    return None
