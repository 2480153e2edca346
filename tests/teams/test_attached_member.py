"""A person's own Claude Code terminal as a member of a team."""

import sys
from pathlib import Path

import msgspec
import pytest
from tests.teams.conftest import TeamsHere
from tests.teams.real_team import BINARIES

from tieline.bootstrap.daemon import hub_on
from tieline.config import Config, HubConfig
from tieline.harnesses import installer
from tieline.harnesses.attach_consent import agree
from tieline.harnesses.base import InstallOptions
from tieline.harnesses.claude_code.integration import ClaudeCode
from tieline.protocol import teams as p
from tieline.script import Reply, Say, Stall
from tieline.testing.harness_terminals import claude_code_home
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

SLOW_S = 120.0


def config_with(path: Path, env: dict[str, str], **scripts: list[Reply]) -> Config:
    agents: dict[str, dict[str, str]] = {}
    for name, replies in scripts.items():
        script = path / f"{name}.json"
        script.write_bytes(msgspec.json.encode(replies))
        agents[name] = {"type": "scripted", "script": str(script)}
    return Config(environ=env, hub=HubConfig(port=0), agents=agents)


async def test_a_terminal_takes_its_turns_and_is_heard(tmp_path: Path) -> None:
    async with claude_code_home(tmp_path, BINARIES) as home:
        env = {**home.env, "TIELINE_HOME": str(tmp_path / "state")}
        options = InstallOptions(env=env, program="/nowhere/tieline", python=sys.executable, attach=True)
        installer.apply(installer.plan_install(ClaudeCode(), options), env)
        agree(env, "claude-code")
        config = config_with(
            tmp_path,
            env,
            lead=[
                [Say("How many are there?\n[NEXT: desk]")],
                [Say("Are you sure?\n[NEXT: desk]")],
                [Say("Good.\n[DONE]")],
            ],
            hurried=[[Say("Quick!\n[NEXT: desk]")]],
        )
        async with hub_on(config) as (hub, _), home.terminal() as terminal:
            assert hub.local is not None and hub.teams is not None
            manager = hub.local.manager
            here = TeamsHere(hub.teams, hub.bus, manager, home.project, {})
            await eventually(
                lambda: [record.status for record in manager.sessions()] == ["idle"], "no session", timeout=SLOW_S
            )
            (session,) = manager.sessions()
            home.rig.play([Say("There are three.\n[NEXT: lead]")], [Say("Quite sure.\n[NEXT: lead]")])
            desk = p.TeamMember(name="desk", session=session.id, system="Count aloud, says the rule.")
            started = await here.start(here.team("lead", desk, turn_minutes=10.0), "Count the teapots.")
            await terminal.shows("There are three.")
            assert "How many are there?" in await terminal.screen(), "the person sees what was asked"
            await terminal.shows("Quite sure.")
            view = await here.until(started.id, lambda view: view.status == "ended", within=SLOW_S)
            assert view.reason == "done, says lead"
            log = await here.log(view.id)
            first, second = [entry.text for entry in log if isinstance(entry, p.TurnBegan) and entry.member == "desk"]
            assert first.startswith("[SYSTEM]\nCount aloud, says the rule.\n\nYou are desk, a member of the team shop.")
            assert "[FROM: lead]\nHow many are there?" in first
            assert "[FROM: lead]\nAre you sure?" in second
            assert "[SYSTEM]" not in second and "How many" not in second, "it has that already"
            assert "Count aloud, says the rule." in home.rig.heard()
            prompts = [entry.text for entry in log if isinstance(entry, p.TurnBegan) and entry.member == "lead"]
            assert "[FROM: desk]\nThere are three." in prompts[1]
            assert "[FROM: desk]\nQuite sure." in prompts[2]

            # Whoever is at the terminal may take their time, but not for ever.
            home.rig.play([Stall()])
            view = await here.run(here.team("hurried", desk, turn_minutes=0.05), "Count again.")
            assert view.reason == "nobody is left to speak"
            last = [entry for entry in await here.log(view.id) if isinstance(entry, p.TurnEnded)][-1]
            assert (last.member, last.status) == ("desk", "timeout")
