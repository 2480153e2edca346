"""Members on different machines: each has a node, which may be away in the middle of the conversation."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from tests.node.processes import Daemon
from tests.teams.conftest import BOUND
from tests.teams.conftest import url as url

from tieline.bootstrap.process_lock import StartOptions
from tieline.client import Client, connect
from tieline.protocol import teams as p
from tieline.script import Run, Say

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SCRIPTS = {
    "desk": [[Say("[NEXT: laptop]")], [Say("All have spoken.\n[DONE]")]],
    "laptop": [[Run("pwd > where")], [Say("From afar.\n[NEXT: desk]")]],
}


async def test_a_member_whose_machine_is_away_speaks_when_it_is_back(url: str, tmp_path: Path) -> None:
    hub = Daemon(tmp_path / "hub", StartOptions(node=False, port=0), f'bus = "{url}"\n')
    async with AsyncExitStack() as stack:
        stack.push_async_callback(hub.kill)
        await hub.start()
        owner = await stack.enter_async_context(connect(hub.env))
        members: list[p.TeamMember] = []
        nodes: dict[str, Daemon] = {}
        for name, replies in SCRIPTS.items():
            script = tmp_path / f"{name}.json"
            script.write_bytes(msgspec.json.encode(replies))
            node = nodes[name] = Daemon(
                tmp_path / name, StartOptions(what="node"), f'[agents.bot]\ntype = "scripted"\nscript = "{script}"\n'
            )
            stack.push_async_callback(node.kill)
            id = await node.join(owner, hub.url, name)
            members.append(p.TeamMember(name=name, agent="bot", node=id, cwd=str(node.place), policy="full"))
        await nodes["desk"].start()
        team = p.Team(name="shop", members=tuple(members))
        started = await owner.start_team(p.NewTeam(team=team, task="Go."))
        await reached(owner, started.id, lambda view: [each.name for each in view.queue] == ["laptop"])
        await nodes["laptop"].start()  # its turn has waited for it
        ended = await reached(owner, started.id, lambda view: view.status == "ended")
        assert (ended.reason, ended.rounds) == ("done, says desk", 3)
        assert (nodes["laptop"].place / "where").read_text().strip() == str(nodes["laptop"].place)
        sessions = {each.id: each.node for each in await owner.sessions()}
        assert [sessions[each.session] for each in ended.who] == [member.node for member in members]


async def reached(client: Client, team: str, holds: Callable[[p.TeamView], bool]) -> p.TeamView:
    after = 0
    async with asyncio.timeout(BOUND):
        while not holds(view := await client.team(team)):
            page = await client.team_entries(team, after=after, wait_s=1.0)
            after = page.entries[-1].seq if page.entries else after
    return view
