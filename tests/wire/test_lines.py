"""Bytes into lines: the same lines however they arrive, and a bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.wire.lines import LineSplitter, LineTooLong

contents = st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=20)
streams = contents.map(b"\n".join)


@st.composite
def chunked(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """A stream, and the same stream in pieces (some of them empty)."""
    stream = draw(streams)
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    return stream, [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


def split(chunks: list[bytes], limit: int) -> tuple[list[bytes], str]:
    """The lines, and what broke it off."""
    splitter = LineSplitter(limit)
    lines: list[bytes] = []
    try:
        for chunk in chunks:
            lines += splitter.feed(chunk)
    except LineTooLong as error:
        return lines + error.before, "too long"
    return lines + splitter.end(), ""


@given(chunked())
def test_any_chunking_gives_the_same_lines(case: tuple[bytes, list[bytes]]) -> None:
    stream, chunks = case
    expected = stream.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert split(chunks, 1000) == (expected, "")


@given(chunked(), st.integers(0, 20))
def test_the_bound_falls_in_the_same_place(case: tuple[bytes, list[bytes]], limit: int) -> None:
    stream, chunks = case
    lines, broken = split(chunks, limit)
    assert (lines, broken) == split([stream], limit)
    assert all(len(line) <= limit for line in lines)
    assert (broken == "too long") == any(len(line) > limit for line in stream.split(b"\n"))


def test_a_line_is_refused_before_it_is_whole() -> None:
    splitter = LineSplitter(100)
    splitter.feed(b"a" * 100)
    with pytest.raises(LineTooLong, match="more than 100 bytes, starting b'aaa") as caught:
        splitter.feed(b"b")
    assert caught.value.start == b"a" * 100 + b"b"


def test_the_error_names_the_line_that_is_too_long() -> None:
    with pytest.raises(LineTooLong) as caught:
        LineSplitter(5).feed(b"one\ntwo\nthreefour\nfive\n")
    assert caught.value.before == [b"one", b"two"]
    assert caught.value.start == b"threefour"


def test_megabytes_in_small_pieces() -> None:
    splitter = LineSplitter()
    piece = b"x" * 1000
    for _ in range(20_000):
        assert splitter.feed(piece) == []
    (line,) = splitter.feed(b"\n")
    assert len(line) == 20_000_000
    assert splitter.end() == []


def test_end_gives_an_unfinished_line_once() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\ntwo") == [b"one"]
    assert splitter.end() == [b"two"]
    assert splitter.end() == []
