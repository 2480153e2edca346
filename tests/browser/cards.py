"""Asks on the page of a real hub: what a person reads on a card, all of it, and whether they can allow it there."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from playwright.async_api import Browser, Locator, Page, ViewportSize, expect
from tests.browser.conftest import WAIT_MS
from tests.hub.conftest import running

from tieline.bus import Bus, open_bus
from tieline.sessions.records import ASKS, SESSIONS, AskRecord, SessionRecord

WIDTHS: dict[str, ViewportSize] = {
    "page 390": {"width": 390, "height": 844},
    "page desktop": {"width": 1280, "height": 800},
}

DESKTOP = 1000

CLIPPED = """card => {
  const card_box = card.getBoundingClientRect()
  // Who asks is one row with what fits; what is asked is never cut.
  return [...card.querySelectorAll('.ask-head *, .ask-content *, .questions *')].filter(one => {
    const style = getComputedStyle(one), box = one.getBoundingClientRect()
    if (style.display === 'inline' || one.closest('select, svg, details:not([open])')) return false
    const wide = one.scrollWidth > one.clientWidth + 1 && style.overflowX !== 'visible'
    const high = one.scrollHeight > one.clientHeight + 1 && style.overflowY !== 'visible'
    return wide || high || box.left < card_box.left - 1 || box.right > card_box.right + 1 || style.opacity === '0'
  }).map(one => one.className + ': ' + one.textContent.slice(0, 80))
}"""
"""The parts of a card that are in the document and not on the screen."""


class Card:
    """An ask where it is decided, in a page that is open on it."""

    def __init__(self, page: Page, ask: str) -> None:
        self.root: Locator = page.locator(f"[data-ask='{ask}']")
        self.allow = self.root.locator("button.allow, .choice, .questions button.primary")
        self.decides = self.root.locator("button, input, select")

    async def show(self) -> bool:
        """Everything that can be shown of it is shown. Whether that had to be asked for."""
        await expect(self.root).to_be_visible()
        more = self.root.get_by_role("button", name="Show all of it")
        if asked := await more.count() > 0:
            assert await self.allow.count() == 0, "nothing is allowed of which a part is not shown"
            await more.click()
            await expect(self.allow.first).to_be_visible()
        for fold in await self.root.locator("details:not([open]) summary").all():
            await fold.click()
        return asked

    async def text(self) -> str:
        """What is displayed, as a person reads it."""
        assert await self.root.evaluate(CLIPPED) == []
        return await self.root.inner_text()


class AskPage:
    """A page whose hub has the asks that it is given."""

    def __init__(self, page: Page, bus: Bus) -> None:
        self.page = page
        self._bus = bus
        self._given: AskRecord | None = None

    async def card(self, record: AskRecord, session: SessionRecord, width: str) -> Card:
        """The card of this ask, the only one there is: on a phone in the list, on a desktop in the conversation, to
        which the list leads."""
        await self.page.set_viewport_size(WIDTHS[width])
        if record != self._given:
            if self._given is not None:
                await self._bus.table(ASKS).delete(self._given.id)
            self._given = record
            await self._bus.table(SESSIONS).put(session.id, msgspec.json.encode(session))
            await self._bus.table(ASKS).put(record.id, msgspec.json.encode(record))
        needs = self.page.get_by_label("Needs you")
        if WIDTHS[width]["width"] < DESKTOP:
            if await self.page.get_by_role("button", name="Back to all sessions").is_visible():
                await self.page.get_by_role("button", name="Back to all sessions").click()
            await expect(needs.get_by_role("article")).to_have_count(1)
        else:
            await needs.locator(f"[data-ask-link='{record.id}']").click()
            await expect(needs.get_by_role("article")).to_have_count(0)
        await expect(self.page.get_by_role("article")).to_have_count(1)
        return Card(self.page, record.id)


@asynccontextmanager
async def ask_page(browser: Browser, root: Path) -> AsyncGenerator[AskPage, None]:
    """A hub and its page, signed in."""
    root.mkdir(parents=True, exist_ok=True)
    async with (
        open_bus(f"sqlite:///{root / 'bus.db'}") as bus,
        running(root, bus=bus) as hub,
        await browser.new_context(viewport=WIDTHS["page 390"], reduced_motion="reduce") as context,
    ):
        page = await context.new_page()
        page.set_default_timeout(WAIT_MS)
        made = await hub.client.post("/api/v1/pairings", json={"kind": "page"})
        await page.goto(made.json()["url"])
        await expect(page.locator(".connection").first).to_have_attribute("data-hub", "online")
        yield AskPage(page, bus)
