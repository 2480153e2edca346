"""Tables: revisions, races, watching, time to live."""

import asyncio
import time
from contextlib import aclosing

import pytest

from ...bus import BadSubject, Bus, Change, Conflict, Entry, RecordTooLarge
from ...errors import UsageError
from .base import BOUND, BusContractBase, first, opened, some


class TableContract(BusContractBase):
    async def test_put_and_get(self, bus: Bus, family: str) -> None:
        table = bus.table(family)
        assert await table.get("k") is None
        revision = await table.put("k", b"\x00one")
        assert await table.get("k") == Entry("k", b"\x00one", revision)
        newer = await table.put("k", b"")
        assert newer > revision
        assert await table.get("k") == Entry("k", b"", newer)

    async def test_tables_are_apart(self, bus: Bus, family: str) -> None:
        await bus.table(family).put("k", b"one")
        assert await bus.table(family + "2").get("k") is None

    async def test_expected_revisions(self, bus: Bus, family: str) -> None:
        table = bus.table(family)
        first = await table.put("k", b"1", expect=0)
        with pytest.raises(Conflict, match="already exists"):
            await table.put("k", b"2", expect=0)
        second = await table.put("k", b"2", expect=first)
        with pytest.raises(Conflict, match=f"revision {first}") as caught:
            await table.put("k", b"3", expect=first)
        assert (caught.value.table, caught.value.key, caught.value.expected) == (family, "k", first)
        assert await table.get("k") == Entry("k", b"2", second)
        with pytest.raises(Conflict):
            await table.put("other", b"", expect=second)

    async def test_delete(self, bus: Bus, family: str) -> None:
        table = bus.table(family)
        await table.delete("k")  # nothing there
        revision = await table.put("k", b"1")
        with pytest.raises(Conflict):
            await table.delete("k", expect=revision + 1)
        await table.delete("k", expect=revision)
        assert await table.get("k") is None
        with pytest.raises(Conflict):
            await table.put("k", b"2", expect=revision)
        again = await table.put("k", b"2", expect=0)
        assert again > revision
        await table.delete("k")
        assert await table.keys() == []

    async def test_keys(self, bus: Bus, family: str) -> None:
        table = bus.table(family)
        for key in ("a.1", "a.2", "a.2.x", "b/c=-_", "ab.1"):
            await table.put(key, key.encode())
        await table.delete("a.1")
        assert sorted(await table.keys()) == ["a.2", "a.2.x", "ab.1", "b/c=-_"]
        assert await table.keys("a.*") == ["a.2"]
        assert sorted(await table.keys("*.1")) == ["ab.1"]
        assert sorted(await table.keys("a.>")) == ["a.2", "a.2.x"]
        assert await table.keys("b/c=-_") == ["b/c=-_"]

    async def test_entries(self, bus: Bus, family: str) -> None:
        table = bus.table(family)
        assert await table.entries() == []
        revisions = {key: await table.put(key, key.encode()) for key in ("b.1", "a.2", "a.1", "ab.1")}
        await table.delete("a.1")
        revisions["b.1"] = await table.put("b.1", b"newer")
        entries = [Entry(key, key.encode(), revisions[key]) for key in ("a.2", "ab.1")]
        assert await table.entries() == [*entries, Entry("b.1", b"newer", revisions["b.1"])]
        assert await table.entries("a.*") == entries[:1]
        assert await table.entries("c.>") == []

    async def test_a_race_has_one_winner(self, bus: Bus, family: str) -> None:
        table = bus.table(family)
        revision = 0
        for _ in range(10):
            tries = (table.put("k", str(n).encode(), expect=revision) for n in range(10))
            results = await asyncio.gather(*tries, return_exceptions=True)
            (revision,) = [result for result in results if isinstance(result, int)]
            assert sum(isinstance(result, Conflict) for result in results) == 9

    async def test_a_counter_by_comparing(self, bus: Bus, family: str) -> None:
        table = bus.table(family)

        async def count() -> None:
            for _ in range(5):
                while True:
                    entry = await table.get("n")
                    value, expect = (int(entry.value), entry.revision) if entry else (0, 0)
                    try:
                        await table.put("n", str(value + 1).encode(), expect=expect)
                        break
                    except Conflict:
                        continue

        await asyncio.wait_for(asyncio.gather(*(count() for _ in range(6))), BOUND)
        entry = await table.get("n")
        assert entry is not None
        assert entry.value == b"30"

    async def test_watch_gives_what_is_then_what_changes(self, bus: Bus, family: str) -> None:
        table = bus.table(family)
        first_revision = await table.put("a.1", b"1")
        await table.put("b.1", b"not watched")
        gone = await table.put("a.2", b"")
        await table.delete("a.2")
        async with aclosing(table.watch("a.*")) as watcher:
            changes: list[Change] = []
            while not changes or changes[-1].key != "a.1":
                changes.append(await first(watcher))  # a bus may report the deletion of a.2 first
            assert changes[-1] == Change("a.1", b"1", first_revision)
            assert [change.value for change in changes[:-1]] in ([], [None])
            pending = asyncio.ensure_future(first(watcher))
            second_revision = await table.put("a.3", b"3")
            change = await pending
            if change.key == "a.2":
                assert change.value is None
                change = await first(watcher)
            assert change == Change("a.3", b"3", second_revision)
            await table.delete("a.1")
            change = await first(watcher)
            assert (change.key, change.value) == ("a.1", None)
            assert change.revision > second_revision > gone

    async def test_a_watcher_always_gets_the_latest(self, bus: Bus, family: str) -> None:
        table = bus.table(family)
        async with aclosing(table.watch()) as watcher:
            pending = asyncio.ensure_future(first(watcher))
            await table.put("k", b"0")
            await pending
            await asyncio.gather(*(table.put(f"k{n % 5}", str(n).encode()) for n in range(200)))
            latest = {key: await table.get(key) for key in await table.keys()}
            seen: dict[str, Entry] = {"k": Entry("k", b"0", (await pending).revision)}
            async with asyncio.timeout(BOUND):
                while seen != latest:
                    change = await first(watcher)
                    assert change.value is not None
                    assert change.key not in seen or change.revision > seen[change.key].revision
                    seen[change.key] = Entry(change.key, change.value, change.revision)

    async def test_watching_while_others_write(self, bus: Bus, family: str) -> None:
        """Whenever a watch begins, it ends up with what the table holds."""
        table = bus.table(family)

        async def write() -> None:
            for n in range(40):
                await table.put(f"k{n % 7}", str(n).encode())
            await table.put("end", b"")

        async def watch() -> dict[str, bytes | None]:
            seen: dict[str, bytes | None] = {}
            async with aclosing(table.watch()) as watcher, asyncio.timeout(BOUND):
                async for change in watcher:
                    seen[change.key] = change.value
                    if change.key == "end":
                        return seen
            raise AssertionError("the watch ended")

        writing = asyncio.ensure_future(write())
        for seen in await asyncio.gather(*(watch() for _ in range(5))):
            assert seen == {"end": b""} | {f"k{n % 7}": str(n).encode() for n in range(33, 40)}
        await writing

    async def test_time_to_live(self, bus: Bus, family: str) -> None:
        table = bus.table(family)
        await table.put("stays", b"")
        await table.put("kept", b"", ttl=1)
        await table.put("kept", b"")  # a put without one takes it away
        began = time.monotonic()
        async with aclosing(table.watch("goes")) as watcher:
            await table.put("goes", b"", ttl=1)
            assert (await first(watcher)).value == b""
            gone = await first(watcher)
            assert (gone.key, gone.value) == ("goes", None)
        assert time.monotonic() - began > 0.9
        assert await table.get("goes") is None
        assert sorted(await table.keys()) == ["kept", "stays"]
        await table.put("goes", b"back", expect=0)

    async def test_tables_outlive_the_bus(self, url: str, family: str) -> None:
        if url.endswith(":memory:"):
            return
        async with opened(url) as bus:
            revision = await bus.table(family).put("k", b"v")
            await bus.table(family).put("gone", b"v", ttl=1)
        async with opened(url) as bus:
            assert await bus.table(family).get("k") == Entry("k", b"v", revision)
            async with aclosing(bus.table(family).watch("gone")) as watcher:
                while (await first(watcher)).value is not None:
                    pass
            assert await bus.table(family).put("k", b"w", expect=revision) > revision

    async def test_bad_input(self, bus: Bus, family: str) -> None:
        table = bus.table(family)
        for key in ("", "a..b", "a b", "*", "ä", ".a"):
            with pytest.raises(BadSubject, match="bad key"):
                await table.put(key, b"")
            with pytest.raises(BadSubject, match="bad key"):
                await table.get(key)
        with pytest.raises(BadSubject, match="bad pattern"):
            await some(table.watch("a.>.b"), 1)
        with pytest.raises(BadSubject, match="bad table"):
            bus.table("a.b")
        with pytest.raises(RecordTooLarge):
            await table.put("k", bytes(1024 * 1024 + 1))
        with pytest.raises(UsageError):
            await table.put("k", b"", ttl=0)
        with pytest.raises(UsageError):
            await table.put("k", b"", expect=-1)

    async def test_a_large_value(self, bus: Bus, family: str) -> None:
        value = bytes(1024 * 1024)
        revision = await bus.table(family).put("k", value)
        assert await bus.table(family).get("k") == Entry("k", value, revision)
