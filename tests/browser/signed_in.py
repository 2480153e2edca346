"""A signed-in page for pictures: a screen, a theme, nothing that moves."""

from playwright.async_api import Browser, Page, expect
from tests.browser.conftest import SIZES, TOUCHED, WAIT_MS
from tests.browser.hub import HubProcess


async def signed_in(browser: Browser, hub: HubProcess, size: str, scheme: str, *, scale: float = 1) -> Page:
    """`scale`: the screen's own pixels to one of the page."""
    context = await browser.new_context(
        viewport=SIZES[size], device_scale_factor=scale, color_scheme="dark" if scheme == "dark" else "light",
        has_touch=size in TOUCHED, reduced_motion="reduce",
    )  # fmt: skip
    context.set_default_timeout(WAIT_MS)
    page = await context.new_page()
    await page.goto(await hub.login())
    await settled(page)
    return page


async def settled(page: Page) -> None:
    """The hub is there, and nothing is being loaded."""
    await expect(page.locator("main, [role=main], dialog").first).to_be_attached()
    await expect(page.locator(".connection").first).to_have_attribute("data-hub", "online")
    await expect(page.locator(".loading")).to_have_count(0)
