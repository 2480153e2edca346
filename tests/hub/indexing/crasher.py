"""Counts the log of a bus, or indexes it where a search file is named, and is killed at a chosen moment:
`crasher.py URL MOMENT COUNT [SEARCH_FILE]`."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from tieline.bus import open_bus
from tieline.hub.indexing.log_indexer import LogIndexer
from tieline.hub.indexing.search_index import SearchIndex
from tieline.hub.indexing.session_lookup import SessionLookup
from tieline.hub.indexing.usage_counter import UsageCounter


async def main(url: str, moment: str, count: int, search_file: str = "") -> None:
    left = count

    def probe(now: str) -> None:
        nonlocal left
        left -= now == moment
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async with open_bus(url) as bus:
        lookup = SessionLookup(bus, "here")
        if search_file:
            search = SearchIndex(bus, Path(search_file), lookup)
            search.probe = probe
            await search.open("e1")
            consumer = search.events
        else:
            consumer = UsageCounter(bus, lookup)
            consumer.probe = probe
            await consumer.load()
        async with LogIndexer(bus, "events.>", (consumer,)) as indexer:
            await indexer.sync(60)
    print("not killed", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:]))
