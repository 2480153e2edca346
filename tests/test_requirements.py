"""tests/requirements.md is true to its form, and every test that it names exists.

The page is read as text and the tests as syntax trees, so nothing is imported or run. All that is wrong is
reported at once, each with its line.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = "tests/requirements.md"
SYSTEMS = {
    "DorkOS relay": "dorkos",
    "relay-mesh": "mesh",
    "cligent": "cligent",
    "agent-chatter": "chatter",
    "Mast": "mast",
    "What you approve is what happens": "approve",
    "The phone in one step": "phone",
    "The page": "page",
    "Rules for asks": "rule",
    "Changes": "changes",
    "Worktrees": "worktree",
    "Sessions in people's own terminals": "attach",
}
HEADER = ["id", "requirement", "shown by"]
NOT_YET = "not yet"

ID = re.compile(r"([a-z]+)-\d{2,3}")
SEPARATOR = re.compile(r":?-{3,}:?")
NODE_IDS = re.compile(r"`[^`]+`(?:\s*,\s*`[^`]+`)*")
CELL_BORDER = re.compile(r"(?<!\\)\|")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Problem:
    line: int
    text: str

    def __str__(self) -> str:
        return f"{PAGE}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Row:
    line: int
    system: str
    id: str
    requirement: str
    shown_by: str


def parse(text: str) -> tuple[list[Row], list[Problem]]:
    """Every well-formed row, and a problem for every table line that is not one."""
    rows: list[Row] = []
    problems: list[Problem] = []
    system = ""
    expected = "header"  # the next table line of this section is its header, then its separator, then rows
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("## "):
            if expected != "row" and system:
                problems.append(Problem(number, f"the section {system!r} has no table"))
            system, expected = line[3:].strip(), "header"
            if system not in SYSTEMS:
                problems.append(Problem(number, f"unknown section {system!r}"))
        if not line.lstrip().startswith("|"):
            continue
        cells = [cell.strip() for cell in CELL_BORDER.split(line.strip())]
        if cells[-1] != "":
            problems.append(Problem(number, "the row does not end with '|'"))
            continue
        cells = cells[1:-1]
        if not system:
            problems.append(Problem(number, "a table before the first section"))
        elif expected == "header":
            expected = "separator"
            if cells != HEADER:
                problems.append(Problem(number, f"the header is {cells}, not {HEADER}"))
        elif expected == "separator":
            expected = "row"
            if len(cells) != 3 or not all(SEPARATOR.fullmatch(cell) for cell in cells):
                problems.append(Problem(number, "the header is not followed by a separator of three cells"))
        elif len(cells) != 3:
            problems.append(Problem(number, f"the row has {len(cells)} cells, not 3"))
        else:
            rows.append(Row(number, system, *cells))
    return rows, problems


def check(text: str, root: Path) -> list[Problem]:
    """Everything that is wrong with the page, in the order of its lines."""
    rows, problems = parse(text)
    tests = Tests(root)
    first_use: dict[str, int] = {}
    for row in rows:
        problems += [Problem(row.line, f"{row.id or '(no id)'}: {fault}") for fault in _row_faults(row, tests)]
        if row.id in first_use:
            problems.append(Problem(row.line, f"{row.id}: already used in line {first_use[row.id]}"))
        first_use.setdefault(row.id, row.line)
    present = {row.system for row in rows}
    last = len(text.splitlines())
    problems += [Problem(last, f"no requirement of {system!r}") for system in SYSTEMS if system not in present]
    return sorted(problems, key=lambda problem: problem.line)


def _row_faults(row: Row, tests: "Tests") -> Iterator[str]:
    matched = ID.fullmatch(row.id)
    if matched is None:
        yield "the id is not a system's short name, a dash and a number of two or three digits"
    elif row.system in SYSTEMS and matched[1] != SYSTEMS[row.system]:
        yield f"the id belongs to another section than {row.system!r}"
    if not row.requirement:
        yield "the requirement is empty"
    if row.shown_by == NOT_YET:
        return
    if NODE_IDS.fullmatch(row.shown_by) is None:
        yield f"'shown by' is neither {NOT_YET!r} nor a list of node ids in backticks: {row.shown_by!r}"
        return
    for node_id in re.findall(r"`([^`]+)`", row.shown_by):
        fault = tests.fault_of(node_id)
        if fault is not None:
            yield f"{node_id}: {fault}"


class Tests:
    """The tests of a source tree, read from its files."""

    __test__ = False

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._trees: dict[Path, ast.Module] = {}
        self._shipped: dict[str, list[ast.ClassDef]] | None = None

    def fault_of(self, node_id: str) -> str | None:
        """Why this node id names no test; None when it names one."""
        name, *parts = node_id.split("[", 1)[0].split("::")
        file = (self._root / name).resolve()
        if Path(name).is_absolute() or not file.is_relative_to(self._root):
            return "the file is not below the project's root"
        if file.suffix != ".py" or not file.is_file():
            return "there is no such test file"
        if not parts or not parts[-1].startswith("test"):
            return "it does not name a test function"
        try:
            tree = self._tree(file)
        except SyntaxError as error:
            return f"the file cannot be parsed: {error}"
        return self._fault_in(tree, parts)

    def _fault_in(self, tree: ast.Module, parts: list[str]) -> str | None:
        *class_names, function = parts
        body: Iterable[ast.stmt] = tree.body
        owner: ast.ClassDef | None = None
        for class_name in class_names:
            owner = next((definition for definition in _classes(body) if definition.name == class_name), None)
            if owner is None:
                return f"the file defines no class {class_name}"
            body = owner.body
        if owner is None:
            return None if function in _functions(body) else f"the file defines no function {function}"
        if self._has_method(owner, function, tree, frozenset()):
            return None
        return f"the class {owner.name} neither defines nor inherits {function}"

    def _has_method(self, owner: ast.ClassDef, method: str, tree: ast.Module, seen: frozenset[ast.AST]) -> bool:
        if owner in seen:
            return False
        if method in _functions(owner.body):
            return True
        local = {definition.name: definition for definition in _classes(tree.body)}
        renamed = _renamed_imports(tree)
        for base in filter(None, map(_base_name, owner.bases)):
            # A base is in the test's own file, or one of the suites: those that are shipped, and the tests' own.
            bases = [local[base]] if base in local else self._shipped_classes(renamed.get(base, base))
            for definition in bases:
                home = tree if base in local else self._home_of(definition)
                if self._has_method(definition, method, home, seen | {owner}):
                    return True
        return False

    def _shipped_classes(self, name: str) -> list[ast.ClassDef]:
        if self._shipped is None:
            self._shipped = {}
            shipped = (self._root / "src/tieline/testing").rglob("*.py")
            for file in sorted([*shipped, *(self._root / "tests").glob("*/*_contract.py")]):
                for definition in _classes(self._tree(file).body):
                    self._shipped.setdefault(definition.name, []).append(definition)
        return self._shipped.get(name, [])

    def _home_of(self, wanted: ast.ClassDef) -> ast.Module:
        return next(tree for tree in self._trees.values() if wanted in _classes(tree.body))

    def _tree(self, file: Path) -> ast.Module:
        if file not in self._trees:
            self._trees[file] = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
        return self._trees[file]


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, and those under its conditions, which are in the same scope."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try):
            yield from _statements([*statement.body, *statement.orelse])
            if isinstance(statement, ast.Try):
                yield from _statements(inner for handler in statement.handlers for inner in handler.body)


def _classes(body: Iterable[ast.stmt]) -> list[ast.ClassDef]:
    return [definition for definition in _statements(body) if isinstance(definition, ast.ClassDef)]


def _functions(body: Iterable[ast.stmt]) -> set[str]:
    return {definition.name for definition in _statements(body) if isinstance(definition, Function)}


def _renamed_imports(tree: ast.Module) -> dict[str, str]:
    imports = [statement for statement in _statements(tree.body) if isinstance(statement, ast.ImportFrom)]
    return {alias.asname: alias.name for statement in imports for alias in statement.names if alias.asname}


def _base_name(base: ast.expr) -> str | None:
    if isinstance(base, ast.Subscript):
        return _base_name(base.value)
    if isinstance(base, ast.Attribute):
        return base.attr
    return base.id if isinstance(base, ast.Name) else None


def test_requirements_name_existing_tests() -> None:
    problems = check((ROOT / PAGE).read_text(encoding="utf-8"), ROOT)
    assert not problems, "\n" + "\n".join(map(str, problems))


# The check itself, on pages and trees made for it.


def page(*rows: str, header: str = "| id | requirement | shown by |") -> str:
    """A page that is right but for these rows, which are the first ones: they begin in line 5."""
    sections = [f"## {system}\n\n{header}\n| --- | --- | --- |" for system in SYSTEMS]
    fillers = [f"| {short}-99 | Something. | not yet |" for short in SYSTEMS.values()]
    first, *others = [f"{section}\n{filler}\n" for section, filler in zip(sections, fillers, strict=True)]
    start = first.index("| --- | --- | --- |\n") + len("| --- | --- | --- |\n")
    body = first[:start] + "".join(f"{row}\n" for row in rows) + first[start:]
    return "\n".join([body, *others])


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    suites = tmp_path / "src/tieline/testing"
    suites.mkdir(parents=True)
    (suites / "common.py").write_text("class Common:\n    async def test_common(self): ...\n")
    (suites / "suite.py").write_text(
        "from tieline.testing.common import Common as Shared\n"
        "class Suite(Shared):\n    def test_shipped(self): ...\n    def helper(self): ...\n"
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_it.py").write_text(
        "from tieline import testing\n"
        "from tieline.testing.suite import Suite as Renamed\n"
        "def test_plain(): ...\n"
        "async def test_async(): ...\n"
        "if True:\n    def test_conditional(): ...\n"
        "def helper():\n    def test_hidden(): ...\n"
        "class TestOwn:\n    def test_method(self): ...\n"
        "class TestRenamed(Renamed): ...\n"
        "class TestGeneric(testing.suite.Suite[int]): ...\n"
        "class TestLocal(TestOwn): ...\n"
        "class TestLoop(TestLoop): ...\n"
        "class TestOuter:\n    class TestInner:\n        def test_deep(self): ...\n"
    )
    (tmp_path / "tests/test_broken.py").write_text("def test_broken(:\n")
    return tmp_path


@pytest.mark.parametrize(
    "shown_by",
    [
        "not yet",
        "`tests/test_it.py::test_plain`",
        "`tests/test_it.py::test_plain`, `tests/test_it.py::test_async`",
        "`tests/test_it.py::test_plain[a::b-1]`",
        "`tests/test_it.py::test_conditional`",
        "`tests/test_it.py::TestOwn::test_method`",
        "`tests/test_it.py::TestRenamed::test_shipped`",
        "`tests/test_it.py::TestRenamed::test_common`",
        "`tests/test_it.py::TestGeneric::test_shipped[sqlite]`",
        "`tests/test_it.py::TestLocal::test_method`",
        "`tests/test_it.py::TestOuter::TestInner::test_deep`",
    ],
)
def test_accepts(tree: Path, shown_by: str) -> None:
    assert check(page(f"| dorkos-01 | A pipe \\| is escaped. | {shown_by} |"), tree) == []


@pytest.mark.parametrize(
    ("shown_by", "fault"),
    [
        ("`tests/test_gone.py::test_plain`", "no such test file"),
        ("`tests::test_plain`", "no such test file"),
        ("`../tests/test_it.py::test_plain`", "not below the project's root"),
        ("`/tests/test_it.py::test_plain`", "not below the project's root"),
        ("`tests/test_it.py::test_gone`", "no function test_gone"),
        ("`tests/test_it.py::test_hidden`", "no function test_hidden"),
        ("`tests/test_it.py::test_method`", "no function test_method"),
        ("`tests/test_it.py::TestGone::test_method`", "no class TestGone"),
        ("`tests/test_it.py::TestOwn::test_gone`", "neither defines nor inherits test_gone"),
        ("`tests/test_it.py::TestOwn::test_shipped`", "neither defines nor inherits test_shipped"),
        ("`tests/test_it.py::TestRenamed::test_gone`", "neither defines nor inherits test_gone"),
        ("`tests/test_it.py::TestLoop::test_gone`", "neither defines nor inherits test_gone"),
        ("`tests/test_it.py::TestOwn`", "does not name a test function"),
        ("`tests/test_it.py::helper`", "does not name a test function"),
        ("`tests/test_it.py`", "does not name a test function"),
        ("`tests/test_broken.py::test_broken`", "cannot be parsed"),
        ("`tests/test_it.py::test_plain`, `tests/test_it.py::test_gone`", "no function test_gone"),
        ("tests/test_it.py::test_plain", "neither 'not yet' nor"),
        ("`tests/test_it.py::test_plain` `tests/test_it.py::test_async`", "neither 'not yet' nor"),
        ("`tests/test_it.py::test_plain`, not yet", "neither 'not yet' nor"),
        ("", "neither 'not yet' nor"),
    ],
)
def test_rejects_what_shows_nothing(tree: Path, shown_by: str, fault: str) -> None:
    (problem,) = check(page(f"| dorkos-01 | Something. | {shown_by} |"), tree)
    assert problem.line == 5
    assert fault in str(problem)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("| dorkos-01 | Something. |", "has 2 cells, not 3"),
        ("| dorkos-01 | Some | thing. | not yet |", "has 4 cells, not 3"),
        ("| dorkos-01 | Something. | not yet", "does not end with '|'"),
        ("| dorkos-01 |  | not yet |", "the requirement is empty"),
        ("| dorkos-1 | Something. | not yet |", "the id is not"),
        ("| Dorkos-01 | Something. | not yet |", "the id is not"),
        ("|  | Something. | not yet |", "the id is not"),
        ("| mesh-01 | Something. | not yet |", "another section"),
    ],
)
def test_rejects_malformed_rows(tree: Path, row: str, fault: str) -> None:
    (problem,) = check(page(row), tree)
    assert problem.line == 5
    assert fault in str(problem)


def test_rejects_an_id_used_twice(tree: Path) -> None:
    row = "| dorkos-01 | Something. | not yet |"
    (problem,) = check(page(row, row), tree)
    assert str(problem) == f"{PAGE}:6: dorkos-01: already used in line 5"


def test_rejects_wrong_headers(tree: Path) -> None:
    problems = check(page(header="| id | requirement | proof |"), tree)
    assert [problem.line for problem in problems] == [3 + 6 * number for number in range(len(SYSTEMS))]


def test_rejects_a_missing_separator(tree: Path) -> None:
    problems = check(page().replace("| --- | --- | --- |\n", "", 1), tree)
    assert any("separator" in problem.text for problem in problems)


def test_rejects_unknown_missing_and_empty_sections(tree: Path) -> None:
    problems = check("| a |\n## Else\n## Mast\n", tree)
    faults = [problem.text for problem in problems]
    assert faults[0] == "a table before the first section"
    assert "unknown section 'Else'" in faults
    assert "the section 'Else' has no table" in faults
    assert {f"no requirement of {system!r}" for system in SYSTEMS} <= set(faults)


def test_reports_everything_at_once_in_order(tree: Path) -> None:
    problems = check(
        page("| dorkos-1 |  | maybe |", "| dorkos-02 |", "| dorkos-03 | X. | `tests/a.py::test_a` |"), tree
    )
    assert [problem.line for problem in problems] == [5, 5, 5, 6, 7]
