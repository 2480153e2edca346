"""The part of the client about search."""

from ..protocol.search import SearchKind, SearchResults
from .api_requests import ApiRequests


class SearchApi(ApiRequests):
    async def search(
        self,
        q: str,
        *,
        agent: str = "",
        project: str = "",
        session: str = "",
        kind: SearchKind | None = None,
        since: float = 0.0,
        until: float = 0.0,
        before: int = 0,
        limit: int = 50,
    ) -> SearchResults:
        """What was said, run, asked and sent: all words of `q`, the newest first. `before`: the `id` of the last hit
        that was seen."""
        return await self.get(
            "search",
            SearchResults,
            q=q,
            agent=agent,
            project=project,
            session=session,
            kind=kind or "",
            since=since,
            until=until,
            before=before,
            limit=limit,
        )
