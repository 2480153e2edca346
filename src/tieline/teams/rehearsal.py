"""A rehearsal of a team: every agent plays a script instead of asking a model. The conversation is real, and so are the
edits and commands of the scripts."""

from pathlib import Path

from msgspec.structs import replace

from .. import script
from ..drivers.base import AgentOptions
from ..errors import UsageError
from ..protocol.teams import Team, TeamMember

FOLDER = "rehearsal"
"""Beside the team file; a script of each member's name is in it."""
KEPT = frozenset({"policy", "accept_unenforced", "system", "environment", "max_turns"})
"""Options that hold for a script, too. The others are for the member's own agent."""


def rehearsed(team: Team, folder: Path) -> Team:
    """The team of the file in that folder, with scripted agents. Raises UsageError."""
    return replace(
        team, members=tuple(member if member.human else _scripted(member, folder) for member in team.members)
    )


def _scripted(member: TeamMember, folder: Path) -> TeamMember:
    path = (folder / FOLDER / f"{member.name}.json").resolve()
    if not path.is_file():
        raise UsageError(
            f"{member.name} has no script: there is no {path}",
            field="rehearse",
            hint="`tieline schema script` says how a script is written.",
        )
    script.load(path)
    plain = AgentOptions()
    options = {name: getattr(plain, name) for name in AgentOptions.__struct_fields__ if name not in KEPT}
    return replace(member, **options | {"agent": "scripted", "session": "", "node": "", "model": str(path)})
