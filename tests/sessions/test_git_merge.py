"""A checkout that is brought to another commit, and the process that did it was killed in the middle of a file."""

import os
from pathlib import Path

import msgspec
import pytest
from tests.sessions.repositories import git, make_repository

from tieline.sessions import git_repository
from tieline.sessions.git_merge import JOURNAL, Advance, advance, mend
from tieline.sessions.git_repository import Repository
from tieline.sessions.safe_git import GitFailed
from tieline.testing.rig import scratch_env

NEW = "colour = 'blue'\nsize = 'large'\n"


class Checkout:
    """One of `main`, with a commit on another branch that it is to be brought to."""

    def __init__(self, folder: Path) -> None:
        self.top = make_repository(folder / "shop")
        self.file = self.top / "shop.py"
        git(self.top, "checkout", "-q", "-b", "new")
        self.file.write_text(NEW)
        git(self.top, "commit", "-q", "-am", "new")
        git(self.top, "checkout", "-q", "main")
        self.wanted = Advance("main", git(self.top, "rev-parse", "main"), git(self.top, "rev-parse", "new"))
        repository = git_repository.find(str(self.top))
        assert repository is not None
        self.own: Repository = repository
        self.env = scratch_env(folder / "home", path=os.defpath)
        self.store = folder / "store"
        self.journal = Path(repository.git_dir, JOURNAL)

    def begun(self) -> None:
        """What a process leaves that is killed then."""
        self.journal.write_bytes(msgspec.json.encode(self.wanted))

    async def mend(self) -> None:
        await mend(self.own, self.env, self.store)

    @property
    def commit(self) -> str:
        return git(self.top, "rev-parse", "main")


@pytest.mark.parametrize("left", ["gone", "", NEW[:10], NEW])
async def test_a_file_that_was_being_written_is_written_to_its_end(tmp_path: Path, left: str) -> None:
    checkout = Checkout(tmp_path)
    checkout.begun()
    if left == "gone":
        checkout.file.unlink()
    else:
        checkout.file.write_text(left)
    await checkout.mend()
    assert (checkout.file.read_text(), checkout.commit) == (NEW, checkout.wanted.after)
    assert git(checkout.top, "status", "--porcelain") == "" and not checkout.journal.exists()


@pytest.mark.parametrize("theirs", ["mine\n", NEW + "and mine\n", NEW[:10] + "mine"])
async def test_a_file_that_a_person_wrote_since_stays(tmp_path: Path, theirs: str) -> None:
    checkout = Checkout(tmp_path)
    checkout.begun()
    checkout.file.write_text(theirs)
    with pytest.raises(GitFailed, match=r"changes of its own in shop\.py"):
        await checkout.mend()
    assert (checkout.file.read_text(), checkout.commit) == (theirs, checkout.wanted.before)
    assert checkout.journal.exists(), "it can be gone on with"


async def test_without_a_process_that_was_killed_the_beginning_of_a_file_is_a_persons(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    checkout.file.write_text(NEW[:10])
    with pytest.raises(GitFailed, match=r"changes of its own in shop\.py"):
        await advance(checkout.own, checkout.wanted, checkout.env, checkout.store)
    assert (checkout.file.read_text(), checkout.commit) == (NEW[:10], checkout.wanted.before)
    assert not checkout.journal.exists()


@pytest.mark.parametrize("journal", [b"", b"{}", b"no journal", b"\xff"])
async def test_a_journal_that_says_nothing_is_put_away(tmp_path: Path, journal: bytes) -> None:
    checkout = Checkout(tmp_path)
    checkout.journal.write_bytes(journal)
    checkout.file.write_text("mine\n")
    await checkout.mend()
    assert (checkout.file.read_text(), checkout.commit) == ("mine\n", checkout.wanted.before)
    assert not checkout.journal.exists()


async def test_a_branch_that_went_on_is_not_brought_back(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    checkout.begun()
    git(checkout.top, "commit", "-q", "--allow-empty", "-m", "by hand")
    before = checkout.commit
    await checkout.mend()
    assert checkout.commit == before and not checkout.journal.exists()
