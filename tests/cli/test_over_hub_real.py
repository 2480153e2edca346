"""`tieline run` through a hub with real agents over the scripted model: the first turn, and one from the warm pool."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.hub_process import HubProcess
from tests.sessions.repositories import git, make_repository

from tieline.script import Run, Say
from tieline.testing.cli_process import CliProcess
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.rigs.codex import codex_rig

pytestmark = pytest.mark.real

BINARIES = Path(__file__).parents[1] / "agents/node_modules/.bin"

RIGS: dict[str, Callable[[Path], AbstractAsyncContextManager[Any]]] = {
    "claude-code": ClaudeCodeRig,
    "codex": lambda home: codex_rig(home, BINARIES / "codex"),
}


@pytest.mark.parametrize("name", RIGS)
async def test_a_real_agent_through_the_hub(name: str, tmp_path: Path) -> None:
    cli = CliProcess(tmp_path)
    async with RIGS[name](tmp_path / "home") as rig:
        cli.env = {**cli.env, **rig.options["env"], "PATH": f"{BINARIES}:{rig.options['env']['PATH']}"}
        hub = HubProcess(cli)
        await asyncio.to_thread(hub.start)
        try:
            rig.play([Say("Here I am.")])
            first = await asyncio.to_thread(cli.run, "run", name, "where are you?", timeout=60)
            assert (first.returncode, first.stdout) == (0, "Here I am.\n"), first.stderr
            assert "go on with: tieline run" in first.stderr
            rig.play([Run("echo hi > made.txt")], [Say("It is made.")])
            ended = await asyncio.to_thread(cli.run, "run", name, "make it", "--on-ask", "allow", "--json", timeout=60)
            assert ended.returncode == 0, ended.stderr
            events = [json.loads(line) for line in ended.stdout.splitlines()]
            assert events[0]["type"] == "turn_started"
            assert [event["by"] for event in events if event["type"] == "answer"] == ["--on-ask allow"]
            assert events[-1]["type"] == "done" and events[-1]["text"] == "It is made."
            assert (cli.place / "made.txt").read_text() == "hi\n"
            for how, there in (("deny", False), ("allow", True)):
                rig.play([Run("touch sent")], [Say("That is all.")])
                asked = ("send", "--new", name, "make it too", "--policy", "ask", "--wait", "--on-ask", how)
                ended = await asyncio.to_thread(cli.run, *asked, timeout=60)
                assert ended.returncode == 0 and "That is all." in ended.stdout, ended.stderr
                assert (cli.place / "sent").exists() is there
            native = first.stderr.partition("--resume ")[2].split()[0]
            rig.play([Say("Still here.")])
            resumed = await asyncio.to_thread(cli.run, "run", name, "and now?", "--resume", native, timeout=60)
            assert (resumed.returncode, resumed.stdout) == (0, "Still here.\n"), resumed.stderr
            listed = await asyncio.to_thread(cli.run, "sessions", "--json")
            shown = [(session["title"], session["turns"]) for session in json.loads(listed.stdout)]
            assert shown[0] == ("where are you?", 2), "it goes on in the session that has it"
            if name != "codex":
                return  # the rest is about a conversation that can be open only once
            rig.play([Say("By other rules.")])
            other = ("--resume", native, "--policy", "full")
            resumed = await asyncio.to_thread(cli.run, "run", name, "under other rules", *other, timeout=60)
            assert (resumed.returncode, resumed.stdout) == (0, "By other rules.\n"), resumed.stderr
            rig.play([Say("In a copy.")])
            other = ("--resume", native, "--fork")
            forked = await asyncio.to_thread(cli.run, "run", name, "in a copy", *other, timeout=60)
            assert (forked.returncode, forked.stdout) == (0, "In a copy.\n"), forked.stderr
            listed = await asyncio.to_thread(cli.run, "sessions", "--json")
            (copy,) = (session["id"] for session in json.loads(listed.stdout) if session["title"] == "in a copy")
            rig.play([Say("In a copy of the copy.")])
            again = await asyncio.to_thread(cli.run, "fork", copy[-8:], "and once more", "--wait", timeout=60)
            assert again.returncode == 0 and "In a copy of the copy." in again.stdout, again.stderr
        finally:
            await asyncio.to_thread(hub.stop)


@pytest.mark.parametrize("name", RIGS)
async def test_a_real_agent_works_in_a_worktree_that_is_merged(name: str, tmp_path: Path) -> None:
    cli = CliProcess(tmp_path)
    repository = make_repository(tmp_path / "shop")
    async with RIGS[name](tmp_path / "home") as rig:
        cli.env = {**cli.env, **rig.options["env"], "PATH": f"{BINARIES}:{rig.options['env']['PATH']}"}
        hub = HubProcess(cli)
        await asyncio.to_thread(hub.start)
        try:
            rig.play([Run("echo \"colour = 'blue'\" > shop.py")], [Say("It is blue.")])
            where = ("--cwd", str(repository), "--worktree", "--on-ask", "allow")
            ended = await asyncio.to_thread(cli.run, "run", name, "make it blue", *where, timeout=60)
            assert (ended.returncode, ended.stdout) == (0, "It is blue.\n"), ended.stderr
            assert (repository / "shop.py").read_text() == "colour = 'red'\n"
            (session,) = json.loads((await asyncio.to_thread(cli.run, "worktree", "list", "--json")).stdout)
            assert (session["worktree"]["into"], session["uncommitted"]) == ("main", 1)
            merged = await asyncio.to_thread(cli.run, "worktree", "merge", session["session"], timeout=60)
            assert merged.returncode == 0, merged.stderr
            assert (repository / "shop.py").read_text() == "colour = 'blue'\n"
            assert git(repository, "status", "--porcelain") == ""
            rig.play([Say("I go on.")])
            again = ("send", session["session"], "and now?", "--wait")
            ended = await asyncio.to_thread(cli.run, *again, timeout=60)
            assert ended.returncode == 0 and "I go on." in ended.stdout, ended.stderr
        finally:
            await asyncio.to_thread(hub.stop)
