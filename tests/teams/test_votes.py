"""Votes: who is asked, what counts, what the caller is told."""

from pathlib import Path

import pytest
from tests.teams.conftest import teams_on

from tieline.protocol import teams as p
from tieline.script import Fail, Run, Say
from tieline.teams.markers import read_markers
from tieline.teams.votes import Vote


@pytest.mark.parametrize(
    ("line", "vote"),
    [
        ("[VOTE: Which colour? | red | blue]", p.VoteCall("Which colour?", ("red", "blue"))),
        ("[vote: Q|a|A|b| ]", p.VoteCall("Q", ("a", "b"))),
        ("[VOTE: Q | a]", None),
        ("[VOTE: | a | b]", None),
        ("[VOTE]", None),
        ("> [VOTE: Q | a | b]", None),
    ],
)
def test_a_vote_is_a_question_with_two_options_or_more(line: str, vote: p.VoteCall | None) -> None:
    assert read_markers(line).vote == vote


@pytest.mark.parametrize(
    ("ballots", "outcome"),
    [
        ({"a": "red", "b": "RED", "c": "blue"}, "red has the majority: 2 of 3."),
        ({"a": "red", "b": "blue"}, "It is a tie between red, blue."),
        ({"a": "red", "b": "red", "c": "blue", "d": "green", "e": "green", "f": "red", "g": "blue"},
         "red has the most votes, but no majority: 3 of 7."),
        ({"a": "purple", "b": ""}, "Nobody voted."),
    ],
)  # fmt: skip
def test_the_outcome(ballots: dict[str, str], outcome: str) -> None:
    vote = Vote(p.VoteCall("Colour?", ("red", "blue", "green")), "lead", 1)
    vote.asked = list(ballots)
    for voter, ballot in ballots.items():
        vote.take(voter, ballot)
    assert vote.result().splitlines()[-1] == outcome


async def test_a_member_calls_for_a_vote_and_decides_by_the_result(sqlite: str, tmp_path: Path) -> None:
    async with teams_on(
        sqlite,
        tmp_path,
        lead=[[Say("[VOTE: Colour? | red | blue]")], [Say("Blue it is.\n[DONE]")]],
        a=[[Say("The sky is.\n[BALLOT: Blue]")]],
        b=[[Say("[BALLOT: red]")]],
        c=[[Run("until test -e go; do sleep 0.05; done")], [Say("No idea.")]],
        d=[[Fail()]],
        e=[[Say("unused")]],
    ) as here:
        team = here.team("lead", "a", "b", "c", "d", here.member("e", responds="never"), "alice")
        started = await here.start(team)
        await here.until(started.id, lambda view: view.rounds > 1)
        await here.teams.act(started.id, p.Speak(text="[BALLOT: blue]"), by="owner")
        (tmp_path / "go").touch()
        view = await here.until(started.id, lambda view: view.status == "ended")
        assert (view.reason, view.rounds) == ("done, says lead", 6)
        assert "lead calls for a vote: Colour?\nOptions: red | blue" in here.heard["a"][0]
        assert not here.heard["e"]
        result = here.heard["lead"][1]
        for line in ("The vote: Colour?", "- red: b", "- abstained: c, d", "blue has the majority: 2 of 3."):
            assert line in result
        assert {line for line in result.splitlines() if line.startswith("- blue:")} <= {
            "- blue: a, alice",
            "- blue: alice, a",
        }
