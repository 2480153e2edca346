"""A person's own terminal on the page: what is typed there streams, its permission prompt is answered, a prompt from
the page runs there, and what is left of it can be taken over. The real harnesses, in real terminals."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from playwright.async_api import Page, expect
from tests.browser.conftest import OpenPage
from tests.browser.hub import HubProcess

from tieline.script import Call, Run, Say
from tieline.testing.harness_terminals import HOMES, HarnessHome

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.timeout(360),
    pytest.mark.asyncio(loop_scope="module"),
]

BINARIES = Path(__file__).parents[1] / "agents/node_modules/.bin"
TIELINE = str(Path(sys.executable).with_name("tieline"))
SLOW_MS = 90_000
Shot = Callable[[Page, str], Awaitable[None]]

ASKS = {"opencode": ("opencode.json", {"permission": {"bash": "ask"}})}
"""What makes a harness ask before it runs a command, where it does not do so by itself."""
COMMAND = "touch allowed-from-the-phone"
ASKING = {"codex": Call("exec_command", {"cmd": COMMAND, "sandbox_permissions": "require_escalated"})}
"""How a model asks, where a command that stays in the sandbox needs nobody."""


@asynccontextmanager
async def scene(harness: str, root: Path) -> AsyncGenerator[tuple[HarnessHome, HubProcess], None]:
    """A hub beside a harness that its person installed with `--attach`."""
    async with HOMES[harness](root, BINARIES) as home:
        if harness in ASKS:
            name, settings = ASKS[harness]
            (home.project / name).write_bytes(msgspec.json.encode(settings))
        env = {**home.env, "PATH": f"{BINARIES}:{Path(TIELINE).parent}:/usr/bin:/bin"}
        async with HubProcess(root / "hub", env=env) as hub:
            install = await asyncio.create_subprocess_exec(
                TIELINE, "install", harness, "--attach", "--yes", env=hub.env, stdout=asyncio.subprocess.DEVNULL
            )
            assert await asyncio.wait_for(install.wait(), 60) == 0
            yield home, hub


@pytest.mark.parametrize("harness", ["claude-code", "codex", "opencode"])
async def test_a_terminal_on_the_phone(tmp_path: Path, open_page: OpenPage, shot: Shot, harness: str) -> None:
    async with scene(harness, tmp_path) as (home, hub):
        page = await open_page(hub)
        async with home.terminal() as terminal:
            home.rig.play([ASKING.get(harness, Run(COMMAND))], [Say("It was allowed.")])
            await terminal.submit("please touch the file")
            ask = page.get_by_label("Needs you").get_by_role("article")
            await expect(ask).to_contain_text(COMMAND, timeout=SLOW_MS)
            await shot(page, f"attached-ask-{harness}")
            await ask.get_by_role("link").first.click()
            thread = page.get_by_role("log", name="Conversation")
            await expect(thread.get_by_text("please touch the file")).to_be_visible()
            await thread.get_by_role("article").get_by_role("button", name="Allow once").click()
            await expect(thread.get_by_text("It was allowed.")).to_be_visible(timeout=SLOW_MS)
            await terminal.shows("It was allowed.")
            assert (home.project / COMMAND.split()[1]).exists()

            home.rig.play([Say("I heard the phone.")])
            await page.get_by_label("Message", exact=True).fill("and this comes from the phone")
            await page.get_by_role("button", name="Send").click()
            await terminal.shows("I heard the phone.")
            await expect(thread.get_by_text("I heard the phone.")).to_be_visible(timeout=SLOW_MS)
            await shot(page, f"attached-{harness}")
            await terminal.hang_up()
            await page.get_by_role("button", name="Take over").click(timeout=SLOW_MS)
            await expect(page.get_by_role("button", name="Attach a file")).to_be_visible()
