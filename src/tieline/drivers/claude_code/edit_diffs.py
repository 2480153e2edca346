"""What Claude Code's editing tools do to a file: as the call alone tells it, and against the file as it is now."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ...events import Edit
from ..current_file import LOOK_S, NOT_FOUND, Drawn, Unreadable, file_text
from ..unified_diff import replaced, shown, unified

EDITS = frozenset({"Write", "Edit", "NotebookEdit"})
Given = Mapping[str, Any]

SAME = "the file has this very content already"
ALONE = "counted in the text that is replaced"
WHOLE = "the file's whole content from now on"


def sketched(name: str, given: Given) -> Edit:
    """The change without a look at the file, which may have been made already. Raises KeyError."""
    if name == "NotebookEdit":
        path, heading = str(given["notebook_path"]), f"cell {given.get('cell_id') or ''}"
        return Edit((path,), unified(path, "", str(given.get("new_source") or ""), heading=heading))
    path = str(given["file_path"])
    if name == "Write":
        return Edit((path,), unified(path, "", str(given["content"]), heading=WHOLE))
    return Edit((path,), _fragment(path, str(given["old_string"]), str(given["new_string"]), ALONE))


def _fragment(path: str, old: str, new: str, heading: str) -> str:
    """Two parts of a text, whose last lines go on in the file: they do not lack their newline."""
    if not old.endswith("\n") and not new.endswith("\n"):
        old, new = f"{old}\n" if old else "", f"{new}\n" if new else ""
    return unified(path, old, new, heading=heading) or shown(path, old, heading)


async def looked_at(name: str, given: Given, cwd: str) -> Drawn | None:
    """The change in its file; None: it is not an edit, or not of a shape that we know."""
    if name not in EDITS:
        return None
    try:
        async with asyncio.timeout(LOOK_S):
            return await asyncio.to_thread(drawn, name, given, cwd)
    except (KeyError, TypeError):
        return None
    except TimeoutError:
        return Drawn(sketched(name, given), withheld=f"The file as it is now: it did not answer within {LOOK_S:g} s.")


def drawn(name: str, given: Given, cwd: str = "") -> Drawn:
    """Reads the file. Raises KeyError, TypeError for an input that is not what the tool takes."""
    match name:
        case "Write":
            return _write(str(given["file_path"]), str(given["content"]), cwd)
        case "Edit":
            old, new = str(given["old_string"]), str(given["new_string"])
            return _edit(str(given["file_path"]), old, new, everywhere=bool(given.get("replace_all")), cwd=cwd)
        case _:
            return _notebook(str(given["notebook_path"]), given, cwd)


def _write(path: str, content: str, cwd: str) -> Drawn:
    try:
        before = file_text(path, cwd)
    except Unreadable as error:
        what = f"What is in {path} now, and would be gone: {error}."
        return Drawn(Edit((path,), unified(path, "", content) or shown(path, "", SAME)), withheld=what)
    return Drawn(Edit((path,), unified(path, before, content) or shown(path, content, SAME)))


def _edit(path: str, old: str, new: str, *, everywhere: bool, cwd: str) -> Drawn:
    text, problem = _read(path, cwd)
    if not old and not problem:  # it makes a new file, or fills an empty one
        return Drawn(Edit((path,), unified(path, text, (text or "") + new) or shown(path, new, SAME)))
    if text is not None:
        if old not in text and "\r\n" in text:  # Claude Code looks for it without these, and writes them again
            text = text.replace("\r\n", "\n")
        gone = f"{old}\n" if not new and not old.endswith("\n") and f"{old}\n" in text else old
        if diff := replaced(path, text, gone, new, everywhere=everywhere):
            return Drawn(Edit((path,), diff))
    raw = Edit((path,), _fragment(path, old, new, NOT_FOUND))
    if problem:
        note = f"The change cannot be placed in {path}: {problem}."
        return Drawn(raw, note, f"How many places of {path} it changes: {problem}." if everywhere else "")
    return Drawn(raw, f"{path} has changed since, or never had this text: the lines are not placed.")


def _notebook(path: str, given: Given, cwd: str) -> Drawn:
    cell, mode, new = (
        str(given.get("cell_id") or ""),
        str(given.get("edit_mode") or "replace"),
        str(given.get("new_source") or ""),
    )
    kind = f" ({given['cell_type']})" if given.get("cell_type") else ""
    if mode == "insert":
        heading = f"new cell{kind} after {cell}" if cell else f"new first cell{kind}"
        return Drawn(Edit((path,), unified(path, "", new, heading=heading) or shown(path, "", heading)))
    text, problem = _read(path, cwd)
    before = None if text is None else _source(text, cell)
    after = "" if mode == "delete" else new
    if before is None:
        heading = f"cell {cell}, whose text now is not known"
        why = problem or "there is no such cell in the notebook"
        diff = unified(path, "", after, heading=heading) or shown(path, "", heading)
        return Drawn(Edit((path,), diff), withheld=f"What is in the cell {cell} of {path} now: {why}.")
    heading = f"cell {cell}{kind}, {'deleted' if mode == 'delete' else 'replaced'}"
    return Drawn(Edit((path,), unified(path, before, after, heading=heading) or shown(path, before, heading)))


def _read(path: str, cwd: str) -> tuple[str | None, str]:
    """The text, and why it could not be read."""
    try:
        return file_text(path, cwd), ""
    except Unreadable as error:
        return None, str(error)


def _source(notebook: str, cell: str) -> str | None:
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
