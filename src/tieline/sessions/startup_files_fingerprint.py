"""A fingerprint of what an agent reads only when it starts: instructions, settings, and the checked-out commit.

A conversation that was opened ahead would go on by the old ones, so it is used only while they are unchanged. One list
for all agents: a file that one of them does not read costs it nothing but a fresh start, a file that is missing here an
agent with the wrong rules. What an agent is told of uncommitted work may be as old as the conversation; it looks again
before it does anything about it.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from ..safe_file_read import read_regular
from . import git_repository

FILES = ("AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "QWEN.md", ".env", ".mcp.json",
         "opencode.json", "opencode.jsonc")  # fmt: skip
"""In the directory, in those above it, and in the user's home."""


class OwnFiles(Struct, frozen=True):
    """A folder of an agent's own, in the same places, or where a variable says that the user's is."""

    folder: str
    variable: str
    files: tuple[str, ...]
    folders: tuple[str, ...]  # the files in these, and one level below: skills are folders


OPENCODE_FILES = ("AGENTS.md", "opencode.json", "opencode.jsonc")
OPENCODE_FOLDERS = ("agent", "agents", "command", "commands", "mode", "modes", "plugin", "plugins", "skill", "skills")
OWN = (
    OwnFiles(".claude", "CLAUDE_CONFIG_DIR",
        ("CLAUDE.md", "settings.json", "settings.local.json", "plugins/installed_plugins.json"),
        ("agents", "commands", "output-styles", "rules", "skills")),
    OwnFiles(".codex", "CODEX_HOME", ("AGENTS.md", "AGENTS.override.md", "config.toml"),
        ("prompts", "rules", "skills")),
    OwnFiles(".gemini", "", ("GEMINI.md", "settings.json", "system.md", ".env"),
        ("agents", "commands", "extensions", "policies", "skills")),
    OwnFiles(".qwen", "", ("QWEN.md", "settings.json", ".env"), ("agents", "commands", "extensions", "skills")),
    OwnFiles(".opencode", "OPENCODE_CONFIG_DIR", OPENCODE_FILES, OPENCODE_FOLDERS),
    OwnFiles(".config", "XDG_CONFIG_HOME",
        tuple(f"opencode/{name}" for name in OPENCODE_FILES), tuple(f"opencode/{name}" for name in OPENCODE_FOLDERS)),
    OwnFiles(".agents", "", (), ("skills",)),
)  # fmt: skip
MAX_FILES = 100
"""In a folder, that are looked at; of these size and time must do."""
MAX_BYTES = 1024 * 1024
MAX_STATE = 32 * 1024 * 1024


def fingerprint(cwd: str, env: Mapping[str, str]) -> bytes:
    """A digest of the files that agents read at their start. It looks at some hundred files: call it in a thread."""
    digest = hashlib.blake2b(digest_size=16)
    repository = git_repository.find(cwd)
    git = repository.git_dir if repository else ""
    for path in filter(_there, _read_whole(cwd, env, git)):
        with suppress(OSError):
            digest.update(b"%b\0%b\0" % (os.fsencode(path), read_regular(path, MAX_BYTES)))
    for path in filter(_there, _looked_at(cwd, env, git)):
        with suppress(OSError):
            info = Path(path).stat()
            digest.update(b"%b\0%d %d\0" % (os.fsencode(path), info.st_size, info.st_mtime_ns))
    digest.update(_claude_servers(cwd, env))
    return digest.digest()


def _there(path: str) -> bool:
    """Most are not: a path as an object costs more than the look."""
    return os.access(path, os.R_OK)


def _base_folders(cwd: str, env: Mapping[str, str]) -> Iterator[str]:
    home = [env["HOME"]] if env.get("HOME") else []
    yield from dict.fromkeys((cwd, *map(str, Path(cwd).parents), *home))


def _own(cwd: str, env: Mapping[str, str]) -> Iterator[tuple[str, OwnFiles]]:
    """The agents' own folders that exist."""
    for own in OWN:
        folders = [f"{base}/{own.folder}" for base in _base_folders(cwd, env)]
        if moved := env.get(own.variable):
            folders.append(moved)
        yield from ((folder, own) for folder in folders if _there(folder))


def _read_whole(cwd: str, env: Mapping[str, str], git: str) -> Iterator[str]:
    for base in _base_folders(cwd, env):
        yield from (f"{base}/{name}" for name in FILES)
    for folder, own in _own(cwd, env):
        yield from (f"{folder}/{name}" for name in own.files)
    if git:
        yield f"{git}/HEAD"


def _looked_at(cwd: str, env: Mapping[str, str], git: str) -> Iterator[str]:
    if git:
        yield f"{git}/logs/HEAD"  # a line more with every commit, checkout and reset
    for folder, own in _own(cwd, env):
        for name in own.folders:
            for path in _within(f"{folder}/{name}"):
                yield path
                yield from _within(path)


def _within(folder: str) -> list[str]:
    if not _there(folder):
        return []
    try:
        return sorted(map(str, Path(folder).iterdir()))[:MAX_FILES]
    except OSError:  # a file
        return []


class _Project(Struct):
    mcpServers: Raw = Raw()
    enabledMcpjsonServers: Raw = Raw()
    disabledMcpjsonServers: Raw = Raw()
    hasTrustDialogAccepted: Raw = Raw()


class _State(_Project):
    projects: dict[str, _Project] = {}


_state = msgspec.json.Decoder(_State)


def _claude_servers(cwd: str, env: Mapping[str, str]) -> bytes:
    """The settings that `claude mcp add` writes into a file in which Claude Code keeps its state as well."""
    home = env.get("CLAUDE_CONFIG_DIR") or env.get("HOME", "")
    with suppress(OSError, msgspec.MsgspecError):
        state = _state.decode(read_regular(f"{home}/.claude.json", MAX_STATE))
        here = (state.projects.get(str(directory)) for directory in (Path(cwd), *Path(cwd).parents))
        values = (
            getattr(settings, name) for settings in (state, *here) if settings for name in _Project.__struct_fields__
        )
        return b"\0".join(map(bytes, values)).strip(b"\0")
    return b""
