"""The page on a desktop: columns with edges to drag, each ask once, and everything by keyboard. In a real browser."""

import re
from itertools import pairwise
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect
from tests.browser.conftest import OpenPage
from tests.browser.faults import faults
from tests.browser.hub import HubProcess

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def box(locator: Locator) -> dict[str, Any]:
    bounds = await locator.bounding_box()
    assert bounds is not None
    return dict(bounds)


def edge(page: Page, name: str) -> Locator:
    return page.get_by_role("separator", name=name)


async def test_list_conversation_and_dock_side_by_side(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session(prompt="go", title="columns")
    page = await open_page(hub, "wide", path=f"/s/{session}")
    card = page.get_by_role("log").get_by_role("article")
    await expect(card).to_be_visible()
    dock = page.get_by_role("complementary", name="Changes and facts")
    columns = [page.get_by_role("navigation", name="Main"), page.locator(".side"), page.get_by_role("main"), dock]
    places = [await box(column) for column in columns]
    assert all(left["x"] + left["width"] <= right["x"] + 1 for left, right in pairwise(places))
    assert all(bounds["y"] == 0 and bounds["height"] == 900 for bounds in places), "no tab bar below"
    needs = page.get_by_label("Needs you")
    await expect(needs.get_by_role("article")).to_have_count(0)
    await expect(page.get_by_role("article")).to_have_count(1)
    await page.goto(hub.url)
    await needs.get_by_role("link", name=re.compile("columns")).click()
    await expect(card).to_be_focused()
    assert page.url.endswith(f"/s/{session}")


async def test_the_dock_has_changes_facts_and_cost(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session(prompt="go", title="docked")
    page = await open_page(hub, "wide", path=f"/s/{session}/info")
    await expect(page.get_by_role("log").get_by_role("article")).to_be_visible()
    (hub.repository / "docked.txt").write_text("a new line\n")  # changes count from the session's first prompt on
    dock = page.get_by_role("complementary", name="Changes and facts")
    await expect(dock.get_by_role("tab", name="About")).to_have_attribute("aria-selected", "true")
    await expect(page).to_have_url(f"{hub.url}/s/{session}")
    await expect(dock.get_by_label("Usage")).to_contain_text("No turn has ended yet")
    await dock.get_by_label("Title").fill("docked and named")
    await dock.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", name="docked and named")).to_be_visible()
    await dock.get_by_role("tab", name="About").press("ArrowRight")
    await expect(dock.get_by_role("tab", name="Changes")).to_be_focused()
    await expect(dock.get_by_label("Changes in docked.txt")).to_contain_text("a new line")
    await dock.get_by_role("button", name="Close the changes and facts").click()
    await expect(dock).to_have_count(0)
    await page.reload()
    await expect(page.get_by_role("button", name="Changes")).to_have_attribute("aria-expanded", "false")
    await expect(dock).to_have_count(0)
    await page.get_by_role("button", name="Changes").click()
    await expect(dock).to_be_visible()
    (hub.repository / "docked.txt").unlink()


async def test_widths_are_dragged_or_typed_and_kept(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session(title="wide and narrow")
    page = await open_page(hub, "wide", path=f"/s/{session}")
    for name, column, by in (("Width of the list", ".side", 60), ("Width of the changes and facts", ".dock", -60)):
        pane, handle = page.locator(column), edge(page, name)
        before, grip = await box(pane), await box(handle)
        await page.mouse.move(grip["x"] + 4, 400)
        await page.mouse.down()
        await page.mouse.move(grip["x"] + 4 + by, 400, steps=4)
        await page.mouse.up()
        await expect(handle).to_have_attribute("aria-valuenow", str(round(before["width"]) + 60))
        dragged = await box(pane)
        assert dragged["width"] == pytest.approx(before["width"] + 60, abs=2)
        await handle.focus()
        await page.keyboard.press("ArrowRight" if by > 0 else "ArrowLeft")
        await expect(handle).to_have_attribute("aria-valuenow", str(round(dragged["width"]) + 16))
        await page.keyboard.press("Home")
        least = str(await handle.get_attribute("aria-valuemin"))
        await expect(handle).to_have_attribute("aria-valuenow", least)
        await page.reload()
        await expect(handle).to_have_attribute("aria-valuenow", least)
        assert (await box(pane))["width"] == pytest.approx(int(least), abs=1)
        await handle.focus()
        await page.keyboard.press("Enter")
        await expect(handle).to_have_attribute("aria-valuenow", str(round(before["width"])))
        assert (await box(pane))["width"] == pytest.approx(before["width"], abs=1)


async def test_everything_by_keyboard(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session(prompt="go", title="by keys alone")
    other = await hub.session(title="the neighbour")
    page = await open_page(hub, "wide")
    await page.keyboard.press("Shift+?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    for text in ("Next decision", "Command palette", "Write to the agent"):
        await expect(keys.get_by_text(text, exact=False).first).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(keys).to_have_count(0)
    await page.keyboard.press("g")
    await page.keyboard.press("e")
    await expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    await page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Command palette")
    find = palette.get_by_role("combobox")
    await expect(find).to_be_focused()
    await find.fill("keys alone")
    await expect(palette.get_by_role("option")).to_have_count(1)
    await page.keyboard.press("Enter")
    await expect(palette).to_have_count(0)
    await expect(page.get_by_role("main", name="by keys alone")).to_be_focused()
    await page.keyboard.press("a")
    card = page.get_by_role("log").get_by_role("article", name="Run this command?")
    await expect(card).to_be_focused()
    await page.keyboard.press("y")
    edit = page.get_by_role("log").get_by_role("article", name="Edit greeting.py?")
    await expect(edit).to_be_visible()
    await page.keyboard.press("a")
    await expect(edit).to_be_focused()
    await page.keyboard.press("n")
    await expect(edit.get_by_label("Why?")).to_be_focused()
    await page.keyboard.type("not by keys")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("log").get_by_text("“not by keys”")).to_be_visible()
    answers = await hub.answers(session)
    assert [answer["decision"] for answer in answers[:2]] == ["allow", "deny"]
    await page.goto(f"{hub.url}/s/{other}")
    await expect(page.get_by_label("Message", exact=True)).to_be_visible()
    await page.keyboard.press("r")
    await expect(page.get_by_label("Message", exact=True)).to_be_focused()
    await page.keyboard.type("dn")
    await expect(page.get_by_label("Message", exact=True)).to_have_value("dn")
    await page.keyboard.press("Escape")
    await page.keyboard.press("n")
    await expect(page.get_by_role("dialog", name="New session")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.goto(f"{hub.url}/s/{other}")
    rows = page.locator(".session-list .session")
    await expect(page.locator(".session-list .session[aria-current]")).to_be_visible()
    links = [str(await row.get_attribute("href")) for row in await rows.all()]
    at = links.index(f"/s/{other}")
    await page.keyboard.press("j" if at + 1 < len(links) else "k")
    await expect(page).to_have_url(hub.url + links[at + 1 if at + 1 < len(links) else at - 1])


async def test_keys_can_be_switched_off(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub, "wide")
    await page.keyboard.press("Shift+?")
    await page.get_by_label("Keys without").uncheck()
    await page.keyboard.press("Escape")
    await page.keyboard.press("n")
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("dialog", name="Command palette")).to_be_visible()
    await expect(page.get_by_role("dialog", name="New session")).to_have_count(0)


@pytest.mark.parametrize("dark", [False, True])
async def test_nothing_is_hard_to_use_for_some(hub: HubProcess, open_page: OpenPage, dark: bool) -> None:
    session = await hub.session(prompt="go", title="accessible")
    page = await open_page(hub, "wide", dark=dark, path=f"/s/{session}")
    await expect(page.get_by_role("log").get_by_role("article")).to_be_visible()
    await expect(page.locator(".dock .loading")).to_have_count(0)
    assert await faults(page) == []
    await page.get_by_role("button", name="About this session").click()
    await expect(page.get_by_label("Usage")).to_be_visible()
    assert await faults(page) == []
    for key, name in (("Control+k", "Command palette"), ("Shift+?", "Keyboard shortcuts")):
        await page.keyboard.press(key)
        await expect(page.get_by_role("dialog", name=name).locator("li, dd").first).to_be_visible()
        assert await faults(page) == [], name
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.parametrize("size", ["iphone", "narrow"])
async def test_a_phone_keeps_its_layout(hub: HubProcess, open_page: OpenPage, size: str) -> None:
    session = await hub.session(prompt="go", title=f"on a phone, {size}")
    page = await open_page(hub, size)
    card = page.get_by_label("Needs you").get_by_role("article").filter(has_text=f"on a phone, {size}")
    await expect(card.get_by_role("button", name="Allow once")).to_be_visible()
    bar = await box(page.get_by_role("navigation", name="Main"))
    assert bar["y"] > 500 and bar["x"] == 0
    await expect(page.get_by_role("separator")).to_have_count(0)
    assert await faults(page) == []
    await page.goto(f"{hub.url}/s/{session}/info")
    await expect(page.get_by_role("dialog", name="About this session").get_by_label("Usage")).to_be_visible()
    assert await faults(page) == []
