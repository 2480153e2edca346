"""What a person is about to press stays where it is, whatever happens around it; what had to move takes no tap."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Locator, expect
from tests.browser.conftest import OpenPage
from tests.browser.hub import HubProcess

from tieline.script import Run, Say, Stall

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

PAUSES = """card => {
  window.paused = new Promise(then => new MutationObserver((_, self) => {
    const allow = card.querySelector("button.allow")
    if (allow && allow.getAttribute("aria-disabled") === "true") { self.disconnect(); then(true) }
  }).observe(card, {subtree: true, attributes: true, childList: true}))
}"""
"""Watches for the moment in which the card cannot be allowed."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    hub = HubProcess(tmp_path_factory.mktemp("hub"))
    hub.listing_agent("peer")
    hub.agent("asker", [Run("touch one")], [Say("Done.")])
    hub.agent("talker", *[[Say("I have worked.")]] * 2)
    hub.agent("staller", [Say("I begin."), Stall()], *[[Stall()]] * 3)
    async with hub:
        yield hub


async def position(of: Locator) -> tuple[float, float]:
    box = await of.bounding_box()
    assert box is not None
    return round(box["x"]), round(box["y"])


@pytest.mark.parametrize("size", ["iphone", "narrow", "wide"])
async def test_a_decision_stays_while_the_agent_goes_on(hub: HubProcess, open_page: OpenPage, size: str) -> None:
    pipe = hub.root / f"pipe-{size}"
    os.mkfifo(pipe)
    session = await hub.session("peer", prompt=f"crowd {pipe}", accept_unenforced=True)
    page = await open_page(hub, size, path=f"/s/{session}")
    thread = page.get_by_role("log", name="Conversation")
    allow = thread.get_by_role("button", name="Allow once")
    await expect(allow).to_be_in_viewport(ratio=1)
    before = await position(allow)
    await asyncio.to_thread(pipe.write_text, "go on")
    await expect(thread.get_by_role("article")).to_have_count(2)
    assert await position(allow.first) == before
    await expect(page.get_by_role("button", name="Jump to latest")).to_be_visible()

    form = thread.get_by_role("article").first
    await form.get_by_role("button", name="Deny …").click()
    deny = form.get_by_role("button", name="Deny", exact=True)
    await expect(deny).to_be_in_viewport(ratio=1)
    await form.get_by_role("button", name="Back").click()
    await allow.first.click()
    await expect(allow).to_have_count(1)
    await expect(allow).to_be_in_viewport(ratio=1)
    await allow.click()
    await expect(thread.get_by_text("Both.")).to_be_visible()


async def test_cards_that_move_up_in_the_list_take_no_tap_at_once(hub: HubProcess, open_page: OpenPage) -> None:
    for title in ("upper", "lower"):
        await hub.session("asker", title=title, prompt="go")
    page = await open_page(hub, "iphone")
    needs = page.get_by_label("Needs you").get_by_role("article")
    lower = needs.filter(has_text="lower")
    await expect(lower.get_by_role("button", name="Allow once")).to_be_enabled()
    await lower.evaluate(PAUSES)
    await needs.filter(has_text="upper").get_by_role("button", name="Deny …").click()
    assert await page.evaluate("window.paused")
    await lower.get_by_role("button", name="Allow once").click()
    await expect(lower.locator(".delivery")).to_contain_text("Allowed")


async def test_a_prompt_that_is_edited_while_the_agent_takes_it_is_not_lost(
    hub: HubProcess, open_page: OpenPage
) -> None:
    session = await hub.session("staller", prompt="begin")
    page = await open_page(hub, "iphone", path=f"/s/{session}")
    await expect(page.get_by_text("I begin.")).to_be_visible()
    await hub.request("POST", f"sessions/{session}/prompts", {"text": "and then this"})
    await page.get_by_role("button", name="Edit: and then this").click()
    await page.get_by_label("Edit the waiting prompt").fill("and then something better")
    await hub.request("POST", f"sessions/{session}/abort", {})
    await expect(page.get_by_text("left the queue before it was saved")).to_be_visible()
    await expect(page.get_by_label("Message", exact=True)).to_have_value("and then something better")


@pytest.mark.parametrize("size", ["iphone", "wide"])
async def test_a_tap_lands_on_the_row_that_the_person_aimed_at(hub: HubProcess, open_page: OpenPage, size: str) -> None:
    quiet, aimed = [await hub.session("talker", title=f"{title} {size}") for title in ("quiet", "aimed")]
    page = await open_page(hub, size)
    rows = page.locator(".session").filter(has_text=re.compile(rf"(quiet|aimed) {size}"))
    await expect(rows).to_contain_text(["aimed", "quiet"])
    await rows.first.evaluate("row => row.scrollIntoView({block: 'center'})")
    box = await rows.first.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    devtools: Any = await page.context.new_cdp_session(page)
    if size == "wide":
        await page.mouse.move(x, y)
    else:
        point = {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]}
        await devtools.send("Input.dispatchTouchEvent", point)
    await hub.request("POST", f"sessions/{quiet}/prompts", {"text": "work"})
    await expect(rows.filter(has_text="quiet")).to_contain_text("I have worked.")
    await expect(rows).to_contain_text(["aimed", "quiet"])
    if size == "wide":
        await page.mouse.down()
        await page.mouse.up()
    else:
        await devtools.send("Input.dispatchTouchEvent", {"type": "touchCancel", "touchPoints": []})  # not a tap itself
        await page.touchscreen.tap(x, y)
    await expect(page).to_have_url(f"{hub.url}/s/{aimed}")
    await page.go_back()
    await page.mouse.move(x, 0)
    await expect(rows).to_contain_text(["quiet", "aimed"])
