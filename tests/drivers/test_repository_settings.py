"""Which folders count as the repository's."""

from pathlib import Path

import pytest

from tieline.drivers.repository_settings import repository_folders, repository_instructions, settings_left_out


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    repository = tmp_path / "repository"
    (repository / ".git/worktrees/linked").mkdir(parents=True)
    (repository / "src/deep").mkdir(parents=True)
    return repository


def test_outside_of_a_repository_the_folder_alone() -> None:
    """A folder of the system: the sandbox of an agent may leave a `.git` in the folder of temporary files."""
    assert repository_folders("/usr/share") == [Path("/usr/share")]


def test_from_the_folder_to_the_root(repository: Path) -> None:
    deep = repository / "src/deep"
    assert repository_folders(str(deep)) == [deep, repository / "src", repository]


def test_by_every_name(repository: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(repository)
    assert repository_folders(str(link / "src")) == [link / "src", link, repository / "src", repository]


@pytest.mark.parametrize("gitdir", ["{}/.git/worktrees/linked", "../repository/.git/worktrees/linked"])
def test_of_a_linked_worktree_the_main_checkout_too(repository: Path, tmp_path: Path, gitdir: str) -> None:
    linked = tmp_path / "linked"
    (linked / "src").mkdir(parents=True)
    (linked / ".git").write_text(f"gitdir: {gitdir.format(repository)}\n")
    assert repository_folders(str(linked / "src")) == [linked / "src", linked, repository]


def test_the_main_checkout_by_every_name(repository: Path, tmp_path: Path) -> None:
    linked, link = tmp_path / "linked", tmp_path / "link"
    linked.mkdir()
    link.symlink_to(repository)
    (linked / ".git").write_text(f"gitdir: {link}/.git/worktrees/linked\n")
    assert repository_folders(str(linked)) == [linked, link, repository]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"gitdir: ../repository/.git/modules/linked\n"])
def test_what_names_no_other_checkout(repository: Path, tmp_path: Path, content: bytes) -> None:
    """A file that says nothing, or a submodule's."""
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".git").write_bytes(content)
    assert repository_folders(str(linked)) == [linked]


def test_instructions_from_the_root_to_the_folder(repository: Path) -> None:
    """The first name that there is, no link that leads out, nothing from outside of the repository."""
    inner = repository / "src/deep"
    (repository.parent / "AGENTS.md").write_text("not of the repository")
    (repository / "AGENTS.md").write_text("be kind\0\n")
    (repository / "src/AGENTS.md").symlink_to("/etc/hostname")
    (inner / "AGENTS.md").write_text("be brief")
    (inner / "CLAUDE.md").write_text("of another name")
    outer, own = (
        f"Instructions of the repository, in {folder}/AGENTS.md:\n\n{text}"
        for folder, text in ((repository, "be kind"), (inner, "be brief"))
    )
    names = ("AGENTS.md", "CLAUDE.md")
    assert repository_instructions(str(inner), names) == f"{outer}\n\n{own}"
    assert repository_instructions(str(inner), names, above_only=True) == outer
    assert repository_instructions(str(inner), ("CLAUDE.md",)).endswith("of another name")
    assert repository_instructions(str(repository), ("MISSING.md",)) == ""
    (repository / "AGENTS.md").write_text("x" * 1_000_000)
    assert repository_instructions(str(inner), names) == own, "the nearest count most"


def test_which_settings_are_left_out(repository: Path) -> None:
    names = ("agent.json", ".agent/commands", ".tools.json")
    (repository / ".agent/commands").mkdir(parents=True)
    assert not settings_left_out(str(repository / "src"), names, "", "Say so."), "an empty folder has none"
    (repository / ".agent/commands/one.md").symlink_to("nowhere")
    (repository / "src/agent.json").write_text("{}")
    (repository.parent / ".tools.json").write_text("not of the repository")
    (warning,) = settings_left_out(str(repository / "src"), names, "", "Say so.")
    assert warning.message.endswith("not allowed: agent.json, .agent/commands. If you trust it: Say so.")
    assert settings_left_out(str(repository), names, str(repository), "Say so.") == (), "the person's own"


def test_a_name_that_cannot_be_looked_at_is_not_there(repository: Path) -> None:
    """Such as one in a folder that is closed to us; one that is too long fails for every user."""
    assert settings_left_out(str(repository), ("a" * 5000,), "", "Say so.") == ()
