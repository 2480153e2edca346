"""Pages of a session's log."""

from pathlib import Path

import msgspec

from tieline.bus import open_bus
from tieline.events import Text
from tieline.hub.stream.history import page_after, page_before
from tieline.protocol.pagination import EventPage
from tieline.sessions.event_log import EventLog


async def test_pages_from_either_end(tmp_path: Path) -> None:
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
        log = EventLog(bus)
        none = await page_before(bus, "s1", before=None, limit=10)
        assert (none.events, none.first, none.last, none.more) == ((), 0, 0, False)
        seqs: list[int] = []
        for number in range(30):
            seqs.append(await log.append("s1", Text(str(number))))
            for _ in range(number):  # it lies ever more sparsely among the others
                await log.append("s2", Text("between"))
        page = msgspec.json.decode((await page_before(bus, "s1", before=None, limit=10)).json(), type=EventPage)
        assert [entry.seq for entry in page.events] == seqs[20:]
        assert (page.first, page.last, page.more) == (seqs[0], seqs[-1], True)
        page = await page_before(bus, "s1", before=seqs[5], limit=10)
        assert ([entry.seq for entry in page.events], page.more) == (seqs[:5], False)
        page = await page_before(bus, "s1", before=seqs[0], limit=10)
        assert (page.events, page.more) == ((), False)
        page = await page_after(bus, "s1", after=seqs[3], before=None, limit=4)
        assert ([entry.seq for entry in page.events], page.more) == (seqs[4:8], True)
        page = await page_after(bus, "s1", after=seqs[3], before=seqs[6], limit=4)
        assert ([entry.seq for entry in page.events], page.more) == (seqs[4:6], False)


async def test_large_events_make_small_pages(tmp_path: Path) -> None:
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
        log = EventLog(bus)
        seqs = [await log.append("s1", Text("x" * 3 * 1024 * 1024)) for _ in range(4)]
        page = await page_before(bus, "s1", before=None, limit=10)
        assert ([entry.seq for entry in page.events], page.more) == (seqs[2:], True)
        page = await page_before(bus, "s1", before=seqs[2], limit=10)
        assert ([entry.seq for entry in page.events], page.more) == (seqs[:2], False)
        page = await page_after(bus, "s1", after=0, before=None, limit=10)
        assert ([entry.seq for entry in page.events], page.more) == (seqs[:2], True)
