"""What was read and pinned, on two devices of one person. In real browsers."""

import re
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import expect
from tests.browser.conftest import OpenPage
from tests.browser.faults import faults
from tests.browser.hub import HubProcess

from tieline.script import Say

PIN_BESIDE_COUNT = """(address) => {
  const row = document.querySelector(`.session[href='${address}']`).parentElement
  const [count, pin] = ['.badge', '.pin'].map((name) => row.querySelector(name).getBoundingClientRect())
  return count.right <= pin.left
}"""

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    started = HubProcess(tmp_path_factory.mktemp("hub"))
    started.agent("clerk", [Say("Done.")], [Say("Done again.")], [Say("And again.")])
    async with started:
        yield started


async def test_what_the_phone_reads_is_read_on_the_desktop(hub: HubProcess, open_page: OpenPage) -> None:
    session = await hub.session("clerk", prompt="go", title="read me")
    other = await hub.session(title="never mind")
    desktop, phone = await open_page(hub, "wide"), await open_page(hub, "iphone", dark=True)
    rows = {page: page.locator(f".session[href='/s/{session}']") for page in (desktop, phone)}
    for page, row in rows.items():
        await expect(row.get_by_label("1 unread")).to_be_visible()
        await expect(page).to_have_title("Tieline · 1 unread")
        await expect(page.get_by_role("button", name=re.compile("^Unread")).locator(".badge")).to_have_text("1")
    assert await faults(desktop) == [] == await faults(phone)
    await rows[desktop].hover()
    await expect(desktop.get_by_role("button", name="Pin: read me")).to_have_css("opacity", "1")
    await desktop.wait_for_function(PIN_BESIDE_COUNT, arg=f"/s/{session}")
    await rows[phone].click()
    await expect(phone.get_by_role("log").get_by_text("Done.")).to_be_visible()
    await expect(rows[desktop].get_by_label("1 unread")).to_have_count(0)
    await expect(desktop).to_have_title("Tieline")

    await desktop.locator(f".session-item:has([href='/s/{other}'])").hover()
    await desktop.get_by_role("button", name="Pin: never mind").click()
    await phone.get_by_role("button", name="Back to all sessions").click()
    await expect(phone.get_by_label("Pinned").get_by_text("never mind")).to_be_visible()
    marks = {mark["id"]: mark for mark in await hub.request("GET", "session-marks")}
    assert marks == {
        session: {"id": session, "seen_turns": 1, "pinned": False},
        other: {"id": other, "seen_turns": 0, "pinned": True},
    }
    await hub.kill()
    await hub.start()
    fresh = await open_page(hub, "iphone")
    await expect(fresh.get_by_label("Pinned").get_by_text("never mind")).to_be_visible()
    await expect(fresh.locator(f".session[href='/s/{session}']").get_by_label("unread")).to_have_count(0)
    await hub.request("POST", f"sessions/{session}/prompts", {"text": "once more"})
    await expect(rows[desktop].get_by_label("1 unread")).to_be_visible()
