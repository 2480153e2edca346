"""The part of the client about the mesh: its members, and what those of a project share."""

from ..protocol.mesh import MAX_MEMBERS, Activity, HookActivity, MemberKind, MemberView, Notes, PathLease, PeerMessage
from .api_requests import ApiRequests


class MembersApi(ApiRequests):
    async def members(
        self,
        query: str = "",
        *,
        project: str = "",
        role: str = "",
        specialisation: str = "",
        harness: str = "",
        machine: str = "",
        activity: Activity | None = None,
        kind: MemberKind | None = None,
        ended: bool = False,
        limit: int = MAX_MEMBERS,
    ) -> list[MemberView]:
        """Everyone with an inbox, or those that fit the query, the best match first."""
        return await self.get(
            "members",
            list[MemberView],
            q=query,
            project=project,
            role=role,
            specialisation=specialisation,
            harness=harness,
            machine=machine,
            activity=activity or "",
            kind=kind or "",
            ended="true" if ended else "",
            limit=limit,
        )

    async def harness_hooks(self) -> list[HookActivity]:
        """When hooks of harness sessions fired since the hub started, the latest first."""
        return await self.get("harness-hooks", list[HookActivity])

    async def member(self, member: str) -> MemberView:
        """By its id, name or address."""
        return await self.get(f"members/{member}", MemberView)

    async def conversation(self, member: str, *, limit: int = 50, before: str = "") -> list[PeerMessage]:
        """What the owner and a member wrote to each other, the newest first."""
        return await self.get(f"members/{member}/messages", list[PeerMessage], limit=limit, before=before)

    async def notes(self, project: str) -> Notes:
        return await self.get(f"projects/{project}/notes", Notes)

    async def path_leases(self, project: str) -> list[PathLease]:
        return await self.get(f"projects/{project}/path-leases", list[PathLease])
