"""What a member is sent: what it has not seen, once, within a budget; and what is left out is told."""

from tieline.protocol import teams as p
from tieline.teams.conversation import MAX_MESSAGES, TeamConversation
from tieline.teams.turn_prompt import turn_prompt

TEAM = p.Team(
    name="shop",
    members=(
        p.TeamMember(name="one", agent="scripted"),
        p.TeamMember(name="two", agent="scripted"),
        p.TeamMember(name="alice", human=True),
    ),
    conversation=p.ConversationLimits(context_chars=1000),
)
ALL = "`tieline team export c1` shows them"


class Talk:
    def __init__(self) -> None:
        self.state = TeamConversation("c1")
        self.write(p.Started(team=TEAM, task="Go."))

    def write(self, entry: p.AnyEntry) -> None:
        self.state.apply(entry, self.state.seq + 1)

    def say(self, text: str, *to: str) -> None:
        speakers = tuple(p.NextSpeaker(name) for name in to or ("one",))
        self.write(p.PersonSpoke(member="alice", text=text, markers=p.Markers(next=speakers)))

    def prompt(self, name: str) -> str:
        return turn_prompt(self.state, self.state.get(name))

    def turn(self, name: str, status: p.TurnStatus = "success", **given: dict[str, str]) -> str:
        text, turn = self.prompt(name), self.state.rounds + 1
        seen = self.state.count
        self.write(
            p.TurnBegan(turn=turn, member=name, session="s", prompt=str(turn), text=text, seen=seen, **given)  # type: ignore[arg-type]
        )
        self.write(p.TurnEnded(turn=turn, member=name, status=status, text="Said."))
        return text


def test_what_does_not_fit_is_counted_and_the_newest_and_what_is_for_it_are_whole() -> None:
    talk = Talk()
    for number in range(4):
        talk.say(f"begin {number} {'x' * 300} end {number}")
    talk.say("For you: " + "y" * 5000, "two")
    talk.say("z" * 400)
    prompt = talk.prompt("two")
    context, _, message = prompt.partition("[MESSAGE]\n")
    assert message == f"[FROM: alice]\nFor you: {'y' * 5000}", "longer than the budget, and whole"
    assert "z" * 400 in context and "begin 3" in context and "end 3" in context
    assert "begin 2" in context and "end 2" in context and "x" * 300 not in context.partition("end 2")[0]
    characters = len("Go.") + 2 * len(f"begin 0 {'x' * 300} end 0")
    assert f"[CONTEXT]\n(3 earlier messages of {characters} characters are left out; {ALL})\n\n[FROM: alice]" in context
    shortened = 1000 - 400 - len(f"begin 3 {'x' * 300} end 3")
    left_out = len(f"begin 2 {'x' * 300} end 2") - shortened
    assert f"(… {left_out} characters are left out; {ALL} …)" in context


def test_what_fits_is_whole_and_is_sent_once() -> None:
    talk = Talk()
    talk.say("Words.", "two")
    assert "left out" not in talk.turn("two")
    talk.say("More.", "two")
    assert talk.prompt("two") == "[TEAM_TASK: Go.]\n\n[MESSAGE]\n[FROM: alice]\nMore."


def test_messages_that_are_not_kept_any_more_are_told() -> None:
    talk = Talk()
    for number in range(MAX_MESSAGES + 6):
        talk.say(str(number))
    assert f"\n(7 messages before these are too old to be sent; {ALL})\n" in talk.prompt("two")
    talk.turn("two")
    assert "too old" not in talk.prompt("two")


def test_a_prompt_that_the_session_refused_is_given_with_the_next_turn() -> None:
    talk = Talk()
    talk.say("Words.", "two")
    two = talk.state.get("two")
    talk.turn("two", "refused", reviewed={"one": "abc"})
    assert (two.turns, two.prompts, two.reviewed) == (1, 0, {})
    assert "Words." in talk.turn("two", reviewed={"one": "abc"})
    assert (two.turns, two.prompts, two.reviewed) == (2, 1, {"one": "abc"})
    assert "Words." not in talk.prompt("two")
