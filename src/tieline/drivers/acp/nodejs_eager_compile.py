"""A program of Node that is started before anybody waits for it: it is compiled whole then, not bit by bit in its first
turn.

Node compiles a function when it is first called. For a program of many megabytes that is much of what its first turn
takes. It costs memory, so it is for agents that are kept ready, not for those that are started because they are needed.
"""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MAX_SHEBANG = 256
"""Bytes that are looked at to see who runs a script."""

PRELOAD = "data:text/javascript," + ";".join(
    (
        "import v8 from 'node:v8'",
        # Set here and not as options: a Node that does not know one goes on without it.
        "for (const flag of ['--no-lazy', '--no-wasm-lazy-compilation']) v8.setFlagsFromString(flag)",
        # When the first stream is let go of, Node makes an error with a stack trace for all of them: inside a large
        # program that takes 40 ms.
        "new ReadableStream().getReader().releaseLock()",
    )
)


def precompiled_command(argv: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
    """The same command, compiled whole when it starts; unchanged when it is no script that Node runs."""
    program = shutil.which(argv[0], path=env.get("PATH", ""))
    runner: list[str] = []
    if program is not None:
        with suppress(OSError), Path(program).open("rb") as file:
            runner = _node_interpreter(file.readline(MAX_SHEBANG))
    if program is None or not runner:
        return argv
    return (*runner, "--import", PRELOAD, program, *argv[1:])


def _node_interpreter(line: bytes) -> list[str]:
    """Node and its options, from a script's first line; empty when it is somebody else's."""
    words = line.removeprefix(b"#!").decode(errors="replace").split() if line.startswith(b"#!") else []
    if words and Path(words[0]).name == "env":
        words = words[2:] if words[1:2] == ["-S"] else words[1:]
    return words if words and Path(words[0]).name == "node" else []
