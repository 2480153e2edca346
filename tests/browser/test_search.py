"""Search on the page, in a real browser: each hit leads to its place in the conversation, however far back."""

import re
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect
from tests.browser.conftest import OpenPage
from tests.browser.faults import faults
from tests.browser.hub import HubProcess

from tieline.events import Answer, Ask, Command, Done, Event, Text, ToolResult, ToolUse, TurnStarted

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

TURNS = 700
FAR = 3
"""The turn that speaks of the quokka; the page loads the last 200 events, of 2800."""


def conversation() -> list[Event]:
    events: list[Event] = []
    for turn in range(TURNS):
        far = turn == FAR
        text = "Here sleeps the **quokka**." if far else f"Step {turn} is done.\n\nIt took a while."
        events += [
            TurnStarted(f"step {turn}", f"p{turn}"),
            ToolUse(f"t{turn}", "Bash", Command(f"make step-{turn}")),
            *([Ask("a1", "permission", tool="t3", action=Command("make wombat"), reason="for the wombat")] * far),
            *([Answer("a1", "deny", by="Phone", reason="leave the wombat alone")] * far),
            ToolResult(f"t{turn}", "ok", "a platypus\n" * 3 if far else f"{turn} is made"),
            Text(text, item=f"i{turn}"),
            Done("success"),
        ]
    return events


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    async with HubProcess(tmp_path_factory.mktemp("hub")) as started:
        await started.session(id="long", title="A long way")
        await started.kill()
        await started.fill("long", conversation())
        await started.start()
        await started.session(id="post", title="postbox")
        await started.request("POST", "messages", {"to": "relay.agent.post", "text": "a quokka by mail"})
        yield started


async def search(page: Page, words: str) -> None:
    field = page.get_by_role("searchbox", name="Search everything")
    await expect(field).to_be_focused()
    await field.fill(words)


@pytest.mark.parametrize("size", ["iphone", "wide"])
async def test_a_hit_leads_to_its_place_however_far_back(hub: HubProcess, open_page: OpenPage, size: str) -> None:
    page = await open_page(hub, size)
    await page.get_by_role("link", name="Search everything").click()
    for words, match, shown in (
        ("sleeps quokka", "sleeps", "Here sleeps the quokka."),
        ("platypus", "platypus", "a platypus"),
        ('"leave the wombat"', "leave the wombat", "leave the wombat alone"),
    ):
        await search(page, words)
        hits = page.get_by_label("A long way").locator("a.hit")
        await expect(hits).to_have_count(1)
        await expect(hits.locator("mark").first).to_have_text(match)
        await hits.click()
        marked = page.locator(".thread-row.marked")
        await expect(marked).to_be_in_viewport()
        await expect(marked).to_be_focused()
        await expect(marked.get_by_text(shown).first).to_be_visible()
        await expect(page.get_by_role("button", name="Jump to latest")).to_be_visible()
        top = await marked.evaluate("one => one.getBoundingClientRect().top")
        await page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert abs(await marked.evaluate("one => one.getBoundingClientRect().top") - top) < 2, "it stays where it is"
        await page.go_back()
        await expect(page.get_by_role("searchbox", name="Search everything")).to_have_value(words)
    await page.goto(f"{hub.url}/s/long/at/1")
    await expect(page.get_by_text("That place is no longer stored.")).to_be_visible()


async def test_messages_and_filters_by_keyboard_alone(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub, "wide")
    await page.keyboard.press("/")
    await search(page, "quokka")
    await expect(page.locator("a.hit")).to_have_count(3)
    assert await faults(page) == []
    await page.get_by_label("Kind").select_option("Messages")
    await expect(page.locator("a.hit")).to_have_count(1)
    await page.get_by_role("searchbox", name="Search everything").focus()
    await page.keyboard.press("ArrowDown")
    await expect(page.locator("a.hit")).to_be_focused()
    await page.keyboard.press("Enter")
    letter = page.locator(".letter.marked")
    await expect(letter).to_contain_text("a quokka by mail")
    await expect(letter).to_be_focused()
    await page.go_back()
    await expect(page.get_by_label("Kind")).to_have_value("message")
    await page.get_by_label("Project").fill("nowhere")
    await page.get_by_role("button", name="Search without filters").click()
    await expect(page.locator("a.hit")).to_have_count(3)
    await page.get_by_role("searchbox", name="Search everything").fill("postbox")
    await page.get_by_label("Sessions by name").get_by_role("link", name=re.compile("postbox")).click()
    await expect(page.get_by_role("main", name="postbox")).to_be_visible()
    await page.keyboard.press("Control+k")
    await page.get_by_role("dialog").get_by_role("combobox").fill("search every")
    await page.keyboard.press("Enter")
    await search(page, "-only")
    await expect(page.get_by_role("alert")).to_contain_text("Add a word that it must have.")
