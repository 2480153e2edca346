"""Random interleavings against a small model: what runs at once in any mixture leaves what the model says."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from uuid import uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ...bus import Bus, Conflict, Record
from .base import BOUND, BusContractBase, all_of


@dataclass(frozen=True)
class Publish:
    subject: int
    id: int | None


@dataclass(frozen=True)
class Trim:
    subject: int | None  # None: all of them
    keep: int


@dataclass(frozen=True)
class Put:
    key: int
    expect: str  # any, fresh, stale


BusStep = Publish | Trim | Put

subjects = st.integers(0, 3)
publishes = st.builds(Publish, subjects, st.none() | st.integers(0, 5))
puts = st.builds(Put, st.integers(0, 2), st.sampled_from(["any", "fresh", "stale"]))
trims = st.builds(Trim, st.none() | subjects, st.integers(0, 5))
mixtures: st.SearchStrategy[list[BusStep]] = st.lists(st.one_of(publishes, publishes, puts), min_size=1, max_size=12)
alone: st.SearchStrategy[list[BusStep]] = st.lists(trims, min_size=1, max_size=1)
rounds: st.SearchStrategy[list[list[BusStep]]] = st.lists(mixtures | alone, min_size=1, max_size=8)


@dataclass
class Model:
    """What the bus must hold."""

    records: dict[int, tuple[str, bytes]] = field(default_factory=dict[int, tuple[str, bytes]])
    ids: dict[int, int] = field(default_factory=dict[int, int])
    values: dict[str, tuple[bytes, int]] = field(default_factory=dict[str, tuple[bytes, int]])

    def trim(self, subject: str | None, keep: int) -> None:
        matching = sorted(seq for seq, (name, _) in self.records.items() if subject in (None, name))
        for seq in matching[: max(len(matching) - keep, 0)]:
            del self.records[seq]


class Interleaving:
    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.family = f"h{uuid4().hex[:12]}"
        self.table = bus.table(self.family)
        self.model = Model()
        self.followed: list[Record] = []

    async def step(self, step: BusStep) -> None:
        match step:
            case Publish(subject, id):
                await self.publish(f"{self.family}.{subject}", id)
            case Trim(subject, keep):
                name = None if subject is None else f"{self.family}.{subject}"
                await self.bus.trim(name or f"{self.family}.>", keep=keep)
                self.model.trim(name, keep)
            case Put(key, expect):
                await self.put(f"k{key}", expect)

    async def publish(self, subject: str, id: int | None) -> None:
        data = uuid4().bytes
        seq = await self.bus.publish(subject, data, id=None if id is None else f"id{id}")
        if id is not None:
            if id in self.model.ids:
                assert self.model.ids[id] == seq
                return
            self.model.ids[id] = seq
        self.model.records[seq] = (subject, data)

    async def put(self, key: str, expect: str) -> None:
        entry = await self.table.get(key)
        revision = entry.revision if entry else 0
        data = uuid4().bytes
        wanted = {"any": None, "fresh": revision, "stale": revision + 1_000_000}[expect]
        try:
            new = await self.table.put(key, data, expect=wanted)
        except Conflict:
            assert expect != "any"
            return
        assert expect != "stale"
        if new > self.model.values.get(key, (b"", 0))[1]:
            self.model.values[key] = (data, new)

    async def check(self) -> None:
        """After each round: the log and the table are what the model says."""
        records = await all_of(self.bus.read(f"{self.family}.>", follow=False))
        assert [record.seq for record in records] == sorted(self.model.records)
        for record in records:
            subject, data = self.model.records[record.seq]
            if record.data != data:  # two published the same id at once, perhaps on different subjects: either may win
                assert record.seq in self.model.ids.values()
                self.model.records[record.seq] = (record.subject, record.data)
            else:
                assert record.subject == subject
        for key, (value, revision) in self.model.values.items():
            entry = await self.table.get(key)
            assert entry is not None
            assert (entry.value, entry.revision) == (value, revision)

    async def follow(self) -> None:
        async with aclosing(self.bus.read(f"{self.family}.>")) as reader:
            async for record in reader:
                self.followed.append(record)
                if record.data == b"end":
                    return

    async def play(self, rounds: list[list[BusStep]]) -> None:
        following = asyncio.ensure_future(self.follow())
        try:
            for steps in rounds:
                await asyncio.gather(*(self.step(step) for step in steps))
                await self.check()
            end = await self.bus.publish(f"{self.family}.end", b"end")
            await asyncio.wait_for(following, BOUND)
        finally:
            following.cancel()
        seqs = [record.seq for record in self.followed]
        assert seqs == sorted(set(seqs))
        assert {*self.model.records, end} <= set(seqs)


class InterleavingContract(BusContractBase):
    @settings(
        max_examples=25,
        deadline=None,
        derandomize=True,
        database=None,
        # every example has a family of its own on the bus, and the same body runs over every bus, on purpose
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
            HealthCheck.differing_executors,
        ],
    )
    @given(rounds=rounds)
    async def test_interleavings(self, bus: Bus, rounds: list[list[BusStep]]) -> None:
        await asyncio.wait_for(Interleaving(bus).play(rounds), BOUND * 2)
