"""What a person would remember of an event is searched: of every kind of action its words."""

import pytest

from tieline.events import (
    Action,
    AnyAction,
    AnyEvent,
    Ask,
    Command,
    Edit,
    Fetch,
    Mcp,
    OtherAction,
    Read,
    Search,
    Task,
    ToolUse,
    encode,
)
from tieline.hub.indexing.searchable_text import HEAD, TAIL, of_event

ACTIONS: dict[type[Action], tuple[AnyAction, list[str]]] = {
    Read: (Read("src/a.py"), ["src/a.py"]),
    Edit: (Edit(("src/a.py", "src/b.py")), ["src/a.py", "src/b.py"]),
    Command: (Command("npm test"), ["npm test"]),
    Search: (Search("needle", "src"), ["needle", "src"]),
    Fetch: (Fetch("https://example.com/x", "what is it"), ["https://example.com/x", "what is it"]),
    Mcp: (Mcp("github", "get_issue"), ["github", "get_issue"]),
    Task: (Task("look around"), ["look around"]),
    OtherAction: (OtherAction(), []),
}


def text_of(event: AnyEvent) -> str:
    searched = of_event(encode(event))
    return searched.text if searched else ""


@pytest.mark.parametrize("kind", AnyAction.__args__)
def test_of_each_action_its_words_and_of_its_tool_the_name(kind: type[Action]) -> None:
    action, words = ACTIONS[kind]
    for event in (ToolUse("c", "the_tool", action=action), Ask("a", "permission", "the_tool", action=action)):
        lines = text_of(event)
        assert all(word in lines for word in [*words, "the_tool"]), lines
        assert "None" not in lines


def test_of_a_long_text_both_ends() -> None:
    whole = "a" * HEAD + "z" * TAIL
    assert text_of(ToolUse("c", "", action=Command(whole))) == whole
    cut = text_of(ToolUse("c", "", action=Command("a" * HEAD + "m" + "z" * TAIL)))
    assert cut == f"{'a' * HEAD}\n…\n{'z' * TAIL}"


def test_what_is_not_understood_is_not_searched() -> None:
    assert of_event(b"no event") is None and of_event(b'{"type": "of tomorrow"}') is None
