"""Which asks a rule speaks of: a table of what agents ask, and of the ways around a rule."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from tieline.errors import UsageError
from tieline.events import (
    Action,
    AnyAction,
    Ask,
    Command,
    Edit,
    Fetch,
    Mcp,
    OtherAction,
    Question,
    Read,
    Search,
    Task,
)  # fmt: skip
from tieline.sessions.ask_rules import (
    AskOrigin,
    AskRule,
    NamedFiles,
    RealFiles,
    RuleMatch,
    check_rule,
    decide_by_rules,
    host_of,
    matches,
    rule_text,
)  # fmt: skip
from tieline.sessions.shell_words import shell_words

HOME = "/home/me/shop"
HERE = AskOrigin("codex", "n1", HOME)
NPM = AskRule(id="r", match="prefix", pattern="npm test", directory=HOME)


def asked(action: AnyAction, given: Mapping[str, Any] | None = None, **more: Any) -> Ask:
    match action:
        case Command(command):
            own: Mapping[str, Any] = {"command": command}
        case Fetch(url) if url:
            own = {"url": url}
        case _:
            own = {}
    return Ask("a", "permission", action=action, input=own if given is None else given, **more)


def run(command: str, **more: Any) -> Ask:
    return asked(Command(command), **more)


def speaks(rule: AskRule, ask: Ask, origin: AskOrigin = HERE) -> bool:
    return matches(rule, ask, origin, NamedFiles())


COMMANDS = {
    "npm test": True,
    "npm test --watch src/a.ts": True,
    "npm  'test'": True,
    "npm testx": False,
    "npm test; rm -rf /": False,
    "npm test && x": False,
    "npm test $(x)": False,
    "npm test > /etc/passwd": False,
    "npm test\nx": False,
    "PATH=/tmp npm test": False,
    "npm": False,
    "npm run test": False,
    "npx npm test": False,
    "/tmp/npm test": False,
    "'npm test'": False,
    "echo npm test": False,
    "": False,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_prefix_is_words(command: str) -> None:
    assert speaks(NPM, run(command)) is COMMANDS[command]


def test_exactly_is_every_character() -> None:
    rule = AskRule(id="r", match="exact", pattern="make a && make b | tee x")
    assert speaks(rule, run("make a && make b | tee x")) and speaks(rule, run("make a && make b | tee x\n"))
    for other in ("make a && make b | tee y", "make a  && make b | tee x", "make a", "make a && make b | tee x; y"):
        assert not speaks(rule, run(other)), other


STEERED = [
    "git diff --output=/home/me/.bashrc", "git diff --outp=/home/me/.bashrc", "git log --ext-diff",
    "git grep -O/tmp/x y",
    "git fetch --upload-pack=/tmp/x", "git fetch --upload-p /tmp/x", "git rebase -x /tmp/x", "git rebase -ix /tmp/x",
    "/usr/bin/git diff --output=x", "find . -exec rm x +", "find . -delete", "find . -fprintf /home/me/.bashrc x",
    "rg --pre /tmp/x a", "rg '--pre=/tmp/x' a", "sort -o /home/me/.bashrc x", "sort -uo/home/me/.bashrc x",
    "sort --compress-prog=/tmp/x a", "tar tf a.tar --to-command=/tmp/x", "tar tf a.tar --checkpoint-act exec=x",
    "tar tf a.tar -I /tmp/x", "npm test --script-shell=/tmp/x", "npm test --prefix /tmp/x", "npm test -C /tmp/x",
    "make test -f /tmp/x", "make test --eval=x", "make test SHELL=/tmp/x", "make test '.SHELLFLAGS=-c x'",
    "cargo test --config x", "go test -exec /tmp/x", "go test --toolexec=/tmp/x ./...", "rsync -e /tmp/x a b",
    "curl -sSo /home/me/.bashrc example.com", "wget -e use_askpass=/tmp/x a", "fd a -x rm", "man -P /tmp/x ls",
]  # fmt: skip


@pytest.mark.parametrize("command", STEERED)
def test_a_prefix_allows_no_argument_that_makes_its_program_run_another(command: str) -> None:
    words = shell_words(command)
    named = AskRule(id="r", match="prefix", pattern=" ".join(words[:2] if "git" in words[0] else words[:1]))
    assert not speaks(named, run(command)), command
    assert speaks(replace(named, decision="deny"), run(command)), "a deny rule speaks of it all the same"
    assert speaks(replace(named, pattern=command), run(command)), "whoever names it means it"


def test_other_arguments_are_answered() -> None:
    for pattern, command in (
        ("git log", "git log --oneline -p -n 5 src/a.py"), ("git diff", "git diff --cached --stat"),
        ("git push", "git push -u origin main"), ("find", "find . -name x.py -type f"), ("rg", "rg -n --pre-glob=x a"),
        ("sort", "sort -un x"), ("make", "make test -j4 -k"), ("npm run", "npm run build -- --mode=fast"),
        ("go test", "go test -run TestX -v ./..."), ("curl", "curl -fsSL example.com"),
        ("echo", "echo -exec --output x"),
    ):  # fmt: skip
        assert speaks(AskRule(id="r", match="prefix", pattern=pattern), run(command)), command


def test_white_space_that_a_shell_takes_for_a_letter_is_another_command() -> None:
    rule = AskRule(id="r", match="exact", pattern="git push origin main")
    assert speaks(rule, run(" git push origin main \t\n"))
    for other in ("\u00a0", "\u3000", "\x1c", "\x85", "\r", "\f", "\v"):
        assert not speaks(rule, run(f"git push origin main{other}")), repr(other)
        assert not speaks(rule, run(f"{other}git push origin main")), repr(other)


WIDER = {
    "withheld": run("npm test", withheld="it does not say"),
    "a wider grant": run("npm test", wider=True),
    "another capability": run("npm test", capability="network"),
    "a field that disables a sandbox": asked(
        Command("npm test"), {"command": "npm test", "dangerouslyDisableSandbox": True}
    ),
    "a field that escalates": asked(
        Command("npm test"), {"cmd": "npm test", "sandbox_permissions": "require_escalated", "justification": "x"}
    ),
    "a field that nobody knows": asked(Command("npm test"), {"command": "npm test", "env": {"PATH": "/tmp"}}),
    "another shell": asked(Command("npm test"), {"cmd": "npm test", "shell": "/tmp/x"}),
    "a command told in a title only": asked(Command("npm test"), {"title": "npm test"}),
    "a command without input": asked(Command("npm test"), {}),
    "another command in the input": asked(Command("npm test"), {"command": "rm -rf /"}),
    "a list of words": asked(Command("npm test"), {"command": ["npm", "test"]}),
    "elsewhere by the action": asked(Command("npm test", "/elsewhere"), {"command": "npm test"}),
    "elsewhere by the input": asked(Command("npm test"), {"command": "npm test", "workdir": "/elsewhere"}),
    "elsewhere in a way that is not understood": asked(Command("npm test"), {"command": "npm test", "cwd": ["/else"]}),
    "elsewhere by dots": asked(Command("npm test", "../elsewhere"), {"command": "npm test"}),
    "a question": Ask("a", "question", questions=(Question(id="q", text="npm test?"),), input={"command": "npm test"}),
    "a plan": Ask("a", "plan", plan="npm test", action=Command("npm test"), input={"command": "npm test"}),
    "no action": Ask("a", "permission", "npm test", input={"command": "npm test"}),
    "an action that is not understood": asked(OtherAction(), {"command": "npm test"}),
}


@pytest.mark.parametrize("case", WIDER)
def test_an_allow_rule_leaves_it_to_people(case: str) -> None:
    assert not speaks(NPM, WIDER[case])


def test_inputs_that_change_nothing() -> None:
    for given in (
        {"command": "npm test", "description": "Run the tests", "timeout": 1000, "run_in_background": True},
        {"cmd": "npm test", "workdir": f"{HOME}/web", "yield_time_ms": 100},
    ):
        assert speaks(NPM, asked(Command("npm test"), given, capability="shell"))


def test_a_deny_rule_needs_not_to_know_everything() -> None:
    rule = replace(NPM, decision="deny")
    for case in ("withheld", "a wider grant", "a field that escalates", "elsewhere by the input"):
        assert speaks(rule, WIDER[case]), case
    for case in ("a question", "a plan", "no action"):
        assert not speaks(rule, WIDER[case]), case


def test_a_deny_rule_speaks_of_its_own_place_only() -> None:
    """One that spoke of everything would stop every agent."""
    rule = replace(NPM, decision="deny")
    for directory, inside in ((HOME, True), (f"{HOME}/web", True), (f"{HOME}x", False), ("/home/me", False)):
        assert speaks(rule, run("npm test"), replace(HERE, cwd=directory)) is inside, directory
    denied = AskRule(id="r", match="edit", pattern=f"{HOME}/src/", decision="deny")
    for path, inside in PATHS.items():
        hidden = path in (f"{HOME}/src/.env", f"{HOME}/src/.git/hooks/pre-commit")
        assert speaks(denied, edit(path)) is (inside or hidden), path


def test_no_link_leads_around_a_deny_rule(tmp_path: Path) -> None:
    """By its name or by where it leads, one of them is enough."""
    tree = Tree(tmp_path.resolve())
    (tree.home / "link").symlink_to(tree.src)
    (tree.src / "out").symlink_to(tree.secret)
    rule = AskRule(id="r", match="edit", pattern=f"{tree.src}/", decision="deny")
    for path, inside in (("link/a", True), ("src/out/key", True), ("src/.env", True), ("other", False)):
        assert tree.speaks(rule, edit(path)) is inside, path
    for cwd in (f"{tree.home}/link", f"{tree.src}/out"):
        there = AskOrigin("codex", "n1", cwd)
        shell = AskRule(id="r", match="prefix", pattern="npm", directory=str(tree.src), decision="deny")
        assert matches(shell, run("npm test"), there, RealFiles()), cwd
        allowed = matches(replace(shell, decision="allow"), run("npm test"), there, RealFiles())
        assert allowed is (cwd == f"{tree.home}/link"), cwd


def test_whose_ask_it_is() -> None:
    ask = run("npm test")
    for directory, inside in ((HOME, True), (f"{HOME}/web/x", True), (f"{HOME}x", False), ("/home/me", False)):
        assert speaks(NPM, ask, replace(HERE, cwd=directory)) is inside, directory
    assert speaks(replace(NPM, directory=""), ask, replace(HERE, cwd="/anywhere"))
    assert speaks(replace(NPM, node="n1", agent="codex"), ask)
    assert not speaks(replace(NPM, node="n2"), ask)
    assert not speaks(replace(NPM, agent="pi"), ask)


KINDS: dict[type[Action], tuple[Action, RuleMatch | None, str]] = {
    Command: (Command("npm test"), "prefix", "npm test"),
    Edit: (Edit((f"{HOME}/a.py",)), "edit", f"{HOME}/"),
    Read: (Read(f"{HOME}/a.py"), "read", f"{HOME}/a.py"),
    Fetch: (Fetch("https://example.com/x"), "host", "example.com"),
    Mcp: (Mcp("github", "get_issue"), "tool", "github/get_issue"),
    Search: (Search("x"), None, ""),
    Task: (Task("x"), None, ""),
    OtherAction: (OtherAction(), None, ""),
}


@pytest.mark.parametrize("kind", AnyAction.__args__)
def test_each_kind_of_action_has_its_own_kind_of_rule(kind: type[Action]) -> None:
    action, own, pattern = KINDS[kind]
    for match in get_args(RuleMatch):
        rule = AskRule(id="r", match=match, pattern=pattern or f"{HOME}/")
        assert speaks(rule, asked(action)) is (match == own or {match, own} == {"exact", "prefix"}), match  # type: ignore[arg-type]


def edit(*paths: str, **more: Any) -> Ask:
    return asked(Edit(tuple(paths)), **more)


PATHS = {
    f"{HOME}/src/a.py": True,
    f"{HOME}/src/deep/b.py": True,
    "src/a.py": True,
    "./src/../src/a.py": True,
    f"{HOME}/src": False,
    f"{HOME}/srcx/a.py": False,
    f"{HOME}/src/../a.py": False,
    "../../x": False,
    "/etc/passwd": False,
    f"{HOME}/src/.git/hooks/pre-commit": False,
    f"{HOME}/src/.env": False,
    f"{HOME}/src/a\0b": False,
    "": False,
}


@pytest.mark.parametrize("path", PATHS)
def test_a_directory_is_what_is_in_it(path: str) -> None:
    assert speaks(AskRule(id="r", match="edit", pattern=f"{HOME}/src/"), edit(path)) is PATHS[path]


def test_every_path_of_an_edit_counts() -> None:
    rule = AskRule(id="r", match="edit", pattern=f"{HOME}/src/")
    assert speaks(rule, edit(f"{HOME}/src/a", f"{HOME}/src/b"))
    assert not speaks(rule, edit(f"{HOME}/src/a", "/etc/passwd"))
    assert not speaks(rule, edit(), HERE)
    assert not speaks(rule, asked(Edit(("src/a",), "--- a/src/a\n+++ b/etc/x\n")))
    assert not speaks(rule, asked(Edit(("src/a",)), {"file_path": "/etc/passwd"}))
    assert not speaks(rule, asked(Edit(("src/a",)), {"grantRoot": "/"}))
    for path in (["/etc/passwd"], {"of": "src/a"}, 7, True):
        assert not speaks(rule, asked(Edit(("src/a",)), {"file_path": path})), path
        assert not speaks(replace(rule, match="read"), asked(Read("src/a"), {"path": path})), path
        assert speaks(replace(rule, decision="deny"), asked(Edit(("src/a",)), {"file_path": path})), path
    for nothing in (None, ""):
        assert speaks(rule, asked(Edit(("src/a",)), {"file_path": "src/a", "path": nothing}))
    assert not speaks(rule, asked(Edit(("src/a",)), {"file_path": "src/a", "new_path": "/etc/passwd"}))
    assert speaks(replace(rule, decision="deny"), edit("/etc/passwd", "src/a"))


def test_one_file() -> None:
    rule = AskRule(id="r", match="edit", pattern=f"{HOME}/README.md")
    assert speaks(rule, edit("README.md")) and not speaks(rule, edit("README.md/x")) and not speaks(rule, edit("a"))
    hidden = AskRule(id="r", match="edit", pattern=f"{HOME}/.env")
    assert speaks(hidden, edit(".env")), "it was named"


def test_reading_is_not_writing() -> None:
    rule = AskRule(id="r", match="read", pattern=f"{HOME}/src/")
    assert speaks(rule, asked(Read("src/a"), {"file_path": "src/a", "limit": 10}))
    assert not speaks(rule, asked(Read("src/a"), {"file_path": "/etc/passwd"}))
    assert not speaks(rule, edit("src/a"))


class Tree:
    """A project with real files, and a secret beside it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "shop"
        self.src = self.home / "src"
        self.secret = folder / "secret"
        self.src.mkdir(parents=True)
        self.secret.mkdir()
        (self.secret / "key").write_text("x")
        (self.src / "a").write_text("x")

    def speaks(self, rule: AskRule, ask: Ask) -> bool:
        return matches(rule, ask, AskOrigin("codex", "n1", str(self.home)), RealFiles())


def test_links_that_are_made_later_lead_nowhere_else(tmp_path: Path) -> None:
    tree = Tree(tmp_path.resolve())
    rule = AskRule(id="r", match="edit", pattern=f"{tree.src}/")
    assert tree.speaks(rule, edit("src/a")) and tree.speaks(rule, edit("src/new/deep"))
    (tree.src / "link").symlink_to(tree.secret)
    (tree.src / "file").symlink_to(tree.secret / "key")
    (tree.src / "loop").symlink_to("loop")
    os.link(tree.secret / "key", tree.src / "hard")
    for path in ("src/link/key", "src/link/new", "src/file", "src/hard", "src/link/../a", "src/nowhere/../../x"):
        assert not tree.speaks(rule, edit(path)), path
    tree.src.rename(tree.home / "src2")
    tree.src.symlink_to(tree.secret)  # the directory itself
    assert not tree.speaks(rule, edit("src/key"))
    assert not tree.speaks(AskRule(id="r", match="edit", pattern=f"{tree.src}/key"), edit("src/key"))


def test_the_project_itself_becomes_a_link(tmp_path: Path) -> None:
    tree = Tree(tmp_path.resolve())
    rule = AskRule(id="r", match="prefix", pattern="npm test", directory=str(tree.home))
    assert tree.speaks(rule, run("npm test"))
    tree.home.rename(tmp_path / "away")
    tree.home.symlink_to(tree.secret)
    assert not tree.speaks(rule, run("npm test"))


HOSTS = {
    "https://example.com/x?y#z": "example.com",
    "http://example.com": "example.com",
    "https://EXAMPLE.com:443/": "example.com",
    "https://npmjs.com/@scope/x": "npmjs.com",
    "https://example.com:8443/": "",
    "http://example.com:80/": "example.com",
    "http://example.com:81/": "",
    "http://example.com:443/": "",
    "https://example.com:80/": "",
    "https://example.com@evil.com/": "",
    "https://user:word@example.com/": "",
    "https://example.com\\@evil.com/": "",
    "https://example.com%2eevil.com/": "",
    "https://example.com.": "",
    "https://ex\u0430mple.com": "",
    "https://example.com \t.evil.com": "",
    "ftp://example.com": "",
    "file:///etc/passwd": "",
    "//example.com": "",
    "example.com": "",
    "https://[::1]/": "",
    "https://": "",
    "https://example.com:x/": "",
    "": "",
}


@pytest.mark.parametrize("url", HOSTS)
def test_the_host_of_an_address(url: str) -> None:
    assert host_of(url) == HOSTS[url]


def test_hosts() -> None:
    exact, below = (AskRule(id="r", match="host", pattern=pattern) for pattern in ("example.com", ".example.com"))
    for url, this_host, all_below in (
        ("https://example.com/", True, False),
        ("https://api.example.com/", False, True),
        ("https://notexample.com/", False, False),
        ("https://example.com.evil.com/", False, False),
    ):
        assert (speaks(exact, asked(Fetch(url))), speaks(below, asked(Fetch(url)))) == (this_host, all_below), url
    assert not speaks(exact, asked(Fetch(query="example.com"))), "a web search"
    assert not speaks(exact, asked(Fetch("https://example.com"), {"command": "curl", "networkApprovalContext": {}}))


def test_a_tool() -> None:
    rule = AskRule(id="r", match="tool", pattern="github/get_issue")
    assert speaks(rule, asked(Mcp("github", "get_issue"), {"number": 1, "anything": "else"}))
    assert not speaks(rule, asked(Mcp("github", "delete_issue"))) and not speaks(rule, asked(Mcp("github", "")))


def test_which_rule_answers() -> None:
    first, second = replace(NPM, id="1", made_at=1.0), replace(NPM, id="2", made_at=2.0)
    denies = replace(NPM, id="3", made_at=3.0, decision="deny", pattern="npm")
    over, revoked = replace(first, id="4", expires_at=1.0), replace(first, id="5", revoked_at=1.0)

    def answer(*rules: AskRule, command: str = "npm test") -> str:
        rule = decide_by_rules(rules, run(command), HERE, NamedFiles())
        return rule.id if rule else ""

    assert answer(second, first) == "1"
    assert answer(first, denies) == "3", "a deny rule comes first"
    assert answer(over, revoked) == ""
    assert answer(over, revoked, second) == "2"
    assert answer(first, command="ls") == ""


@pytest.mark.parametrize(
    ("match", "pattern"),
    [
        ("prefix", "npm test; x"), ("prefix", "A=b npm"), ("prefix", "bash"), ("prefix", "bash -c"),
        ("prefix", "python -c"), ("prefix", "python3.12"), ("prefix", "python -m"), ("prefix", "node -e"),
        ("prefix", "timeout 5"), ("prefix", "sudo -u me"), ("prefix", "ssh host"), ("prefix", "/usr/bin/time x"),
        ("prefix", "npx"), ("prefix", "npx -y"), ("prefix", "strace -f"), ("prefix", "chroot /x"), ("prefix", "tcsh"),
        ("prefix", "pwsh -Command"), ("prefix", "awk"), ("prefix", "/bin/ash -c"), ("prefix", "pypy3 -c"),
        ("prefix", "git"), ("prefix", "npm"), ("prefix", "npm exec"), ("prefix", "docker run"), ("prefix", "sed"),
        ("prefix", "/usr/bin/git"), ("prefix", "git bisect run"), ("prefix", "uv run"), ("prefix", "tar"),
        ("prefix", "/usr/bin/env -i"), ("prefix", "sudo"), ("prefix", ""), ("exact", " "),
        ("exact", "x" * 2001), ("exact", "a\0b"), ("edit", "src/"), ("edit", "/home/../etc/"), ("edit", "/"),
        ("read", "//"), ("read", "//etc/"), ("edit", "//etc/passwd"),
        ("host", "https://example.com"), ("host", ".com"), ("host", "*.example.com"),
        ("host", "Example.com"), ("host", ""), ("tool", "github"), ("tool", "/x"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_rule(match: RuleMatch, pattern: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_rule(AskRule(id="r", match=match, pattern=pattern))
    assert refused.value.field == "pattern"


def test_what_can_be_one() -> None:
    for match, pattern in (
        ("prefix", "python -m pytest"), ("prefix", "npm run"), ("prefix", "uv run pytest"),
        ("prefix", "npx vitest"), ("prefix", "bash run.sh"),
        ("prefix", "python3 x.py"), ("exact", "bash -c 'x'; y"), ("edit", "/home/me/"),
        ("host", ".example.com"), ("host", "localhost"), ("tool", "a/b"),
    ):  # fmt: skip
        rule = AskRule(id="r", match=match, pattern=pattern, directory="/home/me")  # type: ignore[arg-type]
        check_rule(rule)
        assert pattern.strip(".").split("/")[0] in rule_text(rule) and "None" not in rule_text(rule)
    for directory in ("here", "//home/me", "/home/me/../you", "/", "/a\0b", "/" + "x" * 2000):
        with pytest.raises(UsageError) as refused:
            check_rule(replace(NPM, directory=directory))
        assert refused.value.field == "directory", directory
    check_rule(replace(NPM, directory="/" + "x" * 1999, pattern="x" * 2000))
