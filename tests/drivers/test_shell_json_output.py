"""What a command line prints, as events."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline import config
from tieline.drivers.shell import driver as shell
from tieline.drivers.shell.json_output import Match, OutputFields, ShellNormaliser, compile_path
from tieline.drivers.shell.text_output import TextOutput
from tieline.events import Event, Other, Text, TextDelta, Thinking, Tokens


def feed(fields: OutputFields, *messages: dict[str, Any]) -> tuple[ShellNormaliser, list[Event]]:
    normaliser = ShellNormaliser(fields, source="mine")
    return normaliser, [event for message in messages for event in normaliser.feed(message)]


@pytest.mark.parametrize(
    ("path", "message", "value"),
    [
        ("text", {"text": "a"}, "a"),
        ("item.text", {"item": {"text": "a"}}, "a"),
        ("a.b.c", {"a": {"b": {"c": 3}}}, 3),
        ("item.text", {"item": "text"}, None),
        ("item.text", {"item": None}, None),
        ("item.text", {}, None),
        ("content[]", {"content": ["a", "b"]}, ["a", "b"]),
        ("content[].text", {"content": [{"text": "a"}, {"image": 1}, "x", None, {"text": "b"}]}, ["a", "b"]),
        ("m.c[].t", {"m": {"c": [{"t": "a"}]}}, ["a"]),
        ("a[].b[].c", {"a": [{"b": [{"c": 1}, {"c": 2}]}, {"b": "x"}, {"b": [{"c": 3}]}]}, [1, 2, 3]),
        ("content[].text", {"content": "text"}, None),
        ("odd key-1.x", {"odd key-1": {"x": 1}}, 1),
    ],
)
def test_field_paths(path: str, message: dict[str, Any], value: Any) -> None:
    assert compile_path(path)(message) == value


@pytest.mark.parametrize(
    ("match", "message", "matches"),
    [
        ({"type": "result"}, {"type": "result"}, True),
        ({"type": "result"}, {"type": "other"}, False),
        ({"type": "result"}, {}, False),
        ({"type": "result", "is_error": False}, {"type": "result", "is_error": False}, True),
        ({"type": "result", "is_error": False}, {"type": "result", "is_error": True}, False),
        ({"type": "item", "item.kind": "end"}, {"type": "item", "item": {"kind": "end"}}, True),
        ({"type": "item", "item.kind": "end"}, {"type": "item", "item": {"kind": "go"}}, False),
        (({"type": "a"}, {"type": "b"}), {"type": "b"}, True),
        (({"type": "a"}, {"type": "b"}), {"type": "c"}, False),
        (({"type": "a", "x": 1}, {"y": 2}), {"type": "c", "y": 2}, True),
        ({"error": "*"}, {"error": {"message": "x"}}, True),
        ({"error": "*"}, {"error": None}, False),
        ({"type": "a", "parent": ""}, {"type": "a", "parent": None}, True),
        ({"type": "a", "parent": ""}, {"type": "a", "parent": ""}, True),
        ({"type": "a", "parent": ""}, {"type": "a"}, True),
        ({"type": "a", "parent": ""}, {"type": "a", "parent": "tool-1"}, False),
        ({"type": "a", "parent": ""}, {"type": "a", "parent": 0}, False),
        ({"type": "*"}, {"type": "anything"}, True),
        ({"type": "*"}, {"kind": "anything"}, False),
        ({"type": 5}, {"type": 5}, True),
        ({"type": 5}, {"type": 6}, False),
        ({"type": "a"}, {"type": ["a"]}, False),
    ],
)
def test_matches(match: Match, message: dict[str, Any], matches: bool) -> None:
    normaliser, _ = feed(OutputFields(done_when=match, text_field="text"), message)
    assert (normaliser.end is not None) == matches


def test_text_of_matching_messages_alone() -> None:
    fields = OutputFields(text_field="item.text", text_when={"type": "done", "item.kind": "message"})
    message = {"type": "done", "item": {"kind": "message", "text": "hello"}}
    thought = {"type": "done", "item": {"kind": "reasoning", "text": "hm"}}
    _, events = feed(fields, message, thought, {"type": "begun", "item": {"kind": "message", "text": "hel"}})
    assert [type(event) for event in events] == [Text, Other, Other]
    assert events[0] == Text("hello", "text-1")
    assert events[1] == Other(thought, "mine"), "kept as it came"


def test_deltas_announce_the_text_that_follows() -> None:
    fields = OutputFields(text_field="text", delta_field="delta", thinking_field="thought")
    _, events = feed(fields, {"delta": "he"}, {"thought": "hm"}, {"delta": "llo"}, {"text": "hello"}, {"delta": "x"})
    text = next(event for event in events if isinstance(event, Text))
    deltas = [event for event in events if isinstance(event, TextDelta)]
    assert [delta.item == text.item for delta in deltas] == [True, True, False]
    assert [event.text for event in events if isinstance(event, Thinking)] == ["hm"]


def test_an_answer_that_is_begun_anew() -> None:
    """Its stream was cut off, and the agent tried again: no item's deltas say anything else than the item."""
    fields = OutputFields(text_field="text", delta_field="delta")
    _, events = feed(
        fields, {"delta": "half a"}, {"delta": "whole"}, {"text": "whole"}, {"delta": "more"}, {"text": "more"}
    )
    assert [(event.item, event.text) for event in events if isinstance(event, Text)] == [
        ("text-1", "half awhole"),
        ("text-2", "whole"),
        ("text-3", "more"),
    ]
    assert [event.item for event in events if isinstance(event, TextDelta)] == ["text-1", "text-1", "text-3"]


def test_deltas_alone_are_the_text_up_to_the_next_message() -> None:
    fields = OutputFields(delta_field="delta", done_when={"type": "end"})
    normaliser, events = feed(
        fields, {"delta": "he"}, {"delta": "llo"}, {"type": "tool"}, {"delta": "you"}, {"type": "end"}
    )
    assert [event.text for event in events if isinstance(event, Text)] == ["hello", "you"]
    assert [type(event) for event in events] == [TextDelta, TextDelta, Text, Other, TextDelta, Text]
    assert [delta.item for delta in events if isinstance(delta, TextDelta)] == ["text-1", "text-1", "text-2"]
    assert normaliser.end is not None


def test_completion_carries_text_usage_and_session() -> None:
    fields = OutputFields(
        done_when={"type": "result"},
        text_field="result",
        session_field="session_id",
        usage={"input": "usage.in", "output": "usage.out", "cost_usd": "cost", "cache_read": "usage.none"},
    )
    end = {"type": "result", "result": "hello", "session_id": "s-1", "usage": {"in": 0, "out": 7}, "cost": 1}
    normaliser, events = feed(fields, {"type": "other", "usage": {"in": 99}}, end)
    assert events[-1] == Text("hello", "text-1")
    assert normaliser.native_id == "s-1"
    assert normaliser.end is not None
    assert normaliser.end.tokens == Tokens(input=0, output=7, cost_usd=1.0), "a measured zero is not an absence"


def test_the_first_session_id_counts() -> None:
    normaliser, _ = feed(
        OutputFields(text_field="t", session_field="id"), {"x": 1}, {"id": 5}, {"id": "one"}, {"id": "two"}
    )
    assert normaliser.native_id == "one"


def test_usage_without_a_completion_event_is_the_last_one() -> None:
    fields = OutputFields(text_field="t", usage={"output": "usage.out"})
    normaliser, _ = feed(fields, {"usage": {"out": 1}}, {"usage": {"out": True}}, {"usage": {"out": 3}}, {"t": "x"})
    assert normaliser.tokens == Tokens(output=3)


def test_failure_wins_over_completion() -> None:
    fields = OutputFields(
        done_when={"type": "result"},
        error_when={"type": "result", "is_error": True},
        error_field="message",
        text_field="result",
    )
    normaliser, events = feed(fields, {"type": "result", "is_error": True, "result": "x", "message": "it broke"})
    assert normaliser.end is not None
    assert (normaliser.end.failed, normaliser.end.error) == (True, "it broke")
    assert events == []
    normaliser, _ = feed(fields, {"type": "result", "is_error": True, "odd": 1})
    assert normaliser.end is not None
    assert '"odd":1' in normaliser.end.error, "without its text, the message itself"


@pytest.mark.parametrize(
    ("line", "raw"),
    [
        (b"Warning: something", "Warning: something"),
        (b"[1, 2]", [1, 2]),
        (b"null", None),
        (b"{broken", "{broken"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'{"type": {"odd": 1}}', {"type": {"odd": 1}}),
        (b"[" * 100_000, "[" * 100_000),
    ],
)
def test_garbage_is_kept(line: bytes, raw: Any) -> None:
    assert ShellNormaliser(OutputFields(text_field="text"), source="mine").line(line) == [Other(raw, "mine")]


def test_blank_lines_are_nothing() -> None:
    normaliser = ShellNormaliser(OutputFields(text_field="text"), source="mine")
    assert normaliser.line(b"") == normaliser.line(b"  \r") == []


@pytest.mark.slow
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["type", "item", "text", "content", "usage", "id", "x"]), inner)))  # fmt: skip  # noqa: E501
def test_no_message_breaks_it(message: Any) -> None:
    fields = OutputFields(
        done_when=({"type": "x"}, {"item.type": "*"}),
        error_when={"type": {"item": []}},
        text_field="item.content[].text",
        text_when={"item[].x": 1},
        delta_field="text",
        session_field="item.id",
        usage={"input": "usage[].x"},
    )
    if isinstance(message, dict):
        feed(fields, message)  # pyright: ignore[reportUnknownArgumentType]


@given(st.text(), st.lists(st.integers(0, 200), max_size=8))
def test_plain_text_in_any_pieces(text: str, cuts: list[int]) -> None:
    data = text.encode(errors="surrogatepass")
    places = sorted(min(cut, len(data)) for cut in cuts)
    plain = TextOutput()
    events: list[Event] = []
    for start, end in zip([0, *places], [*places, len(data)], strict=True):
        events += plain.feed(data[start:end])
    events += plain.finish()
    expected = data.decode(errors="replace").rstrip("\r\n")
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == expected
    assert [event.text for event in events if isinstance(event, Text)] == ([expected] if expected else [])


# --- recorded: the real agents' command lines, read as `examples/shell.toml` says ---------------------------

EXAMPLES = config.load(environ={"TIELINE_CONFIG": str(Path(__file__).parents[2] / "examples" / "shell.toml")}).agents


def recorded(agent: str) -> tuple[ShellNormaliser, list[Event]]:
    options = {key: value for key, value in EXAMPLES[f"{agent}-command"].items() if key != "type"}
    normaliser = ShellNormaliser(shell.create(agent, options).options, source=agent)
    transcript = Path(__file__).parent / "shell" / f"{agent}.jsonl"
    return normaliser, [event for line in transcript.read_bytes().splitlines() for event in normaliser.line(line)]


@pytest.mark.parametrize(
    ("agent", "thoughts", "pieces"), [("claude", ["Let me see."], 6), ("codex", ["Let me see."], 0), ("gemini", [], 6)]
)
def test_recorded_transcripts(agent: str, thoughts: list[str], pieces: int) -> None:
    normaliser, events = recorded(agent)
    kinds = Counter(type(event) for event in events)
    assert [event.text for event in events if isinstance(event, Text)] == ["I will run it.", "It ran."]
    assert [event.text for event in events if isinstance(event, Thinking)] == thoughts
    assert kinds[TextDelta] == pieces
    assert kinds[Other] > 0, "what has no field is kept"
    assert normaliser.native_id
    assert normaliser.end is not None
    assert not normaliser.end.failed
    tokens = normaliser.end.tokens
    assert tokens is not None and tokens.input and tokens.output
    assert (tokens.cost_usd is not None) == (agent == "claude")
    texts: dict[str, str] = {}
    for event in events:
        if isinstance(event, TextDelta):
            texts[event.item] = texts.get(event.item, "") + event.text
        elif isinstance(event, Text) and pieces:
            assert texts[event.item] == event.text
