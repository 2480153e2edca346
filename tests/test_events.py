"""Events: round trip, schema, tolerance."""

from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline import events
from tieline.events import (
    EVENT_TYPES,
    Answer,
    Ask,
    Command,
    Diff,
    Done,
    Edit,
    Error,
    Event,
    Fetch,
    Init,
    Mcp,
    Other,
    OtherAction,
    Plan,
    PlanStep,
    Question,
    Read,
    Search,
    Status,
    Task,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tokens,
    ToolOutput,
    ToolResult,
    ToolUse,
    TurnStarted,
    Usage,
    Warning,
    changed_paths,
    decode,
    encode,
)

text = st.text(max_size=20)
actions = st.one_of(
    st.builds(Read, text),
    st.builds(Edit, st.lists(text, max_size=3).map(tuple), text),
    st.builds(Command, text, text),
    st.builds(Search, text, text),
    st.builds(Fetch, text, text),
    st.builds(Mcp, text, text),
    st.builds(Task, text),
    st.builds(OtherAction),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
inputs = st.dictionaries(text, json_values, max_size=3)
counts = st.none() | st.integers(0, 10**9)
tokens = st.builds(Tokens, input=counts, output=counts, cache_read=counts, cost_usd=st.none() | st.floats(0, 100))
anything = st.one_of(
    st.builds(Init, text, text, text, tools=st.lists(text, max_size=3).map(tuple)),
    st.builds(TurnStarted, text),
    st.builds(TextDelta, text, text, text),
    st.builds(Text, text, text, text),
    st.builds(ThinkingDelta, text, text),
    st.builds(Thinking, text, text),
    st.builds(ToolUse, text, text, actions, inputs, text),
    st.builds(ToolOutput, text, text),
    st.builds(ToolResult, text, st.sampled_from(["ok", "error", "denied"]), text),
    st.builds(
        Ask,
        text,
        st.sampled_from(["permission", "question", "plan"]),
        text,
        action=st.none() | actions,
        input=inputs,
        questions=st.lists(st.builds(Question, id=text, text=text, many=st.booleans()), max_size=2).map(tuple),
        remember=st.lists(st.sampled_from(["once", "session", "always"]), max_size=2).map(tuple),
    ),
    st.builds(Answer, text, st.sampled_from(["allow", "deny"]), text, answers=st.dictionaries(text, st.tuples(text))),
    st.builds(Plan, st.lists(st.builds(PlanStep, text), max_size=3).map(tuple)),
    st.builds(Diff, text, st.lists(text, max_size=3).map(tuple)),
    st.builds(Usage, tokens, counts),
    st.builds(Status, text, text),
    st.builds(Warning, text),
    st.builds(Error, text, text, st.booleans()),
    st.builds(Done, st.sampled_from(["success", "error", "timeout"]), text, tokens=st.none() | tokens),
    st.builds(Other, json_values, text),
)


@given(anything)
def test_round_trip_and_schema(event: Event) -> None:
    line = encode(event)
    assert b"\n" not in line
    assert decode(line) == event
    VALIDATOR.validate(msgspec.json.decode(line))


VALIDATOR: Any = jsonschema.Draft202012Validator(events.schema())


def test_every_type_has_its_tag() -> None:
    tags = [kind.type for kind in EVENT_TYPES]
    assert tags == [
        "init", "turn_started", "text_delta", "text", "thinking_delta", "thinking", "tool_use", "tool_output",
        "tool_result", "ask", "answer", "plan", "diff", "usage", "status", "warning", "error", "done", "other",
    ]  # fmt: skip
    assert encode(Text("hi")) == b'{"type":"text","text":"hi"}'


def test_events_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Text("hi").text = "ho"  # type: ignore[misc]


def test_fields_of_newer_versions_are_tolerated() -> None:
    assert decode(b'{"type":"text","text":"hi","from_the_future":[1,2]}') == Text("hi")


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(b'{"type":"no_such_thing"}')


def test_a_measured_zero_is_not_an_absence() -> None:
    assert decode(encode(Usage(Tokens(input=0)))) == Usage(Tokens(input=0))
    assert b'"input":0' in encode(Usage(Tokens(input=0)))
    assert b"input" not in encode(Usage(Tokens()))


def test_changed_paths() -> None:
    diff = "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+x\n--- a/old.txt\n+++ b/old.txt\n"
    assert changed_paths(diff) == ("new.txt", "old.txt")
