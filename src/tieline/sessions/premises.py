"""What an agent reads once, when it is opened: its instructions and settings, and which commit it stands on.

A conversation that was opened ahead would go on by the old ones, so it is used only while they are unchanged. One list
for all agents: a file that one of them does not read costs it nothing but a fresh start. What an agent is told of
uncommitted work may be as old as the conversation; it looks again before it does anything about it.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

FILES = (
    "AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "QWEN.md",
    ".mcp.json", "opencode.json", "opencode.jsonc",
    ".claude/CLAUDE.md", ".claude/settings.json", ".claude/settings.local.json",
    ".codex/AGENTS.md", ".codex/AGENTS.override.md", ".codex/config.toml",
    ".gemini/GEMINI.md", ".gemini/settings.json", ".gemini/.env",
    ".qwen/QWEN.md", ".qwen/settings.json",
    ".config/opencode/AGENTS.md", ".config/opencode/opencode.json", ".config/opencode/opencode.jsonc",
)  # fmt: skip
"""In the directory, in those above it, and in the user's home."""
FOLDERS = (
    ".claude/agents", ".claude/commands", ".claude/output-styles", ".claude/rules", ".claude/skills",
    ".codex/rules", ".gemini/agents", ".gemini/commands", ".gemini/policies", ".opencode", ".qwen/commands",
)  # fmt: skip
"""The files in these, and one level below: skills are folders."""
HOMES = {
    "CLAUDE_CONFIG_DIR": ("CLAUDE.md", "settings.json"),
    "CODEX_HOME": ("AGENTS.md", "AGENTS.override.md", "config.toml"),
}
MAX_FILES = 100
"""In a folder, that are looked at; of these size and time must do."""
MAX_BYTES = 1024 * 1024


def premises(cwd: str, env: Mapping[str, str]) -> bytes:
    """A digest: the same as long as nothing of it has changed. It looks at some hundred places: not for the loop."""
    digest = hashlib.blake2b(digest_size=16)
    git = _git_directory(cwd)
    for path in filter(_there, _read_whole(cwd, env, git)):
        with suppress(OSError), Path(path).open("rb") as file:
            digest.update(b"%b\0%b\0" % (os.fsencode(path), file.read(MAX_BYTES)))
    for path in filter(_there, _looked_at(cwd, env, git)):
        with suppress(OSError):
            found = Path(path).stat()
            digest.update(b"%b\0%d %d\0" % (os.fsencode(path), found.st_size, found.st_mtime_ns))
    return digest.digest()


def _there(path: str) -> bool:
    """Most are not: a path as an object costs more than the look."""
    return os.access(path, os.R_OK)


def _places(cwd: str, env: Mapping[str, str]) -> Iterator[str]:
    home = [env["HOME"]] if env.get("HOME") else []
    yield from dict.fromkeys((cwd, *map(str, Path(cwd).parents), *home))


def _read_whole(cwd: str, env: Mapping[str, str], git: str) -> Iterator[str]:
    for place in _places(cwd, env):
        for name in FILES:
            yield f"{place}/{name}"
    for variable, names in HOMES.items():
        if home := env.get(variable):
            for name in names:
                yield f"{home}/{name}"
    if git:
        yield f"{git}/HEAD"


def _looked_at(cwd: str, env: Mapping[str, str], git: str) -> Iterator[str]:
    if git:
        yield f"{git}/logs/HEAD"  # a line more with every commit, checkout and reset
    for place in _places(cwd, env):
        for name in FOLDERS:
            for path in _within(f"{place}/{name}"):
                yield path
                yield from _within(path)


def _within(folder: str) -> list[str]:
    if not _there(folder):
        return []
    try:
        return sorted(map(str, Path(folder).iterdir()))[:MAX_FILES]
    except OSError:  # a file
        return []


def _git_directory(cwd: str) -> str:
    """Empty when it is in none."""
    for place in (cwd, *map(str, Path(cwd).parents)):
        if not _there(git := f"{place}/.git"):
            continue
        if Path(git).is_dir():
            return git
        with suppress(OSError, ValueError):  # a worktree, or a submodule
            head, _, where = Path(git).read_text().partition(":")
            return str(Path(place, where.strip())) if head == "gitdir" else ""
    return ""
