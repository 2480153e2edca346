"""A session at work: stopped, queued, looked at, cut off, and what it says kept harmless. In a real browser."""

import re
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect
from tests.browser.conftest import OpenPage
from tests.browser.hub import HubProcess

from tieline import events
from tieline.script import Inquire, Run, Say, Stall, Think, Write
from tieline.sessions.event_log import EPHEMERAL

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

HOSTILE = (
    "<script>window.hacked = 1</script>\n\n<img src=x onerror='window.hacked = 1'>\n\n"
    "![pixel](https://example.com/pixel.png) [click](javascript:window.hacked=1) [fine](https://example.com)\n\n"
    "# A heading\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
)
PLENTY = 60
LONG = 600
JUMP = """async () => {
  const box = document.querySelector('.thread-scroll')
  const frame = () => new Promise(requestAnimationFrame)
  const edge = box.getBoundingClientRect().top
  const first = () => [...box.querySelectorAll('[data-row]')].find(one => one.getBoundingClientRect().bottom > edge)
  let worst = 0, rows = 0
  for (let step = 0; step < 300 && !box.textContent.includes('Row 0.'); step++) {
    box.scrollTop -= 600
    await frame()
    const row = first(), at = row.getBoundingClientRect().top
    await frame(); await frame()
    if (row.isConnected) worst = Math.max(worst, Math.abs(row.getBoundingClientRect().top - at))
    rows = Math.max(rows, box.querySelectorAll('[data-row]').length)
  }
  return [worst, rows]
}"""
EVERY: list[events.Event] = [
    events.Init("scripted", commands=("/compact",), model="some-model"),
    events.TurnStarted("every kind"),
    events.Thinking("a thought", item="1"),
    events.Text("a text", item="2"),
    events.Plan((events.PlanStep("a step", "done"),)),
    *[events.ToolUse(f"t{number}", "tool", action) for number, action in enumerate(
        (events.Read("r.py"), events.Edit(("e.py",)), events.Command("a command"), events.Search("a query"),
         events.Fetch("https://example.com/"), events.Mcp("a server", "a tool"), events.Task("a task"),
         events.OtherAction())
    )],
    events.ToolResult("t0", "ok", "output"),
    events.ToolResult("t1", "error", "broken"),
    events.ToolResult("t2", "denied"),
    events.Ask("a1", "permission", "may I?", action=events.Command("asked")),
    events.Answer("a1", "deny", by="somebody", reason="a reason"),
    events.Diff("--- a/d.py\n+++ b/d.py\n@@ -1 +1 @@\n-x\n+y\n", ("d.py",)),
    events.Usage(events.Tokens(input=1)),
    events.Status("compacting", "a detail"),
    events.Warning("a warning"),
    events.Error("429 too many requests"),
    events.Other({"native": True}),
    events.Done("error", error="an end", tokens=events.Tokens(input=1200, output=5)),
]  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    hub = HubProcess(tmp_path_factory.mktemp("hub"))
    hub.agent("staller", [Say("I begin.", chunks=2), Stall()], [Say("And now the next.")])
    hub.agent("writer", [Write("notes.txt", "one\ntwo\n")], [Say("Written.")], [Say("Understood.")])
    hub.agent("hostile", [Think("<b>hm</b>"), Say(HOSTILE)])
    hub.agent("remover", [Run("rm -rf build")], [Say("Removed.")])
    hub.agent("asker", [Inquire("Which colour?", ("Red", "Green"), header="Colour")], [Say("Thank you.")])
    hub.agent("talker", *[[Say(f"Line {number}.")] for number in range(PLENTY)])
    await hub.fill("every", EVERY)
    await hub.fill("long", [events.Text(f"Row {number}. " + "word " * (number % 40)) for number in range(LONG)])
    async with hub:
        yield hub


def log(page: Page) -> Locator:
    return page.get_by_role("log", name="Conversation")


async def test_every_kind_of_event_is_shown(hub: HubProcess, open_page: OpenPage) -> None:
    durable = {kind for kind in events.EVENT_TYPES if kind not in EPHEMERAL}
    assert {type(event) for event in EVERY} == durable, "a new kind of event is shown here too"
    await hub.session("hostile", id="every")
    page = await open_page(hub, "desktop", path="/s/every")
    for text in (
        "every kind", "Thought", "a text", "a step", "r.py", "e.py", "a command", "a query", "https://example.com/",
        "a server: a tool", "a task", "“a reason”", "d.py", "compacting · a detail",
        "429 too many requests", "The model is busy", "an end", "1.2k tokens in, 5 out",
    ):  # fmt: skip
        await expect(log(page).get_by_text(text).first).to_be_visible()
    await log(page).get_by_role("button", name=re.compile("1 warning, 1 notice")).click()
    await expect(log(page).get_by_text("a warning")).to_be_visible()
    for label in ("Done", "Failed", "Denied"):
        await expect(log(page).get_by_role("img", name=label, exact=True).first).to_be_visible()
    await page.get_by_label("Message", exact=True).fill("/com")
    await page.get_by_role("button", name="/compact").click()
    await expect(page.get_by_label("Message", exact=True)).to_have_value("/compact ")


async def test_a_long_thread_is_windowed_and_does_not_jump(hub: HubProcess, open_page: OpenPage) -> None:
    await hub.session("hostile", id="long")
    page = await open_page(hub, path="/s/long")
    await expect(log(page).get_by_text(f"Row {LONG - 1}.")).to_be_in_viewport()
    worst, rows = await page.evaluate(JUMP)
    await expect(log(page).get_by_text("Row 0.")).to_be_attached()
    assert worst <= 2, "what is read stays where it is while older rows come in above it"
    assert rows < LONG / 2, "only what is near is in the document"
    await page.get_by_role("button", name="Jump to latest").click()
    await expect(log(page).get_by_text(f"Row {LONG - 1}.")).to_be_in_viewport()


async def test_stop_and_queue(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session("staller", prompt="go")
    page = await open_page(hub, path=f"/s/{session}")
    await expect(log(page).get_by_text("I begin.")).to_be_visible()
    box = page.get_by_label("Message", exact=True)
    await box.fill("and then this")
    await page.get_by_role("button", name="Queue", exact=True).click()
    queue = page.get_by_label("Waiting prompts")
    await expect(queue.get_by_text("and then this")).to_be_visible()
    await expect(queue.get_by_label("Received by the machine")).to_be_visible()
    await box.fill("changed my mind")
    await page.get_by_role("button", name="Queue", exact=True).click()
    await expect(queue.get_by_role("listitem")).to_have_count(2)
    await queue.get_by_role("button", name="Earlier: changed my mind").click()
    await expect(queue.get_by_role("listitem").first).to_contain_text("changed my mind")
    await queue.get_by_role("button", name="Remove from the queue").first.click()
    await expect(queue.get_by_role("listitem")).to_have_count(1)
    await page.get_by_role("button", name="Stop", exact=True).click()
    await page.get_by_role("button", name="Stop, go on with the queue").click()
    await expect(log(page).get_by_text("Stopped")).to_be_visible()
    await expect(log(page).get_by_text("And now the next.")).to_be_visible()
    await expect(queue).to_have_count(0)


async def test_diff_by_file_and_a_remark_on_a_line(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session("writer", prompt="go", policy="full")
    page = await open_page(hub, path=f"/s/{session}")
    await expect(log(page).get_by_text("Written.")).to_be_visible()
    await page.get_by_role("button", name="Changes").click()
    sheet = page.get_by_role("dialog", name="Changes")
    file = sheet.get_by_label("Changes in notes.txt")
    await file.get_by_role("button", name=re.compile(r"Line 2, added: two")).click()
    await file.get_by_label("Comment to the agent").fill("why two?")
    await file.get_by_role("button", name="Send").click()
    await page.keyboard.press("Escape")
    await expect(sheet).to_have_count(0)
    await expect(log(page).get_by_text("On notes.txt:2")).to_be_visible()
    await expect(log(page).get_by_text("Understood.")).to_be_visible()


async def test_what_agents_say_does_nothing(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session("hostile", prompt="go")
    page = await open_page(hub, path=f"/s/{session}")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    await expect(log(page).get_by_role("heading", name="A heading")).to_be_visible()
    await expect(log(page).get_by_role("link", name="fine")).to_have_attribute("rel", re.compile("noopener"))
    await log(page).get_by_role("button", name=re.compile("Thought")).click()
    await expect(log(page).get_by_text("<b>hm</b>").last).to_be_visible()
    assert await page.evaluate("window.hacked") is None
    assert await log(page).locator("script, .md img, iframe, [onerror], a[href^='javascript']").count() == 0
    assert not [url for url in requests if not url.startswith((hub.url, hub.url.replace("http", "ws")))]


async def test_destructive_asks_are_held(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session("remover", prompt="go", title="held")
    page = await open_page(hub)
    ask = page.get_by_label("Needs you").get_by_role("article").filter(has_text="held")
    await expect(ask).to_contain_text("removes files for good")
    button = ask.get_by_role("button", name="Hold to allow")
    await button.click()  # not held: nothing is decided
    await expect(ask.get_by_role("button", name="Hold, or press again")).to_be_visible()
    assert [pending["session"] for pending in await hub.request("GET", "asks")] == [session]
    hold = ask.get_by_role("button", name="Hold, or press again")
    await hold.dispatch_event("pointerdown", {"button": 0})
    await expect(ask.locator(".delivery")).to_contain_text("Allowed")
    await expect(ask.locator(".delivery")).to_have_attribute("data-state", "applied")


async def test_question_as_buttons_by_keyboard(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session("asker", prompt="go")
    page = await open_page(hub, "desktop", path=f"/s/{session}")
    choice = log(page).get_by_role("button", name="Green")
    await choice.focus()
    await page.keyboard.press("Enter")
    await expect(log(page).get_by_text("Thank you.")).to_be_visible()
    await expect(log(page).get_by_role("button", name=re.compile("Answered: Green"))).to_be_visible()


async def test_drafts_are_kept(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session("talker")
    page = await open_page(hub, path=f"/s/{session}")
    await page.get_by_label("Message", exact=True).fill("half a thought")
    await page.reload()
    await expect(page.get_by_label("Message", exact=True)).to_have_value("half a thought")


async def test_the_hub_is_killed_and_comes_back(hub: HubProcess, open_page: OpenPage) -> None:
    """Nothing is lost, nothing is doubled, no reload: also what was written while it was away arrives."""
    session = await hub.session("talker", prompt="one", title="survivor")
    page = await open_page(hub, path=f"/s/{session}")
    await page.evaluate("window.same = true")
    await expect(log(page).get_by_text("Line 0.")).to_be_visible()
    await hub.kill()
    bar = page.locator(".thread .connection")
    await expect(bar).to_have_attribute("data-hub", re.compile("waiting|connecting"))
    await expect(bar).to_contain_text("cannot be reached")
    await page.get_by_label("Message", exact=True).fill("while you were away")
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_label("Sending to the hub")).to_be_visible()
    await hub.start()
    await expect(bar).to_have_attribute("data-hub", "online")
    await expect(log(page).get_by_text("while you were away")).to_have_count(1)
    await expect(log(page).get_by_text("Line 1.").or_(log(page).get_by_text("Line 0.").nth(1))).to_be_visible()
    await hub.request("POST", f"sessions/{session}/prompts", {"text": "from elsewhere"})
    await expect(log(page).get_by_text("from elsewhere")).to_have_count(1)
    await expect(log(page).locator(".bubble")).to_have_count(3)
    assert await page.evaluate("window.same"), "it was not loaded anew"


async def test_back_from_the_background_without_doubles(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session("talker", prompt="one")
    page = await open_page(hub, path=f"/s/{session}")
    await expect(log(page).get_by_text("Line 0.")).to_be_visible()
    devtools: Any = await page.context.new_cdp_session(page)
    await devtools.send("Page.setWebLifecycleState", {"state": "frozen"})
    for word in ("two", "three"):
        await hub.request("POST", f"sessions/{session}/prompts", {"text": word})
    await devtools.send("Page.setWebLifecycleState", {"state": "active"})
    await expect(log(page).locator(".bubble")).to_have_count(3)
    await expect(log(page).get_by_text("Line 2.")).to_have_count(1)


async def test_offline_the_page_still_opens(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub)
    await page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    await page.wait_for_function("() => caches.keys().then(all => all.length > 0)")
    await page.context.set_offline(True)
    await page.goto(f"{hub.url}/settings")
    await expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    await expect(page.locator(".connection").first).not_to_have_attribute("data-hub", "online")
    await page.context.set_offline(False)


async def test_what_was_kept_goes_from_a_page_that_was_opened_without_the_hub(
    hub: HubProcess, open_page: OpenPage
) -> None:
    """Such a page does not know who it is when the hub is back."""
    session = await hub.session("talker")
    page = await open_page(hub, path=f"/s/{session}")
    await page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    await page.wait_for_function("() => caches.keys().then(all => all.length > 0)")
    await hub.kill()
    await page.get_by_label("Message", exact=True).fill("before the reload")
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_label("Sending to the hub")).to_be_visible()
    await page.reload()
    await expect(page.locator(".connection").first).to_have_attribute("data-hub", re.compile("waiting|connecting"))
    await hub.start()
    await expect(log(page).get_by_text("before the reload")).to_have_count(1)
    await expect(page.get_by_label("Waiting prompts")).to_have_count(0)
