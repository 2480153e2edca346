"""What a conversation was opened with, told apart from what is there now."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tieline.sessions.startup_files_fingerprint import fingerprint


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "above" / "repository"
    made.mkdir(parents=True)
    git(made, "init", "-q", "-b", "main")
    (made / "code.py").write_text("1")
    commit(made)
    return made


def git(place: Path, *words: str) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(place.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=n", "-c", "user.email=e@x")
    subprocess.run(["git", *who, *words], cwd=place, env=env, check=True, timeout=30)


def commit(place: Path) -> None:
    git(place, "add", "--all")
    git(place, "commit", "-q", "--allow-empty", "-m", "one")


def write(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


IN_A_FILE = (
    "CLAUDE.md", ".mcp.json", ".env", ".claude/settings.json", ".claude/rules/one.md", ".claude/commands/new.md",
    ".claude/skills/one/SKILL.md", ".codex/config.toml", ".codex/rules/one.rules", ".gemini/settings.json",
    ".gemini/extensions/one/gemini-extension.json", ".opencode/agent/one.md", ".agents/skills/one/SKILL.md",
)  # fmt: skip
CHANGES: dict[str, Callable[[Path, Path], None]] = {
    "instructions above": lambda place, root: write(place.parent / "AGENTS.md"),
    "claude elsewhere": lambda place, root: write(root / "claude/settings.json"),
    "rules elsewhere": lambda place, root: write(root / "claude/rules/one.md"),
    "skills elsewhere": lambda place, root: write(root / "claude/skills/one/SKILL.md"),
    "codex elsewhere": lambda place, root: write(root / "codex/rules/one.rules"),
    "opencode elsewhere": lambda place, root: write(root / "config/opencode/agent/one.md"),
    "a server": lambda place, root: write(root / "claude/.claude.json", '{"mcpServers":{"a":{"command":"b"}}}'),
    "a server here": lambda place, root: write(
        root / "claude/.claude.json",
        msgspec.json.encode({"projects": {str(place): {"mcpServers": {"a": {}}}}}).decode(),
    ),
    "a commit": lambda place, root: commit(place),
    "a branch": lambda place, root: git(place, "checkout", "-q", "-b", "other"),
    **{f"{name} here": lambda place, root, name=name: write(place / name) for name in IN_A_FILE},
    **{f"{name} at home": lambda place, root, name=name: write(root / "home" / name) for name in IN_A_FILE},
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_counts(place: Path, tmp_path: Path, what: str) -> None:
    moved = {"CLAUDE_CONFIG_DIR": "claude", "CODEX_HOME": "codex", "XDG_CONFIG_HOME": "config"}
    env = {"HOME": str(tmp_path / "home")} | {name: str(tmp_path / folder) for name, folder in moved.items()}
    before = fingerprint(str(place), env)
    assert fingerprint(str(place), env) == before
    CHANGES[what](place, tmp_path)
    assert fingerprint(str(place), env) != before


def test_what_was_there_and_is_another(place: Path) -> None:
    seen: set[bytes] = set()
    for text in ("one", "two", "one"):
        write(place / "CLAUDE.md", text)
        seen.add(fingerprint(str(place), {}))
    assert len(seen) == 2


def test_work_and_state_do_not_count(place: Path, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path / "home")}
    before = fingerprint(str(place), env)
    write(place / "code.py", "2")
    write(place / "new.py")
    write(tmp_path / "home/.claude/projects/x/session.jsonl")
    write(tmp_path / "home/.codex/sessions/x.jsonl")
    write(tmp_path / "home/.claude.json", '{"numStartups":3,"projects":{"/elsewhere":{"mcpServers":{"a":{}}}}}')
    assert fingerprint(str(place), env) == before


def test_a_worktree_has_its_own_head(place: Path) -> None:
    git(place, "worktree", "add", "-q", "../second", "-b", "second")
    second = place.parent / "second"
    before, first = fingerprint(str(second), {}), fingerprint(str(place), {})
    commit(second)
    assert fingerprint(str(second), {}) != before
    assert fingerprint(str(place), {}) == first


def test_places_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").mkdir()
    (tmp_path / ".git").write_text("nonsense")
    (tmp_path / ".claude").write_text("a file")
    (tmp_path / ".claude.json").write_text("{")
    home = {"HOME": str(tmp_path)}
    assert fingerprint(str(tmp_path), home) == fingerprint(str(tmp_path), home)
    assert fingerprint(str(tmp_path / "gone"), {"HOME": "/nowhere", "CODEX_HOME": "/nowhere"})


def test_pipes_do_not_block(place: Path, tmp_path: Path) -> None:
    """Whoever opens a pipe waits for its writer; an agent may have made it."""
    (tmp_path / "home").mkdir()
    for path in (place / "CLAUDE.md", place / ".env", tmp_path / "home/.claude.json"):
        os.mkfifo(path)
    env = {"HOME": str(tmp_path / "home")}
    assert fingerprint(str(place), env) == fingerprint(str(place), env)
