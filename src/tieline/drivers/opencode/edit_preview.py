"""What OpenCode's editing tools would do, as a diff against the files as they are now.

OpenCode's own diffs leave out the indentation that all their lines share, and where a file moves to. A call that says
exactly what it replaces is drawn from the file; of any other, OpenCode's hunks are given back what they lack.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import cast

from ...events import Edit
from ...wire.json_object import JsonObject
from ..current_file import READ_TIMEOUT_S, EditPreview, Unreadable, read_text
from ..unified_diff import file_header, replacement_diff, split_lines, unified_diff

HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")


async def preview_edit(
    tool: str, given: JsonObject, metadata: JsonObject, paths: Sequence[str], cwd: str
) -> EditPreview:
    plain = Edit(tuple(paths), str(metadata.get("diff") or ""))
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            return await asyncio.to_thread(_preview, tool, given, metadata, plain, cwd)
    except (TimeoutError, Unreadable, LookupError, TypeError, ValueError, AttributeError) as error:
        why = str(error) if isinstance(error, Unreadable) else "it did not answer, or is told in a way unknown here"
        if not plain.diff:
            return EditPreview(plain, withheld=f"What it changes: OpenCode tells no diff, and of the file: {why}.")
        return EditPreview(plain, f"OpenCode's own diff, without a look at the file ({why}).")


def _preview(tool: str, given: JsonObject, metadata: JsonObject, plain: Edit, cwd: str) -> EditPreview:
    if tool in ("edit", "write") and (path := str(given.get("filePath") or "")):
        text = read_text(path, cwd)
        if tool == "write":
            diff = unified_diff(path, text, str(given["content"]))
        else:
            old, new = str(given["oldString"]), str(given["newString"])
            diff = replacement_diff(path, text or "", old, new, everywhere=bool(given.get("replaceAll")))
        if diff:
            return EditPreview(Edit(plain.paths, diff))
    files = cast("Sequence[JsonObject]", metadata.get("files") or ())
    if not files:
        files = [{"filePath": metadata["filepath"], "patch": plain.diff}]
    paths: dict[str, None] = {}
    parts: list[str] = []
    notes: list[str] = []
    for file in files:
        path, kind = str(file["filePath"]), file.get("type")
        target = str(file.get("movePath") or path)
        paths[path] = paths[target] = None
        hunks, note = _restore_indentation(str(file["patch"]), read_text(path, cwd) or "", path)
        parts.append(file_header("" if kind == "add" else path, "" if kind == "delete" else target) + hunks)
        notes.append(note)
    return EditPreview(Edit(tuple(paths), "".join(parts)), " ".join(filter(None, notes)))


def _restore_indentation(patch: str, text: str, path: str) -> tuple[str, str]:
    """The hunks with the indentation that the file has, and a note about them for the reader; empty: none is needed."""
    start = HUNK.search(patch)
    hunks = split_lines(patch[start.start() :].rstrip("\n") + "\n") if start else []
    before = split_lines(text)
    lacking = ""
    number = 0
    for index, line in enumerate(hunks):
        if header := HUNK.match(line):
            number = int(header[1]) - 1
        elif line[:1] in (" ", "-"):
            now = before[number] if number < len(before) else ""
            number += 1
            content = line[1:]
            if now.rstrip("\n") != content.rstrip("\n"):
                lost = now[: len(now.rstrip("\n")) - len(content.rstrip("\n"))]
                if not content.strip() and not now.strip():
                    pass
                elif not lost or lost.strip() or now.rstrip("\n") != lost + content.rstrip("\n"):
                    return "".join(hunks), f"{path} has changed since OpenCode read it: the lines may be elsewhere."
                else:
                    lacking = lost
                hunks[index] = line[0] + now.rstrip("\n") + "\n"
    if lacking:
        hunks = [f"+{lacking}{line[1:]}" if line.startswith("+") and line.strip() != "+" else line for line in hunks]
        what = f"OpenCode leaves out {len(lacking)} characters of indentation before all added lines."
        return "".join(hunks), f"{what} They are shown as those of the lines around."
    return "".join(hunks), ""
