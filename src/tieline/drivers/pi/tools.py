"""Pi's tools: what a call does, and what an edit makes of its file."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from msgspec import Struct

from ...events import AnyAction, Command, Edit, Mcp, OtherAction, Read, Search
from ...wire.json_object import JsonObject
from ..current_file import NOT_FOUND_HEADING, READ_TIMEOUT_S, EditPreview, Unreadable, read_text
from ..unified_diff import unchanged_hunk, unified_diff

EDITS = frozenset({"edit", "write"})
SAME_HEADING = "the file has this very content already"
WHOLE_HEADING = "the file's whole content from now on"


class ProposedChange(Struct, frozen=True):
    """A file before and after a call; `before` is None where there was none."""

    path: str
    before: str | None
    after: str


def action_of(name: str, given: JsonObject) -> AnyAction:
    match name:
        case "bash" | "powershell":
            return Command(str(given.get("command", "")))
        case "edit" | "write":
            path = str(given.get("path", ""))
            return Edit((path,) if path else ())
        case "read":
            return Read(str(given.get("path", "")))
        case "grep" | "find":
            return Search(str(given.get("pattern", "")), str(given.get("path", "")))
        case "ls":
            return Read(str(given.get("path") or "."))
        case _:
            server, _, tool = name.removeprefix("mcp__").partition("__")
            return Mcp(server, tool) if name.startswith("mcp__") and tool else OtherAction()


async def preview_edit(name: str, given: JsonObject, cwd: str) -> tuple[EditPreview, ProposedChange | None] | None:
    """The change in its file as it is now; None: it is not an edit, or not of a shape that we know."""
    if name not in EDITS:
        return None
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            return await asyncio.to_thread(read_and_preview, name, given, cwd)
    except (KeyError, TypeError, AttributeError):
        return None
    except TimeoutError:
        edit = Edit((str(given["path"]),))
        return EditPreview(edit, withheld=f"The file as it is: it did not answer within {READ_TIMEOUT_S:g} s."), None


def read_and_preview(name: str, given: JsonObject, cwd: str) -> tuple[EditPreview, ProposedChange | None]:
    """Reads the file. Raises KeyError, TypeError for an input that is not what the tool takes."""
    path = str(given["path"])
    problem, before = "", None
    try:
        before = read_text(path, cwd)
    except Unreadable as error:
        problem = str(error)
    if name == "write":
        content = str(given["content"])
        if problem:
            edit = Edit((path,), unified_diff(path, "", content, heading=WHOLE_HEADING))
            return EditPreview(edit, withheld=f"What is in {path} now, and would be gone: {problem}."), None
        diff = unified_diff(path, before, content) or unchanged_hunk(path, content, SAME_HEADING)
        return EditPreview(Edit((path,), diff)), ProposedChange(path, before, content)
    replacements = _replacements(given)
    after = _replaced(before, replacements) if before is not None else None
    if before is None or after is None:
        parts = [unified_diff(path, old or None, new, heading=NOT_FOUND_HEADING) for old, new in replacements]
        why = problem or "it has changed since, or never had this text once"
        return EditPreview(Edit((path,), "".join(parts)), f"The change cannot be placed in {path}: {why}."), None
    diff = unified_diff(path, before, after) or unchanged_hunk(path, before, SAME_HEADING)
    return EditPreview(Edit((path,), diff)), ProposedChange(path, before, after)


def _replacements(given: JsonObject) -> Sequence[tuple[str, str]]:
    """The texts and what takes their places; older versions have a single one."""
    edits: Any = given.get("edits") or [given]
    return [(str(each["oldText"]), str(each["newText"])) for each in cast("list[JsonObject]", edits)]


def _replaced(text: str, replacements: Sequence[tuple[str, str]]) -> str | None:
    """All of them in the text as it was; None where one is not there exactly once: Pi may then look more loosely."""
    places = sorted((text.find(old), old, new) for old, new in replacements)
    parts: list[str] = []
    end = 0
    for start, old, new in places:
        if not old or start < end or text.count(old) != 1:
            return None
        parts += (text[end:start], new)
        end = start + len(old)
    return "".join((*parts, text[end:]))


def content_text(result: Any) -> str:
    """The texts of a tool's result."""
    content: Any = cast("JsonObject", result).get("content") if isinstance(result, dict) else None
    blocks = cast("list[JsonObject]", content) if isinstance(content, list) else []
    return "\n".join(str(block["text"]) for block in blocks if "text" in block)
