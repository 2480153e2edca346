"""A session in a git worktree, from the checkbox to the merge. In a real browser."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import expect
from tests.browser.conftest import OpenPage
from tests.browser.faults import faults
from tests.browser.hub import HubProcess
from tests.sessions.repositories import git

from tieline.script import Run, Say

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    hub = HubProcess(tmp_path_factory.mktemp("hub"))
    hub.agent("maker", [Run("echo one > one.txt")], [Say("Made.")])
    async with hub:
        for name, value in (("user.name", "Ada"), ("user.email", "ada@example.com")):
            git(hub.repository, "config", name, value)
        yield hub


@pytest.mark.parametrize("size", ["phone", "wide"])
async def test_from_the_checkbox_to_the_merge(hub: HubProcess, open_page: OpenPage, size: str) -> None:
    page = await open_page(hub, size=size, path="/new")
    branch = f"try-{size}"
    await page.get_by_label("First prompt").fill("Make one")
    await page.get_by_role("radio", name="maker").check()
    await page.get_by_label("Directory", exact=True).fill(str(hub.repository))
    await page.get_by_role("radio", name="Full").check()
    await expect(page.get_by_label("Branch")).to_have_count(0)
    await page.get_by_role("checkbox", name="Work in a git worktree of its own").check()
    await page.get_by_label("Branch").fill(branch)
    assert await faults(page) == []
    await page.get_by_role("button", name="Start").click()
    await page.wait_for_url("**/s/*")
    await expect(page.locator(".thread-scroll")).to_contain_text("Made.")
    assert not (hub.repository / "one.txt").exists()

    session = page.url.rpartition("/")[2]
    await page.goto(f"{hub.url}/s/{session}/info")
    panel = page.get_by_role("region", name="Worktree")
    await expect(panel).to_contain_text(f"{branch} from main")
    await expect(panel).to_contain_text("1 file, +1 −0 · 1 file not committed")
    await panel.get_by_role("button", name="Discard").click()
    await expect(panel).to_contain_text(f"Discard {branch} and its files?")
    await panel.get_by_role("button", name="Cancel").click()
    await panel.get_by_role("button", name="Merge").click()
    await expect(panel).to_contain_text("1 file not committed yet will be committed first.")
    assert await faults(page) == []
    await panel.get_by_role("group", name="Merge: confirm").get_by_role("button", name="Merge").click()
    await expect(panel).to_contain_text("1 file committed. Merged into main.")
    await expect(panel).to_contain_text("The next prompt makes it again")
    await expect(panel.get_by_role("button", name="Merge")).to_have_count(0)
    assert (hub.repository / "one.txt").read_text() == "one\n"
    (hub.repository / "one.txt").unlink()
    git(hub.repository, "commit", "-qam", "without it")


async def test_a_conflict_is_told_and_changes_nothing(hub: HubProcess, open_page: OpenPage) -> None:
    id = await hub.session("maker", id="conflict", prompt="Make one", policy="full", worktree=True)
    record = await hub.request("GET", f"sessions/{id}")
    assert record["worktree"]["branch"] == "tieline/make-one-nflict", "by the first prompt"
    (hub.repository / "one.txt").write_text("mine\n")
    page = await open_page(hub, path=f"/s/{id}/info")
    panel = page.get_by_role("region", name="Worktree")
    await expect(panel).to_contain_text("1 file not committed")
    await panel.get_by_role("button", name="Merge").click()
    await panel.get_by_role("group", name="Merge: confirm").get_by_role("button", name="Merge").click()
    await expect(panel.get_by_role("alert")).to_contain_text("has changes of its own in one.txt")
    assert (hub.repository / "one.txt").read_text() == "mine\n"
    await panel.get_by_role("button", name="Discard").click()
    await panel.get_by_role("group", name="Discard: confirm").get_by_role("button", name="Discard").click()
    await expect(panel).to_contain_text("git branch tieline/make-one-nflict refs/tieline/discarded/conflict")
