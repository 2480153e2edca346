"""Thousands of sessions: those that matter are there at once, the others come in parts. In a real browser."""

import asyncio
import json
from collections.abc import AsyncGenerator

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Page, WebSocketRoute, expect
from tests.browser.conftest import OpenPage
from tests.browser.faults import faults
from tests.browser.hub import HubProcess

from tieline.bus import open_bus
from tieline.sessions.records import SESSIONS, SessionRecord

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

COUNT = 3000
OLDEST = 0


def record(number: int, title: str = "") -> SessionRecord:
    title = title or f"Task-{number:04}."
    return SessionRecord(id=f"task-{number}", agent="demo", cwd="/", title=title, created_at=1.0 + number)


async def put(hub: HubProcess, *records: SessionRecord, remove: tuple[int, ...] = ()) -> None:
    """While the hub does not run."""
    (hub.root / "state").mkdir(mode=0o700, exist_ok=True)
    async with open_bus(f"sqlite://{hub.root}/state/bus.db") as bus:
        table = bus.table(SESSIONS)
        await asyncio.gather(*(table.put(session.id, msgspec.json.encode(session)) for session in records))
        await asyncio.gather(*(table.delete(f"task-{number}") for number in remove))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    hub = HubProcess(tmp_path_factory.mktemp("hub"))
    await put(hub, *map(record, range(COUNT)))
    async with hub:
        yield hub


class HeldParts:
    """Lets the hub's `sessions` frames wait. From the next load of the page on."""

    def __init__(self) -> None:
        self._open = asyncio.Event()

    async def hold(self, page: Page) -> None:
        await page.route_web_socket("**/api/v1/stream", self._connect)

    def release(self) -> None:
        self._open.set()

    def _connect(self, browser: WebSocketRoute) -> None:
        server = browser.connect_to_server()

        async def from_hub(message: str | bytes) -> None:
            if json.loads(message)["type"] == "sessions":
                await self._open.wait()
            browser.send(message)

        server.on_message(from_hub)


async def test_they_come_in_parts_and_the_list_says_so(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub, "narrow")
    parts = HeldParts()
    await parts.hold(page)
    await page.reload()
    await expect(page.locator(".session strong").first).to_have_text(f"Task-{COUNT - 1}.")
    status = page.locator(".sessions > [role=status]")
    await expect(status).to_have_text("Shown so far: 200 sessions. 2,800 more are coming …")
    assert await faults(page) == []
    await page.get_by_role("searchbox", name="Filter sessions").fill("Task-0000.")
    await expect(status).to_contain_text("Searched so far: 200 sessions.")
    await expect(page.get_by_text("No matching sessions.")).to_have_count(0)
    parts.release()
    await expect(page.locator(".session strong")).to_have_text(["Task-0000."])
    await expect(status).to_have_text("")


async def test_an_old_one_is_opened_by_its_address(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub)
    parts = HeldParts()  # they never come: it is asked for by name
    await parts.hold(page)
    await page.goto(f"{hub.url}/s/task-{OLDEST}")
    await expect(page.get_by_role("heading", name="Task-0000.")).to_be_visible()
    await page.goto(f"{hub.url}/s/no-such-session")
    await expect(page.get_by_text("Loading …").first).to_be_visible()
    await expect(page.get_by_text("Session not found")).to_have_count(0)
    parts.release()
    await expect(page.get_by_text("Session not found")).to_be_visible()


async def test_after_a_sleep_what_was_removed_meanwhile_is_gone(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub)
    search = page.get_by_role("searchbox", name="Filter sessions")
    titles = page.locator(".session strong")
    status = page.locator(".sessions > [role=status]")
    await search.fill("Task-050")
    await expect(titles).to_have_count(10)
    await hub.kill()
    await put(hub, record(502, "Task-0502, renamed."), record(COUNT, "Task-0509b."), remove=(503, 504))
    await hub.start()
    await expect(titles).to_have_text(
        [f"Task-050{mark}" for mark in ("9b.", "9.", "8.", "7.", "6.", "5.", "2, renamed.", "1.", "0.")]
    )
    await expect(status).to_have_text("")
    # The first part has neither the removed nor the renamed one: they were known from before.
    await search.fill("")
    await expect(page.get_by_role("button", name="2899 more")).to_be_visible()
