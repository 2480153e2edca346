"""Our table, or our tables of an array, in any TOML file, which its program writes too: in, in again, and out; nothing
of others is lost."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.harnesses.base import is_our_handler, is_our_server
from tieline.harnesses.editors.base import CannotEdit
from tieline.harnesses.editors.toml_table import TomlArray, TomlTable

PATH = ("mcp_servers", "tieline")
SERVER = {"command": "/opt/bin/tieline", "args": ["mcp"], "env": {"TIELINE_HARNESS": "codex"}, "tool_timeout_sec": 330}
HTTP = {"url": "http://127.0.0.1:1/mcp", "http_headers": {"X-Tieline-Harness": "codex"}, "tool_timeout_sec": 330}
TABLE = TomlTable("codex", PATH, SERVER, is_our_server)

LINES = st.sampled_from(
    [
        "",
        "# x",
        "a = 1 # one",
        "b.c = 'x'",
        '"d e" = [1,\n 2]',
        "[mcp_servers.other]",
        "[t]",
        "[[u]]",
        "s = '''\n# x\n'''",
    ]
)


@st.composite
def toml_files(draw: st.DrawFn) -> str:
    lines = draw(st.lists(LINES, max_size=6, unique=True))
    text = draw(st.sampled_from(["\n", "\r\n"])).join("\n".join(lines).split("\n"))
    return text + draw(st.sampled_from(["", "\n", "\r\n", "\n\n", "  "]))


@given(toml_files())
def test_any_toml_is_as_it_was(text: str) -> None:
    once = TABLE.install(text)
    assert TABLE.install(once) == once
    content = tomllib.loads(once)
    assert content["mcp_servers"].pop("tieline") == SERVER
    before = tomllib.loads(text)
    assert content == {**before, "mcp_servers": before.get("mcp_servers", {})}
    assert TABLE.uninstall(once) == text
    assert TABLE.uninstall(text) == text


def test_a_file_that_we_made_goes_again() -> None:
    assert TABLE.uninstall(TABLE.install(None)) is None
    assert TABLE.uninstall(TABLE.install("")) == ""


# --- what others write into it ------------------------------------------------------------------------------------

TABLES = {
    "tui": '[tui]\nscreen = "x"\n',
    "projects": '\n[projects."/a b"] # mine\ntrust_level = "trusted"\n',
    "features": "\n# a note\n[features]\nlist = [\n  1,\n  2,\n]\n",
    "notice": "[notice]\nhide = '''\n[mcp_servers.tieline]\n# tieline end\n'''\n",
}


@given(st.sampled_from(["", "a = 1", "a = 1\n", "[t]\nb = 2\n"]), st.data())
def test_tables_of_others_stay_wherever_they_stand(before: str, data: st.DataObject) -> None:
    """Also where they cut ours in two, so that keys of ours are now theirs."""
    lines = TABLE.install(before).splitlines(keepends=True)
    names = data.draw(st.lists(st.sampled_from(sorted(TABLES)), unique=True, min_size=1))
    start = len(before.splitlines())
    for name in names:
        lines.insert(data.draw(st.integers(start, len(lines))), TABLES[name])
    written = "".join(lines)
    there = tomllib.loads(written)
    again = TABLE.install(written)
    left = TABLE.uninstall(again)
    assert left is not None
    assert tomllib.loads(again)["mcp_servers"]["tieline"] == SERVER
    assert "tieline" not in tomllib.loads(left).get("mcp_servers", {})
    for text in (again, left, TABLE.uninstall(written) or ""):
        content = tomllib.loads(text)
        for name in (*names, *tomllib.loads(before)):
            assert content[name] == there[name]
        assert all(TABLES[name].strip() in text for name in names)
    assert "tieline [" not in left and left.count("tieline end") == ("notice" in names)


@pytest.mark.parametrize("new", [SERVER, {**SERVER, "command": "/new/tieline"}], ids=["same", "new"])
@pytest.mark.parametrize(
    "added",
    [
        '[mcp_servers.tieline.tools.send_message]\napproval_mode = "approve"\n',
        "enabled = false # for now\n",
        "# mine\n",
    ],
)
def test_what_was_added_to_our_own_stays_until_it_goes(added: str, new: dict[str, Any]) -> None:
    written = TABLE.install("a = 1\n").replace("# tieline end", f"{added}# tieline end")
    again = TomlTable("codex", PATH, new, is_our_server).install(written)
    assert added in again
    assert (again == written) == (new == SERVER)
    before, after = (tomllib.loads(text)["mcp_servers"]["tieline"] for text in (written, again))
    assert after == {**before, **new}
    assert TABLE.uninstall(again) == ("a = 1\n# mine\n" if added == "# mine\n" else "a = 1\n")


def test_a_variable_that_a_person_added_stays_and_an_old_one_of_ours_goes() -> None:
    written = TABLE.install(None).replace('"codex" }', '"codex", TIELINE_HOME = "/old", "MY.OWN" = "1" }')
    content = tomllib.loads(TABLE.install(written))
    assert content["mcp_servers"]["tieline"]["env"] == {"TIELINE_HARNESS": "codex", "MY.OWN": "1"}


def test_another_transport_takes_the_place_of_the_old_one() -> None:
    http = TomlTable("codex", PATH, HTTP, is_our_server)
    assert tomllib.loads(http.install(TABLE.install("")))["mcp_servers"]["tieline"] == HTTP
    assert tomllib.loads(TABLE.install(http.install("")))["mcp_servers"]["tieline"] == SERVER


# As Codex leaves it after `codex mcp add`: our first comment is gone, and `env` is a table.
REWRITTEN = """\
[mcp_servers.tieline]
command = "/opt/bin/tieline"
args = ["mcp"]
tool_timeout_sec = 330.0

[mcp_servers.tieline.env]
TIELINE_HARNESS = "codex"

[mcp_servers.other]
command = "echo"
# tieline end
"""


def test_a_file_that_its_program_has_written_anew_is_still_known() -> None:
    assert TABLE.install(REWRITTEN) == REWRITTEN
    renewed = TomlTable("codex", PATH, {**SERVER, "env": {"TIELINE_HARNESS": "new"}}, is_our_server).install(REWRITTEN)
    assert tomllib.loads(renewed)["mcp_servers"]["tieline"]["env"] == {"TIELINE_HARNESS": "new"}
    for text in (REWRITTEN, renewed):
        left = TABLE.uninstall(text)
        assert left is not None and left.strip() == '[mcp_servers.other]\ncommand = "echo"'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = \n", "not valid TOML: Invalid value (at line 1, column 5)"),
        ("[mcp_servers.tieline]\ncommand = 'mine'\n", "[mcp_servers.tieline] is there already"),
        ("mcp_servers = 3\n", "[mcp_servers] is there already"),
        ("mcp_servers = {a = {command = 'x'}}\n", "written inline"),
    ],
)
def test_a_file_that_cannot_be_changed_is_left_alone(text: str, problem: str) -> None:
    with pytest.raises(CannotEdit) as error:
        TABLE.install(text)
    assert problem in error.value.message


def test_ours_among_others_in_one_line_is_left_alone() -> None:
    text = "mcp_servers = { tieline = { command = 'tieline', args = ['mcp'] }, a = { command = 'x' } }\n"
    with pytest.raises(CannotEdit) as error:
        TABLE.uninstall(text)
    assert "written inline" in error.value.message


# --- tables of an array ---------------------------------------------------------------------------------------------

HOOKS = [{"event": event, "command": "/p /x/harnesses/hook.py kimi", "timeout": 10} for event in ("Stop", "Start")]
ARRAY = TomlArray("kimi", "hooks", HOOKS, is_our_handler)
THEIRS = '[[hooks]]\nevent = "Stop"\ncommand = "mine" # always\n[hooks.env]\nA = "1"\n'


@given(toml_files(), st.sampled_from(["", THEIRS, f"{THEIRS}\n# x\n{THEIRS}"]))
def test_any_toml_with_hooks_is_as_it_was(text: str, theirs: str) -> None:
    text = f"{text}\n{theirs}" if theirs else text
    once = ARRAY.install(text)
    assert ARRAY.install(once) == once
    before, content = tomllib.loads(text), tomllib.loads(once)
    assert content.pop("hooks") == [*before.pop("hooks", []), *HOOKS]
    assert content == before
    assert ARRAY.uninstall(once) == text
    assert ARRAY.uninstall(text) == text


def test_an_array_in_a_file_that_we_made_goes_with_it() -> None:
    assert ARRAY.uninstall(ARRAY.install(None)) is None
    assert ARRAY.uninstall(ARRAY.install("")) == ""


# As a program leaves it that writes its configuration anew: no comments, its own tables before and after ours.
ANEW = """\
model = "m"

[[hooks]]
event = "Stop"
command = "mine"

[[hooks]]
event = "Stop"
command = "/old /x/harnesses/hook.py kimi"
timeout = 10

[providers.x]
type = "openai"
"""


def test_ours_are_renewed_and_removed_in_a_file_that_was_written_anew() -> None:
    there = tomllib.loads(ANEW)
    renewed = tomllib.loads(ARRAY.install(ANEW))
    assert renewed == {**there, "hooks": [there["hooks"][0], *HOOKS]}
    left = ARRAY.uninstall(ANEW)
    assert left is not None and tomllib.loads(left) == {**there, "hooks": there["hooks"][:1]}


@pytest.mark.parametrize(
    "text",
    [
        "hooks = []\n",
        "[hooks]\na = 1\n",
        "hooks = 1\n",
        'hooks = [{ event = "Stop", command = "/p /x/harnesses/hook.py kimi" }]\n',
    ],
)
def test_an_array_of_another_form_is_left_alone(text: str) -> None:
    with pytest.raises(CannotEdit) as refused:
        ARRAY.install(text)
    assert "[[hooks]]" in refused.value.message and "hook.py" in refused.value.hint


def test_our_hook_in_an_inline_array_is_not_said_to_be_gone() -> None:
    with pytest.raises(CannotEdit):
        ARRAY.uninstall('hooks = [{ event = "Stop", command = "/p /x/harnesses/hook.py kimi" }]\n')
