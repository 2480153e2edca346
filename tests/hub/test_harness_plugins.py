"""The routes of plugins inside harnesses: the owner's socket opens them, and nothing else does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2 as httpx
import msgspec
import pytest
from tests.mesh.mcp_clients import MeshHub, mesh_hub

from tieline.hub.routes.harness_plugins import LARGE
from tieline.hub.security import access_rules
from tieline.mesh.plugin_connector import MAX_READING
from tieline.mesh.push import HarnessSession
from tieline.testing.wait_for import eventually

PATH = "/api/v1/harness-plugins"
SESSIONS, HANDED_OVER, EVENTS = (f"{PATH}/opencode/{what}" for what in ("sessions", "handed-over", "events"))


@pytest.mark.slow
async def test_a_plugin_registers_its_sessions_and_gets_their_texts(tmp_path: Path) -> None:
    async with mesh_hub(tmp_path) as hub, hub.http() as http:
        reach = hub.hub.plugin_connectors["opencode"]
        async with asyncio.timeout(60), http.stream("GET", f"{PATH}?harness=opencode") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = stream.aiter_lines()
            link = (await data(lines))["link"]
            session = {"id": "ses_1", "cwd": str(tmp_path), "activity": "idle"}
            reply = await http.post(SESSIONS, json={"link": link, "sessions": [session]})
            assert reply.status_code == 204
            await eventually(lambda: agents(hub) == [("ses_1", "idle", False)], "it did not register")
            pushing = asyncio.create_task(reach.push(HarnessSession(harness="opencode", session="ses_1"), "hi", "eve"))
            text = await data(lines)
            assert (text["session"], text["text"], text["sender"]) == ("ses_1", "hi", "eve")
            reply = await http.post(HANDED_OVER, json={"link": link, "text": text["text_id"]})
            assert reply.status_code == 204
            await pushing
            reply = await http.post(HANDED_OVER, json={"link": link, "text": text["text_id"]})
            assert reply.status_code == 404
        await eventually(lambda: agents(hub) == [("ses_1", "unknown", True)], "its end was not noticed")
        assert (await http.post(SESSIONS, json={"link": link, "sessions": []})).status_code == 404


async def test_whoever_is_not_the_owner_at_the_socket_is_refused(tmp_path: Path) -> None:
    async with mesh_hub(tmp_path) as hub:
        _, key = await hub.hub.devices.add("client", "a laptop")
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=hub.serving.url, headers=headers, timeout=60.0, verify=False) as client:
            replies = [
                await client.get(f"{PATH}?harness=opencode"),
                await client.post(SESSIONS, json={"link": "x"}),
                await client.post(HANDED_OVER, json={"link": "x", "text": "y"}),
            ]
        assert [reply.status_code for reply in replies] == [403, 403, 403]
        assert "owner's socket" in replies[0].json()["detail"]


async def test_wrong_requests_are_refused_clearly(tmp_path: Path) -> None:
    async with mesh_hub(tmp_path) as hub, hub.http() as http:
        assert (await http.get(f"{PATH}?harness=nobody")).json()["field"] == "harness"
        assert (await http.get(PATH)).status_code == 404
        assert (await http.post(PATH, json={})).status_code == 400
        wrong = {"link": "x", "sessions": [{"id": "ses_1", "activity": "asleep"}]}
        assert (await http.post(SESSIONS, json=wrong)).json()["code"] == "UsageError"
        many = {"link": "x", "sessions": [{"id": f"ses_{n}"} for n in range(51)]}
        assert (await http.post(SESSIONS, json=many)).json()["field"] == "sessions"


async def test_a_part_of_a_history_waits_for_its_turn_however_long_other_requests_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with mesh_hub(tmp_path) as hub, hub.http() as http, AsyncExitStack() as others:
        reach = hub.hub.plugin_connectors["opencode"]
        for _ in range(MAX_READING):
            await others.enter_async_context(reach.reading)
        monkeypatch.setattr(access_rules, "RESPONSE_S", 0)
        part = {"link": "x", "session": "ses_1", "events": [{"type": "x" * LARGE}]}
        telling = asyncio.create_task(http.post(EVENTS, json=part))
        await eventually(lambda: bool(reach.reading._waiters), "it does not wait for its turn")
        assert (await http.get(f"{PATH}?harness=nobody")).status_code == 404  # a round trip: it would be refused by now
        assert not telling.done()
        await others.aclose()
        assert (await telling).json()["field"] == "session"


async def test_a_text_that_was_cut_in_the_middle_of_a_character_is_taken(tmp_path: Path) -> None:
    async with mesh_hub(tmp_path) as hub, hub.http() as http:
        body = b'{"link":"x","session":"ses_1","events":[{"type":"cut \\ud83d"}]}'
        assert (await http.post(EVENTS, content=body)).json()["field"] == "session"


async def data(lines: AsyncIterator[str]) -> dict[str, str]:
    async for line in lines:
        if line.startswith("data: "):
            return msgspec.json.decode(line[6:])
    raise AssertionError("the stream ended")


def agents(hub: MeshHub) -> list[tuple[str, str, bool]]:
    members = hub.mesh.directory.members(ended=True)
    return [(member.session, member.activity, member.ended) for member in members if member.kind == "agent"]
