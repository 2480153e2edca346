"""Real repositories whose Codex rules let `touch` pass, and the folders from which a session can be in one."""

from pathlib import Path

from tests.sessions.repositories import git, make_repository

PLACES = ["its root", "a folder of it", "a link to it", "a linked worktree", "a folder of a linked worktree"]


def folder_under_rules(top: Path, where: str) -> tuple[Path, Path]:
    """The repository's root, and the folder of a session that is in it."""
    repository = make_repository(top / "repository")
    rules = repository / ".codex/rules/default.rules"
    rules.parent.mkdir(parents=True)
    rules.write_text('prefix_rule(pattern=["touch"], decision="allow")\n')
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "rules")
    folder = repository
    if "worktree" in where:
        folder = top / "linked"
        git(repository, "worktree", "add", "-q", str(folder))
    elif "link" in where:
        folder = top / "link"
        folder.symlink_to(repository)
    return repository, folder / "inner" if "a folder" in where else folder
