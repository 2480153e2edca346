"""A search in a million events, against the 50 ms that it may take; indexed by the code that a hub indexes with."""

import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tieline.hub.indexing.search_file import Document, SearchFile
from tieline.hub.indexing.search_query import match_expression, tag

from .rows import Row, at_most

EVENTS = 1_000_000
BATCH = 5000
SESSIONS = 10_000
WORDS_EACH = 25
VOCABULARY = 50_000
ROUNDS = 15
LIMIT_S = 0.05
SECONDS_APART = 3.0
BEGAN = 1.7e9


def documents(count: int, seed: int = 1) -> Iterator[Document]:
    """Texts whose words are as unevenly frequent as people's are: the most frequent is in most texts."""
    chance = random.Random(seed)
    for number in range(count):
        words = " ".join(f"word{int(VOCABULARY ** chance.random())}" for _ in range(WORDS_EACH))
        session, agent = f"s{number % SESSIONS}", f"agent{number % 5}"
        yield Document(
            family="events",
            seq=number + 1,
            at=BEGAN + number * SECONDS_APART,
            kind="text" if number % 4 else "prompt",
            text=f"{words} needle{number}" if number % 1000 == 0 else words,
            session=session,
            tags=(tag("s", session), tag("a", agent), tag("p", f"project{number % 50}")),
        )


def fill(file: SearchFile, count: int) -> None:
    batch: list[Document] = []
    for document in documents(count):
        batch.append(document)
        if len(batch) == BATCH:
            file.add("events", batch, batch[-1].seq)
            batch = []
    file.add("events", batch, count)


def queries(count: int) -> dict[str, tuple[str, tuple[str, ...], float]]:
    """The words, the filters and since when."""
    end = BEGAN + count * SECONDS_APART
    return {
        "a rare word": (f"needle{count // 2000 * 1000}", (), 0.0),
        "the most frequent word": ("word1", (), 0.0),
        "two frequent words": ("word1 word2", (), 0.0),
        "a phrase": ('"word1 word2"', (), 0.0),
        "what begins so": ("needle1*", (), 0.0),
        "a frequent word in one session": ("word1", (tag("s", "s77"),), 0.0),
        "a frequent word, one agent, one kind": ("word3", (tag("a", "agent2"), tag("k", "prompt")), 0.0),
        "a frequent word since a day": ("word9", (), end - 86400),
        "a frequent word without another": ("word1 -word2", (), 0.0),
    }


def measure(count: int = EVENTS) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        file = SearchFile(Path(folder) / "search.db", "bench")
        fill(file, count)
        rows: list[Row] = []
        for name, (query, tags, since) in queries(count).items():
            expression = match_expression(query, tags)
            taken: list[float] = []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                assert file.search(expression, before=0, since=since, until=0.0, limit=51), name
                taken.append(time.perf_counter() - began)
            note = f"{count:,} events; the reference is the limit"
            rows.append(at_most(f"search: {name}", statistics.median(taken), LIMIT_S, 1.0, note))
        file.close()
        return rows
