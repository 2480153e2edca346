"""Breaks the code on purpose, one small change at a time, and sees whether a test notices.

    .venv/bin/python tests/mutation/mutate.py --number 200 --seed 1 [--json] [PATH …]

Each mutant is one change of one module, in a copy of the tree; only the tests of that module run, without the slow
ones and the real agents. *Killed*: a test failed. *Timed out*: they did not come to an end, which notices it as well.
*Survived*: nothing noticed; unless the change means the same, a test is missing.
"""

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Literal, NamedTuple, cast

ROOT = Path(__file__).parents[2]
PACKAGE = Path("src/tieline")
AIMED = (
    "sessions",
    "relay",
    "hub/security",
    "drivers/*/policy.py",
)
"""Where a fault costs most: what is decided, what is delivered, who may come in."""
ALSO = {
    "sessions": ("tests/sessions", "tests/asks"),
    "relay": ("tests/relay", "tests/channels"),
    "hub": ("tests/hub",),
    "drivers": ("tests/drivers",),
    "harnesses": ("tests/harnesses",),
    "schedules": ("tests/schedules",),
    "client": ("tests/client",),
}
"""The rest of a room's tests, for what the module's own did not notice."""
BOUND_S = 150.0

Outcome = Literal["killed", "survived", "timed out"]
Kind = Literal["comparison", "condition", "constant", "removed", "return", "arguments"]
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


class Mutant(NamedTuple):
    path: str
    line: int
    kind: Kind
    before: str
    after: str
    begin: int  # where the old text is, in bytes
    end: int


class Judged(NamedTuple):
    mutant: Mutant
    outcome: Outcome
    by: str  # the test that noticed


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", default=AIMED, metavar="PATH", help=f"below {PACKAGE}")
    parser.add_argument("--number", type=int, default=200, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--own", action="store_true", help="only the module's own tests, not all of its room")
    parser.add_argument("--tests", nargs=argparse.REMAINDER, help="the last option: these instead, as pytest is told")
    parser.add_argument("--json", action="store_true", help="one object per mutant, as they are judged")
    chosen = parser.parse_args(words)
    mutants = sample(modules(chosen.paths), chosen.number, chosen.seed)
    judged: list[Judged] = []
    with tempfile.TemporaryDirectory() as folder:
        trees: Queue[Path] = Queue()
        for number in range(chosen.jobs):
            trees.put(copied(Path(folder) / str(number)))

        def work(mutant: Mutant) -> Judged:
            tree = trees.get()
            try:
                tests = [chosen.tests] if chosen.tests else tests_of(mutant.path, own=chosen.own)
                return judge(tree, mutant, tests)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(chosen.jobs) as pool:
            for verdict in pool.map(work, mutants):
                judged.append(verdict)
                print(shown(verdict, as_json=chosen.json), flush=True)
    if not chosen.json:
        print(table(judged))
    return 0


def modules(paths: Sequence[str]) -> list[str]:
    files: set[Path] = set()
    for pattern in paths:
        for path in (ROOT / PACKAGE).glob(pattern):
            files |= set(path.rglob("*.py")) if path.is_dir() else {path}
    return sorted(str(path.relative_to(ROOT)) for path in files)


def sample(paths: Sequence[str], number: int, seed: int) -> list[Mutant]:
    """The same for the same code and seed."""
    every = [mutant for path in paths for mutant in mutants_of(path, (ROOT / path).read_text())]
    return random.Random(seed).sample(every, min(number, len(every)))


# --- what can be changed -----------------------------------------------------------------------------------------


def mutants_of(path: str, source: str) -> Iterator[Mutant]:
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    text = source.encode()
    for node, kind, after in changes(ast.parse(source)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        before = text[begin:end].decode()
        if before != after:
            yield Mutant(path, node.lineno, kind, before, after, begin, end)


def changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, Kind, str]]:
    """Each node that can be changed, and what is put in its place."""
    for node in code_of(tree):
        match node:
            case ast.Compare(left=left, ops=[op, *more], comparators=compared):
                flipped = ast.Compare(left, [FLIPPED[type(op)](), *more], compared)
                yield node, "comparison", f"({ast.unparse(flipped)})"
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Compare):
                yield test, "condition", f"(not ({ast.unparse(test)}))"
            case ast.BoolOp(op=op, values=values):
                other = ast.BoolOp(ast.And() if isinstance(op, ast.Or) else ast.Or(), values)
                yield node, "condition", f"({ast.unparse(other)})"
            case ast.Constant(value=bool() as value):
                yield node, "constant", repr(not value)
            case ast.Constant(value=int() | float() as value):
                yield node, "constant", repr(value + 1)
            case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise():
                yield node, "removed", "pass"
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield node, "return", "return None"
            case ast.Call(args=[first, second, *rest], func=func, keywords=keywords) if not any(
                isinstance(argument, ast.Starred) for argument in (first, second)
            ):
                yield node, "arguments", ast.unparse(ast.Call(func, [second, first, *rest], keywords))
            case _:
                pass


def code_of(tree: ast.AST) -> Iterator[ast.AST]:
    """Without annotations, f-strings and what is said to people: a test need not hold each word of those."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list") or (
            isinstance(tree, ast.ClassDef) and name == "keywords"
        ):
            continue
        children = cast(list[object], value if isinstance(value, list) else [value])
        for child in children:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue
            if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
                yield child
                yield from code_of(child)


# --- whether it is noticed ---------------------------------------------------------------------------------------


def copied(tree: Path) -> Path:
    """The tree without what is built or installed; that is linked."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().splitlines():
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    for name in ("src/tieline/hub/static", "tests/agents/node_modules"):
        if (ROOT / name).exists() and not (tree / name).exists():
            (tree / name).symlink_to(ROOT / name)
    return tree


def judge(tree: Path, mutant: Mutant, tests: Sequence[Sequence[str]]) -> Judged:
    file = tree / mutant.path
    source = file.read_bytes()
    file.write_bytes(source[: mutant.begin] + mutant.after.encode() + source[mutant.end :])
    try:
        for words in tests:
            outcome, by = run(tree, words)
            if outcome != "survived":
                return Judged(mutant, outcome, by)
        return Judged(mutant, "survived", "")
    finally:
        file.write_bytes(source)


def tests_of(path: str, *, own: bool = False) -> list[list[str]]:
    """First the module's own: those of its name (the tests mirror the tree), and those that import it. Then all of its
    room, unless only its own are wanted."""
    inside = Path(path).relative_to(PACKAGE)
    room, name = inside.parts[0], inside.stem
    module = ".".join(("tieline", *inside.with_suffix("").parts))
    imports = re.compile(rf"{re.escape(module)}\b|from {re.escape(module.rpartition('.')[0])} import .*\b{name}\b")
    kin = inside.parts[1] if room == "drivers" else name.rstrip("s")
    files = [
        str(file.relative_to(ROOT))
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
        if (kin in str(file.relative_to(ROOT / "tests")) and room in file.parts) or imports.search(file.read_text())
    ]
    files.sort(key=lambda file: kin not in file)  # stable: those of its name first, where most are noticed
    return [tests for tests in (files, [] if own and files else list(ALSO[room])) if tests]


def run(tree: Path, words: Sequence[str]) -> tuple[Outcome, str]:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "--timeout", "30", "--no-header", "--tb", "no"]
    command += ["-m", "not slow and not real", *words]
    env = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command, cwd=tree, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=BOUND_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return "timed out", ""
    if process.returncode in (0, 5):  # 5: none of its tests is a quick one
        return "survived", ""
    return "killed", next(
        (line.split(" - ")[0] for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))), ""
    )


# --- what is told ------------------------------------------------------------------------------------------------


def shown(verdict: Judged, *, as_json: bool) -> str:
    mutant = verdict.mutant
    if as_json:
        return json.dumps({**mutant._asdict(), "outcome": verdict.outcome, "by": verdict.by})
    change = f"{mutant.before} -> {mutant.after}".replace("\n", " ")
    return f"{verdict.outcome:9}  {mutant.path}:{mutant.line}  {mutant.kind}: {change[:150]}"


def table(judged: Sequence[Judged]) -> str:
    outcomes: tuple[Outcome, ...] = ("killed", "timed out", "survived")
    counts = Counter((room(verdict.mutant.path), verdict.outcome) for verdict in judged)
    rows: list[tuple[str, ...]] = [("where", *outcomes)]
    for where in sorted({room(verdict.mutant.path) for verdict in judged}):
        rows.append((where, *(str(counts[where, outcome]) for outcome in outcomes)))
    rows.append(("all", *(str(sum(verdict.outcome == outcome for verdict in judged)) for outcome in outcomes)))
    return "\n" + "\n".join("".join(f"{cell:<14}" for cell in row).rstrip() for row in rows)


def room(path: str) -> str:
    return Path(path).relative_to(PACKAGE).parts[0]


if __name__ == "__main__":
    raise SystemExit(main())
