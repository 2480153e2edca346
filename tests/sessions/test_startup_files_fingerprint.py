"""What a conversation was opened with, told apart from what is there now."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tieline.sessions.startup_files_fingerprint import fingerprint


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "above" / "repository"
    made.mkdir(parents=True)
    git(made, "init", "-q", "-b", "main")
    (made / "code.py").write_text("1")
    commit(made)
    return made


def git(cwd: Path, *words: str) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(cwd.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=n", "-c", "user.email=e@x")
    subprocess.run(["git", *who, *words], cwd=cwd, env=env, check=True, timeout=30)


def commit(cwd: Path) -> None:
    git(cwd, "add", "--all")
    git(cwd, "commit", "-q", "--allow-empty", "-m", "one")


def write(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


IN_A_FILE = (
    "CLAUDE.md", ".mcp.json", ".env", ".claude/settings.json", ".claude/rules/one.md", ".claude/commands/new.md",
    ".claude/skills/one/SKILL.md", ".codex/config.toml", ".codex/rules/one.rules", ".gemini/settings.json",
    ".gemini/extensions/one/gemini-extension.json", ".opencode/agent/one.md", ".agents/skills/one/SKILL.md",
)  # fmt: skip
CHANGES: dict[str, Callable[[Path, Path], None]] = {
    "instructions above": lambda repository, root: write(repository.parent / "AGENTS.md"),
    "claude elsewhere": lambda repository, root: write(root / "claude/settings.json"),
    "rules elsewhere": lambda repository, root: write(root / "claude/rules/one.md"),
    "skills elsewhere": lambda repository, root: write(root / "claude/skills/one/SKILL.md"),
    "codex elsewhere": lambda repository, root: write(root / "codex/rules/one.rules"),
    "opencode elsewhere": lambda repository, root: write(root / "config/opencode/agent/one.md"),
    "a server": lambda repository, root: write(root / "claude/.claude.json", '{"mcpServers":{"a":{"command":"b"}}}'),
    "a server here": lambda repository, root: write(
        root / "claude/.claude.json",
        msgspec.json.encode({"projects": {str(repository): {"mcpServers": {"a": {}}}}}).decode(),
    ),
    "a commit": lambda repository, root: commit(repository),
    "a branch": lambda repository, root: git(repository, "checkout", "-q", "-b", "other"),
    **{f"{name} here": lambda repository, root, name=name: write(repository / name) for name in IN_A_FILE},
    **{f"{name} at home": lambda repository, root, name=name: write(root / "home" / name) for name in IN_A_FILE},
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_counts(repository: Path, tmp_path: Path, what: str) -> None:
    moved = {"CLAUDE_CONFIG_DIR": "claude", "CODEX_HOME": "codex", "XDG_CONFIG_HOME": "config"}
    env = {"HOME": str(tmp_path / "home")} | {name: str(tmp_path / folder) for name, folder in moved.items()}
    before = fingerprint(str(repository), env)
    assert fingerprint(str(repository), env) == before
    CHANGES[what](repository, tmp_path)
    assert fingerprint(str(repository), env) != before


def test_what_was_there_and_is_another(repository: Path) -> None:
    seen: set[bytes] = set()
    for text in ("one", "two", "one"):
        write(repository / "CLAUDE.md", text)
        seen.add(fingerprint(str(repository), {}))
    assert len(seen) == 2


def test_work_and_state_do_not_count(repository: Path, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path / "home")}
    before = fingerprint(str(repository), env)
    write(repository / "code.py", "2")
    write(repository / "new.py")
    write(tmp_path / "home/.claude/projects/x/session.jsonl")
    write(tmp_path / "home/.codex/sessions/x.jsonl")
    write(tmp_path / "home/.claude.json", '{"numStartups":3,"projects":{"/elsewhere":{"mcpServers":{"a":{}}}}}')
    assert fingerprint(str(repository), env) == before


def test_a_worktree_has_its_own_head(repository: Path) -> None:
    git(repository, "worktree", "add", "-q", "../second", "-b", "second")
    second = repository.parent / "second"
    before, first = fingerprint(str(second), {}), fingerprint(str(repository), {})
    commit(second)
    assert fingerprint(str(second), {}) != before
    assert fingerprint(str(repository), {}) == first


def test_places_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").mkdir()
    (tmp_path / ".git").write_text("nonsense")
    (tmp_path / ".claude").write_text("a file")
    (tmp_path / ".claude.json").write_text("{")
    home = {"HOME": str(tmp_path)}
    assert fingerprint(str(tmp_path), home) == fingerprint(str(tmp_path), home)
    assert fingerprint(str(tmp_path / "gone"), {"HOME": "/nowhere", "CODEX_HOME": "/nowhere"})


def test_pipes_do_not_block(repository: Path, tmp_path: Path) -> None:
    """Whoever opens a pipe waits for its writer; an agent may have made it."""
    (tmp_path / "home").mkdir()
    for path in (repository / "CLAUDE.md", repository / ".env", tmp_path / "home/.claude.json"):
        os.mkfifo(path)
    env = {"HOME": str(tmp_path / "home")}
    assert fingerprint(str(repository), env) == fingerprint(str(repository), env)
