"""The local network way in a real browser: whoever trusts our authority gets a page that can do everything."""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
import segno
from playwright.async_api import Error, Page, expect
from tests.browser import nss_trust
from tests.browser.chromium import chromium
from tests.browser.conftest import SIZES, WAIT_MS
from tests.browser.faults import faults
from tests.browser.hub import WAIT_S, HubProcess
from tests.hub.phone.conftest import needs_network

from tieline.testing.rig import scratch_env

pytestmark = [
    pytest.mark.slow,
    needs_network,
    pytest.mark.skipif(not nss_trust.library(), reason="the library nss3, by which Chromium is told whom to trust"),
]

ABLE = """async () => {
  const registration = await navigator.serviceWorker.ready
  return {
    secure: isSecureContext,
    worker: new URL(registration.active.scriptURL).pathname,
    push: typeof registration.pushManager.subscribe,
    permission: await registration.pushManager.permissionState({ userVisibleOnly: true }),
  }
}"""


@asynccontextmanager
async def phone_page(home: Path) -> AsyncGenerator[Page]:
    """A browser whose settings are in that home, and a page the size of a phone's."""
    env = {**scratch_env(home, path="/usr/bin:/bin"), "TMPDIR": "/tmp"}  # its socket's path has to be short
    async with chromium(env) as browser:
        context = await browser.new_context(viewport=SIZES["phone"], has_touch=True)
        context.set_default_timeout(WAIT_MS)
        yield await context.new_page()


async def trust(home: Path, certificate: bytes) -> None:
    """What a person does in the settings."""
    file = home.with_suffix(".crt")
    file.write_bytes(certificate)
    process = await asyncio.create_subprocess_exec(sys.executable, nss_trust.__file__, str(home), str(file))
    async with asyncio.timeout(WAIT_S):
        assert await process.wait() == 0


async def test_a_phone_is_let_in_when_it_trusts_this_machine_and_only_then(tmp_path: Path) -> None:
    async with HubProcess(tmp_path / "hub") as hub:
        status = await hub.request("POST", "phone", {"way": "lan"})
        link = await hub.login()
        assert link.startswith(f"{status['url']}/#login=")

        async with phone_page(tmp_path / "stranger") as page:
            await page.goto(status["trust_url"])
            await expect(page.get_by_role("link", name="Get the certificate")).to_be_visible()
            await expect(page.get_by_text(status["fingerprint"])).to_be_visible()
            with pytest.raises(Error, match="ERR_CERT_AUTHORITY_INVALID"):
                await page.goto(link)

        async with httpx2.AsyncClient(trust_env=False) as client:
            given = await client.get(f"{status['trust_url']}/tieline.crt")
        home = tmp_path / "trusting"
        await trust(home, given.content)
        async with phone_page(home) as page:
            await page.goto(status["trust_url"])
            await page.goto(link)
            await expect(page.locator(".connection").first).to_have_attribute("data-hub", "online")
            able = await page.evaluate(ABLE)
            assert able == {"secure": True, "worker": "/sw.js", "push": "function", "permission": able["permission"]}
            await page.goto(f"{status['url']}/settings")
            await expect(page.get_by_label("Notifications").get_by_text("not available")).to_have_count(0)
            await page.get_by_role("button", name="Add a phone or browser").click()
            offered = page.get_by_label("Devices").locator("pre.command")
            await expect(offered).to_contain_text(f"{status['url']}/#login=")


async def test_the_card_on_the_page_sets_it_up_with_a_code_that_works(tmp_path: Path) -> None:
    async with HubProcess(tmp_path / "hub", hosts=()) as hub, phone_page(tmp_path / "desk") as desk:
        await desk.goto(await hub.login())
        await expect(desk.locator(".connection").first).to_have_attribute("data-hub", "online")
        await desk.goto(f"{hub.url}/settings")
        card = desk.get_by_label("Phone", exact=True)
        await card.get_by_role("button", name="Set up: Local network, with a certificate of our own").click()
        assert (await hub.request("GET", "phone"))["state"] == "off", "nothing happens before it is confirmed"
        await card.get_by_role("button", name="Set it up").click()
        await expect(card.get_by_text("Checked:")).to_be_visible()
        status = await hub.request("GET", "phone")
        await expect(card.get_by_text(status["fingerprint"])).to_be_visible()
        code = card.get_by_role("img", name="The certificate’s page as a QR code")
        assert await code.get_attribute("src") == picture(status["trust_url"])
        await card.get_by_role("button", name="Show the code for a phone").click()
        link = str(await card.locator(".offer pre.command").text_content())
        shown = card.get_by_role("img", name="The link as a QR code")
        assert await shown.get_attribute("src") == picture(link)
        assert await shown.evaluate("one => one.naturalWidth") > 0, "the browser shows it"
        assert await faults(desk) == []

        async with httpx2.AsyncClient(trust_env=False) as client:
            given = await client.get(f"{status['trust_url']}/tieline.crt")
        await trust(tmp_path / "trusting", given.content)
        async with phone_page(tmp_path / "trusting") as phone:
            await phone.goto(link)
            await expect(phone.locator(".connection").first).to_have_attribute("data-hub", "online")
            await phone.goto(f"{status['url']}/settings")
            there = phone.get_by_label("Phone", exact=True)
            await expect(there.get_by_text("tieline phone off")).to_be_visible()
            await expect(there.get_by_role("button")).to_have_count(0)
            await card.get_by_role("button", name="Turn off …").click()
            await card.get_by_role("button", name="Turn it off").click()
            await expect(card.get_by_role("button", name=re.compile("Set up: Local network")).first).to_be_visible()
            await expect(phone.locator(".connection").first).not_to_have_attribute("data-hub", "online")
        assert (await hub.request("GET", "phone"))["state"] == "off"


def picture(link: str) -> str:
    return segno.make(link, error="l", micro=False).svg_data_uri(border=4, light="white", omitsize=True)
