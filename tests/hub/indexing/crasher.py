"""Counts and indexes the log of a bus, and is killed at a chosen moment: `crasher.py URL MOMENT COUNT SEARCH_FILE`."""

import asyncio
import os
import signal
import sys

from tieline.bus import open_bus
from tieline.hub.indexing.log_indexer import LogIndexer
from tieline.hub.indexing.session_lookup import SessionLookup
from tieline.hub.indexing.usage_counter import UsageCounter


async def main(url: str, moment: str, count: int) -> None:
    left = count

    def probe(now: str) -> None:
        nonlocal left
        left -= now == moment
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async with open_bus(url) as bus:
        usage = UsageCounter(bus, SessionLookup(bus, "here"))
        usage.probe = probe
        await usage.load()
        async with LogIndexer(bus, "events.>", (usage,)) as indexer:
            await indexer.sync(60)
    print("not killed", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
