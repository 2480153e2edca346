"""What an ask about an edit shows: the lines of the file as it is now, whatever the path leads to."""

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tieline.drivers.acp.edit_preview import preview_edit as acp_preview_edit
from tieline.drivers.acp.tools import AcpToolCall
from tieline.drivers.claude_code.asks import ToolPermissions
from tieline.drivers.claude_edits import edit_without_file, read_and_preview
from tieline.drivers.claude_edits import preview_edit as claude_preview_edit
from tieline.drivers.current_file import MAX_BYTES, Unreadable, link_target, note_links, read_text
from tieline.drivers.opencode.asks import add_edit_preview, permission_ask
from tieline.drivers.opencode.edit_preview import preview_edit as opencode_preview_edit
from tieline.events import Ask, Edit
from tieline.policy import Policy

LINES = "".join(f"line {number}\n" for number in range(1, 31))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "notes.txt"
    file.write_text(LINES)
    return file


def edit(file: Path, old: str, new: str, **more: Any) -> dict[str, Any]:
    return {"file_path": str(file), "old_string": old, "new_string": new, **more}


def body(diff: str) -> list[str]:
    return diff.split("\n")[2:-1]


# --- the file ----------------------------------------------------------------------------------------------


def test_nothing_but_regular_files_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link", "/dev/zero", "."):
        with pytest.raises(Unreadable, match="not a regular file"):
            read_text(name, str(tmp_path))
    assert read_text("missing", str(tmp_path)) is None


def test_what_cannot_be_shown_says_so(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (MAX_BYTES + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Unreadable, match=r"too large to be shown \(2,097,153 bytes\)"):
        read_text("large", str(tmp_path))
    with pytest.raises(Unreadable, match="not text"):
        read_text("binary", str(tmp_path))
    with pytest.raises(Unreadable):
        read_text("a\0b", str(tmp_path))


async def test_a_link_is_told(tmp_path: Path, file: Path) -> None:
    cwd = tmp_path / "place"
    cwd.mkdir()
    (cwd / "harmless.txt").symlink_to(file)
    (tmp_path / "elsewhere").symlink_to(cwd)
    assert link_target("harmless.txt", str(cwd)) == str(file)
    assert link_target("harmless.txt", str(tmp_path / "elsewhere")) == str(file)
    assert link_target("plain.txt", str(tmp_path / "elsewhere")) == "", "the directory itself may be reached by one"
    assert link_target(str(tmp_path / "elsewhere" / "x"), "/") == str(cwd / "x")
    ask = await note_links(Ask("1", "permission", action=Edit(("harmless.txt",))), str(cwd))
    assert ask.reason == f"harmless.txt is a link: what changes is {file}."


async def test_a_file_that_does_not_answer_holds_no_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a mount that hangs."""
    answers = threading.Event()

    def hang(*_: object, **__: object) -> None:
        answers.wait(10)

    for name in ("stat", "lstat", "readlink"):
        monkeypatch.setattr(os, name, hang)
    for module in ("current_file", "claude_edits", "opencode.edit_preview", "acp.edit_preview"):
        monkeypatch.setattr(f"tieline.drivers.{module}.READ_TIMEOUT_S", 0.01)
    path = "/far/away.txt"
    try:
        ask = await note_links(Ask("1", "permission", action=Edit((path,))), "/far")
        assert "Whether a link leads elsewhere is not known" in ask.reason
        claude = await claude_preview_edit("Write", {"file_path": path, "content": "x"}, "/far")
        assert claude is not None and "did not answer" in claude.withheld
        assert "did not answer" in (await acp_preview_edit(Edit((path,)), [(path, "", "x")], [False], "/far")).withheld
        given = {"filePath": path, "content": "x"}
        assert "did not answer" in (await opencode_preview_edit("write", given, {}, (path,), "/far")).withheld
    finally:
        answers.set()


# --- Claude Code -------------------------------------------------------------------------------------------


def test_an_edit_is_placed(file: Path) -> None:
    shown = read_and_preview("Edit", edit(file, "line 15\nline 16", "line fifteen"))
    assert shown.edit.paths == (str(file),)
    assert body(shown.edit.diff) == [
        "@@ -12,8 +12,7 @@", " line 12", " line 13", " line 14", "-line 15", "-line 16", "+line fifteen",
        " line 17", " line 18", " line 19",
    ]  # fmt: skip
    assert (shown.note, shown.withheld) == ("", "")


def test_every_place_of_replace_all(file: Path) -> None:
    shown = read_and_preview("Edit", edit(file, "line", "row", replace_all=True))
    assert shown.edit.diff.count("\n-line ") == shown.edit.diff.count("\n+row ") == 30
    once = read_and_preview("Edit", edit(file, "line 3", "row", replace_all=False))
    assert once.edit.diff.count("\n+row") == 1


def test_a_text_that_is_not_there_is_shown_raw_and_said(file: Path) -> None:
    shown = read_and_preview("Edit", edit(file, "never\nthere", "new"))
    assert body(shown.edit.diff)[1:] == ["-never", "-there", "+new"]
    assert "not in the file as it is now" in body(shown.edit.diff)[0]
    assert "has changed since" in shown.note


def test_windows_lines_and_removed_lines(file: Path) -> None:
    file.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    placed = read_and_preview("Edit", edit(file, "one\ntwo", "1\n2"))
    assert (body(placed.edit.diff)[1:4], placed.note) == (["-one", "-two", "+1"], "")
    gone = read_and_preview("Edit", edit(file, "two", "")).edit.diff
    assert body(gone)[1:] == [" one\r", "-two\r", "+\r", " three\r"]
    file.write_text("one\ntwo\nthree\n")
    assert body(read_and_preview("Edit", edit(file, "two", "")).edit.diff)[1:] == [" one", "-two", " three"], (
        "with its newline"
    )


def test_what_a_write_takes_away_is_shown(file: Path, tmp_path: Path) -> None:
    shown = read_and_preview("Write", {"file_path": str(file), "content": "all\nnew\n"})
    assert shown.edit.diff.startswith(f"--- {file}\n+++ {file}\n@@ -1,30 +1,2 @@\n-line 1\n")
    assert shown.edit.diff.count("\n-line") == 30
    assert shown.edit.diff.endswith("+all\n+new\n")
    new = read_and_preview("Write", {"file_path": "new.txt", "content": "all\nnew\n"}, str(tmp_path))
    assert new.edit.diff == "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+all\n+new\n"
    same = read_and_preview("Write", {"file_path": str(file), "content": LINES})
    assert "has this very content already" in same.edit.diff
    assert " line 30\n" in same.edit.diff


def test_what_cannot_be_shown_is_withheld(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")
    shown = read_and_preview("Write", {"file_path": str(file), "content": "all\n"})
    assert "it is not text (3 bytes)" in shown.withheld
    assert "+all\n" in shown.edit.diff
    assert read_and_preview("Edit", edit(file, "a", "b")).withheld == "", "what it changes is known, but for where"
    assert read_and_preview("Edit", edit(file, "a", "b", replace_all=True)).withheld


def test_a_cell_of_a_notebook(tmp_path: Path) -> None:
    file = tmp_path / "book.ipynb"
    cells = [{"id": "first", "source": ["a = 1\n", "b = 2"]}, {"cell_type": "code", "source": "print(a)"}]
    file.write_bytes(msgspec.json.encode({"cells": cells}))

    def shown(cell: str, **more: str) -> list[str]:
        return body(read_and_preview("NotebookEdit", {"notebook_path": str(file), "cell_id": cell, **more}).edit.diff)

    assert shown("first", new_source="a = 1\nb = 3")[:2] == ["@@ -1,2 +1,2 @@ cell first, replaced", " a = 1"]
    assert "-b = 2" in shown("first", new_source="a = 1\nb = 3")
    assert "-print(a)" in shown("cell-1", edit_mode="delete", new_source="")
    assert shown("first", edit_mode="insert", new_source="c")[:2] == ["@@ -0,0 +1 @@ new cell after first", "+c"]
    unknown = read_and_preview("NotebookEdit", {"notebook_path": str(file), "cell_id": "none", "new_source": "x"})
    assert "no such cell" in unknown.withheld


def test_a_call_is_numbered_without_its_file_too() -> None:
    diff = edit_without_file("Edit", {"file_path": "/nowhere/x", "old_string": "a\nb", "new_string": "a\nc"}).diff
    assert body(diff) == ["@@ -1,2 +1,2 @@ counted in the text that is replaced", " a", "-b", "+c"]


async def test_what_is_withheld_is_withheld_by_the_ask(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")
    cwd = str(file.parent)
    context: Any = SimpleNamespace(
        tool_use_id="t", suggestions=(), decision_reason="", description="", title="", blocked_path=""
    )
    claude = ToolPermissions(Policy(), cwd, user_rules=False)
    ask = await claude.build_ask("Write", {"file_path": str(file), "content": "all\n"}, {}, context)
    assert "it is not text (3 bytes)" in ask.withheld
    request = {"id": "1", "permission": "edit", "metadata": {"filepath": str(file)}}
    ask = await add_edit_preview(permission_ask(request, None, "this session"), request, None, cwd)
    assert "OpenCode tells no diff" in ask.withheld


# --- others ------------------------------------------------------------------------------------------------


async def test_an_acp_agent_may_tell_a_part_of_the_file(file: Path) -> None:
    cwd = str(file.parent)
    changes = [(str(file), "line 20\n", "line twenty\n")]
    edit = Edit((str(file),))
    shown = await acp_preview_edit(edit, changes, [False], cwd)
    assert shown.edit.diff.startswith("--- a/notes.txt\n+++ b/notes.txt\n@@ -17,7 +17,7 @@\n")
    assert (shown.note, shown.withheld) == ("", "")
    shown = await acp_preview_edit(edit, [(str(file), "never there\n", "x\n")], [False], cwd)
    assert "has changed since" in shown.note
    assert "-never there\n+x\n" in shown.edit.diff
    shown = await acp_preview_edit(edit, [(str(file), "", "x\n")], [False], cwd)
    assert shown.edit.diff.count("\n-line") == 30, "it says that the file is new; it is not"
    file.write_bytes(b"\xff\xfe\x00")
    shown = await acp_preview_edit(edit, [(str(file), "", "x\n")], [False], cwd)
    assert "What is in notes.txt now, and would be gone" in shown.withheld
    assert (await acp_preview_edit(edit, [(str(file), "a\n", "b\n")], [False], cwd)).withheld == "", "it says what goes"


async def test_an_acp_agent_may_replace_everywhere(file: Path) -> None:
    cwd, edit = str(file.parent), Edit((str(file),))
    shown = await acp_preview_edit(edit, [(str(file), "line", "row")], [True], cwd)
    assert shown.edit.diff.count("\n+row") == 30
    file.write_bytes(b"\xff\xfe\x00")
    shown = await acp_preview_edit(edit, [(str(file), "line", "row")], [True], cwd)
    assert "How many places of notes.txt it changes" in shown.withheld


def test_what_is_replaced_everywhere() -> None:
    """By what is told of the whole call, or of each of its changes."""

    def made_everywhere(count: int, **arguments: Any) -> list[bool]:
        tool = AcpToolCall("edit", "1")
        tool.arguments = arguments
        tool.content = [{"type": "diff", "path": "a", "oldText": "b", "newText": "c"}] * count
        return tool.made_everywhere

    assert made_everywhere(1, replaceAll=True) == made_everywhere(1, replace_all=True) == [True]
    assert made_everywhere(1, replaceAll=False) == made_everywhere(1) == [False]
    assert made_everywhere(2, changes=[{"replaceAll": True}, {}]) == [True, False]
    assert made_everywhere(3, changes=[{"replaceAll": True}, {}]) == [True] * 3, "which one is not known"
    assert made_everywhere(1, changes="odd") == made_everywhere(1, changes=[1]) == [False]


async def test_opencode_leaves_indentation_out_and_gets_it_back(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text("class A:\n    def f(self):\n        if self:\n            return 1\n        return 2\n")
    patch = f"--- {file}\n+++ {file}\n@@ -3,3 +3,4 @@\n if self:\n-    return 1\n+    return 3\n+    # new\n return 2\n"
    files = [{"filePath": str(file), "patch": patch, "type": "move", "movePath": str(tmp_path / "y.py")}]
    shown = await opencode_preview_edit("apply_patch", {}, {"files": files}, (), str(tmp_path))
    assert shown.edit == Edit(
        (str(file), str(tmp_path / "y.py")),
        f"--- {file}\n+++ {tmp_path}/y.py\n@@ -3,3 +3,4 @@\n         if self:\n-            return 1\n"
        "+            return 3\n+            # new\n         return 2\n",
    )
    assert "leaves out 8 characters" in shown.note
    file.write_text("something else\n")
    shown = await opencode_preview_edit("apply_patch", {}, {"files": files}, (), str(tmp_path))
    assert "has changed since" in shown.note


async def test_opencodes_write_and_edit_are_drawn_from_the_file(file: Path) -> None:
    metadata = {"filepath": str(file), "diff": "whatever"}
    path, cwd = str(file), str(file.parent)
    shown = await opencode_preview_edit("write", {"filePath": path, "content": "new\n"}, metadata, (path,), cwd)
    assert shown.edit.diff.count("\n-line") == 30
    given = {"filePath": path, "oldString": "line 9\n", "newString": ""}
    shown = await opencode_preview_edit("edit", given, metadata, (path,), cwd)
    assert "\n-line 9\n" in shown.edit.diff
    assert "@@ -6,7 +6,6 @@" in shown.edit.diff
    given = {"filePath": path, "oldString": "line", "newString": "row", "replaceAll": True}
    shown = await opencode_preview_edit("edit", given, metadata, (path,), cwd)
    assert shown.edit.diff.count("\n+row ") == 30
    shown = await opencode_preview_edit("edit", {}, {"diff": "-a\n+b\n"}, (path,), cwd)
    assert ("OpenCode's own diff" in shown.note, shown.withheld) == (True, "")
    shown = await opencode_preview_edit("edit", {}, {}, (path,), cwd)
    assert "OpenCode tells no diff" in shown.withheld
