"""Rules with SIGKILL and with two hubs on one bus: what was acknowledged holds, on every hub, at once."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.bus.conftest import address
from tests.cli.hub_process import HubProcess
from tests.hub.conftest import Running, running
from tests.hub.test_rule_routes import add, answer, answers, prompt
from tests.relay.conftest import url as url

from tieline.bus import open_bus
from tieline.client import connect
from tieline.client.client import Client
from tieline.events import Answer, Ask, Event
from tieline.protocol.request_bodies import NewSession
from tieline.protocol.rules import NewRule
from tieline.script import Run, Say
from tieline.testing.cli_process import CliProcess

KILLS = 4


async def decided(client: Client, folder: Path) -> list[str]:
    """Who decides what a new session asks."""

    def refuse(ask: Ask) -> bool:
        return False

    session = NewSession(agent="bot", cwd=str(folder), policy="ask")
    events: list[Event] = [event async for event in client.turn(session, "go", on_ask=refuse)]
    return ["rule" if event.rule else "person" for event in events if isinstance(event, Answer)]


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_saved_is_saved_and_revoked_is_revoked_whenever_the_hub_dies(url: str, tmp_path: Path) -> None:
    cli = CliProcess(tmp_path.resolve() / "cli")
    cli.configure(f'bus = "{url}"\n')
    cli.agent("bot", [Run("true x")], [Say("done")])
    hub = HubProcess(cli)
    await asyncio.to_thread(hub.start)
    try:
        for _ in range(KILLS):
            async with connect(cli.env) as client:
                rule = await client.add_rule(NewRule(match="prefix", pattern="true", directory=str(cli.place)))
            await asyncio.to_thread(hub.kill)
            await asyncio.to_thread(hub.start)
            async with connect(cli.env) as client:
                assert await decided(client, cli.place) == ["rule"]
                await client.revoke_rule(rule.id)
            await asyncio.to_thread(hub.kill)
            await asyncio.to_thread(hub.start)
            async with connect(cli.env) as client:
                assert await decided(client, cli.place) == ["person"]
    finally:
        await asyncio.to_thread(hub.stop)


async def test_two_hubs_on_one_nats_server(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(address("nats", tmp_path))
        hubs: list[Running] = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            bus = await stack.enter_async_context(open_bus(server))
            hubs.append(await stack.enter_async_context(running(tmp_path / name, bus=bus)))
        first, second = hubs
        made = await add(first, match="prefix", pattern="true")
        session = await prompt(second, Run("true x"))
        assert [answer.rule for answer in await answers(second, session)] == [made["id"]], (
            "made at one, it holds at both"
        )
        shown = (await first.client.get(f"/api/v1/rules/{made['id']}")).json()
        assert (shown["uses"], shown["waiting"]) == (1, [])
        assert (await second.client.delete(f"/api/v1/rules/{made['id']}")).status_code == 200
        session = await prompt(first, Run("true x"))
        await answer(first, session, "deny")
        again = await asyncio.gather(
            *(hub.client.post("/api/v1/rules", json={"match": "exact", "pattern": "x", "id": "r1"}) for hub in hubs)
        )
        assert [reply.status_code for reply in again] == [201, 201] and again[0].json() == again[1].json()
