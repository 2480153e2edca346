"""What a conversation was opened with, told apart from what is there now."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tieline.sessions.premises import premises


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


CHANGES: dict[str, Callable[[Path], None]] = {
    "instructions": lambda place: write(place / "CLAUDE.md"),
    "instructions above": lambda place: write(place.parent / "AGENTS.md"),
    "settings": lambda place: write(place / ".gemini/settings.json"),
    "the user's": lambda place: write(place.parent.parent / "home/.codex/config.toml"),
    "elsewhere": lambda place: write(place.parent.parent / "claude/settings.json"),
    "a command": lambda place: write(place / ".claude/commands/new.md"),
    "a skill": lambda place: write(place / ".claude/skills/one/SKILL.md"),
    "a commit": commit,
    "a branch": lambda place: git(place, "checkout", "-q", "-b", "other"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_counts(place: Path, tmp_path: Path, what: str) -> None:
    env = {"HOME": str(tmp_path / "home"), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}
    before = premises(str(place), env)
    assert premises(str(place), env) == before
    CHANGES[what](place)
    assert premises(str(place), env) != before


def test_what_was_there_and_is_another(place: Path) -> None:
    seen: set[bytes] = set()
    for text in ("one", "two", "one"):
        write(place / "CLAUDE.md", text)
        seen.add(premises(str(place), {}))
    assert len(seen) == 2


def test_work_and_state_do_not_count(place: Path, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path / "home")}
    before = premises(str(place), env)
    write(place / "code.py", "2")
    write(place / "new.py")
    write(tmp_path / "home/.claude/projects/x/session.jsonl")
    write(tmp_path / "home/.codex/sessions/x.jsonl")
    assert premises(str(place), env) == before


def test_a_worktree_has_its_own_head(place: Path) -> None:
    git(place, "worktree", "add", "-q", "../second", "-b", "second")
    second = place.parent / "second"
    before, first = premises(str(second), {}), premises(str(place), {})
    commit(second)
    assert premises(str(second), {}) != before
    assert premises(str(place), {}) == first


def test_places_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").mkdir()
    (tmp_path / ".git").write_text("nonsense")
    (tmp_path / ".claude").write_text("a file")
    assert premises(str(tmp_path), {}) == premises(str(tmp_path), {})
    assert premises(str(tmp_path / "gone"), {"HOME": "/nowhere", "CODEX_HOME": "/nowhere"})
