"""How Codex is started: needs no event loop, so that it can be done before one is imported."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import AgentMissing

CWD = "/"
"""Where the server runs: it serves many directories, and each thread is told its own."""

INSTALL = "Install it with `npm install -g @openai/codex`, or name the executable in the agent's `command`."

TARGETS = {  # system and machine → the npm package for it, and its directory there
    ("linux", "x86_64"): ("linux-x64", "x86_64-unknown-linux-musl"),
    ("linux", "aarch64"): ("linux-arm64", "aarch64-unknown-linux-musl"),
    ("darwin", "x86_64"): ("darwin-x64", "x86_64-apple-darwin"),
    ("darwin", "arm64"): ("darwin-arm64", "aarch64-apple-darwin"),
}


def machine() -> str:
    return os.uname().machine


def launch_command(env: Mapping[str, str], command: Sequence[str] = ()) -> tuple[list[str], dict[str, str]]:
    """Arguments and environment of the app-server. Raises AgentMissing.

    The npm package's `codex` is a script that only starts the native program; starting that one saves Node's start.
    """
    first, *rest = command or ("codex",)
    found = shutil.which(first, path=env.get("PATH", ""))
    if found is None:
        raise AgentMissing("codex", f"there is no executable {first!r} on the PATH", hint=INSTALL)
    path = Path(found).absolute()
    script = path.resolve()
    native = _native(script) if script.name == "codex.js" else None
    if native is None:
        return [str(path), *rest, "app-server"], dict(env)
    told = {"CODEX_MANAGED_BY_NPM": "1", "CODEX_MANAGED_PACKAGE_ROOT": str(script.parent.parent)}
    return [str(native), *rest, "app-server"], {**env, **told}


def _native(script: Path) -> Path | None:
    """The program that the npm package's script would start: in the package for this platform, as Node finds it."""
    package, target = TARGETS.get((sys.platform, machine()), ("", ""))
    root = script.parent.parent
    places = [
        root.parent / f"codex-{package}",
        *(parent / "node_modules/@openai" / f"codex-{package}" for parent in root.parents),
        root,
    ]
    programs = (place / "vendor" / target / "bin/codex" for place in places)
    return next((program for program in programs if target and os.access(program, os.X_OK)), None)
