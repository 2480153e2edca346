"""Screenshots of every page, on a phone, a narrow phone and a desktop, in both themes, and with text of twice the size.

`python -m tests.browser.screenshots DIRECTORY`.

They are made to be looked at. The hub, its sessions and the browser are the tests' own.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

from playwright.async_api import Browser, expect
from tests.browser.chromium import chromium, text_size
from tests.browser.hub import HubProcess
from tests.browser.showcase import EVENTS
from tests.browser.signed_in import settled, signed_in

from tieline.script import Run, Say, Stall, Write

PAGES = (
    "/", "/s/showcase", "/s/showcase/diff", "/s/showcase/info", "/s/branched/info", "/s/waiting", "/s/working", "/new",
    "/settings", "/members", "/messages", "/inboxes", "/dead", "/channels", "/teams", "/teams/new",
    "/search?q=greeting", "/usage", "/schedules", "/schedules/new", "/schedules/triage",
)  # fmt: skip
PARTS = {"/s/showcase/diff": ".changes", "/s/branched/info": ".worktree", "/search?q=greeting": ".hit"}
"""What is to be seen of a page whose code is loaded late."""
FILLED = (
    ("/new", "Work in a git worktree of its own", "new-worktree"),
    ("/schedules/new", "Each run in a git worktree of its own", "schedules-new-worktree"),
)
"""Forms, with what is ticked in them, down to their choice of a model."""
SHOTS = (("iphone", 1), ("narrow", 1), ("wide", 1), ("iphone", 2), ("wide", 2))
"""A screen, and how large its person has set the text."""
SCHEDULE = {
    "id": "triage", "name": "triage", "cron": "0 9 * * 1-5", "zone": "Europe/Berlin", "agent": "codex",
    "prompt": "Triage the new issues.",
}  # fmt: skip
PRESSED = (
    ("/s/waiting", "Always …", "It would have", "always"), ("/s/waiting", "Deny …", "Why?", "deny"),
    ("/s/working", "Stop", "prompts wait", "stop"),
)  # fmt: skip
"""What opens when a button is pressed, and words in it."""
OVERLAYS = (("Control+k", "palette"), ("Shift+?", "keys"))


async def take(out: Path, only: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        hub = HubProcess(Path(folder))
        hub.agent("codex", [Say("I begin with the **second** half.", chunks=2), Stall()])
        hub.agent("maker", [Run("echo one > one.txt")], [Say("Made.")])
        hub.agent("claude-code", [Write("notes.txt", "one\ntwo\n")], [Say("Written.")])
        async with hub:
            await hub.session("claude-code", id="showcase", title="Mend the greeting")
            await hub.kill()
            await hub.fill("showcase", EVENTS)
            await hub.start()
            (hub.repository / "greeting.py").write_text('def greet(name: str) -> str:\n    return f"Hello, {name}!"\n')
            await hub.session(
                "maker", id="branched", title="One more file", prompt="Make one", policy="full", worktree=True
            )
            await hub.session("demo", id="waiting", prompt="The greeting is wrong. Please fix it.")
            await hub.session("codex", id="working", prompt="Translate the second half of the manual, please")
            for text in ("and then the index", "at last, the **cover**"):
                await hub.request("POST", "sessions/working/prompts", {"text": text})
            await hub.request("POST", "schedules", {**SCHEDULE, "cwd": str(hub.repository)})
            await hub.request("POST", "schedules/triage/run", {})
            late = {"to": "relay.agent.waiting", "text": "Is anybody there?", "limits": {"ttl_s": 1}}  # a dead letter
            await hub.request("POST", "messages", late)
            body = {"to": "relay.agent.branched", "text": "One more, please: **two.txt**."}
            sent = (await hub.request("POST", "messages", body))["receipt"]
            pages = {**{_name(path): path for path in PAGES}, "thread": f"/messages/{sent['thread']}"}
            for text in sorted({text for _, text in SHOTS}):
                shots = {
                    f"{size}{'-large' if text > 1 else ''}-{scheme}": (size, scheme)
                    for size, of in SHOTS if of == text for scheme in ("light", "dark")
                }  # fmt: skip
                if not any(only in name for name in shots):
                    continue
                async with chromium(more=[text_size(text)]) as browser:
                    for name, (size, scheme) in shots.items():
                        if only in name:
                            await _all(browser, hub, out / name, size, scheme, pages)


async def _all(browser: Browser, hub: HubProcess, out: Path, size: str, scheme: str, pages: Mapping[str, str]) -> None:
    page = await signed_in(browser, hub, size, scheme)
    for name, path in pages.items():
        await page.goto(hub.url + path)
        if path in PARTS:
            await expect(page.locator(PARTS[path]).first).to_be_attached()
        await settled(page)
        if path in PARTS:
            await page.locator(PARTS[path]).first.scroll_into_view_if_needed()
        await page.screenshot(path=f"{out}-{name}.png")
    for path, label, name in FILLED:
        await page.goto(hub.url + path)
        await settled(page)
        await page.get_by_label(label).check()
        await page.get_by_label("Model").scroll_into_view_if_needed()
        await page.screenshot(path=f"{out}-{name}.png")
    for path, label, words, name in PRESSED:
        await page.goto(hub.url + path)
        await settled(page)
        await page.get_by_role("main").get_by_role("button", name=label, exact=True).first.click()
        await expect(page.get_by_text(words).first).to_be_visible()
        await page.screenshot(path=f"{out}-{name}.png")
    await page.goto(f"{hub.url}/s/showcase")
    await settled(page)
    for row in await page.locator(".tool > .fold-head").all():
        await row.click()
    for share in range(3):
        await page.evaluate(
            "share => { const b = document.querySelector('.thread-scroll'); b.scrollTop = b.scrollHeight * share / 3 }",
            share,
        )
        await page.screenshot(path=f"{out}-thread-{share}.png")
    for key, name in OVERLAYS:
        await page.locator("#content").focus()
        await page.keyboard.press(key)
        await expect(page.get_by_role("dialog").locator("li, dd").first).to_be_visible()
        await page.screenshot(path=f"{out}-{name}.png")
        await page.keyboard.press("Escape")
    await page.context.close()


def _name(path: str) -> str:
    return path.partition("?")[0].strip("/").replace("/", "-") or "home"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", default="", help="part of a size and theme, such as wide-dark or large")
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    asyncio.run(take(given.directory, given.only))
    print(f"{len(list(given.directory.glob('*.png')))} pictures are in {given.directory}")


if __name__ == "__main__":
    main()
