"""The documents are true: their code runs, their commands exist, their links lead somewhere."""

import inspect
import re
import shlex
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from tests import seen_features

from tieline.cli.app import HELP, app
from tieline.cli.doc_generators import agents, configuration, harnesses
from tieline.harnesses import registry
from tieline.mesh.mcp_tools import TOOLS

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"^\w*\$ ")
CODE_PLACE = re.compile(r"`([\w/]+\.py): (\w+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
BIN = Path(sys.executable).parent
STORIES = (ROOT / "README.md", ROOT / "docs/tutorial.md")
"""Run as a whole, block after block: see test_pages.py."""


@pytest.mark.parametrize("name", [each for each in registry.names() if each != "generic"])
def test_each_harness_has_a_passage_that_says_what_a_person_does(name: str) -> None:
    page = (ROOT / "docs/harnesses.md").read_text()
    title = registry.create(name).display_name
    _, heading, rest = page.partition(f"\n## {title}\n")
    assert heading, f"docs/harnesses.md says nothing about {title}"
    passage = rest.partition("\n## ")[0]
    assert f"tieline install {name}" in passage
    assert "wake" in passage, "whether a message wakes an idle session"


def blocks(language: str) -> list[Any]:
    """Fenced blocks of a language. A block marked `no-run` says so in its fence and is only compiled."""
    params: list[Any] = []
    for page in (page for page in PAGES if page not in STORIES):
        for match in FENCE.finditer(page.read_text()):
            if match[1] == language:
                line = page.read_text()[: match.start()].count("\n") + 1
                params.append(pytest.param(match[3], match[2].strip(), id=f"{page.relative_to(ROOT)}:{line}"))
    return params


@pytest.mark.parametrize(("code", "mark"), blocks("python"))
def test_python_blocks_run(code: str, mark: str, tmp_path: Path) -> None:
    compiled = compile(code, "block", "exec", flags=_top_level_await())
    if mark == "no-run":
        return
    script = tmp_path / "block.py"
    body = "\n".join(f"    {line}" for line in code.splitlines())
    script.write_text(
        f"import asyncio\nasync def main():\n{body}\nasyncio.run(main())\n" if _awaits(compiled) else code
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": f"{BIN}:/usr/bin:/bin", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("text", "mark"), blocks("console"))
def test_console_blocks_run(text: str, mark: str, tmp_path: Path) -> None:
    """Lines after `$ ` are run one after the other in an empty directory; each must succeed."""
    if mark == "no-run":
        return
    env = {"HOME": str(tmp_path), "PATH": f"{BIN}:/usr/bin:/bin", "LANG": "C.UTF-8"}
    for line in text.splitlines():
        if line.startswith("$ "):
            done = subprocess.run(
                ["/bin/sh", "-c", line[2:]],
                cwd=tmp_path,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


# --- commands: every verb and option that a document or a help text names -----------------------------------

TIELINE: Any = typer.main.get_command(app)
SEPARATORS = frozenset({";", "|", "||", "&", "&&", "(", ")", "<", ">", ">>"})


def described(command: Any = TIELINE, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from described(inner, (*path, name))


def invocations(line: str) -> Iterator[list[str]]:
    """The arguments of each `tieline` in a line of shell."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    current: list[str] | None = None
    for word in words:
        if word in SEPARATORS or word == "tieline":
            if current is not None:
                yield current
            current = [] if word == "tieline" else None
        elif current is not None:
            current.append(word)
    if current is not None:
        yield current


def fault_of(arguments: list[str]) -> str | None:
    """What of it the program does not have. Words in capitals stand for something, as in a usage line."""
    command, path = TIELINE, "tieline"
    rest = list(arguments)
    while getattr(command, "commands", None):
        rest = command.with_verb(rest)
        if not rest or rest[0].startswith(("-", "[")) or rest[0].isupper():
            break
        name = rest.pop(0)
        if name not in command.commands:
            return f"{path} has no verb {name}"
        command, path = command.commands[name], f"{path} {name}"
    known = {*HELP, *(option for param in command.params for option in (*param.opts, *param.secondary_opts))}
    for word in rest[: rest.index("--")] if "--" in rest else rest:  # what follows is another program's
        option = word.strip("[]…").split("=")[0]
        if option.startswith("-") and option != "-" and option not in known:
            return f"{path} has no option {option}"
    return None


def documented(page: Path) -> Iterator[str]:
    """Lines of shell on a page: in its blocks, and in the middle of a sentence."""
    text = page.read_text()
    for match in FENCE.finditer(text):
        if match[1] in ("console", "sh"):
            # What a command prints may name a command too, in the same form.
            yield from (PROMPT.sub("", line).strip() for line in match[3].splitlines() if "tieline " in line)
    for span in re.findall(r"`(tieline [^`]+)`", FENCE.sub("", text)):
        yield " ".join(span.replace("\\|", " ").split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documented_commands_exist(page: Path) -> None:
    faults = {
        f"{line}: {fault}" for line in documented(page) for each in invocations(line) if (fault := fault_of(each))
    }
    assert faults == set()


def test_examples_of_the_help_exist() -> None:
    shown = [line for _, command in described() for line in (command.epilog or "").splitlines() if "tieline " in line]
    assert len(shown) > 30
    # An example may be followed by what it means, after some spaces.
    lines = [line.strip().split("   ")[0] for line in shown]
    assert [fault for line in lines for each in invocations(line) if (fault := fault_of(each))] == []


@pytest.mark.parametrize(("path", "command"), [pytest.param(*each, id=" ".join(each[0])) for each in described()])
def test_help_fits_a_terminal(path: tuple[str, ...], command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    above = None
    for name in ("tieline", *path[:-1]):
        above = typer.Context(TIELINE, info_name=name, parent=above, help_option_names=list(HELP))
    page = command.get_help(typer.Context(command, info_name=path[-1], parent=above) if path else above)
    assert page.startswith(f"Usage: {' '.join(('tieline', *path))} [OPTIONS]")
    assert "\nExamples\n  " in page
    assert [line for line in page.splitlines() if len(line) > 80] == []


def test_every_verb_is_on_the_page_of_the_command_line() -> None:
    page = (ROOT / "docs/cli.md").read_text()
    assert [verb for verb in TIELINE.commands if f"`tieline {verb}" not in page] == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("tieline run codex 'do it' --policy edits | jq .type", None),
        ("tieline pair [--page --node] ; tieline node join URL [--secret S] # there", None),
        ("tieline COMMAND --help", None),
        ("git diff | tieline send 1f0c2a -", None),
        ("tieline frobnicate", "tieline has no verb frobnicate"),
        ("tieline sessions; tieline node jion URL", "tieline node has no verb jion"),
        ("tieline tail 1f0c2a --folow", "tieline tail has no option --folow"),
        ("tieline dead retry --patern='x'", "tieline dead retry has no option --patern"),
    ],
)
def test_the_check_of_commands_can_fail(line: str, fault: str | None) -> None:
    assert [problem for each in invocations(line) if (problem := fault_of(each))] == ([fault] if fault else [])


# --- the reference of the configuration ----------------------------------------------------------------------


def test_the_reference_of_the_configuration_is_made_from_its_types() -> None:
    assert (ROOT / "docs/configuration.md").read_text() == configuration.reference(), "run `make docs`"


def test_the_tables_of_the_harnesses_are_made_from_the_integrations() -> None:
    written = (ROOT / "docs/harnesses.md").read_text()
    assert written == harnesses.page(written), "run `make docs`"


def test_the_tables_of_the_agents_are_made_from_what_was_seen() -> None:
    written, seen = (ROOT / "docs/agents.md").read_text(), seen_features.FILE.read_bytes()
    assert written == agents.page(written, seen), "run `make docs`"
    assert agents.page(written.replace("| ✓", "| –"), seen) == written, "whatever stood there"


def test_each_harness_that_is_tried_has_a_section_and_two_of_them_an_example() -> None:
    """How to begin with it, by the command that installs it; the example names tools that there are."""
    text = (ROOT / "docs/harnesses.md").read_text()
    sections = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", text, re.MULTILINE))
    for name in ("claude-code", "codex", "opencode", "pi", "vibe"):
        harness = registry.create(name)
        assert harness.tested and f"tieline install {name}\n" in sections[harness.display_name]
    example = sections["Two harnesses, one task"]
    assert "`claude`" in example and "`codex`" in example
    named = set(re.findall(r"`(\w+_\w+|reply)`", example))
    assert named and named <= TOOLS.keys()


def test_every_room_is_in_the_architecture() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    rooms = [path.parent.name for path in (ROOT / "src/tieline").glob("*/__init__.py")]
    assert len(rooms) > 15 and [room for room in rooms if f"\n  {room}/ " not in page] == []
    assert [room for room in rooms if f"`{room}`" not in (ROOT / "AGENTS.md").read_text()] == []


def test_every_key_of_the_configuration_has_a_meaning_and_a_true_example() -> None:
    keys = [
        (f"{header}.{key.name}", key)
        for _, header, table in configuration.tables()
        for key in configuration.listed(header, table)
    ]
    assert len(keys) > 120
    # setting("what it means", an example) beside the type: see config.py
    assert [name for name, key in keys if not key.meaning or key.example is None] == []
    for _, key in keys:
        msgspec.convert(msgspec.to_builtins(key.example), key.kind)


# --- links, names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{target} in {page.relative_to(ROOT)}"


def headings(page: Path) -> list[str]:
    return re.findall(r"^#{2,} (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)


def anchor(heading: str) -> str:
    """As the usual renderers make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_anchors_exist(page: Path) -> None:
    for target, name in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", FENCE.sub("", page.read_text())):
        if "://" not in target:
            there = (page.parent / target) if target else page
            assert name in {anchor(heading) for heading in headings(there)}, f"{target}#{name} in {page.name}"


def test_places_in_the_code_exist() -> None:
    """`file.py: name`, from the package's folder on."""
    places = [(page.name, *reference) for page in PAGES for reference in CODE_PLACE.findall(page.read_text())]
    assert places
    for page, file, name in places:
        text = (ROOT / "src/tieline" / file).read_text()
        defined = rf"^ *(?:(?:async )?def|class) {name}\b|^{name}\b.* = "
        assert re.search(defined, text, re.MULTILINE), f"{page}: {file} has no {name}"


def test_every_decision_is_in_the_table_of_contents_once() -> None:
    page = ROOT / "docs/decisions.md"
    listed = re.findall(r"^- \[.*\]\(#(.*)\)$", page.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(anchor(heading) for heading in headings(page))
    assert len(listed) > 40


def test_every_document_is_in_the_index() -> None:
    index = ROOT / "docs/README.md"
    listed = {(index.parent / target).resolve() for target in LINK.findall(index.read_text())}
    pages = {*ROOT.glob("docs/*.md"), *ROOT.glob("docs/drivers/*.md")} - {index}
    assert sorted(page.name for page in pages - listed) == []


def test_every_word_of_the_glossary_is_in_the_code() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    terms = [term.strip() for row in rows if row[0] not in ("word", "---") for term in row[0].split(",")]
    assert len(terms) > 30 and len(terms) == len(set(terms))
    missing = {term: re.compile(rf"\b{re.escape(term.lower())}s?\b") for term in terms}
    for path in (ROOT / "src").rglob("*.py"):
        # Python's tokenizer is slow: only a file that has a word which is still missing is read as names.
        if any(pattern.search(_words(path.stem, path.read_text())) for pattern in missing.values()):
            names = _words(path.stem, *_names(path))
            missing = {term: pattern for term, pattern in missing.items() if not pattern.search(names)}
    assert list(missing) == []


def _words(*names: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", "\n".join(names)).replace("_", " ").lower()


def _names(path: Path) -> set[str]:
    with path.open("rb") as file:
        return {token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.NAME}


def test_no_registry_is_named() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=30).stdout.split()
    hosts = re.compile(r"(registry\.npm|files\.python" + r"hosted|pypi\.(org|io))")
    named = [
        name
        for name in tracked
        if (ROOT / name).is_file() and hosts.search((ROOT / name).read_bytes().decode(errors="replace"))
    ]
    assert named == []


def test_make_targets_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for target in re.findall(r"`make ([a-z-]+)", page.read_text()):
            assert target in targets, f"{page.name} speaks of make {target}"


def _top_level_await() -> int:
    import ast

    return ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def _awaits(compiled: object) -> bool:
    return bool(getattr(compiled, "co_flags", 0) & inspect.CO_COROUTINE)
