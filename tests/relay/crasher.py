"""Run by test_crash: lives that send one message to an agent and end themselves by SIGKILL at a chosen step.

It imports once and forks for each life. A line of its input is a Life as JSON; for each it says `killed`, or `ended`
and why, when that moment never came.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from tieline.bootstrap.relay import HubSessions
from tieline.bus import open_bus
from tieline.channels.agent import AgentConfig, AgentProject, create
from tieline.channels.base import ChannelContext, DeliveryContext
from tieline.config import Config
from tieline.drivers.scripted import Scripted
from tieline.envelopes import Envelope, MessageReceipt
from tieline.relay import Relay, Settings
from tieline.script import Run, Say
from tieline.sessions.manager import SessionManager
from tieline.testing.in_process_hub import hub_around

ME = "relay.user.me"
QUICK = Settings(first_wait_s=0.01, longest_wait_s=0.05, room_wait_s=0.02, stop_s=0.2)


class Life(msgspec.Struct, frozen=True):
    url: str
    folder: str
    name: str  # of the agent, and of the message's key
    moment: str
    count: int = 1  # the how many-th time
    sink: bool = False  # to an endpoint of the process's own, not to an agent


@asynccontextmanager
async def owner(url: str, folder: str, name: str) -> AsyncGenerator[tuple[Relay, SessionManager], None]:
    """Everything that lives in one process: sessions, hub, relay, the agent channel."""
    driver = Scripted([[Run("echo ran >> effects")], [Say("done")]])
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TIELINE_HOME": f"{folder}/state"}
    config = Config(default_agent="scripted", environ=env)
    async with (
        open_bus(url) as bus,
        SessionManager(bus, config, drivers={"scripted": driver}) as manager,
        hub_around(manager, bus, config) as hub,
        Relay(bus, config, settings=QUICK) as relay,
    ):
        own = AgentConfig(projects={name: AgentProject(cwd=folder, policy="full")})
        await relay.register(create("agents", own, ChannelContext(sessions=HubSessions(hub))))
        yield relay, manager


async def send(relay: Relay, name: str) -> MessageReceipt:
    return await relay.send(f"relay.agent.{name}.x", "work", sender=ME, reply_to=f"relay.user.{name}", key=name)


async def send_to_sink(relay: Relay, name: str) -> MessageReceipt:
    return await relay.send(f"relay.sink.{name}", "work", sender=ME, key=name)


def sink(relay: Relay, name: str, folder: Path) -> None:
    """Writes down each delivery, and whether it was told that there may have been one before."""

    async def take(envelope: Envelope, context: DeliveryContext) -> None:
        with (folder / "effects").open("a") as file:
            file.write(f"{context.attempt} {context.repeated}\n")

    relay.serve(f"relay.sink.{name}", take)


async def live(life: Life) -> None:
    left = life.count

    def probe(moment: str) -> None:
        nonlocal left
        if moment == life.moment:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    async with owner(life.url, life.folder, life.name) as (relay, _):
        if life.sink:
            sink(relay, life.name, Path(life.folder))
        relay.store.probe = probe
        await (send_to_sink if life.sink else send)(relay, life.name)
        await asyncio.sleep(55)  # somewhat less than the test waits: then it can say that the moment never came


def main() -> None:
    for line in sys.stdin:
        life = msgspec.json.decode(line, type=Life)
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(live(life))
            except BaseException as error:
                Path(life.folder, "failed").write_text(repr(error))
            os._exit(1)
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        os.write(1, b"killed\n" if killed else f"ended {status}\n".encode())


if __name__ == "__main__":
    main()
