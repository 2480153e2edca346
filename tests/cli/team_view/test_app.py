"""The view of a team in a real terminal, with a real hub and scripted members."""

import re
import sys
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest
from tests.cli.hub_process import HubProcess
from tests.cli.team_conversations import TEAM

from tieline.script import Inquire, Run, Say, Write
from tieline.testing.cli_process import CliProcess
from tieline.testing.tmux_terminal import TmuxTerminal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

LONG = "".join(f"line {number}\n" for number in range(1, 61))


@pytest.fixture
def cli(tmp_path: Path) -> CliProcess:
    setting = CliProcess(tmp_path)
    setting.agent("planner", [Say("A [bold]queue[/] it \x1b[31mis.\n[NEXT: developer]")], [Say("Well done.\n[DONE]")])
    setting.agent(
        "coder",
        [Say("I look first. "), Run("touch built")],
        [Write("shop.txt", LONG)],
        [Inquire("Which one?", ("Flask", "Django"))],
        [Say("Built. Which colour?\n[NEXT: alice]")],
        [Say("Blue it is.\n[NEXT: architect]")],
    )
    setting.agent("asker", [Say("Which colour?\n[NEXT: alice]")])
    (setting.place / "team.toml").write_text(TEAM)
    bob = '[[members]]\nname = "bob"\nhuman = true\n'
    (setting.place / "ask.toml").write_text(TEAM.replace('"planner"', '"asker"') + bob)
    return setting


@pytest.fixture
def hub(cli: CliProcess) -> Generator[HubProcess, None, None]:
    with HubProcess(cli) as hub:
        yield hub


def shell(cli: CliProcess, *, columns: int, rows: int, **variables: str) -> TmuxTerminal:
    path = f"{Path(sys.executable).parent}:{cli.env['PATH']}"
    env: Mapping[str, str] = {**cli.env, "PATH": path, "PS1": "$ ", **variables}
    return TmuxTerminal(["/bin/sh"], cli.place, env, columns=columns, rows=rows, shared=True)


async def test_a_person_decides_and_speaks_on_a_small_terminal(cli: CliProcess, hub: HubProcess) -> None:
    async with shell(cli, columns=80, rows=24) as terminal:
        await terminal.submit('tieline team run team.toml "Build the shop."')
        await terminal.shows("I look first.")  # its turn goes on: these are no words of the log
        screen = await terminal.shows("developer wants to run a command")
        assert "A [bold]queue[/] it ⟨U+001B⟩[31mis." in screen
        assert "11 of 12 rounds left" in screen or "10 of 12 rounds left" in screen
        await terminal.answer("wants to run a command", "C-y")
        # What is longer than its place is read to its end before it can be allowed.
        await terminal.answer("Ctrl-Y read all of it", "C-y")
        await terminal.key("y")
        await terminal.answer("PgDn read on", "NPage")
        await terminal.answer("y allows", "y")
        await terminal.shows("2  Django")
        assert (cli.place / "shop.txt").read_text() == LONG
        await terminal.submit("/answer 2")
        await terminal.shows("Built. Which colour?")
        await terminal.shows("alice: it is your turn")
        assert (cli.place / "built").exists()
        await terminal.submit("/hold")
        await terminal.shows("● held")
        await terminal.type("/nxet developer")
        await terminal.key("Enter")
        await terminal.shows("/nxet is not a command")
        await terminal.shows("› /nxet developer")  # to be corrected
        await terminal.key("C-u")
        await terminal.shows("› alice: it is your turn")
        await terminal.submit("/resume")
        await terminal.shows("● waits for alice")
        await terminal.submit("Blue.")
        await terminal.shows("Blue it is.")
        await terminal.shows("● ended: done, says architect")
        await terminal.key("C-q")
        await terminal.shows("shows what was said.")


async def test_a_person_leaves_and_comes_back_and_so_does_the_hub(cli: CliProcess, hub: HubProcess) -> None:
    async with shell(cli, columns=120, rows=30, NO_COLOR="1") as terminal:
        await terminal.submit('tieline team run ask.toml "Build the shop."')
        await terminal.shows("alice: it is your turn")
        assert "asker · designs" in await terminal.screen()  # the members, where there is room for them
        await terminal.key("C-c")
        screen = await terminal.shows("comes back to it.")
        match = re.search(r"`(tieline team show \w+ --follow)`", screen)
        assert match is not None
        await terminal.submit(f"{match[1]} --as carol")
        await terminal.shows("Its people are alice, bob.")
        await terminal.submit(f"{match[1]} --as bob")
        await terminal.shows("alice: it is your turn")
        hub.kill()
        await terminal.shows("the hub is away, trying again")
        hub.start()
        await terminal.shows("· the hub is back")
        await terminal.submit("Blue.")
        screen = await terminal.shows("▌ Blue.")
        assert re.search(r"bob[^\n]*\n[^\n]*▌ Blue\.", screen)
        await terminal.shows("asker · round 2")  # it answers
        await terminal.type("/end good enough")
        await terminal.shows("› /end good enough")
        await terminal.key("Enter")  # what is typed is told right above the line: `submit` could not tell them apart
        await terminal.shows("● ended: good enough")
        await terminal.key("C-q")
        await terminal.shows("shows what was said.")
