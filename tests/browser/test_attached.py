"""A person's own terminal on the page: what is typed there streams, a prompt from the page runs there, and what is left
of it can be taken over. Its permission prompt is answered from everywhere. The real harnesses, in real terminals."""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from playwright.async_api import Locator, Page, expect
from tests.asks.surfaces import CHANNELS
from tests.browser.conftest import OpenPage
from tests.browser.hub import HubProcess
from tests.harnesses.at_the_terminal import QUESTIONS, YES, asking, asks_for_commands
from tests.hub.test_hooks import toml

from tieline.harnesses import registry
from tieline.harnesses.copilot.terminal import CopilotTerminal
from tieline.harnesses.droid.terminal import DroidTerminal
from tieline.harnesses.gemini.terminal import GeminiTerminal
from tieline.harnesses.kimi.terminal import KimiTerminal
from tieline.harnesses.pi.terminal import PiTerminal
from tieline.harnesses.qwen.terminal import QwenTerminal
from tieline.harnesses.vibe.terminal import VibeTerminal
from tieline.script import Say
from tieline.testing.cli_process import Terminal
from tieline.testing.harness_terminals import HOMES, HarnessHome
from tieline.testing.telegram_server import TOKEN, BotApi, BotCall
from tieline.testing.tmux_terminal import TmuxTerminal
from tieline.testing.wait_for import eventually

real = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.timeout(480),
    pytest.mark.asyncio(loop_scope="session"),
]

BINARIES = Path(__file__).parents[1] / "agents/node_modules/.bin"
TIELINE = str(Path(sys.executable).with_name("tieline"))
SLOW_S = 90.0
SLOW_MS = SLOW_S * 1000
ATTACH = re.compile("^Attach (a file|an image)$")
"""In a session that Tieline runs; which of both depends on the agent."""
ADA = 4711
"""Her chat with the bot."""
Shot = Callable[[Page, str], Awaitable[None]]


class Scene(Struct):
    """A person's terminal, and everything else that shows what it asks."""

    harness: str
    home: HarnessHome
    hub: HubProcess
    bot: BotApi
    terminal: TmuxTerminal
    page: Page

    @property
    def thread(self) -> Locator:
        return self.page.get_by_role("log", name="Conversation")

    async def card(self, command: str) -> BotCall:
        """The bot's message with the ask."""

        def calls() -> list[BotCall]:
            return [call for call in self.bot.made("sendMessage") if command in call.fields.get("text", "")]

        await eventually(lambda: bool(calls()), f"the bot did not show {command}", timeout=SLOW_S)
        return calls()[0]

    async def command(self, *words: str) -> str:
        """`tieline …`, in a terminal of its own. What it says."""

        def run() -> str:
            terminal = Terminal([TIELINE, *words], self.home.project, {**self.hub.env, "TERM": "xterm"}, 100, 40, "")
            try:
                terminal.wait(SLOW_S)
                return " ".join(terminal.text.split())
            finally:
                terminal.close()

        return await asyncio.to_thread(run)


Way = Callable[[Scene, str, str], Awaitable[None]]
"""How the ask of this id, for this command, is allowed."""


async def on_the_page(scene: Scene, ask: str, command: str) -> None:
    card = scene.thread.get_by_role("article").filter(has_text=command)
    await card.get_by_role("button", name="Allow once").click(timeout=SLOW_MS)


async def by_tieline_approve(scene: Scene, ask: str, command: str) -> None:
    reply = await scene.command("approve", ask)
    assert command in reply
    assert "allowed:" in reply


async def by_telegram(scene: Scene, ask: str, command: str) -> None:
    card = await scene.card(command)
    button = card.json("reply_markup")["inline_keyboard"][0][0]
    assert button["text"] == "Approve"
    await scene.bot.press(ADA, button["callback_data"], message_id=int(card.fields["_id"]))


async def at_the_terminal(scene: Scene, ask: str, command: str) -> None:
    await scene.terminal.answer(QUESTIONS[scene.harness], YES[scene.harness])


WAYS: Mapping[str, Way] = {
    "page": on_the_page,
    "tieline approve": by_tieline_approve,
    "Telegram": by_telegram,
    "terminal": at_the_terminal,
}
"""The columns of the matrix."""


TERMINAL_ONLY = {
    "copilot": CopilotTerminal,
    "gemini": GeminiTerminal,
    "qwen": QwenTerminal,
    "pi": PiTerminal,
    "vibe": VibeTerminal,
    "kimi": KimiTerminal,
    "droid": DroidTerminal,
}
"""Harnesses that take an answer at the terminal alone: the tests of each in its terminal have what is shown of them."""


HARNESSES = tuple(name for name in QUESTIONS if name not in TERMINAL_ONLY)
"""The rows of the matrix."""


def test_every_harness_is_answered_in_every_way() -> None:
    """Each row goes through all columns."""
    attached = {name for name in registry.names() if registry.create(name).attach_terms is not None}
    assert set(HARNESSES) == attached - TERMINAL_ONLY.keys()
    assert not any("answer" in terminal.remote for terminal in TERMINAL_ONLY.values())
    deciding = {column for column in CHANNELS.values() if column}
    assert WAYS.keys() == {"page", "tieline approve", "terminal"} | deciding


@asynccontextmanager
async def scene(harness: str, root: Path, bot: BotApi) -> AsyncGenerator[tuple[HarnessHome, HubProcess], None]:
    """A hub with a bot beside a harness that its person installed with `--attach`."""
    async with HOMES[harness](root, BINARIES) as home:
        asks_for_commands(harness, home)
        env = {**home.env, "PATH": f"{BINARIES}:{Path(TIELINE).parent}:/usr/bin:/bin"}
        phone = {"token": TOKEN, "api": bot.url, "chats": [ADA], "asks": True}
        async with HubProcess(root / "hub", env=env, more=toml(("phone", "type telegram", phone))) as hub:
            install = await asyncio.create_subprocess_exec(
                TIELINE, "install", harness, "--attach", "--yes", env=hub.env, stdout=asyncio.subprocess.DEVNULL
            )
            assert await asyncio.wait_for(install.wait(), 60) == 0
            yield home, hub


async def ask_and_answer(scene: Scene, way: str, number: int) -> None:
    """What the terminal asks is shown everywhere, answered in one place, and every other place is told."""
    command, over = f"touch file-{number}", f"Number {number} is over."
    question = QUESTIONS[scene.harness]
    scene.home.rig.play([asking(scene.harness, command)], [Say(over)])
    await scene.terminal.submit(f"please touch number {number}")
    ask = await pending(scene.hub)
    await expect(scene.thread.get_by_role("article").filter(has_text=command)).to_be_visible(timeout=SLOW_MS)
    card = await scene.card(command)
    await scene.terminal.shows(question)

    await WAYS[way](scene, ask["id"], command)
    await scene.terminal.until(lambda screen: over in screen and question not in screen, "its question is over")
    assert (scene.home.project / command.split()[1]).exists()
    answers = await until_answered(scene.hub, ask["session"], number)
    assert answers[-1]["ask"] == ask["id"]
    by = answers[-1]["by"]
    assert (by == "terminal") == (way == "terminal")
    row = scene.thread.locator(".fold-head").filter(has_text="Allowed").nth(number - 1)
    await expect(row).to_contain_text("at the terminal" if by == "terminal" else f"by {by}", timeout=SLOW_MS)
    outcome = f"Approved by {by}"

    def is_shown() -> bool:
        edits = [call.fields for call in scene.bot.made("editMessageText")]
        return any(edit["message_id"] == card.fields["_id"] and outcome in edit["text"] for edit in edits)

    await eventually(is_shown, f"the chat is not told: {outcome}", timeout=SLOW_S)
    assert f"this ask is answered by {by}: allow" in await scene.command("approve", ask["id"])


async def pending(hub: HubProcess) -> Any:
    """The only ask, once it is there."""
    async with asyncio.timeout(SLOW_S):
        while not (asks := await hub.request("GET", "asks")):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    (ask,) = asks
    return ask


async def until_answered(hub: HubProcess, session: str, count: int) -> list[Any]:
    """The answers in the session's log, once there are so many."""
    async with asyncio.timeout(SLOW_S):
        while len(answers := await hub.answers(session)) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return answers


class TestTerminals:
    pytestmark = real

    @pytest.mark.parametrize("harness", HARNESSES)
    async def test_a_terminal_on_the_phone(self, tmp_path: Path, open_page: OpenPage, shot: Shot, harness: str) -> None:
        async with BotApi() as bot, scene(harness, tmp_path, bot) as (home, hub):
            page = await open_page(hub)
            async with home.terminal() as terminal:
                at = Scene(harness, home, hub, bot, terminal, page)
                home.rig.play([Say("Here I am.")])
                await terminal.submit("are you there")
                await page.get_by_role("link").filter(has_text="Here I am.").first.click(timeout=SLOW_MS)
                await expect(at.thread.get_by_text("are you there")).to_be_visible()
                for number, way in enumerate(WAYS, 1):
                    await ask_and_answer(at, way, number)
                await shot(page, f"attached-answers-{harness}")

                home.rig.play([Say("I heard the phone.")])
                await page.get_by_label("Message", exact=True).fill("and this comes from the phone")
                await page.get_by_role("button", name="Send").click()
                await terminal.shows("I heard the phone.")
                assert "and this comes from the phone" in await terminal.screen()
                await expect(at.thread.get_by_text("and this comes from the phone", exact=True)).to_be_visible()
                await expect(at.thread.get_by_text("I heard the phone.")).to_be_visible(timeout=SLOW_MS)
                await shot(page, f"attached-{harness}")
                await terminal.hang_up()
                await page.get_by_role("button", name="Take over").click(timeout=SLOW_MS)
                await expect(page.get_by_role("button", name=ATTACH)).to_be_visible()
