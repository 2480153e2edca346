"""The members on the page: who is there, what they do, and a conversation with one."""

import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from playwright.async_api import Page, expect
from tests.browser.conftest import OpenPage
from tests.browser.hub import HubProcess

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

Shot = Callable[[Page, str], Awaitable[None]]


class Agent:
    """An agent in a harness of this machine, as the hub's MCP server knows it."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def call(self, tool: str, **arguments: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        reply = await self._http.post("/mcp", json=body)
        assert reply.status_code == 200, reply.text
        lines = [line.removeprefix("data:") for line in reply.text.splitlines() if line.startswith("data:")]
        result = json.loads(lines[-1] if lines else reply.text)["result"]
        assert not result.get("isError"), result
        return result["structuredContent"]


@asynccontextmanager
async def harness(hub: HubProcess, session: str) -> AsyncGenerator[Agent, None]:
    socket = json.loads((hub.root / "state" / "hub.json").read_text())["socket"]
    headers = {
        "X-Tieline-Harness": "codex",
        "X-Tieline-Session": session,
        "X-Tieline-Cwd": str(hub.repository),
        "Accept": "application/json, text/event-stream",
    }
    way = httpx2.AsyncHTTPTransport(uds=socket, verify=False)
    async with httpx2.AsyncClient(base_url=hub.url, transport=way, headers=headers, timeout=60.0) as http:
        who = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "codex", "version": "1"}}
        reply = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": who})
        assert reply.status_code == 200, reply.text
        http.headers["Mcp-Session-Id"] = reply.headers["mcp-session-id"]
        await http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield Agent(http)


async def test_find_a_member_write_to_it_and_read_its_answer(hub: HubProcess, open_page: OpenPage, shot: Shot) -> None:
    await hub.session(title="a driven session")
    page = await open_page(hub, path="/messages")  # as a person: later this process is an agent's harness as well
    async with harness(hub, "terminal-1") as ada:
        await ada.call("register_agent", name="ada", description="database migrations", role="backend", project="shop")
        await ada.call("heartbeat", activity="idle")
        await page.get_by_role("link", name="Members").click()
        row = page.get_by_role("main").get_by_role("link", name=re.compile("ada"))
        for text in ("backend · database migrations", "Codex", "shop", "idle"):
            await expect(row).to_contain_text(text)
        await expect(page.get_by_role("main").get_by_role("link", name=re.compile("a driven session"))).to_be_visible()
        await page.get_by_label("Search members").fill("datbase migratons")
        await expect(page.get_by_role("main").get_by_role("link", name=re.compile("a driven session"))).to_have_count(0)
        await row.click()
        await expect(page.get_by_role("heading", name="ada", exact=True)).to_be_visible()
        await page.get_by_label("To ada").fill("Is the migration merged?")
        await page.get_by_role("button", name="Send").click()
        log = page.get_by_role("log")
        question = log.get_by_role("article").filter(has_text="Is the migration merged?")
        await expect(question).to_contain_text("waits in the inbox")
        (message,) = (await ada.call("fetch_messages"))["messages"]
        assert "Is the migration merged?" in message["text"]
        async with page.expect_response(re.compile("/inboxes/relay.user.owner/read")):  # what is shown is read
            await ada.call("reply", message_id=message["id"], text="Since an hour ago.")
        await expect(log.get_by_role("article").filter(has_text="Since an hour ago.")).to_contain_text("ada")
        await expect(question).to_contain_text("answered")
        await shot(page, "phone-member")
        await page.goto(f"{hub.url}/members")
        await expect(row).to_be_visible()
        await shot(page, "phone-members")
        await page.goto(f"{hub.url}/inboxes")
        await expect(page.get_by_role("listitem").filter(has_text="you").locator(".badge")).to_have_count(0)
        await page.goto(f"{hub.url}/messages")
        await expect(page.get_by_role("main").get_by_role("link", name=re.compile("ada"))).to_be_visible()
