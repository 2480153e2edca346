"""The page's key: of its own origin alone. What an agent serves on another port of the same host gets nothing of it."""

import asyncio

import pytest
from playwright.async_api import Response
from tests.browser.conftest import OpenPage
from tests.browser.hub import HubProcess

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

READ = """async () => {
  const names = (await indexedDB.databases()).map((one) => one.name)
  return { names, cookie: document.cookie, kept: Object.keys(localStorage) }
}"""

KEYS = """() => new Promise((done, failed) => {
  const request = indexedDB.open('tieline', 1)
  request.onerror = () => failed(request.error)
  request.onsuccess = () => {
    const all = request.result.transaction('keys').objectStore('keys').getAll()
    all.onsuccess = () => { request.result.close(); done(all.result) }
  }
})"""
"""What the page keeps of its keys."""


async def test_a_server_on_another_port_gets_no_key(hub: HubProcess, open_page: OpenPage) -> None:
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\nConnection: close\r\n\r\nhere"
        )
        await writer.drain()
        writer.close()

    page = await open_page(hub, "phone")
    answers: list[Response] = []
    page.on("response", lambda response: answers.append(response))
    await page.goto(await hub.login())  # once more: the browser would drop a cookie that comes with an answer unasked
    await page.reload()
    await page.locator('.connection[data-hub="online"]').first.wait_for()
    assert [answer.status for answer in answers if answer.url.endswith("/api/v1/login")] == [200]
    assert not [answer.url for answer in answers if "set-cookie" in await answer.all_headers()]
    assert await page.context.cookies() == []
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        other = await page.context.new_page()
        await other.goto(f"http://127.0.0.1:{port}/")
        assert await other.evaluate(READ) == {"names": [], "cookie": "", "kept": []}
        await other.evaluate("fetch('/again', { credentials: 'include' }).then((reply) => reply.text())")
    assert len(heads) >= 2
    for head in heads:
        assert "cookie:" not in head.lower() and "tl_" not in head
    # It is still signed in, also when it is loaded anew.
    await page.reload()
    await page.locator('.connection[data-hub="online"]').first.wait_for()
    await other.close()


async def test_who_signs_out_leaves_no_key(hub: HubProcess, open_page: OpenPage) -> None:
    page = await open_page(hub, "phone", path="/settings")
    assert [key[:3] for key in await page.evaluate(KEYS)] == ["tl_"]
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_role("button", name="Sign in").wait_for()
    assert await page.evaluate(KEYS) == []
    await page.reload()
    await page.get_by_role("button", name="Sign in").wait_for()
