"""The rules that an ask could become: the narrowest first, and none where only people can decide."""

from collections.abc import Mapping
from typing import Any

import pytest

from tieline.events import Action, Ask, Command, Edit, Fetch, Mcp, OtherAction, Read, Search, Task
from tieline.hub.rules.rule_choices import rule_choices
from tieline.sessions.ask_rules import AskOrigin, NamedFiles

HOME = "/home/me/shop"


def offered(action: Action, given: Mapping[str, Any], **more: Any) -> list[tuple[str, str]]:
    ask = Ask("a", "permission", action=action, input=given, **more)  # type: ignore[arg-type]
    choices = rule_choices(ask, AskOrigin("codex", "n1", HOME), NamedFiles())
    assert all(choice.rule.directory == HOME and choice.rule.node == "n1" for choice in choices)
    return [(choice.rule.match, choice.rule.pattern) for choice in choices]


def run(command: str, **more: Any) -> list[tuple[str, str]]:
    return offered(Command(command), {"command": command, **more})


OFFERED: dict[str, tuple[list[tuple[str, str]], list[tuple[str, str]]]] = {
    "a command": (
        run("npm test"),
        [("exact", "npm test"), ("prefix", "npm test")],
    ),
    "up to its first option": (
        run("git commit -m 'a b'"),
        [("exact", "git commit -m 'a b'"), ("prefix", "git commit")],
    ),
    "three words at most": (
        run("npm run build web api"),
        [
            ("exact", "npm run build web api"),
            ("prefix", "npm run build"),
            ("prefix", "npm run"),
        ],
    ),
    "not a program alone that runs others": (
        run("python -m pytest -q"),
        [("exact", "python -m pytest -q"), ("prefix", "python -m pytest")],
    ),
    "nothing that runs whatever follows": (run("timeout 5 make all"), [("exact", "timeout 5 make all")]),
    "nor by an option": (run("bash -c ls"), [("exact", "bash -c ls")]),
    "words that need quotes are no prefix": (
        run("grep 'a b' x"),
        [("exact", "grep 'a b' x"), ("prefix", "grep")],
    ),
    "what is more than one command: exactly": (run("cd x && make; y"), [("exact", "cd x && make; y")]),
    "a field that is not known": (run("npm test", env={"A": "b"}), []),
    "elsewhere": (run("npm test", cwd="/elsewhere"), []),
    "a file": (
        offered(Edit((f"{HOME}/src/a.py",)), {"file_path": f"{HOME}/src/a.py"}),
        [("edit", f"{HOME}/src/a.py"), ("edit", f"{HOME}/src/"), ("edit", f"{HOME}/")],
    ),
    "several files": (
        offered(Edit(("src/a.py", "src/deep/b.py")), {}),
        [("edit", f"{HOME}/src/"), ("edit", f"{HOME}/")],
    ),
    "a hidden file: itself only": (offered(Edit((".env",)), {}), [("edit", f"{HOME}/.env")]),
    "a file elsewhere": (
        offered(Edit(("/etc/hosts",)), {}),
        [("edit", "/etc/hosts"), ("edit", "/etc/")],
    ),
    "a file at the top: not all files": (offered(Edit(("/vmlinuz",)), {}), [("edit", "/vmlinuz")]),
    "reading": (
        offered(Read("README.md"), {"file_path": "README.md"}),
        [("read", f"{HOME}/README.md"), ("read", f"{HOME}/")],
    ),
    "an address": (
        offered(Fetch("https://api.example.com/x"), {"url": "https://api.example.com/x", "prompt": "what?"}),
        [("host", "api.example.com"), ("host", ".example.com")],
    ),
    "a host without one above it": (
        offered(Fetch("http://localhost/"), {"url": "http://localhost/"}),
        [("host", "localhost")],
    ),
    "an address that may be another": (offered(Fetch("https://a@b/"), {"url": "https://a@b/"}), []),
    "a web search": (offered(Fetch(query="x"), {"query": "x"}), []),
    "a tool": (offered(Mcp("github", "get_issue"), {"number": 1}), [("tool", "github/get_issue")]),
    "a tool without a name": (offered(Mcp("github", ""), {}), []),
    "a search": (offered(Search("x"), {}), []),
    "a task": (offered(Task("x"), {}), []),
    "not understood": (offered(OtherAction(), {"command": "npm test"}), []),
    "withheld": (offered(Edit(("a",)), {}, withheld="it does not say"), []),
    "a wider grant": (offered(Command("x"), {"command": "x"}, wider=True), []),
    "no path": (offered(Edit(()), {}), []),
    "a path that is none": (offered(Edit(("a\0b",)), {}), []),
}


@pytest.mark.parametrize("case", OFFERED)
def test_what_is_offered(case: str) -> None:
    choices, expected = OFFERED[case]
    assert choices == expected


def test_only_permissions() -> None:
    for kind in ("question", "plan"):
        ask = Ask("a", kind, action=Command("npm test"), input={"command": "npm test"})  # type: ignore[arg-type]
        assert rule_choices(ask, AskOrigin("codex", "n1", HOME), NamedFiles()) == []
