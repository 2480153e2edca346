"""One hub, one page, for all rows that a worker plays."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from tests.asks.surfaces import Surfaces
from tests.browser.cards import ask_page


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def surfaces(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Surfaces, None]:
    async with ask_page(browser, tmp_path_factory.mktemp("page")) as page:
        yield Surfaces(page)
