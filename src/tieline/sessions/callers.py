"""Which session a command comes from that an agent runs.

Every process of an agent carries its mark in the environment. One program may serve several sessions, so the mark is
not enough: of the sessions that have a turn running, it is the one in whose directory the command runs.
"""

from pathlib import Path

from ..errors import UsageError
from ..wire import launch
from .router import Router

HINT = "Name the session with --session."


def caller(router: Router, mark: str, cwd: str, claimed: str = "") -> str:
    """The session's id. Raises UsageError rather than to guess: who it is decides what it may spend."""
    if mark not in launch.live():
        raise UsageError("the command does not come from an agent of this node", field="mark")
    working = [record for record in router.sessions(archived=True) if router.prompts.running(record.id) is not None]
    if claimed:
        if any(record.id == claimed for record in working):
            return claimed
        raise UsageError(f"session {claimed!r} has no turn running", field="session")
    place = Path(cwd or "/")
    inside = [record for record in working if place.is_relative_to(record.cwd)]
    deepest = max((len(Path(record.cwd).parts) for record in inside), default=0)
    found = [record for record in inside if len(Path(record.cwd).parts) == deepest] or working
    if len(found) != 1:
        which = "no session has a turn running" if not found else f"{len(found)} sessions work there"
        raise UsageError(f"it cannot be told which session this is: {which}", field="session", hint=HINT)
    return found[0].id
