"""An answer becomes a rule on the page, in a real browser; the list of rules, and Revoke."""

from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect
from tests.browser.conftest import OpenPage
from tests.browser.faults import faults
from tests.browser.hub import HubProcess

from tieline.script import Run, Say

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

Shot = Callable[[Page, str], Awaitable[None]]
SIZES = [("narrow", True), ("iphone", False), ("desktop", True)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    started = HubProcess(tmp_path_factory.mktemp("hub").resolve())
    started.agent("tester", [Run("true unit tests --all")], [Say("They pass.")])
    started.agent("remover", [Run("rm -rf /nonesuch/x")], [Say("Gone.")])
    async with started:
        yield started


@pytest.mark.parametrize(("size", "dark"), SIZES)
async def test_from_an_ask_to_its_rule_and_its_end(
    hub: HubProcess, open_page: OpenPage, shot: Shot, size: str, dark: bool
) -> None:
    first = await hub.session("tester", prompt="run the tests", policy="ask")
    page = await open_page(hub, size, dark=dark, path=f"/s/{first}")
    card = page.get_by_role("log").get_by_role("article")
    await card.get_by_role("button", name="Always …").click()
    sheet = page.get_by_role("dialog", name="Always allow")
    await expect(sheet.get_by_text("would have allowed")).to_be_visible()
    await sheet.get_by_role("radio", name="commands that begin with true unit tests").check()
    await expect(sheet.get_by_text("would have allowed")).to_be_visible()
    await sheet.get_by_text("Which").click()
    await expect(sheet.get_by_text("true unit tests --all").last).to_be_visible()
    assert await faults(page) == []
    await shot(page, f"rule-sheet-{size}")
    await sheet.get_by_role("button", name="Save and allow this").click()
    await expect(sheet).to_have_count(0)
    await expect(page.get_by_role("log").get_by_text("They pass.")).to_be_visible()

    second = await hub.session("tester", prompt="run them again", policy="ask")
    await page.goto(f"{hub.url}/s/{second}")
    log = page.get_by_role("log")
    await expect(log.get_by_text("They pass.")).to_be_visible()
    decision = log.locator(".tool .decision.allow")
    await expect(decision).to_contain_text("allowed by a rule")
    await expect(decision).to_contain_text("commands that begin with `true unit tests`")
    assert await faults(page) == []
    await shot(page, f"rule-decided-{size}")

    await page.goto(f"{hub.url}/settings")
    rules = page.get_by_role("region", name="Rules")
    row = rules.get_by_role("listitem").filter(has_text="commands that begin with true unit tests").first
    await expect(row).to_contain_text("decided 1 request in the last day")
    await row.scroll_into_view_if_needed()
    assert await faults(page) == []
    await shot(page, f"rules-{size}")
    await row.get_by_role("button", name="Revoke").click()
    await expect(rules.get_by_role("button", name="Revoke")).to_have_count(0)
    await expect(rules.get_by_text("revoked or over")).to_be_visible()

    third = await hub.session("tester", prompt="once more", policy="ask")
    await page.goto(f"{hub.url}/s/{third}")
    await page.get_by_role("log").get_by_role("button", name="Deny …").click()
    await page.get_by_role("log").get_by_role("button", name="Deny", exact=True).click()
    assert [answer["decision"] for answer in await hub.answers(third)] == ["deny"]


async def test_what_is_hard_to_undo_is_not_offered(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session("remover", prompt="remove it", policy="ask")
    page = await open_page(hub, path=f"/s/{session}")
    card = page.get_by_role("log").get_by_role("article")
    await expect(card.get_by_role("button", name="Hold to allow")).to_be_visible()
    await expect(card.get_by_role("button", name="Always …")).to_have_count(0)
    await card.get_by_role("button", name="Deny …").click()
    await card.get_by_role("button", name="Deny", exact=True).click()
    assert [answer["decision"] for answer in await hub.answers(session)] == ["deny"]


async def test_the_sheet_is_left_by_the_keyboard(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session("tester", prompt="by keys", policy="ask")
    page = await open_page(hub, "desktop", path=f"/s/{session}")
    always = page.get_by_role("log").get_by_role("button", name="Always …")
    await always.focus()
    await page.keyboard.press("Enter")
    sheet = page.get_by_role("dialog", name="Always allow")
    await expect(sheet.get_by_text("would have allowed")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(sheet).to_have_count(0)
    await expect(always).to_be_focused()
    assert all(rule["revoked_at"] for rule in await hub.request("GET", "rules")), "nothing was saved"
    await page.get_by_role("log").get_by_role("button", name="Deny …").click()
    await page.get_by_role("log").get_by_role("button", name="Deny", exact=True).click()
    await hub.answers(session)
