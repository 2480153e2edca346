"""How a member of a team says by a tool who speaks next, and sees what another has changed: what the mesh needs of the
teams, which run above it."""

from typing import Protocol

from ..errors import UsageError
from ..protocol.mesh import MemberDiff, TeamCall

NOT_HERE = "this hub runs no teams"


class TeamTools(Protocol):
    """`session` is the id of the session that calls, as the transport knows it. Each call is durable when it returns,
    and the same `key` again is the same call."""

    async def is_member(self, session: str) -> bool:
        """Of a team that runs."""
        ...

    async def hand_over(self, session: str, to: str, message: str = "", priority: int = 0, *, key: str) -> TeamCall: ...

    async def ask_person(self, session: str, question: str, person: str = "", *, key: str) -> TeamCall: ...

    async def done(self, session: str, summary: str, *, key: str) -> TeamCall: ...

    async def show_diff(self, session: str, member: str, file: str = "", offset: int = 0) -> MemberDiff: ...


class NoTeams:
    """Of a hub without teams."""

    async def is_member(self, session: str) -> bool:
        return False

    async def hand_over(self, session: str, to: str, message: str = "", priority: int = 0, *, key: str) -> TeamCall:
        raise UsageError(NOT_HERE, field="")

    async def ask_person(self, session: str, question: str, person: str = "", *, key: str) -> TeamCall:
        raise UsageError(NOT_HERE, field="")

    async def done(self, session: str, summary: str, *, key: str) -> TeamCall:
        raise UsageError(NOT_HERE, field="")

    async def show_diff(self, session: str, member: str, file: str = "", offset: int = 0) -> MemberDiff:
        raise UsageError(NOT_HERE, field="")
