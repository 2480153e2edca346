"""Rehearsals: scripts instead of models."""

from pathlib import Path

import pytest

from tieline.errors import UsageError
from tieline.protocol.teams import Team, TeamMember
from tieline.teams.rehearsal import rehearsed

TEAM = Team(
    name="shop",
    members=(
        TeamMember(name="developer", agent="codex", model="gpt", effort="high", node="laptop", policy="edits"),
        TeamMember(name="alice", human=True),
    ),
)


def test_agents_play_their_scripts_and_people_stay(tmp_path: Path) -> None:
    (tmp_path / "rehearsal").mkdir()
    script = tmp_path / "rehearsal" / "developer.json"
    script.write_text('[[{"do": "say", "text": "Hello."}]]')
    developer, alice = rehearsed(TEAM, tmp_path).members
    assert developer == TeamMember(name="developer", agent="scripted", model=str(script), policy="edits")
    assert alice is TEAM.members[1]


def test_a_script_that_is_missing_or_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"developer has no script: there is no .*developer\.json"):
        rehearsed(TEAM, tmp_path)
    (tmp_path / "rehearsal").mkdir()
    (tmp_path / "rehearsal" / "developer.json").write_text('[[{"do": "sing"}]]')
    with pytest.raises(UsageError, match="is not valid"):
        rehearsed(TEAM, tmp_path)
