"""The fast part of the tests on every Python that the package says it supports: `make test-pythons`.

Each Python has a virtual environment of its own below `.pythons/`, made from the same pinned and hashed requirements as
the one of `make setup`. A Python that is not on this machine is named and left out. `--only 3.13` runs one of them,
`--others` all but the one that runs this; what follows `--` goes to pytest.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".pythons"
PINS = ROOT / "requirements" / "dev.txt"
THIS = "{}.{}".format(*sys.version_info)
FAST = ("-m", "not real and not slow")
CLASSIFIER = "Programming Language :: Python :: 3."
ELSEWHERE = (
    "{pyenv}/versions/{version}.*/bin/python{version}",
    "{home}/.local/share/uv/python/cpython-{version}.*/bin/python{version}",
    "/usr/local/bin/python{version}",
    "/opt/homebrew/bin/python{version}",
)
"""Where Pythons are that are not on the PATH."""


def supported() -> list[str]:
    """The versions that pyproject.toml names: "3.11" …"""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [line.rpartition(" ")[2] for line in project["classifiers"] if line.startswith(CLASSIFIER)]


def find(version: str) -> str:
    """The program of that Python, or nothing. A name on the PATH may be a shim that starts none."""
    return next((path for path in _candidates(version) if _is_python(path, version)), "")


def _candidates(version: str) -> Iterator[str]:
    if on_path := shutil.which(f"python{version}"):
        yield on_path
    home = Path.home()
    names = {"version": version, "home": home, "pyenv": os.environ.get("PYENV_ROOT", home / ".pyenv")}
    for pattern in ELSEWHERE:
        yield from sorted(map(str, Path("/").glob(pattern.format(**names).lstrip("/"))), reverse=True)


def _is_python(path: str, version: str) -> bool:
    code = "import sqlite3, ssl, sys; print('%d.%d' % sys.version_info[:2])"
    try:
        process = subprocess.run([path, "-I", "-c", code], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return process.stdout.strip() == version


def prepare(version: str, program: str) -> Path:
    """Its environment's interpreter. An environment that was made from the same requirements is used again."""
    package = ("--no-deps", "--no-build-isolation", "-e", str(ROOT))
    return make_environment(ENVIRONMENTS / version, program, PINS, package, of=_pyproject())


def make_environment(folder: Path, program: str, pins: Path, package: Sequence[str] = (), *, of: bytes = b"") -> Path:
    """The interpreter of an environment that has what is pinned, and that package; anew if these, or `of`, changed."""
    python, stamp = folder / "bin" / "python", folder / ".stamp"
    made_from = hashlib.sha256(b"\0".join((program.encode(), pins.read_bytes(), of))).hexdigest()
    if not stamp.exists() or stamp.read_text() != made_from:
        shutil.rmtree(folder, ignore_errors=True)
        uv = str(Path(sys.executable).with_name("uv"))
        env = {**os.environ, "VIRTUAL_ENV": str(folder)}
        _run([uv, "venv", "--quiet", "--python", program, str(folder)], env)
        _run([uv, "pip", "sync", "--quiet", "--compile-bytecode", "--require-hashes", str(pins)], env)
        if package:
            _run([uv, "pip", "install", "--quiet", *package], env)
        stamp.write_text(made_from)
    return python


def _pyproject() -> bytes:
    return (ROOT / "pyproject.toml").read_bytes()


def _run(command: Sequence[str], env: Mapping[str, str]) -> None:
    subprocess.run(command, env=env, cwd=ROOT, check=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="The fast tests on each supported Python of this machine.")
    parser.add_argument("--only", action="append", choices=supported(), help="this one; may be repeated")
    parser.add_argument("--others", action="store_true", help="not this one: `make test` has run all tests on it")
    parser.add_argument("--workers", default="3", help="processes that run tests")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, instead of the fast part")
    given = parser.parse_args(arguments)
    results: dict[str, str] = {}
    for version in given.only or supported():
        if given.others and version == THIS:
            continue
        if not (program := find(version)):
            results[version] = "not found on this machine"
            continue
        print(f"--- Python {version}: {program}", flush=True)
        try:
            python = prepare(version, program)
        except subprocess.CalledProcessError as error:
            results[version] = f"FAILED: its environment cannot be made (exit status {error.returncode})"
            continue
        run = [str(python), "-m", "pytest", "-q", "-n", given.workers, "--dist", "worksteal"]
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
        status = subprocess.run([*run, *(given.pytest or FAST)], env=env, cwd=ROOT).returncode
        results[version] = "FAILED" if status else "passed"
    print("\n".join(f"Python {version}: {result}" for version, result in results.items()))
    nothing_ran = "passed" not in results.values() and not given.others
    return int(any(result.startswith("FAILED") for result in results.values()) or nothing_ran)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
