"""The page in a real browser: what it weighs, and that a thread of 10,000 events and a list of 10,000 sessions cost no
more than those of 100."""

import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from playwright.async_api import Browser, Page, Playwright, async_playwright

from tieline.bus import open_bus
from tieline.bus.base import Bus
from tieline.events import Command as CommandAction
from tieline.events import Done, Text, ToolResult, ToolUse, TurnStarted, encode
from tieline.paths import socket_file
from tieline.sessions.event_log import subject
from tieline.sessions.records import SESSIONS, SessionRecord
from tieline.testing.rig import scratch_env

from .rows import Row, at_most

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
FEW, MANY = 100, 10_000
ROUNDS = 7
LIMIT_BYTES = 150 * 1024
PAINTED = """() => document.querySelectorAll('[data-row]').length > 3
  && document.querySelector('.thread-scroll').scrollTop > 0"""
LISTED = """new MutationObserver((_, observer) => {
  if (!document.querySelector('.session')) return
  observer.disconnect()
  requestAnimationFrame(() => setTimeout(() => { window.listedAfter = performance.now() }))
}).observe(document, { childList: true, subtree: true })"""
"""Milliseconds from the navigation until the first sessions are painted."""
CHANGES = 40
SHOWN = """title => new Promise((done) => {
  const shown = () => document.querySelector('.session strong').textContent === title
  const observer = new MutationObserver(() => { if (shown()) { observer.disconnect(); requestAnimationFrame(done) } })
  observer.observe(document, { childList: true, subtree: true, characterData: true })
  if (shown()) done()
})"""
"""Until the session at the top is drawn with this title."""
UNPACED = ["--disable-frame-rate-limit", "--disable-gpu-vsync"]
"""A frame follows when the one before is done, so that nobody waits for the screen."""
STEP, STEPS, SCROLLS = 100, 2000, 3
"""Pixels a frame, as a hard flick on a phone has them: far enough for thousands of events."""
SCROLL = """async ([step, steps, turns]) => {
  const box = document.querySelector('.thread-scroll')
  const frame = () => new Promise(requestAnimationFrame)
  let by = -step
  for (let done = 0, still = 0; done < steps;) {
    const before = box.scrollTop
    box.scrollTop += by
    await frame()
    if (box.scrollTop !== before) { done++; still = 0 }
    else if (turns) by = -by  // a short thread, up and down
    else if (++still > 2000) throw new Error('no older page came')
  }
}"""


Fill = Callable[[Bus], Awaitable[None]]


async def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        async with _hub(root, _fill_logs) as (url, client), async_playwright() as playwright:
            few, many = await _sessions(client, root)
            chromium = shutil.which("chromium") or "/usr/bin/chromium"
            browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            try:
                weight = await _weight(browser, url, client)
                opened = await _opened(browser, client, few, many)
            finally:
                await browser.close()
            browser = await playwright.chromium.launch(executable_path=chromium, args=[*FLAGS, *UNPACED])
            try:
                scrolled, pages = await _scrolled(browser, client, few, many)
            finally:
                await browser.close()
            listed, changed = await _lists(playwright, chromium, root)
    return [
        at_most("page, first useful paint from a cold cache: bytes : 150 KB", weight, LIMIT_BYTES, 1.0, "transferred"),
        at_most(f"thread of {MANY:,} events, opened : one of {FEW}", opened[1], opened[0], 2.0, "windowed"),
        at_most(
            f"thread of {MANY:,} events, scrolled, a frame of {STEP} px : one of {FEW}",
            scrolled[1],
            scrolled[0],
            2.0,
            f"all that the browser's main thread does; {STEPS:,} frames, over {pages} older pages of 200 events",
        ),
        at_most(
            f"list of {MANY:,} sessions, loaded, first useful paint : one of {FEW}",
            listed[1],
            listed[0],
            1.2,
            "those that matter come first, the others in parts",
        ),
        at_most(
            f"list of {MANY:,} sessions, one of them changes : a frame of 60 a second",
            changed[1],
            1 / 60,
            1.0,
            f"all that the browser's main thread does; with {FEW} sessions {changed[0] * 1000:.1f} ms",
        ),
    ]


@asynccontextmanager
async def _hub(root: Path, fill: Fill) -> AsyncGenerator[tuple[str, httpx2.AsyncClient], None]:
    """A hub of its own, whose bus is filled before it starts."""
    env = scratch_env(root / "home", path=f"{Path(sys.executable).parent}:/usr/bin:/bin", TIELINE_HOME=str(root / "s"))
    (root / "s").mkdir(parents=True, mode=0o700)
    async with open_bus(f"sqlite://{root / 's' / 'bus.db'}") as bus:
        await fill(bus)
    read_end, ready = os.pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tieline.bootstrap", json.dumps({"port": 0, "ready": ready}),
        cwd=root, env=env, pass_fds=[ready], stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    os.close(ready)
    try:
        started = json.loads(await asyncio.to_thread(os.read, read_end, 65536))
        way = httpx2.AsyncHTTPTransport(uds=str(socket_file(env)), verify=False)
        async with httpx2.AsyncClient(base_url=f"{started['url']}/api/v1/", transport=way, timeout=60) as client:
            yield started["url"], client
    finally:
        os.close(read_end)
        process.terminate()
        await process.wait()


async def _fill_logs(bus: Bus) -> None:
    """Two logs, for the sessions that are made when the hub runs."""
    for session, count in (("few", FEW), ("many", MANY)):
        pending = [bus.publish(subject(session), encode(_event(number))) for number in range(count)]
        for start in range(0, count, 500):
            await asyncio.gather(*pending[start : start + 500])


def _fill_sessions(count: int) -> Fill:
    async def fill(bus: Bus) -> None:
        table = bus.table(SESSIONS)
        pending = [table.put(f"session-{number}", msgspec.json.encode(_session(number))) for number in range(count)]
        for start in range(0, count, 500):
            await asyncio.gather(*pending[start : start + 500])

    return fill


def _session(number: int) -> SessionRecord:
    return SessionRecord(
        id=f"session-{number}",
        agent=("claude-code", "codex", "opencode")[number % 3],
        cwd=f"/home/me/projects/project-{number % 50}",
        title=f"Number {number}: make the tests of the importer fast again",
        branch="main",
        turns=number % 7,
        created_at=1_700_000_000.0 + number,
        active_at=1_700_000_000.0 + number * 7919 % 1_000_003,
        last_line="All 214 tests pass now, and the slowest takes two seconds. Shall I go on with the exporter?",
    )


def _event(number: int) -> Any:
    match number % 5:
        case 0:
            return TurnStarted(f"Prompt {number}: please look at it once more.")
        case 1:
            return Text(f"Part {number}. It has **words**, `code` and a list:\n\n- one\n- two\n", item=str(number))
        case 2:
            return ToolUse(f"t{number}", "Bash", CommandAction(f"make target-{number}"), {})
        case 3:
            return ToolResult(f"t{number - 1}", "ok", "done\n" * 5)
        case _:
            return Done("success", duration_s=1.0)


async def _sessions(client: httpx2.AsyncClient, root: Path) -> tuple[str, str]:
    cwd = root / "place"
    cwd.mkdir()
    for id in ("few", "many"):
        answer = await client.post("sessions", json={"id": id, "agent": "scripted", "cwd": str(cwd)})
        answer.raise_for_status()
    return "few", "many"


async def _signed_in(browser: Browser, client: httpx2.AsyncClient) -> Page:
    context = await browser.new_context(viewport={"width": 412, "height": 915})
    page = await context.new_page()
    link = (await client.post("pairings", json={"kind": "page"})).json()["url"]
    await page.goto(link)
    await page.wait_for_selector(".session")
    return page


async def _lists(playwright: Playwright, chromium: str, root: Path) -> tuple[list[float], list[float]]:
    """Of few and of many sessions, in turns: seconds until the first of them are painted, and what the browser's main
    thread works when one of them changes."""
    listed: list[list[float]] = [[], []]
    changed: list[float] = []
    async with AsyncExitStack() as stack:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        stack.push_async_callback(browser.close)
        pages: list[tuple[Page, httpx2.AsyncClient]] = []
        for count in (FEW, MANY):
            folder = root / f"list-{count}"
            _, client = await stack.enter_async_context(_hub(folder, _fill_sessions(count)))
            answer = await client.post("sessions", json={"id": "changes", "agent": "scripted", "cwd": str(folder)})
            answer.raise_for_status()
            page = await _signed_in(browser, client)
            await page.add_init_script(LISTED)
            pages.append((page, client))
        for _ in range(ROUNDS):
            for (page, _), taken in zip(pages, listed, strict=True):
                await page.reload()
                milliseconds = await (await page.wait_for_function("() => window.listedAfter")).json_value()
                taken.append(milliseconds / 1000)
                await page.wait_for_function("() => !document.querySelector('.sessions > [role=status]').textContent")
        for page, client in pages:
            devtools: Any = await page.context.new_cdp_session(page)
            await devtools.send("Performance.enable")
            before = await _busy(devtools)
            for number in range(CHANGES):
                shown = asyncio.ensure_future(page.evaluate(SHOWN, f"Change {number}"))
                (await client.patch("sessions/changes", json={"title": f"Change {number}"})).raise_for_status()
                await shown
            changed.append((await _busy(devtools) - before) / CHANGES)
    return [statistics.median(taken) for taken in listed], changed


async def _weight(browser: Browser, url: str, client: httpx2.AsyncClient) -> float:
    """All bytes that come over the wire until the list of sessions is there."""
    context = await browser.new_context(viewport={"width": 412, "height": 915}, service_workers="block")
    page = await context.new_page()
    devtools = await context.new_cdp_session(page)
    await devtools.send("Network.enable")  # pyright: ignore[reportUnknownMemberType]
    sizes: list[float] = []

    def finished(event: dict[str, Any]) -> None:
        sizes.append(event["encodedDataLength"])

    def framed(event: dict[str, Any]) -> None:
        sizes.append(len(event["response"]["payloadData"]))

    devtools.on("Network.loadingFinished", finished)
    devtools.on("Network.webSocketFrameReceived", framed)
    await page.goto((await client.post("pairings", json={"kind": "page"})).json()["url"])
    await page.wait_for_selector(".session")
    await context.close()
    return sum(sizes)


async def _open(browser: Browser, client: httpx2.AsyncClient, session: str) -> tuple[Page, float]:
    """A session's thread, and how long it took until it was there."""
    page = await _signed_in(browser, client)
    start = time.perf_counter()
    await page.locator(f"a[href='/s/{session}']").click()
    await page.wait_for_function(PAINTED)
    return page, time.perf_counter() - start


async def _opened(browser: Browser, client: httpx2.AsyncClient, *sessions: str) -> list[float]:
    taken: dict[str, list[float]] = {session: [] for session in sessions}
    for _ in range(ROUNDS):
        for session in sessions:
            page, seconds = await _open(browser, client, session)
            taken[session].append(seconds)
            await page.context.close()
    return [statistics.median(taken[session]) for session in sessions]


async def _scrolled(browser: Browser, client: httpx2.AsyncClient, few: str, many: str) -> tuple[list[float], int]:
    """What one frame of scrolling costs the browser's main thread, drawing and asking for older events included; and
    over how many older pages the long thread was scrolled."""
    taken: dict[str, list[float]] = {few: [], many: []}
    older: list[str] = []
    for _ in range(SCROLLS):
        for session in (few, many):
            page, _seconds = await _open(browser, client, session)
            page.on("request", lambda request: older.append(request.url) if "before=" in request.url else None)
            devtools: Any = await page.context.new_cdp_session(page)
            await devtools.send("Performance.enable")
            before = await _busy(devtools)
            await page.evaluate(SCROLL, [STEP, STEPS, session == few])
            taken[session].append((await _busy(devtools) - before) / STEPS)
            await page.context.close()
    return [statistics.median(taken[session]) for session in (few, many)], len(older) // SCROLLS


async def _busy(devtools: Any) -> float:
    """Seconds that the page's main thread has worked since they are counted: script, style, layout, paint."""
    metrics = (await devtools.send("Performance.getMetrics"))["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")
