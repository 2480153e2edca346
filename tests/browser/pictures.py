"""The pictures of the documents, made from the product itself: `python -m tests.browser.pictures docs/images`.

`page.png`: a session on a desktop, and what needs a decision on a phone. `demo.png`: `tieline demo` in a terminal.
"""

import argparse
import asyncio
import base64
import io
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Browser, Page, expect
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from tests.browser.chromium import chromium
from tests.browser.hub import HubProcess
from tests.browser.signed_in import settled, signed_in

from tieline.cli.commands.demo import PROJECT
from tieline.script import Inquire, Run, Say, Stall
from tieline.testing.rig import scratch_env
from tieline.testing.tmux_terminal import TmuxTerminal

COLUMNS, ROWS = 96, 40
_COLOURS = [
    (24, 26, 32), (255, 107, 97), (140, 206, 92), (245, 196, 82), (110, 160, 250), (200, 140, 240),
    (86, 200, 205), (228, 230, 234),
]  # fmt: skip
THEME = TerminalTheme((24, 26, 32), (228, 230, 234), _COLOURS, _COLOURS)
FRAMES = """
<style>
  body { margin: 0; width: 1400px; height: 860px; background: #dfe5e2; position: relative; overflow: hidden }
  img { position: absolute; display: block }
  .desktop { left: 28px; top: 28px; width: 1260px; border-radius: 14px; box-shadow: 0 2px 18px #0003 }
  .phone { right: 24px; bottom: 24px; width: 330px; border: 7px solid #0b0c0e;
    border-radius: 34px; box-shadow: 0 6px 30px #0006 }
</style>
"""
TERMINAL = """
<style>
  body {{ margin: 0; background: #0b0c10; padding: 24px; display: inline-block }}
  .window {{ background: #181a20; border-radius: 12px; overflow: hidden }}
  .bar {{ background: #242730; color: #9aa0ab; font: 16px sans-serif; text-align: center; padding: 10px }}
  pre {{ margin: 0; padding: 18px 22px; font: 18px/1.28 "DejaVu Sans Mono", monospace; color: #e4e6ea }}
</style>
<div class="window"><div class="bar">tieline demo</div><pre>{code}</pre></div>
"""


async def picture_of_the_page(browser: Browser, out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        hub = HubProcess(home, env=scratch_env(home, path=f"{Path(sys.executable).parent}:/usr/bin:/bin"))
        for name, content in PROJECT.items():
            (hub.repository / name).write_text(content)
        hub.agent("codex", [Say("I begin with the **second** half."), Run("npm test -- --watch=false")], [Stall()])
        hub.agent("claude-code", [Say("The changelog has an entry for each of the four fixes.")])
        hub.agent("gemini", [Say("I read the parser first."), Stall()])
        hub.agent("opencode", [Inquire("Which database should the tests use?", ("SQLite", "PostgreSQL"))], [Stall()])
        async with hub:
            await hub.session("claude-code", id="changelog", prompt="Write the changelog")
            await hub.session("gemini", id="parser", prompt="Explain the parser to a newcomer")
            await hub.session("opencode", id="database", prompt="Run the tests against a real database")
            await hub.session("codex", id="manual", prompt="Translate the manual, then test its examples")
            await hub.session(
                "demo", id="greeting", title="Fix the greeting", prompt="The greeting is wrong. Please fix it."
            )
            desktop = await _open(browser, hub, "wide", "light", "/s/greeting")
            await desktop.get_by_role("log").get_by_role("button", name="Allow once").click()
            await expect(desktop.get_by_role("log").get_by_text("Edit greeting.py?")).to_be_visible()
            phone = await _open(browser, hub, "iphone", "dark", "/")
            await expect(phone.get_by_text("Edit greeting.py?")).to_be_visible()
            pictures = {"desktop": await desktop.screenshot(), "phone": await phone.screenshot()}
    frames = "".join(
        f'<img class="{name}" src="data:image/png;base64,{base64.b64encode(data).decode()}">'
        for name, data in pictures.items()
    )
    page = await browser.new_page(viewport={"width": 1400, "height": 860})
    await page.set_content(FRAMES + frames)
    await page.screenshot(path=out)


async def _open(browser: Browser, hub: HubProcess, size: str, scheme: str, path: str) -> Page:
    page = await signed_in(browser, hub, size, scheme, scale=2)
    await page.goto(hub.url + path)
    await settled(page)
    return page


async def picture_of_the_demo(browser: Browser, out: Path) -> None:
    screen = await _demo_screen()
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="truecolor")
    console.print(Text.from_ansi(screen), soft_wrap=True)
    code = console.export_html(theme=THEME, inline_styles=True, code_format="{code}")
    page = await browser.new_page(viewport={"width": 1400, "height": 1200})
    await page.set_content(TERMINAL.format(code=code))
    await page.locator("body").screenshot(path=out)


async def _demo_screen() -> str:
    """What a terminal shows, colours included, when the demo asks for the second time."""
    with tempfile.TemporaryDirectory() as folder:
        env = scratch_env(Path(folder) / "home", path=f"{Path(sys.executable).parent}:/usr/bin:/bin")
        argv = (str(Path(sys.executable).with_name("tieline")), "demo")
        async with TmuxTerminal(
            argv, Path(folder), env | {"COLORTERM": "truecolor"}, columns=COLUMNS, rows=ROWS
        ) as demo:
            await demo.shows("deny and say why")
            await demo.key("y")
            await demo.until(
                lambda screen: "change a file" in screen and "deny and say why" in screen, "the second ask"
            )
            return (await demo.screen(colours=True)).rstrip()


async def make(out: Path) -> None:
    async with chromium() as browser:
        await picture_of_the_page(browser, out / "page.png")
        await picture_of_the_demo(browser, out / "demo.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("directory", type=Path)
    asyncio.run(make(parser.parse_args().directory))


if __name__ == "__main__":
    main()
