"""The channels' page: each with its state, why it is so and what to do. In a real browser."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import expect
from tests.browser.conftest import OpenPage
from tests.browser.faults import faults
from tests.browser.hub import HubProcess

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SECRETS = 'secrets = ["env:CI_SECRET"]\nto = "relay.user.ci"\n'
BROKEN = f'[[channels]]\nid = "ci"\ntype = "webhook"\n[channels.config]\n{SECRETS}'
MISTYPED = '[[channels]]\nid = "chat"\ntype = "telegarm"\n'
OFF = '[[channels]]\nid = "later"\ntype = "webhook"\nenabled = false\n'


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    async with HubProcess(tmp_path_factory.mktemp("hub"), more=BROKEN + MISTYPED + OFF) as started:
        yield started


async def test_each_says_how_it_is_and_why(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub, "iphone", path="/channels")
    channels = page.get_by_role("listitem").filter(has=page.locator(".chip"))
    for name, state, why, tested in (
        ("Agents", "running", "0 delivered", True),
        ("ci", "broken", "CI_SECRET", False),
        ("chat", "broken", "telegram", False),
        ("later", "disabled", "", False),
    ):
        row = channels.filter(has_text=name)
        await expect(row.locator(".chip")).to_have_text(state)
        await expect(row).to_contain_text(why)
        await expect(row.get_by_role("button", name="Test")).to_have_count(int(tested))
    await expect(page.get_by_text("are set up in tieline.toml")).to_be_visible()
    assert await faults(page) == []
    await channels.filter(has_text="Agents").get_by_role("button", name="Test").click()
    await expect(page.get_by_role("status").filter(has_text="agent:")).to_be_visible()
    config = hub.root / "tieline.toml"
    config.write_text(config.read_text().replace(MISTYPED, ""))
    await page.get_by_role("button", name="Reload configuration").click()
    await expect(page.get_by_text("The configuration was reloaded.")).to_be_visible()
    await expect(channels.filter(has_text="chat")).to_have_count(0)
