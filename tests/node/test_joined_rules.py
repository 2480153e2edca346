"""Rules on a machine that is joined to a hub: they come by the link, a revoked one stops, the hub knows who heard."""

from pathlib import Path
from typing import Any

import pytest
from tests.hub.conftest import Running
from tests.node.conftest import Node, executor_at, hub_at, joined_to, key_of, node_at, settings, until, until_done
from tests.node.test_hub_link import begin, tell

from tieline.events import Answer, Ask, Command
from tieline.node.command_inbox import CommandInbox
from tieline.node.link_connection import LinkConnection
from tieline.node.node_identity import identify
from tieline.node.result_outbox import ResultOutbox
from tieline.policy import Policy
from tieline.protocol import commands as c
from tieline.protocol.node_link import AnyDownFrame, AnyUpFrame, LinkWelcome
from tieline.script import Run, Say
from tieline.sessions.ask_rules import AskOrigin

RUN = Ask("a", "permission", action=Command("true x"), input={"command": "true x"}, capability="shell")


async def decided(node: Node) -> Answer | None:
    return await node.manager.rules.decide(RUN, AskOrigin("scripted", node.id, node.cwd))


async def add(hub: Running, **more: Any) -> str:
    reply = await hub.client.post("/api/v1/rules", json={"match": "prefix", "pattern": "true", **more})
    assert reply.status_code == 201, reply.text
    return reply.json()["id"]


async def waiting(hub: Running, rule: str) -> list[str]:
    return list((await hub.client.get(f"/api/v1/rules/{rule}")).json()["waiting"])


async def heard(hub: Running, rule: str) -> None:
    async def nobody_waits() -> bool:
        return not await waiting(hub, rule)

    await until(nobody_waits, "the machine does not hear of it")


async def test_a_rule_holds_on_a_joined_machine_until_it_is_revoked(hub: Running, tmp_path: Path) -> None:
    async with joined_to(hub, tmp_path / "node", [[Run("true x"), Say("ran")]]) as node:
        rule = await add(hub)
        await heard(hub, rule)
        await begin(hub.hub, node, "s", Policy())
        await tell(hub.hub, node.id, c.SendPrompt(session="s", prompt="p", text="go"))
        answers = [event for event in await until_done(hub.hub.bus, "s") if isinstance(event, Answer)]
        assert [(answer.decision, answer.by, answer.rule) for answer in answers] == [("allow", "rule", rule)]

        async def counted() -> bool:
            return (await hub.client.get(f"/api/v1/rules/{rule}")).json()["uses"] == 1

        await until(counted, "the hub does not know that the rule decided")
        assert (await hub.client.delete(f"/api/v1/rules/{rule}")).status_code == 200
        await heard(hub, rule)
        assert await decided(node) is None


async def test_a_machine_that_is_away_hears_when_it_is_back(hub: Running, tmp_path: Path) -> None:
    folder = tmp_path / "node"
    key = await key_of(hub.hub, identify(settings(folder).environ))
    async with node_at(folder, hub.url, key) as node:
        await node.joined()
        first = await add(hub)
        await heard(hub, first)
    name = (await hub.hub.nodes.get(node.id)).name
    assert (await hub.client.delete(f"/api/v1/rules/{first}")).json()["waiting"] == [name], "it still holds there"
    second = await add(hub, pattern="true x")
    assert await waiting(hub, second) == [name], "it does not hold there yet"
    async with node_at(folder, hub.url, key) as node:
        await heard(hub, first)
        await heard(hub, second)
        answer = await decided(node)
        assert answer is not None and answer.rule == second


async def test_rules_are_told_to_the_machine_that_they_are_for(hub: Running, tmp_path: Path) -> None:
    async with joined_to(hub, tmp_path / "node") as node:
        other = await add(hub, node=hub.hub.dispatcher.local)
        everywhere = await add(hub, pattern="true y")
        await heard(hub, everywhere)
        assert await waiting(hub, other) == []
        assert [rule.id for rule in await node.manager.rules.rules()] == [everywhere]
        assert await decided(node) is None


async def test_another_hub_s_rules_do_not_stay(hub: Running, tmp_path: Path) -> None:
    folder = tmp_path / "node"
    async with joined_to(hub, folder) as node:
        await heard(hub, await add(hub))
        assert await decided(node) is not None
    async with hub_at(tmp_path / "other") as other:
        key = await key_of(other.hub, identify(settings(folder).environ))
        async with node_at(folder, other.url, key) as node:
            await node.joined()
            assert await decided(node) is None


async def test_a_hub_of_an_older_version_leaves_none(hub: Running, tmp_path: Path) -> None:
    async with joined_to(hub, tmp_path / "node") as node:
        await heard(hub, await add(hub))
        assert await decided(node) is not None

    async def hears_nothing() -> AnyDownFrame:
        raise EOFError

    async def send(frame: AnyUpFrame) -> None:
        pass

    async with executor_at(tmp_path / "node") as (executor, bus):
        assert await executor.manager.rules.rules()
        welcome = LinkWelcome(protocol=1, epoch="e", limits=("rules",))
        inbox, outbox = CommandInbox(bus, "x"), ResultOutbox(bus, "x")
        await inbox.load()
        await outbox.load()
        with pytest.raises(ExceptionGroup):
            await LinkConnection(bus, executor, inbox, outbox, welcome, send, hub.url).run(hears_nothing)
        assert await executor.manager.rules.rules() == [], "it would not say when one is revoked"
