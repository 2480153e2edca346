"""`tieline members`, and messages by a member's name: the program itself, against a hub in a process of its own."""

import asyncio
import json
from collections.abc import Generator
from multiprocessing import get_context

import pytest
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from tests.cli.hub_process import HubProcess
from tests.mesh.mcp_clients import bridge, call

from tieline.testing.cli_process import CliProcess

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Generator[CliProcess, None, None]:
    cli = CliProcess(tmp_path_factory.mktemp("members"))
    with HubProcess(cli):
        harness = get_context("spawn").Process(target=be_ada, args=(dict(cli.env),))  # not the person's process
        harness.start()
        harness.join(60)
        assert harness.exitcode == 0
        yield cli


def be_ada(env: dict[str, str]) -> None:
    async def register() -> None:
        async with Client(stdio_client(bridge(env, "session-1"))) as ada:
            await call(ada, "register_agent", name="ada", description="database migrations", project="shop")
            await call(ada, "heartbeat", activity="idle")

    asyncio.run(register())


def run(cli: CliProcess, *arguments: str, status: int = 0) -> str:
    ended = cli.run(*arguments)
    assert ended.returncode == status, ended.stderr + ended.stdout
    return ended.stderr if status else ended.stdout


def test_who_is_there(cli: CliProcess) -> None:
    lines = run(cli, "members").splitlines()
    assert lines[0].split() == ["name", "project", "harness", "machine", "presence", "unread", "seen", "does"]
    assert [line.split()[0] for line in lines[1:]] == ["owner", "ada"]
    (ada,) = json.loads(run(cli, "members", "datbase", "--project", "shop", "--activity", "idle", "--json"))
    assert (ada["name"], ada["harness"]) == ("ada", "claude-code")
    assert json.loads(run(cli, "members", "--harness", "codex", "--json")) == []
    assert "Use working, idle or unknown." in run(cli, "members", "--activity", "asleep", status=2)


def test_a_message_to_a_name(cli: CliProcess) -> None:
    (ada,) = json.loads(run(cli, "members", "ada", "--json"))
    for spelling in ("@ada", "ada", ada["id"]):
        sent = json.loads(run(cli, "message", "send", spelling, f"to {spelling}", "--json"))
        assert sent["receipt"]["subject"] == ada["address"]
    assert "to @ada" in run(cli, "inbox", "@ada")
    assert "cannot mark an agent's messages as read" in run(cli, "inbox", "@ada", "--take", status=2)
    assert "Did you mean ada?" in run(cli, "message", "ask", "@adda", "hello?", status=2)
    assert json.loads(run(cli, "members", "ada", "--json"))[0]["unread"] == 3
