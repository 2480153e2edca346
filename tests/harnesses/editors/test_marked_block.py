"""Our block in Markdown and TOML files, and files that are ours as a whole."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.harnesses.editors.base import CannotEdit
from tieline.harnesses.editors.marked_block import MarkedBlock, TomlBlock
from tieline.harnesses.editors.whole_file import MARK, WholeFile

NOTES = MarkedBlock("codex", "# Ours\n\nwords")
OTHER = MarkedBlock("opencode", "# Ours\n\nwords")
TABLE = TomlBlock("codex", '[mcp_servers.tieline]\ncommand = "tieline"')

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


@given(st.text())
def test_any_text_is_as_it_was(text: str) -> None:
    once = NOTES.install(text)
    assert NOTES.install(once) == once and "words" in once
    assert NOTES.uninstall(once) == text
    assert NOTES.uninstall(text) == text


@given(toml_files())
def test_any_toml_is_as_it_was(text: str) -> None:
    once = TABLE.install(text)
    assert TABLE.install(once) == once
    content = tomllib.loads(once)
    assert content["mcp_servers"].pop("tieline") == {"command": "tieline"}
    before = tomllib.loads(text)
    assert content == {**before, "mcp_servers": before.get("mcp_servers", {})}
    assert TABLE.uninstall(once) == text


@given(st.text())
def test_the_last_of_two_harnesses_takes_the_block_away(text: str) -> None:
    both = OTHER.install(NOTES.install(text))
    assert both.count("words") == NOTES.install(text).count("words")
    one = NOTES.uninstall(both)
    assert one is not None and one == OTHER.install(text)
    assert NOTES.uninstall(one) == one
    assert OTHER.uninstall(one) == text


def test_a_file_that_we_made_goes_again() -> None:
    assert NOTES.uninstall(NOTES.install(None)) is None
    assert TABLE.uninstall(TABLE.install(None)) is None
    assert NOTES.uninstall(NOTES.install("")) == ""


def test_a_block_that_a_person_moved_is_still_ours() -> None:
    block = NOTES.install(None)
    assert NOTES.uninstall(f"# first\n\n{block}\n# later\n") == "# first\n\n# later\n"


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


def test_a_whole_file_is_ours_only_with_our_mark() -> None:
    skill, other = (WholeFile(name, f"---\n# {MARK}\n---\nwords\n") for name in ("codex", "opencode"))
    both = other.install(skill.install(None))
    assert "[codex opencode]" in both
    one = skill.uninstall(both)
    assert one is not None and one == other.install(None)
    assert other.uninstall(one) is None
    assert skill.uninstall("# mine") == "# mine"
    with pytest.raises(CannotEdit):
        skill.install("# mine")
