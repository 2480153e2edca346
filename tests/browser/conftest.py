"""One hub per file. Screenshots are kept in `artifacts/browser`."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, expect
from tests.browser.hub import HubProcess

WAIT_MS = 30_000
ARTIFACTS = Path(__file__).parents[2] / "artifacts" / "browser"
SIZES: dict[str, ViewportSize] = {
    "phone": {"width": 360, "height": 740},
    "tablet": {"width": 820, "height": 1100},
    "desktop": {"width": 1280, "height": 800},
    "wide": {"width": 1440, "height": 900},
    "iphone": {"width": 390, "height": 844},
    "narrow": {"width": 320, "height": 640},
}
TOUCHED = frozenset({"phone", "tablet", "iphone", "narrow"})

expect.set_options(timeout=WAIT_MS)

LINGER = """
const set = window.setTimeout
window.setTimeout = (then, ms, ...rest) => set(then, ms === 5000 ? 120000 : ms, ...rest)
"""
"""What was decided leaves the list after five seconds: on a busy machine before a test has looked at it."""

OpenPage = Callable[..., Awaitable[Page]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[HubProcess, None]:
    async with HubProcess(tmp_path_factory.mktemp("hub")) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(browser: Browser, request: pytest.FixtureRequest) -> AsyncGenerator[OpenPage, None]:
    """`await open_page(hub, size="phone", dark=False)`: a new browser profile, signed in. Anything that the page
    complains about fails the test; a screenshot of its end is kept."""
    complaints: list[str] = []
    name = re.sub(r"\W+", "-", request.node.name).strip("-")
    async with AsyncExitStack() as stack:
        pages: list[Page] = []

        async def opener(
            hub: HubProcess, size: str = "phone", *, dark: bool = False, path: str = "", **more: Any
        ) -> Page:
            scheme = "dark" if dark else "light"
            context: BrowserContext = await browser.new_context(
                viewport=SIZES[size], device_scale_factor=1, color_scheme=scheme, has_touch=size in TOUCHED,
                reduced_motion="reduce", **more,
            )  # fmt: skip
            stack.push_async_callback(context.close)
            context.set_default_timeout(WAIT_MS)
            context.set_default_navigation_timeout(WAIT_MS)
            await context.add_init_script(LINGER)
            page = await context.new_page()
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("console", lambda message: _heard(complaints, hub, message.type, message.text))
            await page.goto(await hub.login())
            await expect(page.locator(".connection").first).to_have_attribute("data-hub", "online")
            if path:
                await page.goto(hub.url + path)
                await expect(page.locator(".connection").first).to_have_attribute("data-hub", "online")
            pages.append(page)
            return page

        yield opener
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        for number, page in enumerate(pages):
            if not page.is_closed():
                await page.screenshot(path=ARTIFACTS / f"{name}-{number}.png")
    assert complaints == []


AWAY = r"ERR_(CONNECTION|INTERNET)|WebSocket connection|status of (4|5)\d\d|Opener-Policy header has been ignored"
CUT_OFF = r"ERR_(EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING|CONTENT_LENGTH_MISMATCH|SOCKET_NOT_CONNECTED)"


def _heard(complaints: list[str], hub: HubProcess, kind: str, text: str) -> None:
    """What browsers say about a hub that is away, or that has a name but no TLS, is no fault of the page's; nor is a
    request that was under way when the hub was killed."""
    if kind not in ("error", "warning") or re.search(AWAY, text) or (hub.was_killed and re.search(CUT_OFF, text)):
        return
    complaints.append(text)


@pytest.fixture
def shot(request: pytest.FixtureRequest) -> Callable[[Page, str], Awaitable[None]]:
    async def take(page: Page, name: str) -> None:
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        await page.screenshot(path=ARTIFACTS / f"{name}.png")

    return take
