"""Images on the page: those that a person gives with a prompt, from the composer to the conversation."""

import base64
import re
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect
from tests.browser.conftest import OpenPage
from tests.browser.faults import faults
from tests.browser.hub import HubProcess

from tieline.events import AttachedFile, Done, Text, TurnStarted
from tieline.script import Say

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

Shot = Callable[[Page, str], Awaitable[None]]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
BITMAP = b"BM:\0\0\0\0\0\0\0006\0\0\0(\0\0\0\1\0\0\0\1\0\0\0\1\0\30\0\0\0\0\0\4\0\0\0" + b"\0" * 16 + b"\0\0\377\0"
"""One pixel in a format that no model takes."""

GIVE = """([kind, name, pixel]) => {
  const bytes = Uint8Array.from(atob(pixel), (sign) => sign.charCodeAt(0))
  const dataTransfer = new DataTransfer()
  dataTransfer.items.add(new File([bytes], name, { type: 'image/png' }))
  const box = document.querySelector('textarea')
  const event = { bubbles: true, cancelable: true, dataTransfer, clipboardData: dataTransfer }
  if (kind === 'paste') box.dispatchEvent(new ClipboardEvent('paste', event))
  else for (const name of ['dragover', 'drop']) document.body.dispatchEvent(new DragEvent(name, event))
}"""
"""Pastes a file into the first text box, or drops it somewhere on the page, as a browser tells it."""

SHOWN = """Here is ![the plot](docs/my%20plot.png), and [the greeting](greeting.py#L4).

- ![far away](https://example.com/far.png)
- ![without a name](//example.com/bare.png)
- ![outside](../secret.png)
- ![no image](docs/fake.png)
- ![missing](docs/none.png)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    hub = HubProcess(tmp_path_factory.mktemp("hub"))
    hub.agent("seer", [Say("I see them.")], [Say("And again.")], attachments=["image/*"])
    old = AttachedFile("old.png", "image/png")
    await hub.fill("long-ago", [TurnStarted("Look.", "gone", (old,)), Text("Seen."), Done("success")])
    await hub.fill("shown", [TurnStarted("Plot it.", "p1"), Text(SHOWN), Done("success")])
    async with hub:
        (hub.repository / "docs").mkdir()
        (hub.repository / "docs" / "my plot.png").write_bytes(base64.b64decode(PIXEL))
        (hub.repository / "docs" / "fake.png").write_text("<svg onload=alert(1)>")
        (hub.root / "secret.png").write_bytes(base64.b64decode(PIXEL))
        yield hub


async def test_images_are_given_shown_and_opened_large(hub: HubProcess, open_page: OpenPage, shot: Shot) -> None:
    session = await hub.session("seer", title="Look at these")
    page = await open_page(hub, "iphone", path=f"/s/{session}")
    composer = page.get_by_role("form", name="Message to the agent")
    picker = composer.locator("input[type=file]")
    await expect(picker).to_have_attribute("accept", "image/*")  # so that a phone shows its photos
    await picker.set_input_files({"name": "chosen.bmp", "mimeType": "image/bmp", "buffer": BITMAP})
    await expect(composer.get_by_role("button", name="Remove chosen.bmp")).to_be_visible()
    for kind in ("paste", "drop"):
        await page.evaluate(GIVE, [kind, f"{kind}.png", PIXEL])
        await expect(composer.get_by_role("button", name=f"Remove {kind}.png")).to_be_visible()
    assert await faults(page) == []
    await shot(page, "images-composer")
    await page.get_by_label("Message", exact=True).fill("What are these?")
    await page.get_by_role("button", name="Send").click()
    await expect(composer.get_by_label("Attached files")).to_have_count(0)
    log = page.get_by_role("log")
    await expect(log.get_by_text("I see them.")).to_be_visible()
    await page.reload()  # nothing of it is this page's own any more
    for name in ("chosen.bmp", "paste.png", "drop.png"):
        image = log.get_by_role("button", name=name).locator("img")
        await expect(image).to_be_visible()
        assert await image.evaluate("image => image.naturalWidth") == 1
    kind = await log.get_by_role("button", name="chosen.bmp").locator("img").get_attribute("src")
    assert (kind or "").startswith("data:image/jpeg;base64,"), "it was not made into an image that models take"
    await shot(page, "images-thread")
    await log.get_by_role("button", name="paste.png").click()
    large = page.get_by_role("dialog", name="paste.png")
    await expect(large.get_by_role("img", name="paste.png, full size")).to_be_visible()
    assert await faults(page) == []
    await page.keyboard.press("Escape")
    await expect(large).to_have_count(0)


async def test_an_image_that_is_kept_no_more_is_said(hub: HubProcess, open_page: OpenPage) -> None:
    await hub.session("seer", id="long-ago", title="Long ago")
    page = await open_page(hub, "narrow", path="/s/long-ago")
    await expect(page.get_by_role("log").get_by_text("old.png (no longer stored)")).to_be_visible()


async def test_who_takes_no_images_says_so_before_anything_is_sent(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session("demo", title="Text only")
    page = await open_page(hub, "iphone", path=f"/s/{session}")
    await expect(page.get_by_role("button", name=re.compile("text only"))).to_be_disabled()
    for kind in ("paste", "drop"):
        await page.evaluate(GIVE, [kind, f"{kind}.png", PIXEL])
        await expect(page.get_by_role("alert")).to_contain_text(f"takes text only: {kind}.png cannot be sent")
    await expect(page.get_by_label("Attached files")).to_have_count(0)


async def test_the_first_prompt_of_a_session_has_images(hub: HubProcess, open_page: OpenPage, shot: Shot) -> None:
    page = await open_page(hub, "wide", path="/new")
    form = page.get_by_role("dialog", name="New session")
    await form.get_by_role("radio", name="seer").check()
    await form.get_by_label("First prompt").fill("Describe it")
    await page.evaluate(GIVE, ["drop", "first.png", PIXEL])
    await expect(form.get_by_role("button", name="Remove first.png")).to_be_visible()
    await shot(page, "images-new-session")
    start = form.get_by_role("button", name="Start", exact=True)
    await form.get_by_role("radio", name="demo").check()
    await expect(form.get_by_role("alert")).to_contain_text("takes text only")
    await expect(start).to_be_disabled()
    await form.get_by_role("radio", name="seer").check()
    await form.get_by_label("Directory", exact=True).fill(str(hub.repository))
    await start.click()
    image = page.get_by_role("log").get_by_role("button", name="first.png").locator("img")
    await expect(image).to_be_visible()
    src = await image.get_attribute("src")
    assert base64.b64decode((src or "").partition(",")[2]) == base64.b64decode(PIXEL)


async def test_images_of_the_sessions_files_are_shown_in_texts(
    hub: HubProcess, open_page: OpenPage, shot: Shot
) -> None:
    await hub.session("seer", id="shown", title="Plot it")
    page = await open_page(hub, "wide")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(f"{hub.url}/s/shown")
    log = page.get_by_role("log")
    image = log.get_by_role("button", name="the plot").locator("img")
    await expect(image).to_be_visible()
    assert await image.evaluate("image => image.naturalWidth") == 1
    for words in ("outside: '../secret.png' cannot be read", "missing: 'docs/none.png' cannot be read", "no image"):
        await expect(log.get_by_text(words)).to_be_visible()
    await expect(log.get_by_role("link", name="far away")).to_have_attribute("href", "https://example.com/far.png")
    await expect(log.locator("img")).to_have_count(1)
    assert await faults(page) == []
    await shot(page, "images-in-text")
    await log.get_by_role("button", name="the greeting").click()
    await expect(page.get_by_label("Text of greeting.py").locator("[aria-current=location]")).to_contain_text(
        "def greet"
    )
    assert [url for url in asked if not url.startswith((hub.url, "data:"))] == [], "something was loaded from elsewhere"
