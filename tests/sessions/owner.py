"""A program that owns sessions and is made to be killed: `python owner.py SETTING`, where SETTING is a JSON file.

It creates the session `s` if there is none, sends the prompts, and prints one line per thing that became durable or
was heard live, so that its killer can choose the moment.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

from tieline.bus import open_bus
from tieline.config import Config
from tieline.events import AnyEvent
from tieline.policy import Policy
from tieline.sessions.manager import SessionManager


class Setting(msgspec.Struct, frozen=True):
    bus: str
    cwd: str
    agent: dict[str, Any]
    environ: dict[str, str]
    policy: Policy
    prompts: tuple[tuple[str, str], ...]  # id, text
    model: str = ""


def config(setting: Setting) -> Config:
    return Config(agents={"agent": setting.agent}, environ=setting.environ)


async def main(path: str) -> None:
    setting = msgspec.json.decode(Path(path).read_bytes(), type=Setting)
    async with open_bus(setting.bus) as bus, SessionManager(bus, config(setting)) as manager:
        await manager.create("agent", cwd=setting.cwd, policy=setting.policy, id="s", model=setting.model)
        listening = asyncio.Event()

        async def listen() -> None:
            listening.set()
            async for entry in manager.events("s", deltas=True):
                tell(entry.event)

        listener = asyncio.create_task(listen())
        await listening.wait()
        for id, text in setting.prompts:
            await manager.prompt("s", text, id=id)
            print(f"accepted {id}", flush=True)
        await listener


def tell(event: AnyEvent) -> None:
    print(event.type, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
