"""The state of a conversation, folded from its log."""

import pytest

from tieline.protocol import teams as p
from tieline.teams.conversation import TeamConversation

MEMBERS = (
    p.TeamMember(name="one", agent="scripted"),
    p.TeamMember(name="two", agent="scripted"),
    p.TeamMember(name="alice", human=True),
)


def conversation(*entries: p.AnyEntry) -> TeamConversation:
    team_conversation = TeamConversation("c1")
    team = p.Team(name="shop", members=MEMBERS)
    for seq, entry in enumerate((p.Started(team=team, task="Go.", at=1.0), *entries), 1):
        team_conversation.apply(entry, seq)
    return team_conversation


def began(member: str) -> p.TurnBegan:
    return p.TurnBegan(turn=1, member=member, session="s", prompt="c1-1", text="Go.", seen=1)


ONE_LEAVES = p.MemberRemoved(member="one")
OF_ONE_WHO_LEFT = {
    "its turn begins": began("one"),
    "its turn ends": p.TurnEnded(turn=1, member="one", status="success", text="Done."),
    "it is put first": p.Reordered(next=("one", "two")),
    "it is dropped": p.Dropped(members=("one",)),
    "it leaves again": ONE_LEAVES,
    "it is added twice": p.MemberAdded(member=MEMBERS[1]),
    "a person who left speaks": p.PersonSpoke(member="bob", text="Hello?"),
}


@pytest.mark.parametrize("entry", OF_ONE_WHO_LEFT.values(), ids=list(OF_ONE_WHO_LEFT))
def test_an_entry_about_a_member_who_has_just_left_is_taken(entry: p.AnyEntry) -> None:
    """Two people act at once, or a person and the coordinator: the log has one after the other, whatever it says."""
    after = conversation(ONE_LEAVES, entry)
    assert after.find("one") is None
    assert "one" not in after.queue
    assert [each.name for each in after.participants.values()] == ["two", "alice"]
    assert after.seq == 3


def test_a_turn_of_one_who_has_just_left_counts_and_is_running_until_it_ends() -> None:
    after = conversation(ONE_LEAVES, began("one"))
    assert (list(after.running), after.rounds) == (["one"], 1)


SILENT: dict[str, list[p.AnyEntry]] = {
    "the only speaker leaves": [ONE_LEAVES],
    "the only speaker is dropped": [p.Dropped(members=("one",))],
    "the speaker leaves in its turn": [began("one"), ONE_LEAVES, p.TurnEnded(turn=1, member="one", status="cancelled")],
    "the only turn fails": [began("one"), p.TurnEnded(turn=1, member="one", status="error", error="It broke.")],
    "it addresses nobody": [began("one"), p.TurnEnded(turn=1, member="one", status="success", text="Hm.")],
}


@pytest.mark.parametrize("entries", SILENT.values(), ids=list(SILENT))
def test_when_nobody_is_left_to_speak_a_person_is_asked(entries: list[p.AnyEntry]) -> None:
    after = conversation(*entries)
    assert (after.status, list(after.waiting_for), after.over()) == ("waiting", ["alice"], "")
