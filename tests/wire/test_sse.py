"""Server-sent events, however the bytes are cut."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.wire.sse import EventTooLong, SentEvent, SseParser


def parse(stream: bytes) -> list[SentEvent]:
    return SseParser().feed(stream)


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_fields(end: bytes) -> None:
    lines = [
        b": a comment",
        b"event: tick",
        b"id: 7",
        b"retry: 250",
        b"data: one",
        b"data:two",
        b"unknown: x",
        b"",
        b"",
    ]
    parser = SseParser()
    assert parser.feed(end.join(lines)) == [SentEvent(b"one\ntwo", "tick", "7")]
    assert parser.feed(end.join([b"data: three", b"", b""])) == [SentEvent(b"three", "message", "7")], "the id stays"


def test_edges() -> None:
    assert parse(b"\xef\xbb\xbfdata: x\n\n") == [SentEvent(b"x")], "a byte order mark"
    assert parse(b"\xef\xbb\xbf: hello\n\xef\xbb\xbfdata: x\n\n") == [], "only at the very beginning"
    assert parse(b"data\n\n") == [SentEvent(b"")], "a field without a colon"
    assert parse(b"data:  two spaces\n\n") == [SentEvent(b" two spaces")]
    assert parse(b"event: x\n\ndata: y\n\n") == [SentEvent(b"y")], "an event without data is none"
    assert parse(b"data: unfinished\n") == []
    assert parse(b"id: a\0b\nretry: soon\ndata: x\n\n") == [SentEvent(b"x")], "what is not valid is ignored"
    assert parse(b"\n\n\n") == []
    assert parse(b"") == []


def test_bound() -> None:
    assert SseParser(limit=20).feed(b"data: 0123456789\n\n")
    with pytest.raises(EventTooLong, match="more than 20 bytes"):
        SseParser(limit=20).feed(b"data: " + b"x" * 30)  # no newline yet: it must not pile up
    parser = SseParser(limit=20)
    with pytest.raises(EventTooLong, match="more than 20 bytes"):
        for _ in range(10):
            parser.feed(b"data: 0123\n")


def test_megabytes_in_small_chunks() -> None:
    body = msgspec.json.encode({"text": "0123456789" * 500_000})
    stream = b"data: " + body + b"\n\n"
    parser = SseParser()
    seen = [event for at in range(0, len(stream), 4096) for event in parser.feed(stream[at : at + 4096])]
    assert [event.data for event in seen] == [body]


texts = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=30)
events = st.builds(
    SentEvent,
    data=st.lists(texts, min_size=1, max_size=4).map(lambda lines: "\n".join(lines).encode()),
    event=texts.map(lambda name: name or "message"),
)


@given(st.lists(events, max_size=5), st.sampled_from(["\n", "\r", "\r\n"]), st.data())
def test_any_cut_gives_the_same_events(sent: list[SentEvent], end: str, data: st.DataObject) -> None:
    """What was written is read back, whatever the line ends and wherever the stream is cut."""
    written = "".join(
        f"event: {event.event}{end}"
        + "".join(f"data: {line}{end}" for line in event.data.decode().split("\n"))
        + f": comment{end}{end}"
        for event in sent
    ).encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(written)), max_size=8)))
    parser = SseParser()
    seen: list[SentEvent] = []
    for start, stop in zip([0, *cuts], [*cuts, len(written)], strict=True):
        seen += parser.feed(written[start:stop])
    assert seen == sent


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_garbage_is_no_crash(chunks: list[bytes]) -> None:
    whole, piecewise = SseParser(), SseParser()
    expected = whole.feed(b"".join(chunks))
    assert [event for chunk in chunks for event in piecewise.feed(chunk)] == expected
