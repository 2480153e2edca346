"""What `tieline run` was asked: both ways of reading the arguments, the policy, the attachments."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.cli import app
from tieline.cli.run.run_options import RunOptions, attachment, check_options, options_of, parse, policy_of
from tieline.errors import UsageError
from tieline.policy import PRESETS, Policy

PLAIN = {
    "cwd": "dir", "policy": "edits", "on_ask": "deny", "model": "m", "effort": "high", "resume": "id",
    "system": "be brief", "max_turns": "3", "max_budget_usd": "0.5", "timeout": "12.5", "branch": "blue",
}  # fmt: skip
LISTS = ("allow", "ask", "deny", "allowed_tools", "disallowed_tools", "arguments", "environment", "attach")
FLAGS = ("json", "fork", "accept_unenforced", "standalone", "worktree")


def option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def by_typer(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> RunOptions:
    """What the full parser makes of it: the request that it would carry out."""
    seen: list[RunOptions] = []

    def execute(request: RunOptions) -> int:
        seen.append(request)
        return 0

    monkeypatch.setattr("tieline.cli.run.target.execute", execute)
    assert app.start(["run", *arguments]) == 0
    return seen[0]


def test_both_parsers_know_every_option() -> None:
    assert {*PLAIN, *LISTS, *FLAGS, "agent", "prompt"} == set(RunOptions.__struct_fields__)


@pytest.mark.parametrize("name", [*PLAIN, *LISTS, *FLAGS])
def test_each_option_is_read_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in FLAGS:
        forms = [["codex", option(name), "do it"]]
    elif name in LISTS:
        forms = [["codex", option(name), "a,b", f"{option(name)}=c", "do it"]]
    else:
        forms = [["codex", option(name), PLAIN[name], "do it"], [f"{option(name)}={PLAIN[name]}", "codex", "do it"]]
    for form in forms:
        quick = parse(form)
        assert quick is not None
        assert getattr(quick, name) != getattr(RunOptions(agent="", prompt=""), name), "it has an effect"
        assert quick == by_typer(form, monkeypatch)


@pytest.mark.parametrize(
    "arguments",
    [["codex", "-"], ["codex", "--", "--not an option"], ["codex", "", "--cwd", ""], ["--json", "codex", "x"]],
)
def test_forms_that_are_read_alike(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse(arguments) == by_typer(arguments, monkeypatch)


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["codex"], ["codex", "x", "y"], ["codex", "x", "--help"], ["codex", "x", "-h"], ["codex", "x", "--no"],
        ["codex", "x", "--cwd"], ["codex", "x", "--cwd", "--json"], ["codex", "x", "--json=yes"],
        ["codex", "x", "--max-turns", "1e3"], ["codex", "x", "--timeout", "nan"], ["codex", "x", "--max_turns", "3"],
        ["codex", "x", "--agent", "y"],
    ],
)  # fmt: skip
def test_anything_else_is_left_to_the_full_parser(arguments: list[str]) -> None:
    assert parse(arguments) is None


@given(st.lists(st.text(max_size=20), max_size=6))
def test_parse_never_fails(arguments: list[str]) -> None:
    parse(arguments)


def request(**changes: Any) -> RunOptions:
    return RunOptions(agent="a", prompt="p", **changes)


def test_policy() -> None:
    assert policy_of(request(), "ask") == Policy()
    assert policy_of(request(policy="read-only"), "full") == PRESETS["read-only"]
    changed = request(policy="full", ask=("shell",), deny=("network, file-write",))
    assert policy_of(changed, "ask") == Policy("deny", "ask", "deny")
    assert policy_of(request(allow=("shell", "shell")), "ask") == Policy(shell="allow")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"policy": "none"}, "policy"),
        ({"allow": ("fly",)}, "allow"),
        ({"allow": ("shell",), "ask": ("shell",)}, "shell"),
    ],
)
def test_bad_policy_names_the_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(UsageError) as caught:
        policy_of(request(**changes), "ask")
    assert caught.value.field == field
    assert caught.value.hint


@pytest.mark.parametrize("changes", [{"timeout": 0.0}, {"timeout": float("nan")}, {"max_turns": -1}, {"on_ask": "x"}])
def test_values_that_cannot_be_meant(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        check_options(request(**changes))


def test_tools_keep_their_parentheses() -> None:
    request = RunOptions(agent="a", prompt="p", allowed_tools=("Read, Bash(git add:*, git commit:*)", "Edit"))
    assert options_of(request, "ask").get("allowed_tools") == ("Read", "Bash(git add:*, git commit:*)", "Edit")


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.md", b"# hello", "text/markdown"),
        ("a.ts", b"const x = 1\n", "text/plain"),  # by its name a video
        ("Makefile", b"all:\n", "text/plain"),
        ("a.json", b"{}", "text/plain"),
        ("a.png", b"\x89PNG\r\n\x1a\n\0", "image/png"),
        ("a.unknown", b"\0\1\2", "application/octet-stream"),
        ("a.txt", ("ä" * 8000).encode(), "text/plain"),
        ("latin.txt", b"caf\xe9 cr\xe8me", "text/plain"),
    ],
)
def test_attachment_type(tmp_path: Path, name: str, content: bytes, kind: str) -> None:
    (tmp_path / name).write_bytes(content)
    attached = attachment(str(tmp_path / name))
    assert (attached.media_type, attached.name, attached.path) == (kind, name, str(tmp_path / name))
