"""OpenCode's events as ours: recorded turns of the real program, and what it may say that we do not know."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tieline.drivers.base import Spec
from tieline.drivers.opencode.events import OpenCodeNormaliser
from tieline.drivers.opencode.protocol import IGNORED, error_message
from tieline.drivers.opencode.turn_state import TurnState, past_limit
from tieline.events import (
    Command,
    Edit,
    Error,
    Event,
    Fetch,
    Mcp,
    Other,
    OtherAction,
    Plan,
    PlanStep,
    Status,
    Task,
    Text,
    TextDelta,
    Thinking,
    ToolOutput,
    ToolResult,
    ToolUse,
    Usage,
)
from tieline.testing.stream_checks import of, the

RECORDED = Path(__file__).parent / "opencode"
Message = dict[str, Any]


def recorded(name: str) -> list[Message]:
    return [msgspec.json.decode(line) for line in (RECORDED / f"{name}.jsonl").read_bytes().splitlines()]


def root_of(messages: list[Message]) -> str:
    return next(each["properties"]["sessionID"] for each in messages if each["type"] == "message.updated")


def normalise(messages: list[Message], **options: Any) -> tuple[list[Event], OpenCodeNormaliser]:
    normaliser = OpenCodeNormaliser(root_of(messages), **options)
    return [event for message in messages for event in normaliser.feed(message)], normaliser


def test_turn() -> None:
    seen, normaliser = normalise(recorded("turn"))
    assert the(seen, Thinking).text == "Let me consider the matter."
    assert [text.text for text in of(seen, Text)] == ["I will write a file.", "All done, in blue."]
    assert "".join(piece.text for piece in of(seen, TextDelta)) == "I will write a file.All done, in blue."
    write, run, todo, question = of(seen, ToolUse)
    assert write.action == Edit(("/project/made.txt",))
    assert isinstance(run.action, Command)
    assert (todo.action, question.action) == (OtherAction(), OtherAction())
    assert [result.status for result in of(seen, ToolResult)] == ["ok", "error", "ok", "ok"]
    assert "exit status 3" in of(seen, ToolResult)[1].output
    assert "one\ntwo" in "".join(piece.text for piece in of(seen, ToolOutput))
    steps = (PlanStep("Look", "done"), PlanStep("Change", "running"), PlanStep("Test"))
    assert the(seen, Plan).steps == steps
    assert normaliser.steps == 5
    assert normaliser.tokens is not None
    assert of(seen, Usage)[-1].tokens == normaliser.tokens
    assert (normaliser.tokens.cost_usd or 0) > 0
    diff = normaliser.composed_diff()
    assert diff is not None
    assert (diff.paths, "+one\n+two\n" in diff.diff) == (("/project/made.txt",), True)
    assert not of(seen, Other)
    assert "go" not in [text.text for text in of(seen, Text)], "the prompt's echo"


def test_refused() -> None:
    seen, _ = normalise(recorded("refused"), hidden="bash".__eq__)
    run, fetch = of(seen, ToolUse)
    assert (run.name, isinstance(run.action, Command)) == ("bash", True), "what the model was not offered, by its name"
    assert fetch.action == Fetch("http://127.0.0.1:9/page")
    assert [result.status for result in of(seen, ToolResult)] == ["denied", "denied"]
    assert "not on my machine" in of(seen, ToolResult)[1].output
    unknown, _ = normalise(recorded("refused"))
    assert of(unknown, ToolResult)[0].status == "error", "no rule of ours hid it: the model just made it up"


def test_subagent() -> None:
    seen, normaliser = normalise(recorded("subagent"))
    task, run = of(seen, ToolUse)
    assert task.action == Task("Count files")
    assert (task.parent, run.parent) == ("", task.id)
    assert [(text.text, text.parent) for text in of(seen, Text)] == [
        ("There are none.", task.id),
        ("The subagent found none.", ""),
    ]
    assert normaliser.steps == 2, "the subagent's model calls are not the turn's"
    assert normaliser.tokens is not None
    assert normaliser.tokens.input == sum(
        each["properties"]["part"]["tokens"]["input"]
        for each in recorded("subagent")
        if each["type"] == "message.part.updated" and each["properties"]["part"]["type"] == "step-finish"
    ), "but its tokens are"


def test_failed() -> None:
    seen, _ = normalise(recorded("failed"))
    assert [(error.message, error.recoverable) for error in of(seen, Error)] == [("the model is overloaded", True)]
    assert the(seen, Status).state == "retrying"


@pytest.mark.parametrize("name", ["turn", "refused", "subagent", "failed"])
def test_said_again_is_not_told_again(name: str) -> None:
    """After a lost event stream everything is read again."""
    messages = [each for each in recorded(name) if each["type"] != "session.status"]
    once, _ = normalise(messages)
    twice = OpenCodeNormaliser(root_of(messages))
    seen = [event for message in messages for event in twice.feed(message)]
    for message in messages:
        if message["type"] in ("message.updated", "todo.updated"):
            seen += twice.feed(message)
        elif message["type"] == "message.part.updated":
            seen += twice.feed_part(message["properties"]["part"])
    assert seen == once


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_gap_in_a_text_is_filled_at_its_end(missing: int) -> None:
    """Deltas are told once and never kept by the server: what a gap has swallowed comes with the whole text."""
    whole = recorded("turn")
    part = next(each["properties"]["partID"] for each in whole if each["properties"].get("delta") == "I wil")
    start, *deltas, end = [each for each in whole if part in str(each)]
    assert len(deltas) == 4
    normaliser = OpenCodeNormaliser(root_of(whole))
    seen = list(normaliser.feed(start))
    for delta in deltas[: missing - 1]:
        seen += normaliser.feed(delta)
    normaliser.mark_gap()
    seen += normaliser.feed_part(start["properties"]["part"])
    for message in (*deltas[missing:], end):
        seen += normaliser.feed(message)
    assert "".join(piece.text for piece in of(seen, TextDelta)) == "I will write a file."
    assert the(seen, Text).text == "I will write a file."


def test_a_text_that_was_trimmed_at_its_end() -> None:
    part: Message = {"id": "p", "messageID": "m", "sessionID": "s", "type": "text", "text": "", "time": {"start": 1}}
    normaliser = OpenCodeNormaliser("s")
    delta = {"sessionID": "s", "messageID": "m", "partID": "p", "field": "text", "delta": "Done.\n\n"}
    ended = {**part, "text": "Done.", "time": {"start": 1, "end": 2}}
    seen: list[Event] = []
    for kind, properties in (
        ("message.part.updated", {"part": part}),
        ("message.part.delta", delta),
        ("message.part.updated", {"part": ended}),
    ):
        seen += normaliser.feed({"type": kind, "properties": properties})
    assert the(seen, Text).text == the(seen, TextDelta).text == "Done.\n\n"


def tool(name: str, state: Message) -> Message:
    part = {"id": "p", "messageID": "m", "sessionID": "s", "callID": "c", "type": "tool", "tool": name, "state": state}
    return {"type": "message.part.updated", "properties": {"sessionID": "s", "part": part}}


def test_output_of_a_running_command_is_told_once() -> None:
    """OpenCode repeats the last part of the output; long output loses its beginning."""
    normaliser = OpenCodeNormaliser("s")
    shown = ["a" * 500, "a" * 500 + "b" * 500, "...\n\n" + "a" * 100 + "b" * 500 + "c" * 300]
    seen: list[Event] = []
    for output in shown:
        state = {"status": "running", "input": {"command": "x"}, "metadata": {"output": output}, "time": {"start": 1}}
        seen += normaliser.feed(tool("bash", state))
    assert [piece.text for piece in of(seen, ToolOutput)] == ["a" * 500, "b" * 500, "c" * 300]


def test_mcp_tools_by_their_server() -> None:
    normaliser = OpenCodeNormaliser("s", mcp=["git", "git_hub"])
    state = {"status": "running", "input": {}, "time": {"start": 1}}
    assert the(list(normaliser.feed(tool("git_hub_search", state))), ToolUse).action == Mcp("git_hub", "search")
    assert the(list(OpenCodeNormaliser("s").feed(tool("git_hub_search", state))), ToolUse).action == OtherAction()


@pytest.mark.parametrize(
    "message",
    [
        {"type": "session.levitated", "properties": {"sessionID": "s", "height": 3}},
        {"no": "type"},
        {"type": "message.part.updated"},
        {"type": "message.part.updated", "properties": {"part": {"id": "p", "messageID": "m", "type": "hologram"}}},
        {"type": "message.part.updated", "properties": {"part": None}},
        {"type": "message.part.delta", "properties": {"partID": ["?"]}},
        {"type": "message.updated", "properties": {"info": "?"}},
        {"type": "session.status", "properties": {"status": 7}},
        {"type": "todo.updated", "properties": {"sessionID": "s", "todos": [1]}},
    ],
)
def test_unknown_is_kept(message: Message) -> None:
    (kept,) = OpenCodeNormaliser("s").feed(message)
    assert isinstance(kept, Other)
    assert kept.source == "opencode"
    assert kept.raw == message or kept.raw == message["properties"]["part"]


def test_quiet_ones_are_quiet() -> None:
    normaliser = OpenCodeNormaliser("s")
    for kind in IGNORED:
        assert list(normaliser.feed({"type": kind, "properties": {}})) == []


def test_message_of() -> None:
    assert error_message({"name": "X", "data": {"message": "no such model\n    at <anonymous>"}}) == "no such model"
    assert error_message({"name": "MessageOutputLengthError", "data": {}}) == "MessageOutputLengthError"
    assert error_message("plain") == "plain"


# --- the course of a turn ----------------------------------------------------------------------------------


def run(name: str, course: TurnState) -> list[int]:
    """Where in a recorded turn the course says that it is over."""
    ends: list[int] = []
    for number, message in enumerate(recorded(name)):
        properties = message["properties"]
        match message["type"]:
            case "message.updated":
                course.message(properties["info"])
            case "session.status" if course.prompt:
                if course.status(properties["sessionID"], properties["status"]["type"]):
                    ends.append(number)
            case "session.error":
                error = properties["error"]
                course.error(properties["sessionID"], error["name"], error_message(error))
            case _:
                pass
    return ends


@pytest.mark.parametrize("name", ["turn", "refused", "subagent", "failed"])
def test_a_turn_is_over_once(name: str) -> None:
    """In `failed` the session says idle twice, in `subagent` the child does too."""
    messages = recorded(name)
    course = TurnState(root_of(messages), set())
    ends = run(name, course)
    assert len(ends) == 1
    assert not [each for each in messages[ends[0] + 1 :] if each["type"].startswith("message.part")]
    assert course.failure == (("the request is wrong", "APIError") if name == "failed" else None)


def test_what_was_said_in_between_holds_the_end() -> None:
    course = TurnState(root_of(recorded("turn")), set())
    course.steering = 1
    assert run("turn", course) == []


def test_limits() -> None:
    normaliser = OpenCodeNormaliser("s")
    assert past_limit(Spec(cwd="/", max_turns=0), normaliser) is None, "nothing has been called yet"
    for reason in ("tool-calls", "stop"):
        tokens = {"input": 1, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        part = {"id": reason, "messageID": "m", "sessionID": "s", "type": "step-finish", "reason": reason}
        normaliser.feed(
            {"type": "message.part.updated", "properties": {"part": {**part, "tokens": tokens, "cost": 0.5}}}
        )
        if reason == "tool-calls":
            assert past_limit(Spec(cwd="/", max_turns=1), normaliser) == (
                "max_turns",
                "it was not done after 1 model calls",
            )
            assert past_limit(Spec(cwd="/", max_turns=2), normaliser) is None
            assert past_limit(Spec(cwd="/", max_budget_usd=0.5), normaliser) == ("max_budget", "it has cost 0.5 USD")
            assert past_limit(Spec(cwd="/", max_budget_usd=0.6), normaliser) is None
    assert past_limit(Spec(cwd="/", max_turns=1), normaliser) is None, "it ended by itself"
