"""The index has what the logs have, each thing once: after a crash, a lost file, a removed session; on both buses."""

import asyncio
import sqlite3
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import msgspec
import pytest
from tests.hub.indexing.conftest import add_session

from tieline.bus import open_bus
from tieline.bus.base import Bus
from tieline.errors import BusUnavailable
from tieline.events import Answer, Ask, Command, Done, Error, Question, Text, ToolResult, ToolUse, TurnStarted
from tieline.hub.http.problems import RequestRefused, problem_from_error
from tieline.hub.indexing import search_file
from tieline.hub.indexing.log_indexer import LogIndexer
from tieline.hub.indexing.search_index import SearchIndex
from tieline.hub.indexing.session_lookup import SessionLookup
from tieline.protocol.search import SearchHit
from tieline.sessions.event_log import EventLog
from tieline.sessions.records import SESSIONS, SessionRecord
from tieline.testing.wait_for import eventually

CRASHER = Path(__file__).with_name("crasher.py")


class Opened:
    def __init__(self, bus: Bus, search: SearchIndex, indexer: LogIndexer) -> None:
        self.bus, self.search, self.indexer = bus, search, indexer

    async def hits(self, query: str, **more: object) -> tuple[SearchHit, ...]:
        assert await self.indexer.sync(60)
        entries = await self.bus.table(SESSIONS).entries()
        there = {entry.key: msgspec.json.decode(entry.value, type=SessionRecord) for entry in entries}
        return (await self.search.search(query, sessions=there, **more)).hits  # type: ignore[arg-type]

    async def snippets(self, query: str, **more: object) -> list[str]:
        return ["".join(part.text for part in hit.snippet) for hit in await self.hits(query, **more)]


@asynccontextmanager
async def opened(bus: Bus, path: Path, epoch: str = "e1") -> AsyncGenerator[Opened, None]:
    search = SearchIndex(bus, path, SessionLookup(bus, "here"))
    await search.open(epoch)
    indexer = LogIndexer(bus, "events.>", (search.events,))
    search.indexers = (indexer,)
    try:
        async with indexer:
            yield Opened(bus, search, indexer)
    finally:
        await search.close()


async def say(bus: Bus, session: str, *texts: str) -> list[int]:
    return [await EventLog(bus).append(session, Text(text)) for text in texts]


async def test_a_hit_says_where_it_stands(bus: Bus, tmp_path: Path) -> None:
    await add_session(bus, "s1", title="Shop")
    seqs = await say(bus, "s1", "first words", "the <b>needle</b> & more", "last words")
    async with opened(bus, tmp_path / "search.db") as index:
        (hit,) = await index.hits("needle")
        assert (hit.session, hit.seq, hit.kind, hit.agent, hit.project, hit.title) == (
            "s1", seqs[1], "text", "codex", "shop", "Shop",
        )  # fmt: skip
        assert [(part.text, part.match) for part in hit.snippet] == [
            ("the <b>", False),
            ("needle", True),
            ("</b> & more", False),
        ]
        assert await index.snippets("words") == ["last words", "first words"], "the newest first"


async def test_every_kind_is_searched(file_bus: Bus, tmp_path: Path) -> None:
    await add_session(file_bus, "s1")
    ask = Ask("a1", "question", questions=(Question(id="q", text="Which harbour?"),))
    for event in (
        TurnStarted("a prompt about apples"),
        ToolUse("c1", "Bash", Command("make bananas")),
        ToolResult("c1", "error", "no rule for cherries"),
        ask,
        Answer("a1", "allow", answers={"q": ("Dates",)}),
        Error("elderberries are out"),
        Done("error", text="said before", error="figs failed"),
    ):
        await EventLog(file_bus).append("s1", event)
    async with opened(file_bus, tmp_path / "search.db") as index:
        kinds = {
            word: [hit.kind for hit in await index.hits(word)]
            for word in ("apples", "bananas", "cherries", "harbour", "dates", "elderberries", "figs", "before")
        }
        assert kinds == {
            "apples": ["prompt"],
            "bananas": ["tool"],
            "cherries": ["output"],
            "harbour": ["ask"],
            "dates": ["ask"],
            "elderberries": ["error"],
            "figs": ["error"],
            "before": [],
        }


async def test_filters(file_bus: Bus, tmp_path: Path) -> None:
    await add_session(file_bus, "s1", agent="codex", cwd="/w/shop")
    await add_session(file_bus, "s2", agent="claude-code", cwd="/w/site")
    await say(file_bus, "s1", "one thing")
    await say(file_bus, "s2", "another thing")
    await EventLog(file_bus).append("s2", TurnStarted("a third thing"))
    async with opened(file_bus, tmp_path / "search.db") as index:
        assert len(await index.snippets("thing")) == 3
        assert await index.snippets("thing", agent="codex") == ["one thing"]
        assert await index.snippets("thing", project="Site", kind="text") == ["another thing"]
        assert await index.snippets("thing", session="s2", kind="prompt") == ["a third thing"]
        assert await index.snippets("thing", since=4e9) == []
        assert await index.snippets("thing", until=1.0) == []
        assert len(await index.snippets("thing", since=1.0, until=4e9)) == 3
        first = await index.hits("thing", limit=2)
        assert [hit.id for hit in await index.hits("thing", before=first[-1].id)] == [first[-1].id - 1]


async def test_what_is_deleted_is_built_again(file_bus: Bus, tmp_path: Path) -> None:
    path = tmp_path / "search.db"
    await add_session(file_bus, "s1")
    await say(file_bus, "s1", "kept words")
    async with opened(file_bus, path) as index:
        assert await index.snippets("kept") == ["kept words"]
    assert path.stat().st_mode & 0o777 == 0o600
    search_file.remove(path)
    async with opened(file_bus, path) as index:
        assert await index.snippets("kept") == ["kept words"]
    path.write_bytes(b"not a database at all" * 100)
    async with opened(file_bus, path) as index:
        assert await index.snippets("kept") == ["kept words"]
    async with opened(file_bus, path, epoch="another log") as index:
        assert index.search.events.began == 0, "the cursors of another log mean nothing"
        assert await index.snippets("kept") == ["kept words"]


@pytest.mark.slow
async def test_damage_while_it_runs_is_mended(file_bus: Bus, tmp_path: Path) -> None:
    path = tmp_path / "search.db"
    await add_session(file_bus, "s1")
    await say(file_bus, "s1", "kept words")
    async with opened(file_bus, path) as index:
        assert await index.indexer.sync(60)
        search_file.remove(path)  # a new connection finds an empty file
        with pytest.raises(RequestRefused, match="is being rebuilt") as refused:
            await index.hits("kept")
        assert (problem_from_error(refused.value).status, refused.value.retry_s) == (503, 5.0)
        await eventually(lambda: not index.search.problem and index.search.events.began == 0, "it is not built again")
        await say(file_bus, "s1", "new words")
        await eventually(lambda: index.search.events.cursor > 0, "it is not fed again", timeout=60)
        assert sorted(await index.snippets("words")) == ["kept words", "new words"]


@pytest.mark.parametrize("fault", ["a full disk", "a lock"])
async def test_no_rebuild_for(fault: str, file_bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_file, "BUSY_S", 0.1)
    path = tmp_path / "search.db"
    await add_session(file_bus, "s1")
    await say(file_bus, "s1", "kept words")
    async with opened(file_bus, path) as index:
        assert await index.snippets("kept") == ["kept words"]
    (seq,) = await say(file_bus, "s1", "new words " * 10_000)
    search = SearchIndex(file_bus, path, SessionLookup(file_bus, "here"))
    await search.open("e1")
    file = search._file  # pyright: ignore[reportPrivateUsage]
    assert file is not None
    writer = file._writer  # pyright: ignore[reportPrivateUsage]
    news = [record async for record in file_bus.read("events.>", after=search.events.cursor, follow=False)]
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            if fault == "a full disk":
                (pages,) = writer.execute("PRAGMA page_count").fetchone()
                writer.execute(f"PRAGMA max_page_count = {pages}")
            else:
                other.execute("BEGIN IMMEDIATE")
            with pytest.raises(BusUnavailable, match="cannot be written"):
                await search.events.take(news, seq)
            assert not search._rebuild  # pyright: ignore[reportPrivateUsage]
        writer.execute("PRAGMA max_page_count = 1000000")
        await search.events.take(news, seq)
        assert search.events.cursor == seq
        sessions = {"s1": SessionRecord(id="s1", agent="codex", cwd="/w")}
        for word in ("kept", "new"):
            assert len((await search.search(word, sessions=sessions)).hits) == 1
    finally:
        await search.close()


async def test_what_is_removed_or_trimmed_leaves_the_index(file_bus: Bus, tmp_path: Path) -> None:
    await add_session(file_bus, "s1")
    await add_session(file_bus, "s2")
    old = await say(file_bus, "s1", "an old secret", "another secret")
    await say(file_bus, "s2", "their secret")
    async with opened(file_bus, tmp_path / "search.db") as index:
        assert len(await index.snippets("secret")) == 3
        await file_bus.table(SESSIONS).delete("s2")
        assert len(await index.snippets("secret")) == 2, "at once, before it is tidied"
        assert await index.search.tidy() == 1
        await file_bus.trim("events.>", before=old[1])
        assert await index.search.tidy() == 1
        assert await index.snippets("secret") == ["another secret"]
        await file_bus.trim("events.>", keep=0)
        assert await index.search.tidy() == 1
    with closing(sqlite3.connect(tmp_path / "search.db")) as file, file:
        assert file.execute("SELECT count(*) FROM words").fetchone() == (0,)


async def test_the_words_of_a_removed_session_are_not_indexed_again(file_bus: Bus, tmp_path: Path) -> None:
    await add_session(file_bus, "s1")
    await say(file_bus, "s1", "a secret")
    await file_bus.table(SESSIONS).delete("s1")
    async with opened(file_bus, tmp_path / "search.db") as index:
        await index.indexer.sync(60)
    with closing(sqlite3.connect(tmp_path / "search.db")) as file, file:
        assert file.execute("SELECT count(*) FROM words").fetchone() == (0,)


async def test_long_texts_are_searched_at_both_ends(file_bus: Bus, tmp_path: Path) -> None:
    await add_session(file_bus, "s1")
    await say(file_bus, "s1", "beginning " + "x " * 1_500_000 + "middle " + "x " * 10_000 + "ending")
    async with opened(file_bus, tmp_path / "search.db") as index:
        assert [len(await index.hits(word)) for word in ("beginning", "middle", "ending")] == [1, 0, 1]


@pytest.mark.slow
async def test_killed_at_any_moment_each_thing_is_found_once(url: str, tmp_path: Path) -> None:
    path = tmp_path / "search.db"
    for moment in ("before commit", "after commit"):
        async with open_bus(url) as bus:
            await add_session(bus, "s1")
            await say(bus, "s1", *(f"thing {number}" for number in range(5)))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(CRASHER),
            url,
            moment,
            "1",
            str(path),
            env={"PATH": "/usr/bin:/bin"},
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await asyncio.wait_for(process.communicate(), 120)
        assert (process.returncode, output) == (-9, b""), moment
    async with open_bus(url) as bus, opened(bus, path) as index:
        assert sorted(await index.snippets("thing")) == sorted(f"thing {number}" for number in range(5) for _ in "12")
