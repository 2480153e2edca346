"""`tieline top` in a real terminal, with a real hub and scripted agents."""

import json
import re
import sys
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest
from tests.cli.hub_process import HubProcess

from tieline.cli.top.app import KEYS
from tieline.script import Inquire, Run, Say, Write
from tieline.testing.cli_process import CliProcess
from tieline.testing.tmux_terminal import TmuxTerminal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

LONG = "".join(f"line {number}\n" for number in range(1, 61))


@pytest.fixture
def cli(tmp_path: Path) -> CliProcess:
    setting = CliProcess(tmp_path)
    setting.agent("coder", [Say("I look first. "), Run("touch built")], [Say("Built.")])
    setting.agent("writer", [Write("shop.txt", LONG)], [Inquire("Which one?", ("Flask", "Django"))], [Say("Written.")])
    setting.agent("sleeper", [Run("touch began; sleep 600")], [Say("never")])
    return setting


@pytest.fixture
def hub(cli: CliProcess) -> Generator[HubProcess, None, None]:
    with HubProcess(cli) as hub:
        yield hub


def shell(cli: CliProcess, *, columns: int, rows: int, **variables: str) -> TmuxTerminal:
    path = f"{Path(sys.executable).parent}:{cli.env['PATH']}"
    env: Mapping[str, str] = {**cli.env, "PATH": path, "PS1": "$ ", **variables}
    return TmuxTerminal(["/bin/sh"], cli.place, env, columns=columns, rows=rows, shared=True)


async def test_a_person_watches_answers_and_steers_from_one_screen(cli: CliProcess, hub: HubProcess) -> None:
    for agent, task in (("coder", "build the shop"), ("writer", "write the [bold]page[/] \x1b[31mred")):
        assert cli.run("send", "--new", agent, "--policy", "ask", "--title", task, task).returncode == 0
    async with shell(cli, columns=110, rows=34) as terminal:
        await terminal.submit("tieline top")
        await terminal.shows("2 asks")
        screen = await terminal.shows("writer wants to change a file")  # the last active one of those that wait
        assert "write the [bold]page[/] ⟨U+001B⟩[31mred" in screen
        # What is longer than its place is read to its end before it can be allowed.
        # The keys below the ask are those that decide right now: letters for the list, others while one types.
        await terminal.shows("y read all of it   n deny")
        await terminal.key("Enter")
        await terminal.shows("Ctrl-Y read all of it   Ctrl-N deny")
        await terminal.key("Escape")
        await terminal.answer("y read all of it   n deny", "y")
        await terminal.answer("PgDn read on", "NPage")
        await terminal.answer("y allows", "y")
        await terminal.shows("2  Django")
        assert (cli.place / "shop.txt").read_text() == LONG
        await terminal.key("Tab")
        await terminal.shows("coder wants to run a command")
        assert "I look first." in await terminal.screen()
        await terminal.answer("coder wants to run a command", "n")
        await terminal.shows("denied: wants to run a command: $ ")
        await terminal.shows("Built.")
        assert not (cli.place / "built").exists()
        await terminal.key("Tab")
        await terminal.shows("2  Django")
        await terminal.key("/")
        await terminal.submit("answer 2")
        await terminal.shows("Written.")
        await terminal.shows("0 asks")
        await terminal.key("Enter")
        await terminal.submit("once more, please")
        await terminal.shows("sent: ")
        await terminal.shows("2 turns")
        await terminal.key("/")
        await terminal.submit("find coder")
        await terminal.shows("1 session, ")
        await terminal.key("/")
        await terminal.type("nxet")
        await terminal.key("Enter")
        await terminal.shows("/nxet is not a command")
        await terminal.key("Escape")
        await terminal.shows("Tab next ask")
        await terminal.key("q")
        await terminal.until(lambda screen: screen.rstrip().endswith("$"), "the shell is back")


async def test_a_hub_that_dies_and_comes_back_and_a_turn_that_is_interrupted(cli: CliProcess, hub: HubProcess) -> None:

    cli.run("send", "--new", "sleeper", "--policy", "full", "rest a while")
    async with shell(cli, columns=80, rows=24, NO_COLOR="1") as terminal:
        await terminal.submit("tieline top")
        screen = await terminal.shows("1 working")
        assert all(key in screen for key in KEYS), "every key is told where there are 80 columns"
        assert re.search(r"id +agent +status +what +active( +where)? *$", screen, re.MULTILINE), (
            "whole columns, or none"
        )
        hub.kill()
        await terminal.shows("the hub is away, trying again")
        hub.start()
        await terminal.until(lambda screen: bool(re.search(r"1 session, 0 working", screen)), "the hub is back")
        cli.run("send", "--new", "sleeper", "--policy", "full", "rest again")
        await terminal.shows("1 working")
        await terminal.key("Up")  # the one that failed is chosen still
        await terminal.until(lambda screen: bool(re.search(r"─\s*\n rest again", screen)), "the other one is chosen")
        await terminal.key("x")
        await terminal.answer("press x again to interrupt sleeper", "x")
        await terminal.shows("interrupted")
        await terminal.shows("0 working")
        await terminal.key("C-c")
        await terminal.until(lambda screen: screen.rstrip().endswith("$"), "the shell is back")


@pytest.mark.parametrize("columns", [40, 80, 120])
async def test_nothing_is_cut_without_an_ellipsis(cli: CliProcess, hub: HubProcess, columns: int) -> None:
    title = "look through all the pages of the shop and tell me whatever is missing there"
    cli.run("send", "--new", "coder", "--policy", "full", "--title", title, "look")
    async with shell(cli, columns=columns, rows=24) as terminal:
        await terminal.submit("tieline top")
        screen = await terminal.until(lambda screen: " coder " in screen and "Built." in screen, "the session")
        lines = screen.split("\n")
        head, titles, row = lines[0].rstrip(), lines[1].split(), lines[2].rstrip()
        assert head.endswith(("…", " 1 machine"))
        assert (
            titles
            == {
                40: ["agent", "status", "what"],
                80: ["id", "agent", "status", "what", "active", "where"],
                120: ["id", "agent", "status", "what", "active", "where"],
            }[columns]
        )
        assert re.search(r"  look through [\w ]*…", row) and len(row) <= columns
        if "where" in titles:
            assert row.endswith("/place"), "of a directory the end stays"


def test_without_a_terminal_it_prints_once(cli: CliProcess, hub: HubProcess) -> None:
    assert cli.run("send", "--new", "coder", "--policy", "ask", "--title", "the shop", "build it").returncode == 0
    ended = cli.run("top")
    assert ended.returncode == 0
    assert "the shop" in ended.stdout
    overview = json.loads(cli.run("top", "--json").stdout)
    assert [(row["agent"], row["machine"] != "") for row in overview["sessions"]] == [("coder", True)]
    assert overview["totals"]["sessions"] == 1
    assert json.loads(cli.run("top", "--json", "--find", "nothing like it").stdout)["sessions"] == []
