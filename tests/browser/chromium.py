"""Debian's Chromium, driven by Playwright."""

import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright
from tests.browser.hub import NAME

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
OFF = (
    # What Playwright switches off, of which Chromium takes the last list alone.
    "AvoidCorsURLLoaderRestartOnRedirect", "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades", "LensOverlay", "MediaRouter", "NetworkTimeServiceQuerying",
    "OptimizationHints", "PaintHolding", "PreconnectToSearch", "ThirdPartyStoragePartitioning",
    # Two processes for the address bar of each window, which nobody sees here: they take as much as the page.
    "WebUIOmniboxPopup", "WebUIOmniboxAimPopup",
)  # fmt: skip
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    f"--host-resolver-rules=MAP {NAME} 127.0.0.1", f"--disable-features={','.join(OFF)}",
]  # fmt: skip


def text_size(times: int) -> str:
    """The flag for a person who has set their text to so many times the usual size."""
    return f"--blink-settings=defaultFontSize={16 * times}"


@asynccontextmanager
async def chromium(env: Mapping[str, str] | None = None, *, more: Sequence[str] = ()) -> AsyncGenerator[Browser, None]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*FLAGS, *more], env=dict(env) if env else None, timeout=60_000
        )
        try:
            yield browser
        finally:
            await browser.close()
