"""`tieline agents models`, and what is said of a model that an agent does not list."""

import json
import sys
from pathlib import Path

import pytest
from tests.cli.hub_process import HubProcess

from tieline.testing.cli_process import CliProcess

PEER = Path(__file__).parents[1] / "drivers/acp_agent.py"


@pytest.mark.slow
def test_what_an_agent_offers(cli: CliProcess) -> None:
    cli.configure(f'[agents.peer]\ntype = "acp"\ncommand = ["{sys.executable}", "{PEER}"]\ncan = {{ model = true }}\n')
    ended = cli.run("agents", "models", "peer", "--json")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert [model["name"] for model in report["models"]] == ["small", "large"]
    assert (report["agent"], report["stale"], report["certain"]) == ("peer", False, False)
    again = json.loads(cli.run("agents", "models", "peer", "--json").stdout)
    assert again["seen_at"] == report["seen_at"], "it was not started for it"
    assert json.loads(cli.run("agents", "models", "peer", "--json", "--refresh").stdout)["seen_at"] > report["seen_at"]
    plain = cli.run("agents", "models", "peer")
    assert "small" in plain.stdout and "not told" in plain.stdout and "it may take others too" in plain.stderr
    warned = cli.run("run", "peer", "--accept-unenforced", "--model", "smal", "story")
    assert "warning: the model smal: it is not in the agent's list of models; the nearest there: small" in warned.stderr
    fine = cli.run("run", "peer", "--accept-unenforced", "--model", "small", "story")
    assert "warning: the model" not in fine.stderr
    with HubProcess(cli):
        machine = json.loads(cli.run("nodes", "--json").stdout)[0]["name"]
        there = json.loads(cli.run("agents", "models", "peer", "--node", machine, "--json").stdout)
        assert (there["node"], there["models"], there["certain"]) == (machine, report["models"], None)
        plain = cli.run("agents", "models", "peer", "--node", machine)
        assert "large" in plain.stdout and f"on {machine} told" in plain.stderr
        for arguments, message in (
            (("peer", "--node", "nowhere"), "nowhere"),
            (("nonesuch", "--node", machine), "nonesuch"),
            (("peer", "--node", machine, "--refresh"), "--refresh works only on this machine"),
        ):
            refused = cli.run("agents", "models", *arguments)
            assert refused.returncode != 0 and message in refused.stderr, refused.stderr


def test_one_that_cannot_tell(cli: CliProcess) -> None:
    ended = cli.run("agents", "models", "codex")
    assert ended.returncode != 0 and "codex" in ended.stderr
    ended = cli.run("agents", "models", "nonesuch")
    assert ended.returncode != 0 and "nonesuch" in ended.stderr
