"""The form for a new session, with what the agents of a real hub have. In a real browser."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import expect
from tests.browser.conftest import OpenPage
from tests.browser.faults import faults
from tests.browser.hub import HubProcess

from tieline.drivers.codex.driver import Codex

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    started = HubProcess(tmp_path_factory.mktemp("hub"))
    started.listing_agent("peer")
    async with started:
        yield started


async def test_an_effort_of_the_agents_own_is_chosen(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub, "narrow", path="/new")
    effort = page.get_by_label("Effort")
    await expect(page.get_by_role("radio", name="Demo")).to_be_checked()
    await expect(effort).to_have_count(0)  # the demo has none
    await page.get_by_role("button", name="more, not installed").click()
    await page.get_by_role("radio", name="Codex", exact=False).first.check()
    await expect(effort.locator("option")).to_have_text(["The agent’s own choice", *Codex.features.effort])
    await effort.select_option("high")
    assert await faults(page) == []
    async with page.expect_request(lambda request: request.method == "POST") as sent:
        await page.get_by_role("button", name="Start").click()
    body: Any = (await sent.value).post_data_json
    assert (body["agent"], body["effort"]) == ("codex", "high")


async def test_a_model_that_the_agent_lists_and_a_worktree_are_chosen(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub, "iphone", path="/new")
    await page.get_by_role("radio", name="peer").check()
    model = page.get_by_label("Model")
    await expect(page.locator("[id^=models-] option")).to_have_count(2)  # it was started and asked
    offered = [await option.get_attribute("value") for option in await page.locator("[id^=models-] option").all()]
    assert offered == ["small", "large"]
    await model.fill("larg")
    await expect(page.get_by_text("Not among the models that peer lists")).to_be_visible()
    await model.fill("large")
    await expect(page.get_by_text("Not among the models")).to_have_count(0)
    await page.get_by_label("Work in a git worktree of its own").check()
    await page.get_by_label("Branch").fill("fixes")
    assert await faults(page) == []
    async with page.expect_request(lambda request: request.method == "POST") as sent:
        await page.get_by_role("button", name="Start").click()
    body: Any = (await sent.value).post_data_json
    assert (body["agent"], body["model"], body["worktree"], body["branch"]) == ("peer", "large", True, "fixes")
