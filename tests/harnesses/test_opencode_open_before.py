"""Terminals of OpenCode that are open while Tieline is installed in it, or taken out again. The real OpenCode in real
terminals, with a hub of its own process."""

import asyncio
import json
import os
import shutil
import time
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from tests.harnesses.desk import BOUND
from tests.harnesses.person import Person, person

from tieline.events import TurnStarted
from tieline.harnesses.attach_consent import STARTS_S
from tieline.harnesses.opencode.open_terminals import NO_RELOAD, TURN
from tieline.script import Run, Say
from tieline.testing.tmux_terminal import TmuxTerminal
from tieline.testing.wait_for import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


async def test_a_terminal_that_was_open_before_is_read_along_from_its_next_conversation_on(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await person(stack, "opencode", tmp_path, installed=False)
        terminal = await stack.enter_async_context(at.home.terminal())
        await take_turn(at, terminal, "said before", "That was before.")
        stand_in = await stack.enter_async_context(terminal_that_would_die(at, tmp_path))
        said_at = time.time()
        await eventually(lambda: time.time() - said_at > STARTS_S + 1, "no time passes")  # clocks are rounded
        await terminal.type("not sent yet")
        await terminal.shows("not sent yet")

        planned = await terminals(at, "install", "--attach", "--dry-run")
        assert sorted((each["told"], each["problem"]) for each in planned) == [(False, ""), (False, NO_RELOAD)]
        assert not any(line.endswith("mcp") for line in commands_of(at)), "a dry run tells no terminal"
        installed = await terminals(at, "install", "--attach", "--yes")
        assert [(each["told"], each["problem"]) for each in installed if each["told"]] == [(True, "")]
        assert [each["problem"] for each in installed if not each["told"]] == [NO_RELOAD]
        assert {each["cwd"] for each in installed} == {str(at.home.project)}
        await eventually(lambda: has_server(at), "it does not load what is installed", timeout=BOUND)
        assert "still here" in await stand_in.screen(), "a process without a handler gets no signal"

        # What was typed and said before is there as it was; the conversation that began before stays unread.
        screen = await terminal.screen()
        assert "not sent yet" in screen and "That was before." in screen
        await terminal.key(*["BSpace"] * len("not sent yet"))
        await take_turn(at, terminal, "said in the same one", "That was the same one.")
        await terminal.submit("/new")
        await at.turn(terminal, "said in a new one", "That is new.", 1)
        (session,) = await at.client.sessions()
        prompts = [event.prompt for event in await at.log(session.id) if isinstance(event, TurnStarted)]
        assert prompts == ["said in a new one"]

        assert [each["told"] for each in await terminals(at, "install")] == [False], "nobody is told twice"
        status, output = await at.tieline("install", "opencode")
        assert status == 0 and "has to be started again" in output and "at once" not in output, output

        removed = await terminals(at, "uninstall")
        assert [(each["told"], each["problem"]) for each in removed] == [(True, "")]
        await eventually(lambda: not has_server(at), "it keeps what is removed", timeout=BOUND)
        async with asyncio.timeout(BOUND):
            while await at.client.members(harness="opencode"):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert "still here" in await stand_in.screen()


async def test_a_turn_that_runs_in_an_open_terminal_is_not_cut_off(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        at = await person(stack, "opencode", tmp_path, installed=False)
        (at.home.project / "opencode.json").write_bytes(msgspec.json.encode({"permission": {"bash": "ask"}}))
        terminal = await stack.enter_async_context(at.home.terminal())
        at.home.rig.play([Run("echo one > one.txt")], [Say("It ran.")])
        await terminal.submit("run it")
        await terminal.shows("Permission required")
        status, output = await at.tieline("install", "opencode")
        assert status == 0 and f"has to be started again: {TURN}" in output and "at once" not in output, output
        await terminal.answer("Permission required", "Enter")
        await terminal.shows("It ran.")
        assert (at.home.project / "one.txt").exists() and not has_server(at)
        async with asyncio.timeout(BOUND):  # the turn is over a moment after its last word
            while [each["told"] for each in await terminals(at, "install")] != [True]:
                pass
        await eventually(lambda: has_server(at), "it does not load what is installed", timeout=BOUND)


async def take_turn(at: Person, terminal: TmuxTerminal, prompt: str, answer: str) -> None:
    at.home.rig.play([Say(answer)])
    await terminal.submit(prompt)
    await terminal.shows(answer)


def terminal_that_would_die(at: Person, root: Path) -> TmuxTerminal:
    """A terminal with a program by the name of OpenCode, without a handler for the signal."""
    program = root / "stand-in" / "opencode"
    program.parent.mkdir()
    shell = shutil.which("sh")
    assert shell is not None
    shutil.copy(shell, program)
    command = (str(program), "-c", "echo still here; while :; do sleep 1; done")
    return TmuxTerminal(command, at.home.project, at.env, shared=True)


async def terminals(at: Person, *arguments: str) -> list[dict[str, object]]:
    """What `tieline install` or `uninstall` says of those that are open."""
    command, *options = arguments
    status, output = await at.tieline(command, "opencode", *options, "--json")
    assert status == 0, output
    (report,) = json.loads(output)
    return report["terminals"]


def has_server(at: Person) -> bool:
    """Whether an OpenCode of this home runs our MCP server."""
    return any(line.endswith("tieline mcp") for line in commands_of(at))


def commands_of(at: Person) -> list[str]:
    """The command lines of all that runs with this home."""
    mark = b"\0HOME=" + os.fsencode(at.env["HOME"]) + b"\0"
    commands: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in b"\0" + (entry / "environ").read_bytes():
                commands.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
        except OSError:  # it is over
            continue
    return commands
