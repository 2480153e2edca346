"""The part of the client about team conversations."""

from ..protocol.teams import (
    AnyTeamAction,
    CheckedTeamFile,
    CleanedTeam,
    CleanTeam,
    NewTeam,
    TeamEntries,
    TeamFileText,
    TeamRecord,
    TeamView,
)
from .api_requests import ApiRequests


class TeamsApi(ApiRequests):
    async def teams(self) -> list[TeamRecord]:
        """Team conversations, the last active first."""
        return await self.get("teams", list[TeamRecord])

    async def start_team(self, new: NewTeam) -> TeamView:
        return await self.change("POST", "teams", TeamView, new)

    async def check_team_file(self, text: str, cwd: str = "") -> CheckedTeamFile:
        """The team that a file describes, or what is wrong in it. `cwd`: what relative directories count from."""
        return await self.change("POST", "team-file", CheckedTeamFile, TeamFileText(text=text, cwd=cwd))

    async def team(self, team: str) -> TeamView:
        return await self.get(f"teams/{team}", TeamView)

    async def team_entries(
        self, team: str, *, after: int = 0, before: int | None = None, limit: int = 100, wait_s: float = 0.0
    ) -> TeamEntries:
        """The log after a cursor; with `wait_s`, waits that long for something new. With `before`, the last ones before
        that cursor."""
        query = (
            {"limit": limit, "after": after, "wait_s": wait_s} if before is None else {"limit": limit, "before": before}
        )
        return await self.get(f"teams/{team}/entries", TeamEntries, **query)

    async def act_in_team(self, team: str, action: AnyTeamAction) -> TeamView:
        return await self.change("POST", f"teams/{team}/actions", TeamView, action)

    async def clean_team(self, team: str, clean: CleanTeam) -> CleanedTeam:
        return await self.change("POST", f"teams/{team}/clean", CleanedTeam, clean)
