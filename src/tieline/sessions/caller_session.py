"""Finds the session that a command comes from, when an agent runs the command.

Every process descends from an agent that has a mark, and a session knows the marks of the processes that were started
for it. One program may serve several sessions, so that is not always enough: of those that it may be, and that have a
turn running, it is the one in whose directory the command runs.
"""

from pathlib import Path

from ..errors import UsageError
from ..processes import spawn
from .manager import SessionManager
from .records import SessionRecord
from .session_worker import SessionWorker

HINT = "Name the session with --session."


def caller(manager: SessionManager, mark: str, cwd: str, claimed: str = "") -> str:
    """The id of the session that calls. Raises UsageError instead of guessing: the session decides which budget is
    spent."""
    if mark not in spawn.live():
        raise UsageError("the command does not come from an agent of this node", field="mark")
    working = _possible(manager, mark)
    if claimed:
        if any(record.id == claimed for record in working):
            return claimed
        raise UsageError(f"session {claimed!r} is another one, or has no turn running", field="session")
    directory = Path(cwd or "/")
    inside = [record for record in working if directory.is_relative_to(record.cwd)]
    deepest = max((len(Path(record.cwd).parts) for record in inside), default=0)
    candidates = [record for record in inside if len(Path(record.cwd).parts) == deepest] or working
    if len(candidates) != 1:
        which = "no session has a turn running" if not candidates else f"{len(candidates)} sessions work there"
        raise UsageError(f"cannot tell which session this is: {which}", field="session", hint=HINT)
    return candidates[0].id


def _possible(manager: SessionManager, mark: str) -> list[SessionRecord]:
    """Sessions at work whose agent it may be: the one it was started for, and those of the same kind that have no
    process of their own, for they may share it."""
    marks = {id: _marks(manager, id) for id in manager.runners}
    starter = next((manager.runners[id].record.agent for id, own in marks.items() if mark in own), None)

    def may_be(record: SessionRecord) -> bool:
        own = marks.get(record.id, set())
        return mark in own or (not own and starter in (None, record.agent))

    driven = (record for record in manager.sessions(archived=True) if record.kind == "driven")
    return [record for record in driven if manager.prompts.running(record.id) is not None and may_be(record)]


def _marks(manager: SessionManager, id: str) -> set[str]:
    runner = manager.runners[id]
    session = runner.session if isinstance(runner, SessionWorker) else None
    return set() if session is None else {*session.marks} & spawn.live().keys()
