"""The sessions that the live way into a harness tells of."""

from tieline.mesh.push import HarnessSession
from tieline.testing.wait_for import eventually

BOUND = 120.0


class ToldSessions:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.running: dict[str, HarnessSession] = {}
        self.activities: list[str] = []
        self.over: list[str] = []

    async def changed(self, session: HarnessSession) -> None:
        self.running[session.session] = session
        self.activities.append(session.activity)

    async def ended(self, session: HarnessSession) -> None:
        self.running.pop(session.session, None)
        self.over.append(session.session)

    async def only(self, activity: str) -> HarnessSession:
        """The only session that runs, once it is like that."""

        def is_so() -> bool:
            return [session.activity for session in self.running.values()] == [activity]

        await eventually(is_so, f"no session is {activity}", timeout=BOUND)
        return next(iter(self.running.values()))
