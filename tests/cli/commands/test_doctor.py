"""`tieline doctor`: the program itself, with an integration in a home of its own and a hub in a process of its own."""

import asyncio
import json
import shlex
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from tests.cli.hub_process import HubProcess
from tests.mesh.mcp_clients import bridge, call

from tieline.cli.commands.doctor import codex_hooks
from tieline.harnesses.base import InstallOptions, hook_command
from tieline.testing.cli_process import CliProcess

pytestmark = pytest.mark.slow


@pytest.fixture
def cli(tmp_path: Path) -> Generator[CliProcess, None, None]:
    cli = CliProcess(tmp_path)
    Path(cli.env["HOME"], ".gemini").mkdir()
    Path(cli.env["HOME"], ".codex").mkdir()
    yield cli


def doctor(cli: CliProcess, *arguments: str, status: int = 0) -> list[tuple[str, str, str, str]]:
    ended = cli.run("doctor", "--json", *arguments, timeout=90)
    assert ended.returncode == status, ended.stderr + ended.stdout
    findings: list[dict[str, Any]] = json.loads(ended.stdout)
    return [(each["about"], each["check"], each["state"], each["text"] + each.get("hint", "")) for each in findings]


def states(findings: list[tuple[str, str, str, str]]) -> dict[tuple[str, str], str]:
    return {(about, check): state for about, check, state, _ in findings}


def test_an_integration_is_looked_at_and_mended(cli: CliProcess) -> None:
    findings = states(doctor(cli))
    assert findings == {("codex", "installed"): "note", ("gemini", "installed"): "note", ("hub", "runs"): "note"}
    assert cli.run("install", "gemini").returncode == 0
    assert states(doctor(cli, "gemini"))["gemini", "installed"] == "ok"
    settings = Path(cli.env["HOME"], ".gemini", "settings.json")
    settings.write_text(settings.read_text().replace(sys.executable, "/usr/bin/python3.0"))
    ((_, _, state, text),) = [
        finding for finding in doctor(cli, "gemini", status=1) if finding[:2] == ("gemini", "installed")
    ]
    assert state == "problem" and "is of another version of Tieline" in text
    mended = doctor(cli, "gemini", "--fix")
    assert ("gemini", "fix", "ok", "1 files brought up to date") in mended
    assert states(mended)["gemini", "installed"] == "ok" and sys.executable in settings.read_text()
    assert states(doctor(cli, "codex", "--fix"))["codex", "installed"] == "note"  # what was not wanted is not installed


def test_hooks_that_codex_was_not_allowed_to_run(cli: CliProcess) -> None:
    assert cli.run("install", "codex", "--hooks").returncode == 0
    assert states(doctor(cli, "codex", status=1))["codex", "trusted"] == "problem"
    hooks = codex_hooks(cli.env)
    assert hooks is not None
    with (hooks.parent / "config.toml").open("a") as config:
        config.write(f'\n[hooks.state."{hooks}:stop:0:0"]\ntrusted_hash = "sha256:0"\n')
    assert states(doctor(cli, "codex"))["codex", "trusted"] == "ok"


def test_a_folder_that_gemini_does_not_trust(cli: CliProcess) -> None:
    assert cli.run("install", "gemini").returncode == 0
    (finding,) = [each for each in doctor(cli, "gemini") if each[1] == "folder"]
    assert finding[2] == "note"
    assert finding[3] in cli.run("doctor", "gemini").stdout.replace("\n  ", ""), (
        "what is wrong, and what to do, are told whole"
    )
    rules = Path(cli.env["HOME"], ".gemini", "trustedFolders.json")
    rules.write_text(json.dumps({str(cli.place): "TRUST_FOLDER"}))
    assert ("gemini", "folder") not in states(doctor(cli, "gemini"))


@pytest.mark.usefixtures("patient_hook")
def test_sessions_hooks_and_a_test_message(cli: CliProcess) -> None:
    options = InstallOptions(env=cli.env, program=cli.program, python=sys.executable)
    command = shlex.split(hook_command("gemini", options))

    def fire(event: str) -> str:
        given = json.dumps({"hook_event_name": event, "session_id": "g-1", "cwd": "/"})
        return subprocess.run(command, input=given, capture_output=True, text=True, timeout=60).stdout

    async def take(name: str) -> None:
        async with Client(stdio_client(bridge(cli.env, "c-1"))) as client:
            await call(client, "register_agent", name=name)
            await call(client, "wait_for_messages", timeout_s=60)
            await call(client, "heartbeat")

    async def canary() -> list[tuple[str, str, str, str]]:
        async with asyncio.TaskGroup() as group:
            group.create_task(take("ada"))
            while "ada" not in (await asyncio.to_thread(cli.run, "members")).stdout:
                pass
            return await asyncio.to_thread(doctor, cli, "--canary", "@ada")

    with HubProcess(cli):
        assert "in the Tieline mesh" in fire("SessionStart")
        fire("BeforeAgent")
        rows = doctor(cli)
        (hooks,) = [text for _, check, _, text in rows if check == "hooks"]
        assert hooks.startswith("2 hooks fired, the last one BeforeAgent")
        steps = [
            text.split()[0] for about, check, _, text in asyncio.run(canary()) if (about, check) == ("@ada", "canary")
        ]
        assert steps[0] == "accepted" and steps[-1] == "seen" and "injected" in steps
