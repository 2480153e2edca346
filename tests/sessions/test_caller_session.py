"""Which session a command comes from: by the process that it descends from, and never guessed."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from tieline.errors import UsageError
from tieline.processes import spawn
from tieline.sessions.caller_session import caller
from tieline.sessions.records import SessionRecord
from tieline.sessions.session_worker import SessionWorker

MINE, OTHER, SHARED, ENDED = "mine", "other", "shared", "ended"
"""Marks of processes; all but the last still run."""


class Worker(SessionWorker):
    """One that has an agent with these marks, and nothing else."""

    def __init__(self, record: SessionRecord, marks: tuple[str, ...]) -> None:  # pyright: ignore[reportMissingSuperCall]
        self.record = record
        self.session: Any = SimpleNamespace(marks=marks)


class Sessions:
    """As much of a session manager as is asked."""

    def __init__(self) -> None:
        self.runners: dict[str, Any] = {}
        self.working: set[str] = set()
        self.records: list[SessionRecord] = []
        self.prompts = self

    def running(self, id: str) -> str | None:
        return id if id in self.working else None

    def sessions(self, *, archived: bool) -> list[SessionRecord]:
        return [record for record in self.records if archived or not record.archived]

    def add(
        self, id: str, *marks: str, cwd: str = "/projects", agent: str = "claude-code", works: bool = True, **more: Any
    ) -> None:
        record = SessionRecord(id=id, agent=agent, cwd=cwd, **more)
        self.records.append(record)
        self.runners[id] = Worker(record, marks)
        if works:
            self.working.add(id)

    def caller(self, mark: str, cwd: str = "/projects", claimed: str = "") -> str:
        sessions: Any = self
        return caller(sessions, mark, cwd, claimed)


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    monkeypatch.setattr(spawn, "live", lambda: {MINE: 1, OTHER: 2, SHARED: 3})
    return Sessions()


def test_a_process_that_was_started_for_one_is_its(sessions: Sessions) -> None:
    sessions.add("a", MINE)
    sessions.add("b", OTHER)
    assert (sessions.caller(MINE), sessions.caller(OTHER)) == ("a", "b")
    assert sessions.caller(MINE, "/elsewhere") == sessions.caller(MINE, "") == "a"
    assert sessions.caller(MINE, claimed="a") == "a"
    with pytest.raises(UsageError, match="session 'b' is another one") as refused:
        sessions.caller(MINE, claimed="b")
    assert refused.value.field == "session"


def test_a_process_that_is_no_agents_is_nobodys(sessions: Sessions) -> None:
    sessions.add("a", MINE, ENDED)
    for mark in (ENDED, "never", ""):
        with pytest.raises(UsageError, match="does not come from an agent") as refused:
            sessions.caller(mark, claimed="a")
        assert refused.value.field == "mark"


def test_only_a_session_that_works_calls(sessions: Sessions) -> None:
    sessions.add("a", MINE, works=False)
    with pytest.raises(UsageError, match="no session has a turn running") as refused:
        sessions.caller(MINE)
    assert (refused.value.field, "--session" in refused.value.hint) == ("session", True)
    with pytest.raises(UsageError, match="has no turn running"):
        sessions.caller(MINE, claimed="a")
    sessions.working.add("a")
    assert sessions.caller(MINE) == "a"


def test_an_archived_session_that_still_works_calls(sessions: Sessions) -> None:
    sessions.add("a", MINE, archived=True)
    assert sessions.caller(MINE) == "a"


def test_of_those_that_share_a_program_it_is_the_one_in_whose_directory_it_runs(sessions: Sessions) -> None:
    sessions.add("above", SHARED, cwd="/projects")
    sessions.add("below", SHARED, cwd="/projects/shop")
    sessions.add("beside", SHARED, cwd="/other")
    for cwd, id in (
        ("/projects", "above"),
        ("/projects/shop/src", "below"),
        ("/projects/shopping", "above"),
        ("/other", "beside"),
    ):
        assert sessions.caller(SHARED, cwd) == id
    with pytest.raises(UsageError, match="3 sessions work there"):
        sessions.caller(SHARED, "/elsewhere")
    assert sessions.caller(SHARED, "/elsewhere", "beside") == "beside"
    sessions.add("twin", SHARED, cwd="/projects/shop")
    with pytest.raises(UsageError, match="2 sessions work there"):
        sessions.caller(SHARED, "/projects/shop")


def test_one_without_a_process_of_its_own_may_share_that_of_its_kind(sessions: Sessions) -> None:
    sessions.add("starter", SHARED, agent="opencode", works=False)
    sessions.add("shares", agent="opencode")
    sessions.add("another kind", agent="codex")
    assert sessions.caller(SHARED) == "shares"
    sessions.add("has its own", MINE, agent="opencode")
    assert sessions.caller(SHARED) == "shares"


def test_where_nobody_knows_whose_a_program_is_it_may_be_any_that_has_none(sessions: Sessions) -> None:
    sessions.add("a", agent="opencode")
    sessions.add("b", MINE, agent="opencode")
    assert sessions.caller(SHARED) == "a"


def test_a_session_of_a_terminal_is_not_driven(sessions: Sessions) -> None:
    sessions.add("attached", kind="attached")
    with pytest.raises(UsageError, match="no session"):
        sessions.caller(SHARED)
    sessions.records[0] = replace(sessions.records[0], kind="driven")
    assert sessions.caller(SHARED) == "attached"
