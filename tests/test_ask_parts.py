"""Nothing that decides is lost on the way from an ask to what a person reads."""

from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st
from tests.test_visible_text import unmarked

from tieline.ask_parts import CONTENT, Part, ask_parts, part_text, parts_text
from tieline.events import AnyAction, Ask, Choice, Command, Edit, Fetch, Mcp, OtherAction, Question, Read, Search, Task
from tieline.visible_text import hidden

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
PATHS = st.lists(TEXT, max_size=3).map(tuple)
ACTIONS: st.SearchStrategy[AnyAction | None] = st.one_of(
    st.none(),
    st.builds(Command, TEXT, TEXT),
    st.builds(Edit, PATHS, st.one_of(TEXT, PATHS.map(lambda paths: "".join(f"+++ b/{path}\n" for path in paths)))),
    st.builds(Read, TEXT),
    st.builds(Search, TEXT, TEXT),
    st.builds(Fetch, TEXT, TEXT),
    st.builds(Mcp, TEXT, TEXT),
    st.builds(Task, TEXT),
    st.builds(OtherAction),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
QUESTIONS = st.lists(
    st.builds(
        Question,
        id=TEXT,
        text=TEXT,
        header=TEXT,
        choices=st.lists(st.builds(Choice, TEXT, TEXT, TEXT), max_size=3).map(tuple),
    ),
    max_size=2,
).map(tuple)
ASKS = st.builds(
    Ask,
    st.just("1"),
    st.just("permission"),
    title=TEXT,
    reason=TEXT,
    action=ACTIONS,
    input=st.dictionaries(TEXT | st.sampled_from(["command", "path", "content"]), JSON, max_size=4),
    questions=QUESTIONS,
    plan=TEXT,
)


def leaves(value: Any) -> Iterator[str]:
    """Every string in a value, as JSON writes it."""
    match value:
        case str():
            yield value
        case dict():
            for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
                yield str(key)  # pyright: ignore[reportUnknownArgumentType]
                yield from leaves(inner)
        case list() | tuple():
            for inner in value:  # pyright: ignore[reportUnknownVariableType]
                yield from leaves(inner)
        case _:
            pass


def decisive(ask: Ask) -> Iterator[str]:
    """What a person must be able to read, each string by itself."""
    yield from (ask.title, ask.reason, ask.plan)
    if ask.action is not None:
        yield from leaves(list(msgspec.to_builtins(ask.action, str_keys=True).values())[1:])
    for question in ask.questions:
        yield from (question.header, question.text)
        for choice in question.choices:
            yield from (choice.label, choice.description)
    diff = ask.action.diff if isinstance(ask.action, Edit) else ""
    for name, value in ask.input.items():
        if not (diff and name in CONTENT and text_alone(value)) and value not in (None, "", [], {}):
            yield from leaves(value)


def text_alone(value: Any) -> bool:
    """Nothing but texts, which a diff shows in their place."""
    return isinstance(value, str) or value == {} or (isinstance(value, list) and all(map(text_alone, value)))  # pyright: ignore[reportUnknownArgumentType]


@given(ASKS)
@example(Ask("1", "permission", action=Edit((), "1"), input={"content": {"0": []}}))
def test_every_string_of_an_ask_is_in_its_parts(ask: Ask) -> None:
    parts = ask_parts(ask)
    whole = "\n".join(f"{part.label}\n{part.text}" for part in parts)
    for text in decisive(ask):
        assert text in whole or msgspec.json.encode(text).decode()[1:-1] in whole


@given(ASKS)
@example(Ask("1", "permission", action=Edit((), "1"), input={"content": [{}, "0"]}))
def test_every_string_of_an_ask_is_in_its_text_and_nothing_invisible(ask: Ask) -> None:
    """The text of Telegram, notifications and the plain terminal: lines are indented, nothing else is changed."""
    text = parts_text(ask_parts(ask))
    assert not any(hidden(character) for character in text)
    text = unmarked(text)  # whether a letter poses as another depends on what stands beside it
    diff = ask.action.diff if isinstance(ask.action, Edit) else ""
    for wanted in decisive(ask):
        if wanted == diff:
            wanted = diff.removesuffix("\n")
        escaped = msgspec.json.encode(wanted).decode()[1:-1]
        folded = wanted.replace("\n", " ")  # a label's
        assert wanted.replace("\n", "\n  ") in text or escaped in text or folded in text


@given(ASKS)
def test_only_labels_begin_a_line(ask: Ask) -> None:
    parts = ask_parts(ask)
    flush = [line for line in parts_text(parts).split("\n") if line[:2] != "  "]
    assert len([line for line in flush if line]) <= len(parts)


def test_the_action_comes_before_the_agents_words() -> None:
    ask = Ask("1", "permission", "Bash", "because", action=Command("ls", "/x"), input={"command": "ls", "timeout": 5})
    assert ask_parts(ask) == (
        Part("request", "Bash"),
        Part("command", "ls", "code"),
        Part("in", "/x"),
        Part("timeout", "5", "code"),
        Part("reason", "because"),
    )


def test_a_path_that_the_diff_does_not_name_is_told() -> None:
    diff = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
    ask = Ask("1", "permission", action=Edit(("x.py", "/etc/y"), diff), input={"content": "b", "mode": "x.py"})
    assert ask_parts(ask) == (Part("file", "/etc/y"), Part("change", diff, "diff"))


def test_an_edit_without_a_diff_shows_its_input() -> None:
    ask = Ask("1", "permission", action=Edit(("x",)), input={"path": "x", "content": "all\nof it", "create": True})
    assert ask_parts(ask) == (Part("file", "x"), Part("content", "all\nof it", "code"), Part("create", "true", "code"))


def test_what_is_not_understood_is_shown_raw() -> None:
    ask = Ask("1", "permission", action=OtherAction(), input={"a": {"b": [1, "two"]}, "c": "x\ny"})
    assert ask_parts(ask) == (
        Part("a", '{\n  "b": [\n    1,\n    "two"\n  ]\n}', "code"),
        Part("c", "x\ny", "code"),
    )


def test_text_cannot_pose_as_a_label() -> None:
    assert part_text(Part("command", "ls\nin: /tmp", "code")) == "command:\n  ls\n  in: /tmp"
    assert part_text(Part("a\nb", "x\u202e")) == "a b: x⟨U+202E⟩"


def test_a_diff_ends_with_its_last_line() -> None:
    assert part_text(Part("change", "+a\n", "diff")) == "change: +a"
    assert part_text(Part("change", "-a\n+b\n", "diff")) == "change:\n  -a\n  +b"
    assert part_text(Part("command", "ls\n", "code")) == "command:\n  ls\n  ", "of anything else it is a part"


def test_a_command_that_quotes_the_title_does_not_take_it_away() -> None:
    title = "Run a command outside the sandbox"
    ask = Ask("1", "permission", title, action=Command(f"rm -r / # {title}"))
    assert Part("request", title) in ask_parts(ask)


def test_the_name_of_a_tool_hides_nothing_that_is_given_to_it() -> None:
    ask = Ask("1", "permission", action=Mcp("production", "delete"), input={"where": "production", "how": "delete"})
    assert {Part("where", "production"), Part("how", "delete")} <= set(ask_parts(ask))


def test_a_flag_among_the_texts_of_an_edit_is_shown() -> None:
    diff = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
    plain = {"edits": [{"old_string": "a", "new_string": "b"}]}
    flagged = {"edits": [{"old_string": "a", "new_string": "b", "replace_all": True}], "content": {"delete": "y"}}
    texts = [[part.label for part in ask_parts(Ask("1", "permission", action=Edit((), diff), input=given))]
             for given in (plain, flagged)]  # fmt: skip
    assert texts == [["change"], ["change", "edits", "content"]]
