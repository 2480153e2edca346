"""Whatever is typed, FTS5 understands it, and it means what it says."""

import sqlite3
from collections.abc import Generator
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tieline.errors import UsageError
from tieline.hub.indexing.search_query import match_expression, separated

TEXTS = {
    1: "The flaky test fails with connection refused",
    2: "a refused connection is a test",
    3: "Café naïve; snake_case and src/tieline/app.py",
    4: "認証テストが失敗した",
    5: "NOT AND OR NEAR text tags",
    6: "C++ is not C",
}


CREATE = "CREATE VIRTUAL TABLE words USING fts5(text, tags, tokenize = 'unicode61 remove_diacritics 2')"


@pytest.fixture(scope="module")
def table() -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(CREATE)
        rows = [(id, separated(text), f"k{id}") for id, text in TEXTS.items()]
        connection.executemany("INSERT INTO words (rowid, text, tags) VALUES (?, ?, ?)", rows)
        yield connection


def matches(table: sqlite3.Connection, query: str, *tags: str) -> list[int]:
    expression = match_expression(query, tags)
    return [id for (id,) in table.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid", (expression,))]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("connection refused", [1, 2]),
        ('"connection refused"', [1]),
        ('"connection refused', [1]),
        ("CONN*", [1, 2]),
        ("test -flaky", [2]),
        ('test -"connection refused"', [2]),
        ("cafe", [3]),
        ("Cafe\u0301", [3]),
        ("snake_case", [3]),
        ("tieline/app.py", [3]),
        ("app.py tieline", [3]),
        ("テスト", [4]),
        ("認証", [4]),
        ("証認", []),
        ("NOT", [5, 6]),
        ("AND OR NEAR", [5]),
        ("k1", []),
        ("tags:k1", []),
        ("text", [5]),
    ],
)
def test_what_a_query_finds(table: sqlite3.Connection, query: str, expected: list[int]) -> None:
    assert matches(table, query) == expected


def test_tags_are_no_words(table: sqlite3.Connection) -> None:
    assert matches(table, "connection", "k2") == [2]
    assert matches(table, "connection", "k3") == []


@pytest.mark.parametrize(
    "query", ["", "  ", '"', '""', "***", "-", "-word", "+ & |", "\0", "a*", "x " * 300, "w " * 21]
)
def test_what_finds_nothing_or_everything_is_refused_in_words(query: str) -> None:
    with pytest.raises(UsageError) as refused:
        match_expression(query)
    assert refused.value.field == "q" and refused.value.hint


SYNTAX = st.sampled_from(
    ['"', "*", "(", ")", "{", "}", ":", "^", "+", "-", " AND ", " OR ", " NOT ", "NEAR(", "text", "\0"]
)


@pytest.mark.slow
@given(st.lists(st.one_of(SYNTAX, st.text(max_size=6)), max_size=12).map("".join))
@settings(max_examples=300)
def test_no_text_is_a_syntax_error(query: str) -> None:
    try:
        expression = match_expression(query, ["k1"])
    except UsageError:
        return
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE words USING fts5(text, tags)")
        connection.execute("SELECT rowid FROM words WHERE words MATCH ?", (expression,)).fetchall()


@given(st.text(max_size=40))
@settings(max_examples=300)
def test_a_text_is_found_by_its_own_words(text: str) -> None:
    expression = match_expression("word")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(CREATE)
        connection.execute("INSERT INTO words VALUES (?, '')", (separated(f"{text} word"),))
        assert connection.execute("SELECT count(*) FROM words WHERE words MATCH ?", (expression,)).fetchone() == (1,)
