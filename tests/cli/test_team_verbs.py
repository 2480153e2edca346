"""`tieline team`, with a real hub and scripted agents: run, take part, list, show, hold, resume, end, export."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.hub_process import HubProcess
from tests.cli.team_conversations import TEAM, run, state, wait_until

from tieline.script import Run, Say
from tieline.testing.cli_process import CliProcess

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Generator[CliProcess, None, None]:
    setting = CliProcess(tmp_path_factory.mktemp("team"))
    setting.agent("planner", [Say("A queue it is.\n[NEXT: developer]")], [Say("Well done.\n[DONE]")])
    setting.agent(
        "coder", [Run("touch built")], [Say("Built. Which colour?\n[NEXT: alice]")], [Say("Blue.\n[NEXT: architect]")]
    )
    (setting.place / "team.toml").write_text(TEAM)
    with HubProcess(setting):
        yield setting


def test_a_team_works_a_person_answers_and_the_conversation_is_exported(cli: CliProcess) -> None:
    started = json.loads(run(cli, "run", "team.toml", "Build the shop.", "--detach", "--json"))
    id = started["id"]
    assert {member["name"] for member in started["who"]} == {"architect", "developer", "alice"}
    (session,) = [member["session"] for member in started["who"] if member["name"] == "developer"]
    wait_until(lambda: bool(json.loads(cli.run("asks", "--json").stdout)), "the command was never asked for")
    (ask,) = json.loads(cli.run("asks", "--json").stdout)
    assert ask["session"] == session
    assert cli.run("approve", ask["id"]).returncode == 0
    wait_until(lambda: state(cli, id) == "waiting", "nobody was asked")
    assert (cli.place / "built").exists()
    shown = run(cli, "show", id[-6:])
    assert "waits for alice" in shown
    assert "architect:\nA queue it is.\n→ developer" in shown
    assert "waits for alice" in run(cli, "list")
    refused = cli.run("team", "say", id, "blue", "--to", "bob")
    assert refused.returncode != 0
    assert "no member is called bob" in refused.stderr
    run(cli, "say", id, "Blue.")
    wait_until(lambda: state(cli, id) == "ended", "it did not end")
    followed = run(cli, "show", id, "--follow")
    assert "ended: done, says architect · 4 of 12 rounds" in followed
    lines = [json.loads(line) for line in run(cli, "show", id, "--follow", "--json").splitlines()]
    assert [line["entry"]["type"] for line in (lines[0], lines[-1])] == ["started", "ended"]
    exported = run(cli, "export", id)
    for words in ("# shop", "Build the shop.", "## developer\n\nBuilt. Which colour?", "## alice\n\nBlue."):
        assert words in exported
    assert "[DONE]" not in exported
    types = [each["entry"]["type"] for each in json.loads(run(cli, "export", id, "--format", "json"))]
    assert types.count("turn_began") == types.count("turn_ended") == 4


def test_hold_next_resume_and_end(cli: CliProcess) -> None:
    id = json.loads(run(cli, "run", "team.toml", "Again.", "--detach", "--json"))["id"]
    run(cli, "hold", id)
    run(cli, "next", id, "alice")
    run(cli, "remove", id, "developer")
    assert state(cli, id) == "held"
    (cli.place / "tester.toml").write_text('name = "tester"\nagent = "coder"\nrole = "tests"\n')
    run(cli, "add", id, "--file", "tester.toml")
    run(cli, "add", id, "bob", "--human")
    run(cli, "policy", id, "tester", "read-only")
    run(cli, "next", id, "tester")
    dropped = json.loads(run(cli, "drop", id, "tester", "--json"))
    assert [(each["name"], each.get("policy")) for each in dropped["who"]][-2:] == [
        ("tester", "read-only"),
        ("bob", None),
    ]
    assert "queue" not in dropped
    shown = run(cli, "show", id)
    assert "tester joined" in shown
    assert "tester has the policy read-only from its next turn" in shown
    both = cli.run("team", "add", id, "carl", "--file", "tester.toml")
    assert both.returncode != 0
    assert "by its name, or by a file" in both.stderr
    run(cli, "resume", id)
    ended = json.loads(run(cli, "end", id, "--reason", "enough", "--json"))
    assert (ended["status"], ended["reason"]) == ("ended", "enough")
    again = cli.run("team", "hold", id)
    assert again.returncode != 0
    assert "the conversation has ended" in again.stderr


def test_a_file_is_checked_with_line_and_key(cli: CliProcess, tmp_path: Path) -> None:
    assert "team.toml is valid: shop, 2 agents and 1 person" in run(cli, "check", "team.toml")
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(TEAM.replace('agent = "coder"', 'agnet = "coder"'))
    refused = cli.run("team", "check", str(wrong))
    assert refused.returncode != 0
    assert f"{wrong}:9: members[1].agnet: unknown key" in refused.stderr
    wrong.write_text(TEAM.replace('agent = "coder"', 'agent = "codr"'))
    refused = cli.run("team", "check", str(wrong))
    assert refused.returncode == 2
    assert f"{wrong}:9: members[1].agent: unknown agent 'codr'" in refused.stderr
    assert "Did you mean coder" in refused.stderr
    assert json.loads(run(cli, "schema"))["$defs"]["TeamMember"]["additionalProperties"] is False
    unknown = cli.run("team", "show", "nobody")
    assert unknown.returncode != 0
    assert "no conversation 'nobody'" in unknown.stderr
