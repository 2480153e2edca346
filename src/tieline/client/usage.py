"""The part of the client about what was used."""

from ..protocol.usage import UsageBy, UsageReport
from .api_requests import ApiRequests


class UsageApi(ApiRequests):
    async def usage(
        self,
        by: UsageBy = "day",
        *,
        since: float = 0.0,
        until: float = 0.0,
        time_zone: str = "",
        agent: str = "",
        project: str = "",
        session: str = "",
    ) -> UsageReport:
        """Tokens, cost, time and turns between two moments (seconds since the epoch). `time_zone` says whose days;
        empty: the hub's own."""
        return await self.get(
            "usage",
            UsageReport,
            by=by,
            since=since,
            until=until,
            time_zone=time_zone,
            agent=agent,
            project=project,
            session=session,
        )
