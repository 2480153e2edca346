"""The code is one for every Python that the package supports. `make test-pythons` runs the tests on each; here, without
an environment, each that is on this machine compiles the code and finds all that it imports of the standard library."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.packaging import pythons
from tests.packaging.pythons import THIS, find, supported

SOURCE = Path(__file__).parents[2] / "src"
CHECK = """
import ast, importlib, sys
from pathlib import Path
problems = []
for path in sorted(Path(sys.argv[1]).rglob("*.py")):
    try:
        tree = compile(path.read_text(), str(path), "exec", ast.PyCF_ONLY_AST)
        compile(tree, str(path), "exec")
    except (SyntaxError, Warning) as error:
        problems.append(f"{path}: {error}")
        continue
    for node in ast.walk(tree):
        names = [alias.name for alias in getattr(node, "names", ())] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        for name in names:
            if name.split(".")[0] not in sys.argv[2].split(","):
                continue
            try:
                module = importlib.import_module(name)
                wanted = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
                missing = [each for each in wanted if not hasattr(module, each)]
                for each in missing:
                    importlib.import_module(f"{name}.{each}")
            except (ImportError, Warning) as error:
                problems.append(f"{path}:{node.lineno}: {error}")
print(*problems, sep="\\n")
"""


def problems(python: str, source: Path) -> str:
    """What that Python does not like about the code, one line each."""
    standard = ",".join(sys.stdlib_module_names)
    run = [python, "-I", "-B", "-W", "error", "-c", CHECK, str(source), standard]
    process = subprocess.run(run, capture_output=True, text=True, timeout=100)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


def test_the_versions_are_known() -> None:
    assert THIS in supported() and len(supported()) > 1


def test_where_there_is_no_other_python_none_has_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(pythons, "ELSEWHERE", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pythons.main(["--others"]) == 0
    others = [version for version in supported() if version != THIS]
    assert capsys.readouterr().out.splitlines() == [f"Python {each}: not found on this machine" for each in others]
    assert pythons.main([]) == 1, "who asks for all of them wants one to have run"


@pytest.mark.slow
@pytest.mark.parametrize("version", [each for each in supported() if each != THIS])
def test_another_python_reads_the_code(version: str) -> None:
    if not (python := find(version)):
        pytest.skip(f"Python {version} is not on this machine")
    assert problems(python, SOURCE) == ""


@pytest.mark.slow
def test_what_a_python_does_not_have_is_told(tmp_path: Path) -> None:
    (tmp_path / "removed.py").write_text("import asyncio\nfrom asyncio import no_such_thing\n")
    (tmp_path / "newer.py").write_text("def f():\n    yield = 1\n")
    (tmp_path / "escape.py").write_text('x = "\\d"\n')
    report = problems(sys.executable, tmp_path)
    assert "removed.py:2" in report and "newer.py" in report and "escape.py" in report
