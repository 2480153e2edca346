"""A conversation in a real browser: decisions in their tools' rows, code, long output, notices and errors."""

import re
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect
from tests.browser.conftest import OpenPage
from tests.browser.faults import faults
from tests.browser.hub import HubProcess
from tests.browser.showcase import CODE, EVENTS, OUTPUT, WARNINGS

from tieline.script import Fail, Run, Say, Stall

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    hub = HubProcess(tmp_path_factory.mktemp("hub"))
    hub.agent("failing", [Fail(message="no credit left")], [Say("Now there is credit.")])
    hub.agent("staller", [Say("I begin."), Stall()], [Say("And now the next.")])
    hub.agent("asker", [Say("I begin.\n\n" * 9), Run("touch published")], [Say("Then not.")])
    await hub.fill("showcase", EVENTS)
    async with hub:
        await hub.session("staller", id="showcase", title="Something of everything")
        yield hub


def log(page: Page) -> Locator:
    return page.get_by_role("log", name="Conversation")


@pytest.mark.parametrize(("size", "dark"), [("wide", False), ("wide", True), ("iphone", True), ("narrow", False)])
async def test_everything_open_and_usable_by_everybody(
    hub: HubProcess, open_page: OpenPage, size: str, dark: bool
) -> None:
    page = await open_page(hub, size, dark=dark, path="/s/showcase")
    await expect(log(page).locator(".hl-keyword").first).to_be_attached()
    for row in await log(page).locator(".fold > .fold-head").all():
        await row.click()
    await expect(log(page).locator(".fold-head[aria-expanded=false]")).to_have_count(0)
    assert await faults(page) == []


async def test_a_decision_is_a_part_of_its_tools_row(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub, "wide", path="/s/showcase")
    for line, decision in (
        ("Edit greeting.py", "allowed by Phone, for this session"),
        ("Run python -m pytest -q", "allowed by Phone"),
        ("Run git push --force origin main", "denied by Chrome on Linux “open a pull request instead”"),
    ):
        await expect(log(page).get_by_role("button", name=f"{line} {decision}")).to_have_count(1)
    await expect(log(page).locator("[data-kind=ask]")).to_have_count(0)
    await log(page).get_by_role("button", name=re.compile("pytest")).click()
    await expect(log(page).get_by_text("Why it asked: The tests have to pass.")).to_be_visible()


@pytest.mark.parametrize("size", ["narrow", "phone", "iphone", "desktop"])
async def test_a_form_that_opens_at_the_bottom_is_whole_and_stays_where_it_is_pressed(
    hub: HubProcess, open_page: OpenPage, size: str
) -> None:
    session = await hub.session("asker", prompt="Publish it.")
    page = await open_page(hub, size, path=f"/s/{session}")
    ask = log(page).get_by_role("article")
    await ask.get_by_role("button", name="Deny …").click()
    deny = ask.get_by_role("button", name="Deny", exact=True)
    await expect(deny).to_be_in_viewport(ratio=1)
    await expect(page.get_by_role("button", name="Jump to latest")).to_have_count(0)
    await expect(deny).to_be_enabled()  # what has just moved takes no tap for a moment
    where = await deny.bounding_box()
    assert where is not None
    await page.mouse.move(where["x"] + where["width"] / 2, where["y"] + where["height"] / 2)
    await page.mouse.down()
    await page.evaluate("() => new Promise(then => requestAnimationFrame(() => requestAnimationFrame(then)))")
    await page.mouse.up()
    await expect(log(page).get_by_text("Then not.")).to_be_visible()


async def test_long_output_is_folded_with_its_size(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub, "wide", path="/s/showcase")
    row = log(page).get_by_role("button", name=re.compile("pytest"))
    size = f"400 lines, {len(OUTPUT) / 1000:.0f} KB"
    await expect(row).to_contain_text(size)
    await row.click()
    output = log(page).get_by_label("Output", exact=True).filter(has_text="test_000.py")
    await expect(output).to_contain_text("test_399.py")
    await expect(output).not_to_contain_text("test_200.py")
    await output.get_by_role("button", name=f"Show all of it: {size}").click()
    await expect(output).to_have_text(OUTPUT)


async def test_code_is_highlighted_and_copied(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub, "wide", path="/s/showcase", permissions=["clipboard-read", "clipboard-write"])
    python = log(page).locator("pre[data-language=python]")
    await expect(python.locator(".hl-keyword").first).to_have_text("def")
    await expect(python.locator(".hl-comment")).to_have_text("# without a comma")
    await expect(log(page).locator("pre[data-language=ts] .hl-keyword").first).to_be_attached()
    await python.hover()
    await log(page).get_by_role("button", name="Copy the code").first.click()
    clipboard = "() => navigator.clipboard.readText()"
    assert await page.evaluate(clipboard) == CODE.partition("```python\n")[2].partition("```")[0]
    await log(page).get_by_role("button", name="Copy the text").first.click()
    assert await page.evaluate(clipboard) == CODE
    await log(page).get_by_role("button", name="Copy the prompt").first.click()
    assert str(await page.evaluate(clipboard)).startswith("The greeting is wrong.")
    boxes = log(page).locator("li[data-task]")
    assert [await box.get_attribute("data-task") for box in await boxes.all()] == ["done", "done", "open"]
    await log(page).get_by_role("button", name=re.compile("Edit greeting.py")).click()
    await expect(log(page).locator(".diff-line.add .hl-comment")).to_have_text(
        "# with a comma, and an exclamation mark"
    )


async def test_the_highlighter_comes_only_with_code(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub)
    scripts = """() => performance.getEntriesByType('resource').map(one => one.name)
      .filter(one => /highlight|command-palette/.test(one))"""
    assert await page.evaluate(scripts) == []
    await page.goto(f"{hub.url}/s/showcase")
    await expect(log(page).locator(".hl-keyword").first).to_be_attached()
    assert len(await page.evaluate(scripts)) == 1


async def test_a_starts_warnings_and_commands_are_folded(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub, "wide", path="/s/showcase")
    notes = log(page).get_by_role("button", name=re.compile("2 warnings, 1 notice"))
    await expect(log(page).get_by_text("/command-29")).to_have_count(0)
    await notes.click()
    for text in (*WARNINGS, "/command-29"):
        await expect(log(page).get_by_text(text, exact=False).last).to_be_visible()


async def test_an_error_is_said_once_and_retried(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session("failing", prompt="please try")
    page = await open_page(hub, path=f"/s/{session}")
    await expect(log(page).get_by_text("no credit left")).to_have_count(1)
    await expect(log(page).get_by_role("alert")).to_have_count(1)
    await log(page).get_by_role("button", name="Retry").click()
    await expect(log(page).get_by_text("Now there is credit.")).to_be_visible()
    await expect(log(page).get_by_text("please try")).to_have_count(2)
    await expect(log(page).get_by_role("button", name="Retry")).to_have_count(0)
    assert await hub.outcomes(session) == ["failed", "done"]


async def test_stop_and_empty_the_queue(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session("staller", prompt="go")
    page = await open_page(hub, path=f"/s/{session}")
    await expect(log(page).get_by_text("I begin.")).to_be_visible()
    for text in ("one more", "and another"):
        await hub.request("POST", f"sessions/{session}/prompts", {"text": text})
    queue = page.get_by_label("Waiting prompts")
    await queue.get_by_role("button", name="Edit: one more").click()
    await queue.get_by_label("Edit the waiting prompt").fill("one, but better")
    await queue.get_by_role("button", name="Save").click()
    await expect(queue.get_by_role("listitem").first).to_contain_text("one, but better")
    await queue.get_by_role("button", name="Later: one, but better").click()
    await expect(queue.get_by_role("listitem").last).to_contain_text("one, but better")
    await page.get_by_role("button", name="Stop", exact=True).click()
    choice = page.get_by_role("group", name="Stop the agent")
    await expect(choice).to_contain_text("2 prompts wait")
    assert await faults(page) == []
    await choice.get_by_role("button", name="Stop and empty the queue").click()
    await expect(log(page).get_by_text("Stopped")).to_be_visible()
    await expect(queue).to_have_count(0)
    await expect(page.get_by_label("Message", exact=True)).to_have_value("and another\n\none, but better")
    assert sorted(await hub.outcomes(session)) == ["cancelled", "cancelled", "failed"]
