"""The example teams run as they are, without a model, in an empty home."""

import json
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.hub_process import HubProcess
from tests.cli.team_conversations import state, wait_until

from tieline.teams.team_file import read_team
from tieline.testing.cli_process import CliProcess

pytestmark = pytest.mark.slow

TEAMS = sorted((Path(__file__).parent.parent / "examples" / "teams").glob("*/team.toml"))
SPEAKERS = {
    "review": ["developer", "reviewer", "developer", "reviewer"],
    "plan": ["architect", "me", "architect", "developer", "tester", "architect"],
    "parallel": ["lead", "left", "right", "lead"],
}
TOO = {"parallel": ["lead", "right", "left", "lead"]}
"""Who work at the same time end in any order."""
SAYS = {"plan": "Plain text."}
"""What the person of a team says."""


MADE = {"review": {"greeting.py"}, "plan": {"todo.py"}, "parallel": {"hello.txt", "goodbye.txt"}}
COMMIT = (
    "git",
    "-c",
    "user.name=me",
    "-c",
    "user.email=me@example.com",
    "commit",
    "-q",
    "--allow-empty",
    "-m",
    "empty",
)
REPOSITORY = (("git", "init", "-q"), COMMIT)


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Generator[CliProcess, None, None]:
    setting = CliProcess(tmp_path_factory.mktemp("teams"))
    with HubProcess(setting):
        yield setting


def test_every_example_is_here_and_is_about_real_agents() -> None:
    assert {path.parent.name for path in TEAMS} == set(SPEAKERS)
    for path in TEAMS:
        agents = {member.agent for member in read_team(path).members if not member.human}
        assert agents <= {"claude-code", "codex", "gemini", "opencode"}


@pytest.mark.parametrize("path", TEAMS, ids=lambda path: path.parent.name)
def test_an_example_is_rehearsed_to_its_end(cli: CliProcess, path: Path, tmp_path: Path) -> None:
    name = path.parent.name
    for command in REPOSITORY:
        subprocess.run(command, cwd=tmp_path, env=cli.env, check=True)
    started = cli.run("team", "run", str(path), "--rehearse", "--cwd", str(tmp_path), "--detach", "--json")
    assert started.returncode == 0, started.stderr
    id = json.loads(started.stdout)["id"]
    if name in SAYS:
        wait_until(lambda: state(cli, id) == "waiting", "the person was not asked")
        assert cli.run("team", "say", id, SAYS[name]).returncode == 0
    ended = cli.run("team", "show", id, "--follow", "--json")
    assert ended.returncode == 0, ended.stderr
    entries = [json.loads(line)["entry"] for line in ended.stdout.splitlines()]
    spoke = [entry["member"] for entry in entries if entry["type"] in ("turn_ended", "person_spoke")]
    assert spoke in (SPEAKERS[name], TOO.get(name))
    assert all(entry["status"] == "success" for entry in entries if entry["type"] == "turn_ended")
    assert entries[-1]["reason"].startswith("done, says")
    assert {file.name for file in tmp_path.iterdir()} == {".git", *MADE[name]}
