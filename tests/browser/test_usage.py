"""The usage page in a real browser: charts, each with a table, that say what is not known."""

import pytest
from playwright.async_api import expect
from tests.browser.conftest import OpenPage
from tests.browser.faults import faults
from tests.browser.hub import HubProcess

from tieline.events import Done, Event, Tokens, TurnStarted

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


def turn(tokens: Tokens, seconds: float) -> list[Event]:
    return [TurnStarted("go", "p"), Done("success", tokens=tokens, duration_s=seconds)]


@pytest.mark.parametrize(("size", "dark"), [("iphone", False), ("iphone", True), ("wide", False), ("wide", True)])
async def test_what_was_used_is_shown_and_what_is_not_known(
    hub: HubProcess, open_page: OpenPage, size: str, dark: bool
) -> None:
    if not await hub.request("GET", "sessions"):
        await hub.session(id="told", title="Everything told")
        await hub.session(id="silent", title="Costs not told")
        await hub.kill()
        await hub.fill("told", turn(Tokens(input=12_000, output=800, cost_usd=1.25), 95))
        await hub.fill("silent", turn(Tokens(input=3_000, output=200), 4000))
        await hub.start()
    page = await open_page(hub, size, dark=dark)
    if size == "wide":
        await page.keyboard.press("g")
        await page.keyboard.press("u")
    else:
        await page.goto(f"{hub.url}/settings")
        await page.get_by_role("link", name="Show the usage").click()
    total = page.get_by_label("Total", exact=True)
    await expect(total).to_contain_text("≥ $1.25")
    await expect(total).to_contain_text("16k")
    await expect(total).to_contain_text("1 h 8 min")
    await expect(total.get_by_text("No cost is known for 1 turn")).to_be_visible()
    await expect(page.get_by_role("img", name="Cost by day")).to_be_visible()
    by_session = page.get_by_label("By session")
    await expect(by_session.get_by_text("Costs not told").first).to_be_visible()
    for table in await page.get_by_text("As a table").all():
        await table.click()
    await expect(by_session.get_by_role("link", name="Everything told")).to_have_attribute("href", "/s/told")
    assert await faults(page) == []
    await page.get_by_role("group", name="Days").get_by_role("button", name="90 days").click()
    await expect(page.locator(".day-bars rect")).to_have_count(90)
    await page.get_by_role("button", name="Time", exact=True).click()
    await expect(page.get_by_role("img", name="Time by day")).to_be_visible()
    for table in await page.get_by_text("As a table").all():
        await table.click()
