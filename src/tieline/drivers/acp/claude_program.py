"""Claude Code as its ACP adapter starts it where a repository's settings do not count."""

import platform
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

ENV = "CLAUDE_CODE_EXECUTABLE"
"""Names the program that the adapter starts as Claude Code."""
PACKAGES = "node_modules/@anthropic-ai"
SCRIPTS = (".js", ".cjs", ".mjs")


def claude_without_repository(command: Sequence[str], env: Mapping[str, str]) -> str:
    """A program to be named by `ENV`. `command`: the adapter's.

    Sessions leave the repository's settings out because their options say so. But at each prompt the adapter also
    asks Claude Code who is signed in (`claude auth status`), in the session's folder and with all settings; and Claude
    Code runs the `SessionEnd` hooks of these when that is cut off: by the adapter after 5 s, or with the session."""
    claude = shlex.join(claude_program(command, env))
    return f'#!/bin/sh\nunset {ENV}\nexec {claude} --setting-sources user "$@"\n'


def claude_program(command: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    if own := env.get(ENV):
        return ("node", own) if own.endswith(SCRIPTS) else (own,)
    for part in command:  # the adapter, or Node and the adapter
        program = Path(shutil.which(part, path=env.get("PATH", "")) or part)
        for folder in program.resolve().parents if program.is_absolute() else ():
            programs = sorted((folder / PACKAGES).glob("claude-agent-sdk-*/claude"))
            musl = [each for each in programs if each.parent.name.endswith("-musl")]
            glibc = [each for each in programs if each not in musl]
            if chosen := (glibc or musl) if platform.libc_ver()[0] else (musl or glibc):
                return (str(chosen[0]),)
    # A launcher such as npx installs the adapter at its start: the adapter itself knows the program, but is slow.
    return (*command, "--cli")
