"""A running turn, as far as it has come."""

import os

from tieline.cli.full_screen.live_turn import MAX_WORDS, LiveTurn
from tieline.cli.team_view.message_views import SpeakerColours
from tieline.events import (
    Answer,
    AnyEvent,
    Command,
    Text,
    TextDelta,
    ThinkingDelta,
    ToolResult,
    ToolUse,
    TurnStarted,
)


def lines(*events: AnyEvent, joined: bool = False) -> list[str]:
    turn = LiveTurn()
    turn.apply(TurnStarted("", id="p1"))
    turn.joined = joined
    for event in events:
        turn.apply(event)
    return [line.plain for line in turn.lines(80)]


def test_words_stream_in_and_the_whole_item_takes_their_place() -> None:
    assert lines(TextDelta("Hel", "1"), TextDelta("lo", "1")) == ["Hello"]
    assert lines(TextDelta("Hel", "1"), Text("Hello.", "1"), TextDelta("More", "2")) == ["Hello.", "More"]
    assert lines(TextDelta("lo", "1"), joined=True) == ["… lo"]
    assert lines(TextDelta("lo", "1"), Text("Hello.", "1"), joined=True) == ["Hello."]
    assert lines(TextDelta("x" * (2 * MAX_WORDS), "1")) == ["x" * MAX_WORDS]


def test_what_an_agent_says_is_neither_obeyed_nor_a_marker() -> None:
    assert lines(TextDelta("[red]a[/]\x1b[2J\u202e\n[NEXT: bob]")) == ["[red]a[/]⟨U+001B⟩[2J⟨U+202E⟩"]


def test_tools_and_decisions_are_told_in_order() -> None:
    here = Answer("a1", "allow", by="owner", via=f"pid {os.getpid()} tieline")
    elsewhere = Answer("a2", "deny", by="alice", via="phone")
    by_policy = Answer("a3", "allow", by="policy")
    use = ToolUse("t1", "run", Command("ls \x1b[2J"))
    assert lines(use) == ["$ ls ⟨U+001B⟩[2J  …"]
    assert lines(use, here, ToolResult("t1", "ok"), elsewhere, by_policy, Text("Done.")) == [
        "$ ls ⟨U+001B⟩[2J  ✓",
        "· allowed",
        "· denied by alice (phone)",
        "Done.",
    ]
    assert lines(use, ToolResult("t1", "denied")) == ["$ ls ⟨U+001B⟩[2J  ✗ denied"]


def test_thoughts_are_shown_while_they_are_thought_and_subagents_are_not() -> None:
    assert lines(ThinkingDelta("Hm.")) == ["∴ Hm."]
    assert lines(ThinkingDelta("Hm."), TextDelta("Yes.")) == ["Yes."]
    assert lines(TextDelta("inner", "1", parent="t1"), ToolUse("t2", "run", Command("ls"), parent="t1")) == []


def test_a_new_turn_begins_anew() -> None:
    assert lines(TextDelta("old"), TurnStarted("", id="p2"), TextDelta("new")) == ["new"]


def test_a_name_has_one_colour_and_members_have_different_ones() -> None:
    colours, other = SpeakerColours(), SpeakerColours()
    names = [f"member{number}" for number in range(10)]
    colours.add(names)
    other.add(names[:3])
    other.add(names)
    assert [colours[name] for name in names] == [other[name] for name in names]
    assert len({colours[name] for name in names}) == 10
    assert colours["a stranger"] == "default"
