"""The documents are true: their code runs, their links lead somewhere, they name no host of a registry."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
BIN = Path(sys.executable).parent


def blocks(language: str) -> list[Any]:
    """Fenced blocks of a language. A block marked `no-run` says so in its fence and is only compiled."""
    found: list[Any] = []
    for page in PAGES:
        for match in FENCE.finditer(page.read_text()):
            if match[1] == language:
                line = page.read_text()[: match.start()].count("\n") + 1
                found.append(pytest.param(match[3], match[2].strip(), id=f"{page.relative_to(ROOT)}:{line}"))
    return found


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{target} in {page.relative_to(ROOT)}"


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
