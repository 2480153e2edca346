"""Run by test_crash: lives that publish and put until they are killed, and say what was acknowledged.

It imports once and forks for each life. Lines of a life: `pid N`, then `put ID SEQ`, `set N` after each
came back; `gone` is written when the life is over.
"""

import asyncio
import os
import sys

from tieline.bus import Bus, open_bus

TASKS = 8


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")  # one write: lines of tasks do not mix


async def publish(bus: Bus, life: int, task: int) -> None:
    n = 0
    while True:
        id = f"{life}-{task}-{n}"
        seq = await bus.publish(f"load.{task % 4}", id.encode(), id=id)
        say(f"put {id} {seq}")
        n += 1


async def count(bus: Bus) -> None:
    table = bus.table("crash")
    entry = await table.get("n")
    n = int(entry.value) if entry else 0
    while True:
        n += 1
        await table.put("n", str(n).encode())
        say(f"set {n}")


async def live(url: str, life: int) -> None:
    async with open_bus(url) as bus, asyncio.TaskGroup() as tasks:
        for task in range(TASKS):
            tasks.create_task(publish(bus, life, task))
        tasks.create_task(count(bus))


def main() -> None:
    url = sys.argv[1]
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            say(f"pid {os.getpid()}")
            try:
                asyncio.run(live(url, int(line)))
            except BaseException as error:
                say(f"failed {error!r}")
            os._exit(1)
        os.waitpid(pid, 0)
        say("gone")


if __name__ == "__main__":
    main()
