"""From the first start to the first approved edit, and every way to decide, in a real browser."""

import re
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Page, expect
from tests.browser.conftest import OpenPage
from tests.browser.hub import HubProcess

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

Shot = Callable[[Page, str], Awaitable[None]]


@pytest.mark.parametrize("size", ["phone", "desktop"])
async def test_first_start_to_first_approved_edit(hub: HubProcess, open_page: OpenPage, shot: Shot, size: str) -> None:
    greeting = hub.place / "greeting.py"
    before = greeting.read_text().replace('f"Hello, {name}!"', '"Hello " + name')
    greeting.write_text(before)
    page = await open_page(hub, size)
    await page.get_by_role("link", name="New", exact=True).click()
    sheet = page.get_by_role("dialog", name="New session")
    await sheet.get_by_label("Directory", exact=True).fill(str(hub.place))
    await sheet.get_by_role("radio", name="Demo").check()
    await sheet.get_by_label("First prompt").fill("The greeting is wrong. Please mend it.")
    await shot(page, f"new-session-{size}")
    await sheet.get_by_role("button", name="Start").click()
    thread = page.get_by_role("log", name="Conversation")
    await expect(thread.get_by_text("The greeting is wrong. Please mend it.")).to_be_visible()
    ask = thread.get_by_role("article", name="Run this command?")
    await expect(ask.get_by_label("Command")).to_have_text("python3 test_greeting.py")
    await ask.get_by_role("button", name="Allow once").click()
    edit = thread.get_by_role("article", name="Edit greeting.py?")
    await expect(edit.get_by_text('return f"Hello, {name}!"')).to_be_visible()
    assert greeting.read_text() == before, "nothing is written before it is allowed"
    await shot(page, f"edit-ask-{size}")
    await edit.get_by_role("button", name="Allow once").click()
    await thread.get_by_role("article", name="Run this command?").get_by_role("button", name="Allow once").click()
    await thread.get_by_role("button", name="Ada", exact=True).click()
    await expect(thread.get_by_text("Everything you saw was real")).to_be_visible()
    await expect(thread.locator(".turn-end")).to_contain_text("Done")
    assert "Hello, {name}!" in greeting.read_text()
    await expect(thread.get_by_label("Plan, 3 of 3 done")).to_be_visible()
    await shot(page, f"thread-{size}")


async def test_deny_with_a_reason_from_the_list(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session(prompt="go", title="deny me")
    page = await open_page(hub)
    ask = page.get_by_label("Needs you").get_by_role("article").filter(has_text="deny me")
    await ask.get_by_role("button", name="Deny …").click()
    await ask.get_by_label("Why?").fill("not on a Friday")
    await ask.get_by_role("button", name="Deny", exact=True).click()
    await expect(ask.locator(".delivery")).to_have_attribute("data-state", "applied")
    await expect(ask.locator(".delivery")).to_contain_text("Denied")
    answers = await hub.answers(session)
    assert (answers[0]["decision"], answers[0]["reason"]) == ("deny", "not on a Friday")
    assert "Chrome on" in answers[0]["by"]


async def test_approve_from_the_list_and_see_it_applied(hub: HubProcess, open_page: OpenPage) -> None:
    await hub.session(prompt="go", title="allow me")
    page = await open_page(hub)
    needs = page.get_by_label("Needs you")
    ask = needs.get_by_role("article", name="Run this command?").filter(has_text="allow me")
    await expect(ask.get_by_role("timer")).to_have_text(re.compile("left"))
    await ask.get_by_label("How long to remember").select_option("session")
    await ask.get_by_role("button", name="Allow and remember").click()
    await expect(ask.locator(".delivery")).to_contain_text("applied by the agent")
    await expect(needs.get_by_role("article", name="Edit greeting.py?").filter(has_text="allow me")).to_be_visible()
    assert page.url.rstrip("/") == hub.url, "it was decided without opening the session"


async def test_two_browsers_answer_one_ask(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session(prompt="go", title="race")
    first, second = await open_page(hub), await open_page(hub, "desktop")
    cards = [page.get_by_label("Needs you").get_by_role("article").filter(has_text="race") for page in (first, second)]
    ask = str(await cards[1].get_attribute("data-ask"))
    await cards[0].get_by_role("button", name="Allow once").click()
    await expect(cards[0].filter(has_text="Run this command?").locator(".delivery")).to_contain_text("Allowed")
    other = second.locator(f"[data-ask='{ask}']")
    await expect(other.locator(".delivery").or_(other.get_by_role("alert"))).to_contain_text(
        re.compile("Allowed by|answered")
    )
    answered = await hub.request("GET", f"asks/{ask}")
    assert answered["status"] == "answered"
    assert [answer["ask"] for answer in await hub.answers(session)].count(ask) == 1
