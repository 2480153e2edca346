"""Announcements: heard by those who listen now, kept for nobody."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from uuid import uuid4

import pytest

from ...bus import MAX_RECORD, Announcement, BadSubject, Bus, BusClosed, RecordTooLarge
from .base import BOUND, BusContractBase, all_of, first, opened

START, END = b"start", b"end"


@asynccontextmanager
async def listening(speaker: Bus, listener: Bus, pattern: str, subject: str) -> AsyncGenerator["Ear"]:
    """Someone who is known to listen: what is said until the first word is heard."""
    async with aclosing(listener.listen(pattern)) as heard:
        pending = asyncio.ensure_future(first(heard))
        while not pending.done():
            await speaker.announce(subject, START)
            await asyncio.wait({pending}, timeout=0.05)
        assert await pending == Announcement(subject, START)
        yield Ear(heard, speaker, subject)


class Ear:
    def __init__(self, heard: AsyncGenerator[Announcement, None], speaker: Bus, subject: str) -> None:
        self._heard = heard
        self._speaker = speaker
        self._subject = subject

    async def all(self) -> list[Announcement]:
        """The announcements up to now."""
        last = END + uuid4().bytes
        await self._speaker.announce(self._subject, last)
        announcements: list[Announcement] = []
        while not announcements or announcements[-1].data != last:
            announcements.append(await first(self._heard))
        return [announcement for announcement in announcements if not announcement.data.startswith((START, END))]


class AnnouncementContract(BusContractBase):
    """Buses that several processes share override `other`: a second connection to the same one."""

    @pytest.fixture
    async def other(self, bus: Bus) -> AsyncGenerator[Bus, None]:
        yield bus

    async def test_those_who_listen_hear_it_in_order(self, bus: Bus, other: Bus, family: str) -> None:
        async with (
            listening(bus, other, f"{family}.a", f"{family}.a") as exact,
            listening(bus, other, f"{family}.>", f"{family}.b") as wildcard,
        ):
            payloads = [str(n).encode() for n in range(200)]
            for data in payloads:
                await bus.announce(f"{family}.a", data)
            assert await exact.all() == [Announcement(f"{family}.a", data) for data in payloads]
            assert [a.data for a in await wildcard.all()] == payloads

    @pytest.mark.parametrize(
        ("pattern", "hits"),
        [
            ("{}.a", ["a"]),
            ("{}.*", ["a", "aa", "z"]),
            ("{}.>", ["a", "a.b", "a.b.c", "aa", "z"]),
            ("{}.a.>", ["a.b", "a.b.c"]),
        ],
    )
    async def test_patterns_are_exact(self, bus: Bus, family: str, pattern: str, hits: list[str]) -> None:
        beacon = f"{family}.{hits[0]}"
        async with listening(bus, bus, pattern.format(family), beacon) as ear:
            for subject in (f"{family}", f"{family}0.a", *(f"{family}.{t}" for t in ("a", "a.b", "a.b.c", "aa", "z"))):
                await bus.announce(subject, b"x")
            assert [a.subject for a in await ear.all()] == [f"{family}.{hit}" for hit in hits]

    async def test_nobody_listens(self, bus: Bus, family: str) -> None:
        await bus.announce(f"{family}.a", b"to nobody")
        async with listening(bus, bus, f"{family}.a", f"{family}.a") as ear:
            assert await ear.all() == []

    async def test_it_is_no_record(self, bus: Bus, family: str) -> None:
        await bus.publish(f"{family}.a", b"record")
        async with listening(bus, bus, f"{family}.a", f"{family}.a") as ear:
            await bus.announce(f"{family}.a", b"said")
            await bus.publish(f"{family}.a", b"another record")
            assert [a.data for a in await ear.all()] == [b"said"]
        records = await all_of(bus.read(f"{family}.a", follow=False))
        assert [record.data for record in records] == [b"record", b"another record"]

    async def test_a_slow_listener_loses_the_oldest_and_holds_nobody_up(
        self, bus: Bus, other: Bus, family: str
    ) -> None:
        many = 5000
        async with (
            listening(bus, other, f"{family}.a", f"{family}.a") as slow,
            listening(bus, other, f"{family}.a", f"{family}.a") as quick,
        ):
            heard: list[Announcement] = []
            for start in range(0, many, 500):
                for n in range(start, start + 500):
                    await bus.announce(f"{family}.a", str(n).encode())
                heard += await quick.all()
            assert [int(a.data) for a in heard] == list(range(many))
            left = [int(a.data) for a in await slow.all()]
            assert 0 < len(left) < many
            assert left == list(range(many - len(left), many))

    async def test_large_ones_are_bounded_by_their_bytes(self, bus: Bus, family: str) -> None:
        async with listening(bus, bus, f"{family}.a", f"{family}.a") as ear:
            for _ in range(20):
                await bus.announce(f"{family}.a", bytes(MAX_RECORD))
            # heard in pieces: a slow one would lose some, and does
            assert len(await ear.all()) <= 20
            with pytest.raises(RecordTooLarge):
                await bus.announce(f"{family}.a", bytes(MAX_RECORD + 1))

    async def test_bad_subjects_of_announcements(self, bus: Bus, family: str) -> None:
        with pytest.raises(BadSubject):
            await bus.announce(f"{family}.*", b"")
        with pytest.raises(BadSubject):
            await first(bus.listen("*.a"))

    async def test_a_closed_bus_tells_its_listeners(self, url: str, family: str) -> None:
        async with opened(url) as bus:
            heard = bus.listen(f"{family}.a")
            pending = asyncio.ensure_future(first(heard))
            while not pending.done():  # it is known to listen
                await bus.announce(f"{family}.a", START)
                await asyncio.wait({pending}, timeout=0.05)
            pending = asyncio.ensure_future(all_of(heard))
            await asyncio.sleep(0)
        await asyncio.wait({pending}, timeout=BOUND)
        assert isinstance(pending.exception(), BusClosed)
        with pytest.raises(BusClosed):
            await bus.announce(f"{family}.a", b"")
        with pytest.raises(BusClosed):
            await first(bus.listen(f"{family}.a"))


class Ends(BusContractBase):
    """What is there of a pattern: `first` and `last`."""

    async def test_nothing_there(self, bus: Bus, family: str) -> None:
        assert (await bus.first(f"{family}.a"), await bus.last(f"{family}.>")) == (0, 0)
        await bus.publish(f"{family}.b", b"")
        assert (await bus.first(f"{family}.a"), await bus.last(f"{family}.a.>")) == (0, 0)

    async def test_the_ends_of_patterns(self, bus: Bus, family: str) -> None:
        seqs = {n: await bus.publish(f"{family}.{n % 3}.x", b"") for n in range(30)}
        for pattern, oldest, newest in ((">", 0, 29), ("*.x", 0, 29), ("1.x", 1, 28), ("2.>", 2, 29)):
            ends = await bus.first(f"{family}.{pattern}"), await bus.last(f"{family}.{pattern}")
            assert ends == (seqs[oldest], seqs[newest])

    async def test_sparse_ones_in_a_long_log(self, bus: Bus, family: str) -> None:
        async def common() -> None:
            await asyncio.gather(*(bus.publish(f"{family}.common.{n % 7}", b"") for n in range(400)))

        await common()
        older = await bus.publish(f"{family}.rare.1", b"")
        await common()
        newer = await bus.publish(f"{family}.rare.2", b"")
        await common()
        assert (await bus.first(f"{family}.rare.*"), await bus.last(f"{family}.rare.*")) == (older, newer)
        assert (await bus.first(f"{family}.rare.2"), await bus.last(f"{family}.rare.1")) == (newer, older)
        await asyncio.gather(*(bus.publish(f"{family}.common.{n % 7}", b"") for n in range(400)))
        assert (await bus.first(f"{family}.rare.*"), await bus.last(f"{family}.rare.*")) == (older, newer)

    async def test_after_trimming(self, bus: Bus, family: str) -> None:
        seqs = [await bus.publish(f"{family}.{n % 2}", b"") for n in range(10)]
        await bus.trim(f"{family}.>", before=seqs[3])
        assert (await bus.first(f"{family}.>"), await bus.last(f"{family}.>")) == (seqs[3], seqs[9])
        assert await bus.first(f"{family}.0") == seqs[4]
        await bus.trim(f"{family}.1", keep=0)
        assert (await bus.first(f"{family}.1"), await bus.last(f"{family}.1")) == (0, 0)
        assert (await bus.first(f"{family}.*"), await bus.last(f"{family}.*")) == (seqs[4], seqs[8])
        await bus.trim(f"{family}.>", keep=0)
        assert (await bus.first(f"{family}.>"), await bus.last(f"{family}.>")) == (0, 0)
        again = await bus.publish(f"{family}.1", b"")
        assert again > seqs[9]
        assert (await bus.first(f"{family}.1"), await bus.last(f"{family}.1")) == (again, again)
