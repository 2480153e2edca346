"""`tieline team new`: a team file from a person's answers, or from the agents of this machine."""

import json
from pathlib import Path

import pytest

from tieline.cli.commands.team_new import starting_members, team_text
from tieline.protocol.teams import TeamMember
from tieline.script import Say
from tieline.teams.team_file import parse_team, read_team
from tieline.testing.cli_process import CliProcess

LOOKING_S = 90.0
"""All agents are looked for, each within its own limit, also on a busy machine."""


@pytest.fixture
def cli(tmp_path: Path) -> CliProcess:
    setting = CliProcess(tmp_path)
    setting.agent("planner", [Say("Yes.")])
    setting.agent("coder", [Say("Yes.")])
    return setting


@pytest.mark.parametrize("agents", [["one"], ["one", "two"], ["one", "two", "three", "four"]])
def test_a_starting_team_is_right_whatever_agents_there_are(agents: list[str]) -> None:
    members = starting_members(agents)
    team = parse_team(team_text("shop", "", members), Path("/home/me/shop/team.toml"))
    assert [member.agent for member in team.members] == [agents[n % len(agents)] for n in range(3)] + [""]
    assert team.members[-1].human


def test_what_a_person_typed_is_kept_as_it_is() -> None:
    odd = 'a "quoted" \\ word\t# no comment\x7f [[members]]'
    member = TeamMember(name="odd", agent="one", role=odd, system=odd, policy="edits")
    team = parse_team(team_text(odd, odd, [member]), Path("/home/me/shop/team.toml"))
    assert (team.name, team.task) == (odd, odd)
    assert (team.members[0].role, team.members[0].system, team.members[0].policy) == (odd, odd, "edits")


@pytest.mark.slow
def test_without_a_terminal_it_writes_a_starting_team_and_never_over_a_file(cli: CliProcess) -> None:
    written = cli.run("team", "new", timeout=LOOKING_S)
    assert written.returncode == 0, written.stderr
    file = cli.place / "team.toml"
    names = {
        each["name"] for each in json.loads(cli.run("agents", "--json", timeout=LOOKING_S).stdout) if each["found"]
    }
    agents = [member.agent for member in read_team(file).members]
    assert {"planner", "coder"} <= names
    assert len(agents) == 4 and set(agents[:3]) <= names and agents[3] == ""
    assert cli.run("team", "check", "team.toml").returncode == 0
    before = file.read_text()
    file.write_text(before + "# mine\n")
    refused = cli.run("team", "new", "--yes")
    assert refused.returncode == 2
    assert "team.toml exists" in refused.stderr and "--force" in refused.stderr
    assert file.read_text().endswith("# mine\n")
    assert cli.run("team", "new", "--yes", "--force", timeout=LOOKING_S).returncode == 0
    assert file.read_text() == before


@pytest.mark.slow
def test_a_person_is_asked_for_the_members(cli: CliProcess) -> None:
    with cli.terminal("team", "new", "shop.toml") as terminal:

        def answer(question: str, words: str = "") -> None:
            terminal.expect(question, timeout=LOOKING_S)
            terminal.send(f"{words}\n")

        answer("name of the team [place]:", "shop")
        answer("its task", 'Build the "shop".')
        answer("name [architect]:", "all")
        answer("a name has 1 to 32 letters")
        answer("agent [", "nonsense")
        answer("it is one of:", "planner")
        answer("role, in a few words [designs, writes no code]:")
        answer("instructions [You design", "Design it.")
        answer("policy [ask]:", "read-only")
        answer("another member? [y]:")
        answer("name [developer]:", "architect")
        answer("architect is the name of another member", "bob")
        answer("agent [", "person")
        answer("role (may be empty):", "decides")
        answer("another member? [y]:", "n")
        terminal.expect("shop.toml is written: architect, bob.")
        assert terminal.wait() == 0
    team = read_team(cli.place / "shop.toml")
    assert (team.name, team.task) == ("shop", 'Build the "shop".')
    architect, bob = team.members
    assert (architect.name, architect.agent, architect.policy) == ("architect", "planner", "read-only")
    assert (architect.role, architect.system) == ("designs, writes no code", "Design it.")
    assert (bob.name, bob.human, bob.role) == ("bob", True, "decides")
