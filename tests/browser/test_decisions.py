"""From the first start to the first approved edit, and every way to decide, in a real browser."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect
from tests.browser.conftest import OpenPage
from tests.browser.hub import HubProcess
from tests.client.proxy import Proxy
from tests.node.conftest import Node, node_at, settings

from tieline.node.node_identity import identify
from tieline.script import Reply, Run, Say

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

Shot = Callable[[Page, str], Awaitable[None]]


@pytest.mark.parametrize("size", ["phone", "desktop"])
async def test_first_start_to_first_approved_edit(hub: HubProcess, open_page: OpenPage, shot: Shot, size: str) -> None:
    greeting = hub.repository / "greeting.py"
    before = greeting.read_text().replace('f"Hello, {name}!"', '"Hello " + name')
    greeting.write_text(before)
    page = await open_page(hub, size)
    await page.get_by_role("link", name="New", exact=True).click()
    sheet = page.get_by_role("dialog", name="New session")
    await sheet.get_by_label("Directory", exact=True).fill(str(hub.repository))
    await sheet.get_by_role("radio", name="Demo").check()
    await sheet.get_by_label("First prompt").fill("The greeting is wrong. Please fix it.")
    await shot(page, f"new-session-{size}")
    await sheet.get_by_role("button", name="Start").click()
    thread = page.get_by_role("log", name="Conversation")
    await expect(thread.get_by_text("The greeting is wrong. Please fix it.")).to_be_visible()
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
    await ask.get_by_role("button", name="Allow: Exactly this again, in this session").click()
    await expect(ask.locator(".delivery")).to_contain_text("applied by the agent")
    await expect(needs.get_by_role("article", name="Edit greeting.py?").filter(has_text="allow me")).to_be_visible()
    assert page.url.rstrip("/") == hub.url, "it was decided without opening the session"


async def test_two_browsers_answer_one_ask(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session(prompt="go", title="race")
    first, second = await open_page(hub), await open_page(hub, "tablet")
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


async def by_tab(page: Page, to: Locator) -> None:
    """From where the keyboard is, as far as it takes."""
    for _ in range(200):
        await page.keyboard.press("Tab")
        if await to.evaluate("one => one === document.activeElement"):
            return
    raise AssertionError("the keyboard does not get there")


async def test_from_the_list_to_the_end_by_keyboard(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session(prompt="go", title="without a mouse")
    page = await open_page(hub)  # a phone's layout, with a keyboard; tests/browser/test_desktop.py has the desktop's
    needs = page.get_by_label("Needs you")
    ask = needs.get_by_role("article", name="Run this command?").filter(has_text="without a mo")
    await by_tab(page, ask.get_by_role("button", name="Allow once"))
    await page.keyboard.press("Enter")
    await expect(ask.locator(".delivery")).to_have_attribute("data-state", "applied")
    await expect(ask).to_be_focused()
    await page.keyboard.press("f")
    await page.keyboard.type("without a mouse")
    await by_tab(page, page.locator(f".session[href='/s/{session}']"))
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("main", name="without a mouse")).to_be_focused()
    edit = page.get_by_role("log").get_by_role("article", name="Edit greeting.py?")
    await expect(edit).to_be_visible()
    await by_tab(page, edit.get_by_role("button", name="Deny …"))
    await page.keyboard.press("Enter")
    await expect(edit.get_by_label("Why?")).to_be_focused()
    await page.keyboard.type("no more today")
    await by_tab(page, edit.get_by_role("button", name="Deny", exact=True))
    await page.keyboard.press("Space")
    await expect(page.get_by_role("log").get_by_text("“no more today”")).to_be_visible()


@asynccontextmanager
async def workshop(hub: HubProcess, root: Path, *replies: Reply) -> AsyncGenerator[tuple[Proxy, Node]]:
    """Another machine, and its way to the hub, which can be cut."""
    secret = (await hub.request("POST", "pairings", {"kind": "node"}))["secret"]
    node = identify(settings(root).environ).id
    paired = await hub.request("POST", "pair", {"secret": secret, "name": "workshop", "node": node})
    async with (
        Proxy(int(hub.url.rpartition(":")[2])) as way,
        node_at(root, way.url, paired["key"], replies) as joined,
    ):
        await joined.joined()
        try:
            yield way, joined
        finally:
            await hub.request("DELETE", f"nodes/{node}")


async def test_a_machine_goes_away_and_comes_back(hub: HubProcess, open_page: OpenPage, tmp_path: Path) -> None:
    """What was decided and written meanwhile is kept, over a reload too, and is said to be where it is."""
    replies = [[Run("touch deployed")], [Say("It is deployed.")], [Say("And this is done too.")]]
    async with workshop(hub, tmp_path / "node", *replies) as (way, joined):
        asked = {"agent": "scripted", "node": joined.id, "cwd": joined.cwd, "prompt": "deploy it", "title": "far away"}
        session = (await hub.request("POST", "sessions", asked))["id"]
        page = await open_page(hub)
        ask = page.get_by_label("Needs you").get_by_role("article").filter(has_text="far away")
        delivery = ask.locator(".delivery")
        await expect(ask.get_by_label("Command")).to_have_text("touch deployed")
        way.refuse = True
        way.cut()
        await expect(page.locator(".side .connection .away")).to_have_text("workshop offline")
        await expect(ask).to_contain_text("workshop is offline: your decision is delivered when it is back.")
        await ask.get_by_role("button", name="Allow once").click()
        await expect(delivery).to_have_attribute("data-state", "sent")
        await expect(delivery).to_contain_text("waiting for the machine")
        await page.goto(f"{hub.url}/s/{session}")
        await expect(page.locator(".thread .connection .why")).to_contain_text("workshop is offline")
        await expect(page.locator(".thread .pane-head .chip")).to_have_text("Machine offline")
        await page.get_by_label("Message", exact=True).fill("and then this")
        await page.get_by_role("button", name="Queue", exact=True).click()
        await expect(page.get_by_label("Waiting prompts").get_by_label("Received by the hub")).to_be_visible()
        await page.goto(hub.url)
        await expect(delivery).to_have_attribute("data-state", "sent")
        assert not (tmp_path / "node" / "work" / "deployed").exists()
        way.refuse = False
        await expect(delivery).to_have_attribute("data-state", "applied")
        for step in ("sent", "received by the machine", "applied by the agent"):
            await expect(delivery).to_contain_text(step)
        await expect(page.locator(".side .connection .away")).to_have_count(0)
        await page.goto(f"{hub.url}/s/{session}")
        log = page.get_by_role("log", name="Conversation")
        await expect(log.get_by_text("And this is done too.")).to_be_visible()
        await expect(log.locator(".bubble")).to_have_count(2)
        await expect(page.get_by_label("Waiting prompts")).to_have_count(0)
        assert (tmp_path / "node" / "work" / "deployed").exists()


async def test_what_a_machine_refuses_when_it_is_back_is_told(
    hub: HubProcess, open_page: OpenPage, tmp_path: Path
) -> None:
    """The hub's word is not the machine's: a new session keeps its words until it is there, a change is followed."""
    async with workshop(hub, tmp_path / "node", [Say("It is mended.")]) as (way, joined):
        page = await open_page(hub, "desktop")
        away = page.locator(".side .connection .away")

        async def cut() -> None:
            way.refuse = True
            way.cut()
            await expect(away).to_have_text("workshop offline")

        await cut()
        await page.get_by_role("link", name="New", exact=True).click()
        sheet = page.get_by_role("dialog", name="New session")
        await sheet.get_by_role("radio", name=re.compile("workshop")).check()
        await sheet.get_by_role("radio", name="Scripted").check()
        await sheet.get_by_label("Directory", exact=True).fill(f"{joined.cwd}/nowhere")
        await sheet.get_by_label("First prompt").fill("Mend it.")
        await sheet.get_by_role("button", name="Start").click()
        await expect(sheet.get_by_role("status")).to_contain_text("workshop is offline")
        way.refuse = False
        await expect(sheet.get_by_role("alert")).to_contain_text("nowhere")
        await expect(sheet.get_by_label("First prompt")).to_have_value("Mend it.")
        await sheet.get_by_label("Directory", exact=True).fill(joined.cwd)
        await sheet.get_by_role("button", name="Start").click()
        await expect(page.get_by_role("log").get_by_text("It is mended.")).to_be_visible()
        assert await page.evaluate("localStorage.getItem('tieline.draft.new')") is None
        await cut()
        await page.get_by_role("button", name="About this session").click()
        await page.get_by_label("Title").fill("mended")
        await page.get_by_role("button", name="Save").click()
        order = page.locator(".thread .order")
        await expect(order).to_contain_text("Title, model and effort: received by the hub. workshop is offline")
        await page.reload()
        await expect(order).to_contain_text("workshop is offline")
        way.refuse = False
        await expect(page.get_by_role("heading", name="mended")).to_be_visible()
        await expect(order).to_have_count(0)
