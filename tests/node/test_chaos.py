"""The link under chaos: cut at random while agents stream, the hub killed, the node killed. Nothing is lost or doubled.

A few seconds in the suite; `make chaos` (CHAOS_SECONDS) for as long as one likes.
"""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from tests.bus.conftest import address
from tests.client.proxy import Proxy
from tests.node.conftest import until
from tests.node.processes import Daemon

from tieline.bootstrap.process_lock import StartOptions
from tieline.bus import Bus, open_bus
from tieline.client import Client, connect
from tieline.errors import TielineError
from tieline.events import Answer, AnyEvent, Ask, Done, TurnStarted, decode
from tieline.protocol.request_bodies import Claim, Decision, NewPrompt, NewSession, Pairing
from tieline.script import Run, Say
from tieline.sessions.records import PromptRecord

SECONDS = float(os.environ.get("CHAOS_SECONDS", "5"))
LONG = SECONDS > 20
SESSIONS = ("one", "two", "three")
PATIENCE_S = 60.0


class World:
    """A hub, a node, each on a bus of its own, the ways to the hub, and somebody who uses it."""

    def __init__(self, root: Path, hub_bus: str, node_bus: str) -> None:
        self.hub_bus = hub_bus
        self.node_bus = node_bus
        script = root / "script.json"
        replies = [[Say("so it goes " * 5, chunks=12, delay_s=0.004)], [Run("echo made")], [Say("and on")]]
        script.write_bytes(msgspec.json.encode(replies * 300))
        self.hub = Daemon(root / "hub", StartOptions(node=False, port=0), f'bus = "{hub_bus}"\n')
        agent = f'[agents.bot]\ntype = "scripted"\nscript = "{script}"\n'
        self.node = Daemon(root / "node", StartOptions(what="node"), f'bus = "{node_bus}"\n{agent}')
        self.rough = Proxy()  # the node's
        self.smooth = Proxy()  # ours
        self.accepted: dict[str, list[str]] = {session: [] for session in SESSIONS}
        self.cuts = 0

    async def hub_starts(self) -> None:
        await self.hub.start()
        self.rough.port = self.smooth.port = self.hub.port

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Client]:
        async with connect(self.hub.env) as owner:
            offer = await owner.pairing(Pairing(kind="client"))
            key = (await owner.pair(Claim(secret=offer.secret, name="tests"))).key
        async with Client(self.smooth.url, key, patience_s=PATIENCE_S) as client:
            yield client

    async def join(self, client: Client) -> str:
        return await self.node.join(client, self.rough.url, "rough")

    async def prompt(self, client: Client, session: str, number: int) -> str:
        id = f"{session}-{number}"
        await client.prompt(session, NewPrompt(id=id, text=f"prompt {id}"))
        self.accepted[session].append(id)
        return id

    async def keep_prompting(self, client: Client, session: str) -> None:
        for number in range(100_000):
            await self.prompt(client, session, number)
            await asyncio.sleep(random.uniform(0.0, 0.2))
            while len(await client.prompts(session)) > 5:  # noqa: ASYNC110 (not more than it can work off)
                await asyncio.sleep(0.1)

    async def keep_deciding(self, client: Client) -> None:
        while True:
            for ask in await client.asks():
                with suppress(TielineError):  # it was decided, or its turn ended, meanwhile
                    await client.answer(ask.id, Decision(decision="allow", digest=ask.digest))
            await asyncio.sleep(0.05)

    async def keep_cutting(self) -> None:
        while True:
            await asyncio.sleep(random.uniform(0.05, 0.8))
            self.cuts += self.rough.cut()

    async def keep_killing(self, until: float) -> None:
        """Hub and node in turn, at least once each, and until the link was cut as well."""
        while True:
            await asyncio.sleep(random.uniform(0.5, 4.0 if LONG else 1.0))
            await self.hub.kill()
            await self.hub_starts()
            await asyncio.sleep(random.uniform(0.2, 2.0 if LONG else 0.5))
            await self.node.kill()
            await self.node.start()
            if time.monotonic() > until and self.cuts:
                return


@asynccontextmanager
async def world(tmp_path: Path, kind: str) -> AsyncGenerator[World]:
    async with AsyncExitStack() as stack:
        hub_bus = await stack.enter_async_context(address(kind, tmp_path / "hub-bus"))
        node_bus = await stack.enter_async_context(address(kind, tmp_path / "node-bus"))
        made = World(tmp_path, hub_bus, node_bus)
        stack.push_async_callback(made.node.kill)
        stack.push_async_callback(made.hub.kill)
        await stack.enter_async_context(made.rough)
        await stack.enter_async_context(made.smooth)
        yield made


@pytest.mark.slow
@pytest.mark.timeout(max(120, SECONDS * 3))
@pytest.mark.parametrize("kind", ["sqlite", "nats"])
async def test_nothing_is_lost_or_doubled(tmp_path: Path, kind: str) -> None:
    async with world(tmp_path, kind) as here:
        await here.hub_starts()
        async with here.client() as client:
            node = await here.join(client)
            await here.node.start()
            for session in SESSIONS:
                policy = "ask" if session == "three" else "full"
                cwd = str(here.node.place)
                await client.create_session(NewSession(id=session, node=node, agent="bot", cwd=cwd, policy=policy))
            await until(lambda: all_there(client), "the sessions were not made")
            ends = time.monotonic() + SECONDS
            using = [asyncio.create_task(here.keep_prompting(client, session)) for session in SESSIONS]
            deciding = asyncio.create_task(here.keep_deciding(client))
            cutting = asyncio.create_task(here.keep_cutting())
            try:
                await here.keep_killing(ends)
                for task in using:
                    if task.done():
                        task.result()
                cutting.cancel()
                for task in using:
                    task.cancel()
                await asyncio.gather(cutting, *using, return_exceptions=True)
                last = [await here.prompt(client, session, 999_999) for session in SESSIONS]
                for session, id in zip(SESSIONS, last, strict=True):
                    await over(client, session, id)
            finally:
                for task in (deciding, cutting, *using):
                    task.cancel()
                await asyncio.gather(deciding, cutting, *using, return_exceptions=True)
        await here.node.kill()
        await here.hub.kill()
        assert here.cuts
        async with open_bus(here.hub_bus) as hub_bus, open_bus(here.node_bus) as node_bus:
            for session in SESSIONS:
                theirs, ours = await log(node_bus, session), await log(hub_bus, session)
                assert Counter(ours) == Counter(theirs)
                assert ours == theirs
                await once_each(node_bus, session, theirs, here.accepted[session])


async def all_there(client: Client) -> bool:
    return {session.id for session in await client.sessions()} == set(SESSIONS)


async def over(client: Client, session: str, prompt: str) -> None:
    """Its turn ended, and all of that is at the hub. What is before it in the log is there too."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            page = await client.events(session)
            seen = [frame.event for frame in page.events]
            starts = [
                index for index, event in enumerate(seen) if isinstance(event, TurnStarted) and event.id == prompt
            ]
            if starts and any(isinstance(event, Done) for event in seen[starts[0] :]):
                return
            await asyncio.sleep(0.1)


async def log(bus: Bus, session: str) -> list[bytes]:
    return [record.data async for record in bus.read(f"events.{session}", follow=False)]


async def once_each(bus: Bus, session: str, lines: list[bytes], accepted: list[str]) -> None:
    """Every prompt that was accepted ran once, in its turn, or is known to have been cut short; every ask was decided
    once."""
    events: list[AnyEvent] = [decode(line) for line in lines]
    starts = Counter(event.id for event in events if isinstance(event, TurnStarted))
    assert set(starts.values()) == {1}
    assert len(set(accepted)) == len(accepted)
    kept = {
        record.id: record
        for entry in await bus.table("prompts").entries(f"{session}.>")
        for record in [msgspec.json.decode(entry.value, type=PromptRecord)]
    }
    assert set(accepted) <= set(kept)
    for id in accepted:
        assert kept[id].over, kept[id]
        assert starts[id] == 1 or kept[id].status == "indeterminate"
    ran = [id for id in starts if id in accepted]  # one more may have come whose sender was stopped before it heard
    assert ran == [id for id in accepted if starts[id]], "in the order in which they were sent"
    asked = [event.id for event in events if isinstance(event, Ask)]
    answers = Counter(event.ask for event in events if isinstance(event, Answer) and event.ask in asked)
    assert {id: answers[id] for id in asked} == dict.fromkeys(asked, 1)
