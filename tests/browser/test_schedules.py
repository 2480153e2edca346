"""Schedules on the page, from adding one to removing it, with the times that are typed. In a real browser."""

import re
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import expect
from tests.browser.conftest import OpenPage
from tests.browser.faults import faults
from tests.browser.hub import HubProcess

from tieline.script import Say

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    started = HubProcess(tmp_path_factory.mktemp("hub"))
    started.agent("clerk", [Say("Nothing new today.")])
    async with started:
        yield started


@pytest.mark.parametrize(("size", "dark"), [("iphone", True), ("wide", False)])
async def test_from_adding_one_to_removing_it(hub: HubProcess, open_page: OpenPage, size: str, dark: bool) -> None:
    page = await open_page(hub, size, dark=dark)
    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Schedules").click()
    await expect(page.get_by_text("No schedules yet")).to_be_visible()
    await page.get_by_role("link", name="New schedule").click()
    sheet = page.get_by_role("dialog", name="New schedule")
    coming = sheet.get_by_label("Next times").get_by_role("listitem")
    await expect(coming).to_have_count(3)
    assert await faults(page) == []
    await sheet.get_by_label("Cron expression").fill("61 9 * * *")
    await expect(sheet.get_by_label("Next times").get_by_role("alert")).to_contain_text("minute")
    await sheet.get_by_label("Cron expression").fill("30 9 1 1 *")
    await sheet.get_by_label("Time zone").fill("Asia/Tokyo")
    await expect(coming).to_have_count(3)
    await expect(coming.first).to_contain_text(re.compile("0?9:30"))
    await sheet.get_by_label("Prompt").fill("Look at the new issues")
    await sheet.get_by_label("Agent").select_option("clerk")
    await sheet.get_by_label("Directory").fill(str(hub.repository))
    await sheet.get_by_label("While the run before goes on").select_option("Run afterwards")
    await sheet.get_by_label("Each run in a git worktree of its own").check()
    await sheet.get_by_role("button", name="Add").click()
    await expect(page.get_by_role("heading", name="look-at-the-new-issues")).to_be_visible()
    (made,) = await hub.request("GET", "schedules")
    wanted = {
        "cron": "30 9 1 1 *",
        "zone": "Asia/Tokyo",
        "agent": "clerk",
        "overlap": "queue",
        "missed": "once",
        "worktree": True,
    }
    assert {name: made[name] for name in wanted} == wanted

    await page.get_by_role("button", name=re.compile("Run now")).click()
    history = page.get_by_label("History")
    await expect(history.get_by_text("Nothing new today.")).to_be_visible()
    await expect(history.get_by_text("Done", exact=True)).to_be_visible()
    assert await faults(page) == []
    await expect(page.get_by_text("one for each run")).to_be_visible()
    await page.get_by_role("button", name=re.compile("Pause")).click()
    await expect(page.get_by_text("Paused")).to_be_visible()
    await page.get_by_role("button", name="Edit").click()
    edit = page.get_by_role("dialog", name="Edit the schedule")
    await expect(edit.get_by_label("Each run in a git worktree of its own")).to_be_checked()
    await edit.get_by_label("Each run in a git worktree of its own").uncheck()
    await edit.get_by_label("Name").fill("issues")
    await edit.get_by_label("Cron expression").fill("@hourly")
    await edit.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", name="issues", exact=True)).to_be_visible()
    await expect(page.get_by_text("every hour (Asia/Tokyo)")).to_be_visible()
    await expect(page.get_by_text("one for each run")).to_have_count(0)
    await page.get_by_role("link", name="All schedules").click()
    card = page.get_by_role("article", name="issues")
    await expect(card.get_by_text("Paused")).to_be_visible()
    await card.get_by_role("button", name="Resume: issues").click()
    await expect(card.get_by_text("Paused")).to_have_count(0)
    assert await faults(page) == []
    await card.get_by_role("link", name="issues").click()
    await page.get_by_role("link", name="Open the session").click()
    await expect(page.get_by_role("log").get_by_text("Nothing new today.")).to_be_visible()
    await page.go_back()
    await page.get_by_role("button", name="Remove …").click()
    await page.get_by_role("button", name="Keep it").click()
    await page.get_by_role("button", name="Remove …").click()
    await page.get_by_role("button", name="Remove it").click()
    await expect(page.get_by_text("No schedules yet")).to_be_visible()
    assert await hub.request("GET", "schedules") == []
