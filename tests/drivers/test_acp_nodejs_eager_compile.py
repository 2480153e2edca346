"""Programs of Node that are started ahead: which they are, and that they are compiled whole, with the real Node."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tieline.drivers.acp.nodejs_eager_compile import PRELOAD, precompiled_command
from tieline.testing.rig import scratch_env

PATH = f"{Path(shutil.which('node') or '/usr/bin/node').parent}:/usr/bin:/bin"

SIZE = "console.log(require('node:v8').getHeapCodeStatistics().bytecode_and_metadata_size, ...process.argv.slice(2))"
"""Says how much code is compiled, and its arguments."""


def script(folder: Path, text: str, name: str = "agent") -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(text)
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    ("line", "runner"),
    [
        ("#!/usr/bin/env node", ("node",)),
        ("#!/usr/bin/env -S node --no-warnings=DEP0040", ("node", "--no-warnings=DEP0040")),
        ("#!/opt/node/bin/node", ("/opt/node/bin/node",)),
        ("#! /opt/node/bin/node --no-deprecation", ("/opt/node/bin/node", "--no-deprecation")),
    ],
)
def test_a_script_of_node(line: str, runner: tuple[str, ...], tmp_path: Path) -> None:
    file = script(tmp_path / "bin", f"{line}\n{SIZE}\n")
    argv = precompiled_command(("agent", "--acp", "-m", "x"), {"PATH": f"{tmp_path}/bin:{PATH}"})
    assert argv == (*runner, "--import", PRELOAD, str(file), "--acp", "-m", "x")


@pytest.mark.parametrize("text", ["#!/bin/sh\n", "#!/usr/bin/env\n", "#!\n", "#!/usr/bin/env deno\n", "", "\x7fELF"])
def test_any_other_program_is_started_as_it_is(text: str, tmp_path: Path) -> None:
    script(tmp_path / "bin", text)
    argv = ("agent", "--acp")
    assert precompiled_command(argv, {"PATH": f"{tmp_path}/bin"}) == argv


@pytest.mark.parametrize("env", [{}, {"PATH": ""}, {"PATH": "/nowhere"}])
def test_one_that_is_not_there_is_left_to_fail(env: Mapping[str, str]) -> None:
    assert precompiled_command(("agent", "--acp"), env) == ("agent", "--acp")


def test_one_that_cannot_be_read_is_started_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "bin", "#!/usr/bin/env node\n")

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "open", refused)
    assert precompiled_command(("agent",), {"PATH": f"{tmp_path}/bin"}) == ("agent",)


def test_it_is_compiled_whole(tmp_path: Path) -> None:
    """Functions that nobody has called yet are there."""
    never = "".join(
        f"function f{n}(a) {{ return a.map((b) => b + {n}).filter((c) => c > {n}); }}\n" for n in range(500)
    )
    script(tmp_path / "bin", f"#!/usr/bin/env node\n{never}{SIZE}\n")
    env = scratch_env(tmp_path / "home", path=f"{tmp_path}/bin:{PATH}")

    def run(argv: tuple[str, ...]) -> tuple[int, list[str]]:
        process = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, check=True, timeout=60)
        assert process.stderr == b"", "it says nothing of its own"
        size, *rest = process.stdout.decode().split()
        return int(size), rest

    plain, words = run(("agent", "-m", "x"))
    whole, same = run(precompiled_command(("agent", "-m", "x"), env))
    assert words == same == ["-m", "x"]
    assert whole > plain + 100_000
