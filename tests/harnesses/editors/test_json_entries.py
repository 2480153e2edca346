"""Our entries in any JSON file with comments: in, in again, and out, byte for byte."""

import json
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tieline.harnesses.base import InstallOptions
from tieline.harnesses.editors.base import CannotEdit
from tieline.harnesses.editors.json_entries import JsonEntries
from tieline.harnesses.editors.jsonc_parser import parse
from tieline.harnesses.registry import create

SERVER = {"command": "/opt/bin/tieline", "args": ["mcp"]}
ENTRIES = {"mcpServers": {"tieline": SERVER}, "hooks": {"Stop": [{"ours": 1}], "Start": [{"ours": 1}]}}


def is_ours(path: tuple[str | int, ...], value: Any) -> bool:
    match path:
        case ("mcpServers", "tieline"):
            return value == SERVER
        case ("hooks", str(), int()):
            return value == {"ours": 1}
        case _:
            return False


EDITOR = JsonEntries(ENTRIES, is_ours)
FEW = JsonEntries({"mcpServers": {"tieline": SERVER}}, is_ours)
FRAMED = JsonEntries({"hooks": {"Stop": [{"ours": 1}]}}, is_ours, {"version": 1})
EDITORS = pytest.mark.parametrize("editor", [EDITOR, FEW, FRAMED], ids=["all", "few", "framed"])

# --- any JSON text, in any formatting ---------------------------------------------------------------------------

COMMENTS = st.sampled_from(["", "", "", " ", "  ", "\t", "\n", "\r\n", "// note\n", "/* a\n b */", " // x\r\n", "\r"])
BLANKS = st.lists(COMMENTS, max_size=3).map("".join)
KEYS = st.sampled_from(["mcpServers", "hooks", "Stop", "Start", "other", "a b", "é", "x//y", 'q"']) | st.text(
    max_size=5
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@st.composite
def texts(draw: st.DrawFn, depth: int = 3, kind: str = "object") -> str:
    def blank() -> str:
        return draw(BLANKS)

    if kind == "scalar" or depth == 0:
        return json.dumps(draw(SCALARS), ensure_ascii=draw(st.booleans()))
    parts: list[str] = []
    for key in draw(st.lists(KEYS, max_size=4, unique=True)):
        inner = {"mcpServers": "object", "hooks": "object", "Stop": "array", "Start": "array"}.get(key)
        value = draw(texts(depth - 1, inner or draw(st.sampled_from(["object", "array", "scalar"]))))
        if inner and depth == 1:
            value = "{}" if inner == "object" else "[]"
        name = f"{json.dumps(key)}{blank()}:{blank()}" if kind == "object" else ""
        parts.append(f"{blank()}{name}{value}{blank()}")
    tail = draw(st.sampled_from(["", ","])) + blank() if parts else blank()
    body = ",".join(parts) + tail
    return f"{{{body}}}" if kind == "object" else f"[{body}]"


@st.composite
def files(draw: st.DrawFn) -> str:
    return draw(BLANKS) + draw(texts()) + draw(BLANKS)


@EDITORS
@settings(max_examples=50)
@given(text=files())
@example(text='{"mcpServers":{}}')
@example(text='{"version":1,"hooks":{}}')
@example(text='{"version":1,"hooks":{"Stop":[]}}')
@example(text="{}")
@example(text='{ // note\r\n\t"hooks" : {"Stop": [\r\n]},}')
def test_in_twice_and_out_once_is_the_file_as_it_was(editor: JsonEntries, text: str) -> None:
    once = editor.install(text)
    assert editor.install(once) == once != text
    assert editor.uninstall(once) == text
    assert editor.uninstall(text) == text


@settings(max_examples=60)
@given(files())
def test_ours_is_in_it_and_the_others_are_as_they_were(text: str) -> None:
    before, after = parse(text).value, parse(EDITOR.install(text)).value
    assert after["mcpServers"].pop("tieline") == SERVER
    for event in ("Stop", "Start"):
        assert after["hooks"][event].pop(0) == {"ours": 1}
    for event in ("Stop", "Start"):
        if event not in before.get("hooks", {}):
            assert after["hooks"].pop(event) == []
    for key in ("mcpServers", "hooks"):
        if key not in before:
            assert after.pop(key) == {}
    assert after == before


@given(st.text("\t\n\r ", max_size=4))
def test_an_empty_file_is_empty_again(text: str) -> None:
    once = EDITOR.install(text)
    assert EDITOR.install(once) == once
    assert EDITOR.uninstall(once) == text


@EDITORS
def test_a_file_that_we_made_goes_again(editor: JsonEntries) -> None:
    made = editor.install(None)
    assert editor.install(made) == made
    assert editor.uninstall(made) is None


def test_a_file_that_we_made_has_its_frame() -> None:
    assert json.loads(FRAMED.install(None)) == {"version": 1, "hooks": {"Stop": [{"ours": 1}]}}


VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)


@given(VALUES, st.sampled_from([None, 1, "\t"]))
def test_the_reader_agrees_with_json(value: Any, indent: Any) -> None:
    text = json.dumps(value, indent=indent)
    assert parse(text).value == json.loads(text, parse_int=float)


# --- files as people have them ------------------------------------------------------------------------------------

REAL = """{
\t// my servers
\t"mcpServers": { // do not sort
\t\t"github": {"command": "npx", "args": ["-y", "x"],},

\t\t/* "old": {}, */
\t},
\t"theme": "dark"
}"""


def test_only_our_own_lines_change() -> None:
    new = EDITOR.install(REAL)
    added = [line for line in new.splitlines() if line not in REAL.splitlines()]
    assert [line.strip().split(":")[0] for line in added] == ['"hooks"', '"tieline"']
    assert [line for line in new.splitlines() if line not in added] == REAL.splitlines()
    assert added[1].startswith("\t\t")


def test_what_a_person_adds_later_stays() -> None:
    installed = EDITOR.install('{"mcpServers": {}, "a": 1}')
    changed = installed.replace('["mcp"]}', '["mcp"]},\n  "mine": {"command": "m"}').replace('"a": 1', '"a": 2')
    left = EDITOR.uninstall(changed)
    assert left is not None and json.loads(left) == {"mcpServers": {"mine": {"command": "m"}}, "a": 2}


def filled(value: Any) -> Any:
    """Without empty objects and arrays, which may be left where a program wrote the file anew."""
    if isinstance(value, dict):
        members = {key: filled(each) for key, each in cast("dict[str, Any]", value).items()}
        return {key: each for key, each in members.items() if each not in ({}, [])}
    return value


@pytest.mark.parametrize("indent", [2, "\t"])
@pytest.mark.parametrize(
    "text", ['{"a": 1}', '{"mcpServers": {"x": {"y": 1}}}', '{"hooks": {"Stop": [{"mine": 1}]}}', "{}"]
)
def test_a_file_that_its_program_has_written_anew_loses_ours_and_nothing_else(text: str, indent: Any) -> None:
    left = EDITOR.uninstall(json.dumps(json.loads(EDITOR.install(text)), indent=indent))
    assert left is not None and filled(json.loads(left)) == json.loads(text)


def test_the_last_one_goes_with_the_comma_before_it() -> None:
    entry = f'"tieline": {json.dumps(SERVER)}'
    left = EDITOR.uninstall(f'{{"mcpServers": {{"a": 1 , {entry} /* end */}}}}')
    assert left is not None and json.loads(left.replace("/* end */", "")) == {"mcpServers": {"a": 1}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{\n  "a": 1\n  "b": 2}', "a comma or } is missing (line 3, column 3)"),
        ('{"a": tru}', "a value is missing (line 1, column 7)"),
        ('{"a": "x\ny"}', "this string is not valid (line 1, column 7)"),
        ('{"a": 1', "a comma or } is missing (line 1, column 8)"),
        ("{a: 1}", "a key in double quotes or } is missing (line 1, column 2)"),
        ('{"a" 1}', "a colon is missing (line 1, column 6)"),
        ("{} {}", "something follows the end of the value (line 1, column 4)"),
        ('{"a":', "the file ends in the middle of a value (line 1, column 6)"),
        ("[" * 500, "nested deeper"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_place(text: str, problem: str) -> None:
    for edit in (EDITOR.install, EDITOR.uninstall):
        with pytest.raises(CannotEdit) as error:
            edit(text)
        assert problem in error.value.message


@pytest.mark.parametrize(
    "text", ['{"mcpServers": {"tieline": {"command": "mine"}}}', '{"hooks": []}', '{"mcpServers": 3}', "[]", "3"]
)
def test_what_is_not_ours_is_not_overwritten(text: str) -> None:
    with pytest.raises(CannotEdit):
        EDITOR.install(text)
    assert EDITOR.uninstall(text) == text


# --- what others add to our own entry -----------------------------------------------------------------------------

HOME = {"HOME": "/home/me", "PATH": ""}
ADDED = {  # harness → the object of ours to which something is added
    "claude-code": '"tieline": {',
    "gemini": '"tieline": {',
    "opencode": '"tieline": {',
    "qwen": '{"hooks": [{',
}


def entries_of(harness: str, **options: Any) -> tuple[JsonEntries, JsonEntries]:
    """Its editor of our entries now, and the one of an installation at another place."""
    here, there = (
        InstallOptions(env=HOME, program=f"/{folder}/tieline", python="/py", **options) for folder in ("a", "b")
    )
    editors = [
        next(file.editor for file in create(harness).files(each) if isinstance(file.editor, JsonEntries))
        for each in (here, there)
    ]
    return editors[0], editors[1]


@pytest.mark.parametrize("harness", ADDED)
def test_what_is_added_to_our_own_stays_when_it_is_renewed(harness: str) -> None:
    now, moved = entries_of(harness)
    mark = '"mine": {"n": 12345678901234567890, /* why */ "x": [1]}'
    written = now.install('{"a": 1}').replace(ADDED[harness], f"{ADDED[harness]}{mark}, ", 1)
    assert mark in written
    assert now.install(written) == written
    renewed = moved.install(written)
    assert mark in renewed and "/b/tieline" in renewed and "/a/tieline" not in renewed
    assert moved.install(renewed) == renewed
    assert moved.uninstall(renewed) == '{"a": 1}'


def test_a_variable_that_a_person_added_stays_and_an_old_one_of_ours_goes() -> None:
    now, moved = entries_of("gemini")
    written = now.install(None).replace('"env": {', '"env": {"MINE": "1", "TIELINE_HOME": "/old", ')
    assert json.loads(moved.install(written))["mcpServers"]["tieline"]["env"] == {
        "TIELINE_HARNESS": "gemini",
        "MINE": "1",
    }


def test_another_transport_takes_the_place_of_the_old_one() -> None:
    stdio, http = entries_of("gemini")[0], entries_of("gemini", transport="http")[0]
    assert http.install(stdio.install(None)) == http.install(None)
    assert stdio.install(http.install(None)) == stdio.install(None)
