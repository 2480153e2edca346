"""What a person types in a team's conversation."""

import pytest

from tieline.cli.team_view.typed_line import COMMANDS, parse_typed_line
from tieline.errors import UsageError
from tieline.protocol.teams import (
    AnyTeamAction,
    Drop,
    EndTeam,
    Hold,
    NextSpeaker,
    RemoveMember,
    Reorder,
    Resume,
    Speak,
)


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ("Blue.", Speak(text="Blue.")),
        ("  two words\nand a line ", Speak(text="two words\nand a line")),
        ("@developer use blue", Speak(text="use blue", to=(NextSpeaker("developer"),))),
        ("@developer, use blue", Speak(text="use blue", to=(NextSpeaker("developer"),))),
        ("/say /hold is a command", Speak(text="/hold is a command")),
        ("/hold", Hold()),
        ("/resume", Resume()),
        ("/next reviewer, developer", Reorder(next=("reviewer", "developer"))),
        ("/next @reviewer", Reorder(next=("reviewer",))),
        ("/drop reviewer", Drop(members=("reviewer",))),
        ("/remove developer", RemoveMember(member="developer")),
        ("/end good enough", EndTeam(reason="good enough")),
        ("/end", EndTeam()),
    ],
)
def test_a_line_is_an_action(line: str, action: AnyTeamAction) -> None:
    assert parse_typed_line(line) == action


@pytest.mark.parametrize("line", ["Use blue.", "/say Use blue.", "@developer Use blue."])
def test_what_is_said_is_said_by_who_speaks(line: str) -> None:
    action = parse_typed_line(line, "bob")
    assert isinstance(action, Speak)
    assert (action.member, action.text) == ("bob", "Use blue.")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("/hodl", "/hodl is not a command"),
        ("/next", "invalid use of /next"),
        ("/remove one two", "invalid use of /remove"),
        ("/say", "invalid use of /say"),
        ("@developer", "the message to @developer is empty"),
    ],
)
def test_a_line_that_means_nothing_is_refused(line: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as refused:
        parse_typed_line(line)
    assert refused.value.hint


def test_every_command_that_is_told_is_one() -> None:
    for usage in COMMANDS:
        parse_typed_line(usage.replace(" …", ""))
