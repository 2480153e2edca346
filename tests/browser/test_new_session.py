"""The form for a new session, with what the agents of a real hub have. In a real browser."""

from typing import Any

import pytest
from playwright.async_api import expect
from tests.browser.conftest import OpenPage
from tests.browser.faults import faults
from tests.browser.hub import HubProcess

from tieline.drivers.codex.driver import Codex

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


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


async def test_a_model_and_a_worktree_are_chosen(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub, "iphone", path="/new")
    await expect(page.get_by_role("radio", name="Demo")).to_be_checked()
    await page.get_by_label("Model").fill("large")
    await page.get_by_label("Work in a git worktree of its own").check()
    await page.get_by_label("Branch").fill("fixes")
    assert await faults(page) == []
    async with page.expect_request(lambda request: request.method == "POST") as sent:
        await page.get_by_role("button", name="Start").click()
    body: Any = (await sent.value).post_data_json
    assert (body["model"], body["worktree"], body["branch"]) == ("large", True, "fixes")
