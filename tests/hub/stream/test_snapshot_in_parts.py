"""A snapshot in parts: what comes first, what follows, and that nothing newer is ever overwritten."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.hub.stream.test_fanout import Sink
from tests.hub.streaming import BOUND_S, client, on_sqlite

from tieline.bus import open_bus
from tieline.bus.base import Bus
from tieline.events import Ask
from tieline.hub.hub import Hub
from tieline.hub.state.live_state import MARKS, LiveState
from tieline.hub.stream import snapshot_parts as parts
from tieline.hub.stream.fanout import Fanout
from tieline.hub.stream.snapshot_parts import first_sessions
from tieline.hub.stream.subscriber import Subscriber
from tieline.hub.stream.websocket import start_subscription
from tieline.protocol.stream_frames import Subscribe
from tieline.protocol.views import SessionMark
from tieline.sessions.records import ASKS, PROMPTS, SESSIONS, AskRecord, PromptRecord, SessionRecord
from tieline.testing.wait_for import eventually


def record(id: str, **more: Any) -> SessionRecord:
    return SessionRecord(id=id, agent="scripted", cwd="/", **more)


async def put(bus: Bus, *records: SessionRecord) -> None:
    table = bus.table(SESSIONS)
    await asyncio.gather(*(table.put(session.id, msgspec.json.encode(session)) for session in records))


class Page:
    """What a page makes of the frames: the latest counts; what has not come when none are left is gone."""

    def __init__(self, known: dict[str, int] | None = None) -> None:
        self.known = dict(known or {})
        self.unconfirmed = set(self.known)
        self.left = -1

    def take(self, frame: dict[str, Any]) -> None:
        match frame["type"]:
            case "ready" if frame["snapshot_sent"] != "known":
                self.unconfirmed = set(self.known)
                self._all(frame["snapshot"]["sessions"], frame["sessions_left"])
            case "ready":
                for session in frame["snapshot"]["sessions"]:
                    self._take_session(session)
            case "sessions":
                self._all(frame["sessions"], frame["left"])
            case "session":
                self._take_session(frame["session"])
            case "gone" if frame["kind"] == "session":
                self.known.pop(frame["id"], None)
            case _:
                pass

    def _all(self, sessions: list[dict[str, Any]], left: int) -> None:
        for session in sessions:
            self._take_session(session)
        self.left = left
        if not left:
            for id in self.unconfirmed:
                self.known.pop(id, None)
            self.unconfirmed.clear()

    def _take_session(self, session: dict[str, Any]) -> None:
        turns = session.get("turns", 0)
        assert turns >= self.known.get(session["id"], 0), f"{session['id']} went back to {turns}"
        self.known[session["id"]] = turns
        self.unconfirmed.discard(session["id"])


async def test_what_matters_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "FIRST", 3)
    async with open_bus(f"sqlite://{tmp_path}/bus.db") as bus:
        plain = [record(f"s{number:02}", active_at=float(number)) for number in range(20)]
        special = {
            "works": record("works", status="working"),
            "waits": record("waits", status="waiting"),
            "stuck": record("stuck", status="stuck"),
            "asked": record("asked"),
            "queued": record("queued"),
            "named": record("named"),
        }
        archived = record("archived", archived=True, active_at=1000.0)
        never_active = record("new", created_at=18.5)
        await put(bus, *plain, *special.values(), archived, never_active)
        asked = AskRecord(id="a1", session="asked", ask=Ask("a1", "permission", title="run it"), digest="d")
        await bus.table(ASKS).put("a1", msgspec.json.encode(asked))
        prompt = PromptRecord(id="p1", session="queued", text="x", status="queued")
        await bus.table(PROMPTS).put("queued.p1", msgspec.json.encode(prompt))
        async with LiveState(bus) as state:
            first = [session.id for session in first_sessions(state, ("named", "no such"))]
            assert first[:3] == ["s19", "new", "s18"]  # the last active, newest first
            assert set(first[3:]) == set(special)
            assert len(first) == len(set(first))


async def test_the_rest_follows_and_a_client_that_does_not_ask_gets_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "FIRST", 4)
    monkeypatch.setattr(parts, "PART", 3)
    async with on_sqlite(tmp_path) as hub:
        await put(hub.bus, *(record(f"s{number:02}", active_at=float(number)) for number in range(15)))
        for mark in (SessionMark(id="s00", pinned=True), SessionMark(id="s05", seen_turns=2)):
            await hub.bus.table(MARKS).put(mark.id, msgspec.json.encode(mark))
        await eventually(lambda: len(hub.hub.state.sessions) == 15, "not known", timeout=BOUND_S)
        await eventually(lambda: len(hub.hub.state.marks) == 2, "not known", timeout=BOUND_S)
        async with client(hub) as stream:
            whole = await stream.subscribe()
            assert len(whole["snapshot"]["sessions"]) == 15
            assert (whole["snapshot_sent"], whole["sessions_left"]) == ("whole", 0)
        async with client(hub) as stream:
            ready = await stream.subscribe(snapshot="parts")
            assert [each["id"] for each in ready["snapshot"]["marks"]] == ["s00"]
            assert [each["id"] for each in ready["snapshot"]["sessions"]] == ["s14", "s13", "s12", "s11", "s00"]
            assert (ready["snapshot_sent"], ready["sessions_left"]) == ("parts", 10)
            await stream.until(lambda frame: frame.get("left") == 0)
            frames = [frame for frame in stream.frames if frame["type"] == "sessions"]
            assert [frame["left"] for frame in frames] == [7, 4, 1, 0]
            ids = [each["id"] for frame in frames for each in frame["sessions"]]
            assert sorted(ids) == [f"s{number:02}" for number in range(1, 11)]
            assert [mark for frame in frames for mark in frame.get("marks", ())] == [
                {"id": "s05", "seen_turns": 2, "pinned": False}
            ]
            await put(hub.bus, record("s03", turns=1))
            assert (await stream.until_type("session"))["session"]["id"] == "s03"  # and then it is live


async def test_a_connection_that_knows_the_snapshot_is_not_told_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that opens a conversation subscribes again: of 10,000 sessions that would be megabytes."""
    monkeypatch.setattr(parts, "FIRST", 2)
    monkeypatch.setattr(parts, "PART", 2)
    async with on_sqlite(tmp_path) as hub:
        await put(hub.bus, *(record(f"s{number}") for number in range(5)))
        await eventually(lambda: len(hub.hub.state.sessions) == 5, "not known", timeout=BOUND_S)
        async with client(hub) as stream:
            first = await stream.subscribe(snapshot="known")  # it does not: it is given one
            assert (first["snapshot_sent"], first["sessions_left"]) == ("parts", 3)
            again = await stream.subscribe(snapshot="known", sessions=["s1"])
            assert again["snapshot_sent"] == "known"
            snapshot = {name: part for name, part in again["snapshot"].items() if part}
            assert {name: [each["id"] for each in part] for name, part in snapshot.items()} == {"sessions": ["s1"]}
            if again["sessions_left"]:
                await stream.until(lambda frame: frame.get("left") == 0)
            page = Page()
            for frame in stream.frames:
                page.take(frame)
            assert set(page.known) == {f"s{number}" for number in range(5)}
            # What changes while it subscribes again, and the hub looks for its cursor, is told as ever.
            fanout = hub.hub.fanout
            locate = fanout.locate

            async def locate_slowly(after: int, epoch: str) -> Any:
                await put(hub.bus, record("s0", turns=7))
                await eventually(lambda: hub.hub.state.sessions["s0"].turns == 7, "not known", timeout=BOUND_S)
                fanout._flush()  # pyright: ignore[reportPrivateUsage]
                return await locate(after, epoch)

            monkeypatch.setattr(fanout, "locate", locate_slowly)
            await stream.subscribe(snapshot="known")
            await stream.until(lambda frame: frame.get("session", {}).get("turns") == 7)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("change", "remove", "add")), st.integers(0, 8)),
        st.tuples(st.sampled_from(("take", "flush", "flush", "again", "shut", "live")), st.just(0)),
    ),
    max_size=25,
)


def steps(words: str) -> list[tuple[str, int]]:
    return [(word.rstrip("0123456789"), int(word.lstrip("abcdefghijklmnopqrstuvwxyz") or 0)) for word in words.split()]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(steps=STEPS, was=st.integers(0, 10))
@example(steps("change1 flush take change2 flush change2 take take take"), 0)  # a part newer than news that waits
@example(steps("live change3 flush again"), 0)  # again, while the write of news waits for the connection
@example(steps("change1 flush take again"), 0)  # again, while news is sent to one that is behind
@example(steps("take again take again"), 0)  # again, in the middle of a part
@example(steps("again shut"), 0)  # again, before the snapshot went out
@example(steps("take remove5 flush take take"), 10)  # gone, and known from before
def test_whatever_happens_meanwhile_the_client_ends_with_the_present(steps: list[tuple[str, int]], was: int) -> None:
    """Sessions change, go and come, the connection takes now one frame and now none, the client subscribes again in the
    middle of a part: no session goes back to an older record, and in the end all are as the hub has them."""
    asyncio.run(_run(steps, was))


class Gate(Sink):
    """Takes as many frames as it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.room = asyncio.Semaphore(0)

    async def send(self, message: Any) -> None:
        await self.room.acquire()
        await super().send(message)


async def _run(steps: list[tuple[str, int]], was: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "FIRST", 2)
        patch.setattr(parts, "PART", 2)
        async with open_bus("sqlite://:memory:") as bus, LiveState(bus) as state, Fanout(bus, state) as fanout:
            turns = dict.fromkeys((f"s{number}" for number in range(8)), 1)
            for id in turns:
                _apply(state, id, 1)
            # It slept: what it knows is as old as can be, and some of it is gone.
            page = Page(dict.fromkeys((f"s{number}" for number in range(was)), 0))
            sink = Gate()
            follower = Subscriber(fanout, sink.send, sink.dropped)
            hub = cast(Hub, SimpleNamespace(fanout=fanout, state=state))
            await start_subscription(hub, follower, Subscribe(snapshot="parts"))
            for what, number in steps:
                id = f"s{number}"
                match what:
                    case "change" | "add":
                        if what == "add" or id in state.sessions:
                            turns[id] = turns.get(id, 0) + 1
                            _apply(state, id, turns[id])
                    case "remove":
                        if id in state.sessions:
                            _apply(state, id, None)
                    case "take":
                        sink.room.release()
                        await _settle()
                    case "live":
                        while follower.behind:
                            sink.room.release()
                            await _settle()
                    case "flush":
                        fanout._flush()  # pyright: ignore[reportPrivateUsage]
                        await _settle()
                    case _:
                        await follower.pause()
                        if what == "shut":  # something happens while it subscribes again
                            turns["s0"] = turns.get("s0", 0) + 1
                            _apply(state, "s0", turns["s0"])
                            fanout._flush()  # pyright: ignore[reportPrivateUsage]
                        await start_subscription(hub, follower, Subscribe(snapshot="known"))
            fanout._flush()  # pyright: ignore[reportPrivateUsage]
            async with asyncio.timeout(BOUND_S):
                while follower.behind:
                    sink.room.release()
                    await _settle()
            for frame in sink.taken:
                page.take(frame)
            assert page.known == {id: session.turns for id, session in state.sessions.items()}
            assert page.left == 0
            assert not sink.ended


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def _apply(state: LiveState, id: str, turns: int | None) -> None:
    """As the table's watch does."""
    value = None if turns is None else msgspec.json.encode(record(id, turns=turns))
    state._session(id, value, True)  # pyright: ignore[reportPrivateUsage]
