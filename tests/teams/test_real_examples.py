"""The example teams as they are, with the agents that their files name: each model plays the member's rehearsal."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.teams.real_team import RealTeam, real_team

from tieline.protocol import teams as p
from tieline.script import load
from tieline.teams.team_file import read_team

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[2] / "examples" / "teams"
SLOW_S = 240.0
REPOSITORY = "git init -q . && git -c user.name=me -c user.email=me@example.com commit -q --allow-empty -m empty"


async def test_the_examples_run_with_the_agents_that_they_name(tmp_path: Path) -> None:
    async with real_team(tmp_path) as real:
        made = await asyncio.create_subprocess_shell(REPOSITORY, cwd=real.folder, env={"PATH": "/usr/bin:/bin"})
        assert await made.wait() == 0
        ended = await _run(real, "review")
        assert ended.reason == "done, says reviewer"
        assert 'f"Hello, {name}!"' in (real.folder / "greeting.py").read_text()
        ended = await _run(real, "plan", says="Plain text.")
        assert ended.reason == "done, says architect"
        assert (real.folder / "todo.py").exists()
        ended = await _run(real, "parallel")
        assert ended.reason == "done, says lead"
        assert (real.folder / "hello.txt").exists() and (real.folder / "goodbye.txt").exists(), "merged"


async def _run(real: RealTeam, example: str, says: str = "") -> p.TeamView:
    team = read_team(EXAMPLES / example / "team.toml", real.folder)
    team = replace(team, conversation=replace(team.conversation, parallel=1))  # two members have one model here
    for member in team.members:
        if not member.human:
            real.rigs[member.agent].play(*load(EXAMPLES / example / "rehearsal" / f"{member.name}.json"))
    started = await real.here.start(team, team.task)
    view = await real.here.until(started.id, lambda view: view.status in ("waiting", "ended"), within=SLOW_S)
    if says and view.status == "waiting":
        await real.here.teams.act(started.id, p.Speak(text=says), by="owner")
        view = await real.here.until(started.id, lambda view: view.status == "ended", within=SLOW_S)
    entries = await real.here.log(started.id)
    assert {entry.status for entry in entries if isinstance(entry, p.TurnEnded)} == {"success"}, entries
    return view
