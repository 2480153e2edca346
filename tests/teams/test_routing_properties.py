"""Whatever members say, people do and agents break: nobody is starved, no budget is exceeded, nothing gets stuck, and a
conversation ends with a reason that is true."""

from collections.abc import Iterable
from itertools import cycle
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tieline.protocol import teams as p
from tieline.teams.conversation import TeamConversation
from tieline.teams.markers import read_markers
from tieline.teams.speaking_queue import MAX_PER_MESSAGE, MAX_QUEUE, PATIENCE, Waiting

AGENTS = ("a", "b", "c", "d")
NAMES = (*AGENTS, "alice", "nobody")
COST = 0.25


def patience(agents: int) -> int:
    """Turns that may begin before whoever waits speaks: of the others each one before it and one by a better priority,
    and those that it takes until its own priority is the best."""
    return 2 * (agents - 1) + (p.LOWEST_PRIORITY - 1) * PATIENCE


class Step(NamedTuple):
    """Something happens: a turn ends (`what` is its status), or a person acts (`what` is a name)."""

    kind: str
    what: str = ""
    text: str = ""


class Simulation:
    """A coordinator without sessions: what begins and what ends is the conversation's decision, as it is there. Each
    turn that begins and each end is checked when it is written."""

    def __init__(self, *members: p.TeamMember, **limits: float) -> None:
        self.state = TeamConversation("c1")
        self.now = 0.0
        self.passed: dict[Waiting, int] = {}  # turns that began while it waited
        self.patient = patience(sum(not member.human for member in members))
        conversation = p.ConversationLimits(**limits)  # type: ignore[arg-type]
        self.write(p.Started(team=p.Team(name="shop", members=members, conversation=conversation), task="Go."))

    def write(self, entry: p.AnyEntry) -> None:
        self.now += 1.0
        self.state.apply(replace(entry, at=self.now), self.state.seq + 1)

    def advance(self) -> None:
        state = self.state
        while turns := state.next_turns():
            self._begin(turns[0].name)
        if (ended := state.ending(self.now)) is not None:
            self.write(ended)
        self._check()

    def _begin(self, name: str) -> None:
        state, limits = self.state, self.state.limits
        member = state.get(name)
        assert state.ended is None and not state.held and not state.done_by and name not in state.running
        assert state.rounds < limits.max_rounds and len(state.running) < limits.parallel
        assert not limits.max_cost_usd or state.cost_usd < limits.max_cost_usd
        assert not limits.max_minutes or state.working_s < limits.max_minutes * 60
        assert not member.member.max_turns or member.turns < member.member.max_turns
        assert not member.member.max_cost_usd or member.cost_usd < member.member.max_cost_usd
        others = [each for each in state.queue if each.name != name and each.name not in state.running]
        self.passed = {each: self.passed.get(each, 0) + 1 for each in others}
        assert not [each.name for each, times in self.passed.items() if times > self.patient]
        turn = state.rounds + 1
        self.write(p.TurnBegan(turn=turn, member=name, session="s", prompt=str(turn), text="", seen=state.count))

    def take(self, step: Step) -> None:
        """Nothing, where it could not happen."""
        state = self.state
        if state.ended is None and step.kind == "turn" and state.running:
            name, began = next(iter(state.running.items()))
            well = step.what == "success"
            markers = read_markers(step.text) if well else p.Markers()
            text = step.text if well else ""
            status: p.TurnStatus = step.what  # type: ignore[assignment]
            self.write(
                p.TurnEnded(turn=began.turn, member=name, status=status, text=text, markers=markers, cost_usd=COST)
            )
        elif step.kind == "resume":
            self.write(p.Resumed(more_rounds=2, more_cost_usd=2 * COST, more_minutes=0.1))
        elif state.ended is None and step.kind != "turn" and (entry := _action(step)) is not None:
            if isinstance(entry, p.Reordered):
                self.passed.clear()  # a person may let others wait
            self.write(entry)

    def _check(self) -> None:
        state, limits = self.state, self.state.limits
        for waiting in state.queue:
            assert (member := state.find(waiting.name)) is not None, "whoever left does not speak"
            assert not member.over_budget()
        assert len(state.queue) <= MAX_QUEUE
        if state.ended is None:
            waits = state.running or state.held or state.waiting_for
            assert waits, "nothing can happen any more, and nobody is told"
            asked = state.vote.waits_for if state.vote is not None and not state.held else ()
            assert not asked or any(name in state.queue or name in state.running for name in asked)
            return
        assert not state.running
        reason = state.ended.reason
        if "rounds" in reason:
            assert state.rounds == limits.max_rounds
        elif "USD" in reason:
            assert state.cost_usd >= limits.max_cost_usd > 0
        elif "minutes" in reason:
            assert state.working_s >= limits.max_minutes * 60 > 0
        elif reason.startswith("done, says "):
            assert state.done_by
        else:
            assert reason == "nobody is left to speak" and not state.queue and not state.waiting_for


def _action(step: Step) -> p.AnyEntry | None:
    match step.kind:
        case "speak":
            return p.PersonSpoke(member="alice", text=step.text or "Well?", markers=read_markers(step.text))
        case "hold":
            return p.Held()
        case "reorder":
            return p.Reordered(next=(step.what,))
        case "drop":
            return p.Dropped(members=(step.what,))
        case "remove":
            return p.MemberRemoved(member=step.what)
        case "add":
            human = step.what in ("alice", "nobody")
            return p.MemberAdded(member=p.TeamMember(name=step.what, agent="" if human else "x", human=human))
        case _:
            return None


NAME = st.sampled_from(NAMES)
LINE = st.one_of(
    st.builds("[NEXT: {} !P{}]".format, NAME, st.integers(1, 3)),
    st.builds("[NEXT: {} !P{}, {} !P{}]".format, NAME, st.integers(1, 3), NAME, st.integers(1, 3)),
    st.builds("[DROP: {}]".format, st.sampled_from((*NAMES, "ALL"))),
    st.sampled_from(("[VOTE: colour? | red | blue]", "[BALLOT: red]", "[BALLOT: x]", "[TEAM_TASK: another]", "Words.")),
)
TEXT = st.lists(LINE, max_size=3).map("\n".join)
STATUS = st.sampled_from(("success",) * 4 + ("error", "timeout", "interrupted", "indeterminate", "refused"))
TURN = st.builds(Step, st.just("turn"), STATUS, TEXT)
ACTION = st.builds(Step, st.sampled_from(("speak", "hold", "reorder", "drop", "remove", "add", "resume")), NAME, TEXT)
TO_B = Step("turn", "success", "[NEXT: b]")
STEP = st.one_of(TURN, TURN, TURN, ACTION, st.sampled_from((Step("resume"), Step("turn", "success", "[DONE]"))))


def members(*, human: bool, max_turns: int = 0, max_cost_usd: float = 0.0, always: bool = False) -> list[p.TeamMember]:
    agents = [
        p.TeamMember(name="a", agent="x"),
        p.TeamMember(name="b", agent="x", max_cost_usd=max_cost_usd),
        p.TeamMember(name="c", agent="x", max_turns=max_turns),
        p.TeamMember(name="d", agent="x", responds="always" if always else "addressed"),
    ]
    return [*agents, *([p.TeamMember(name="alice", human=True)] if human else [])]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(STEP, min_size=10, max_size=40),
    st.integers(1, 3),
    st.integers(1, 20),
    st.booleans(),
    st.sampled_from(({}, {"max_cost_usd": 3 * COST}, {"max_minutes": 0.1})),
)
@example([TO_B, TO_B, Step("speak", text="[NEXT: b]"), Step("turn", "success")], 1, 20, True, {})
@example([Step("turn", "success", "[NEXT: a]")] * 4, 1, 20, True, {"max_cost_usd": 3 * COST})
@example([Step("turn", "success", "[NEXT: a]")] * 4, 1, 20, True, {"max_minutes": 0.05})
def test_whatever_happens_no_budget_is_exceeded_nothing_is_stuck_and_an_end_has_its_reason(
    steps: list[Step], parallel: int, max_rounds: int, human: bool, limit: dict[str, float]
) -> None:
    team = members(human=human, max_turns=3, max_cost_usd=2 * COST, always=True)
    simulation = Simulation(*team, parallel=parallel, max_rounds=max_rounds, **limit)
    simulation.advance()
    for step in steps:
        simulation.take(step)
        simulation.advance()


def run(habits: Iterable[list[str]], *, rounds: int, parallel: int = 1) -> Simulation:
    """Without people, and everybody always says the same again."""
    simulation = Simulation(*members(human=False), parallel=parallel, max_rounds=rounds)
    says = {name: cycle(texts) for name, texts in zip(AGENTS, habits, strict=True)}
    simulation.advance()
    while simulation.state.ended is None:
        simulation.take(Step("turn", "success", next(says[next(iter(simulation.state.running))])))
        simulation.advance()
    return simulation


HABIT = st.lists(TEXT, min_size=1, max_size=3)


@settings(max_examples=40, deadline=None)
@given(st.tuples(HABIT, HABIT, HABIT, HABIT), st.integers(1, 2))
@example((["[NEXT: c !P3, b !P1]"], ["[NEXT: a !P1]"], ["Words."], ["Words."]), 1)
@example((["[NEXT: d !P3, c !P2, b !P1]"], ["[NEXT: a !P1]"], ["[NEXT: b !P1]"], ["[NEXT: a !P1]"]), 1)
def test_nobody_who_was_addressed_is_starved_and_it_comes_to_its_end(habits: tuple[list[str], ...], both: int) -> None:
    assert run(habits, rounds=40, parallel=both).state.ended is not None


def test_two_who_only_address_each_other_let_a_third_speak_as_often_as_it_was_addressed() -> None:
    state = run((["[NEXT: c !P3, b !P1]"], ["[NEXT: a !P1]"], ["Words."], ["Words."]), rounds=60).state
    assert state.get("c").turns >= 60 // (patience(len(AGENTS)) + 1)
    assert state.ended is not None and state.ended.reason == "the limit of 60 rounds is reached"


MANY = MAX_QUEUE + 10


def address(first: int, number: int) -> str:
    return f"[NEXT: {', '.join(f'm{each % MANY}' for each in range(first, first + number))}]"


BLOCK = st.builds(address, st.integers(0, MANY - 1), st.integers(1, 2 * MAX_PER_MESSAGE))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.one_of(BLOCK, BLOCK, st.just("[VOTE: colour? | red | blue]")), min_size=1, max_size=6))
@example([address(first, MAX_PER_MESSAGE + 2) for first in range(0, MANY, MAX_PER_MESSAGE)])
@example(["[VOTE: colour? | red | blue]"])
def test_one_message_and_the_queue_are_limited_and_whoever_is_not_asked_is_told(texts: list[str]) -> None:
    simulation = Simulation(*(p.TeamMember(name=f"m{number}", agent="x") for number in range(MANY)), max_rounds=100)
    state = simulation.state
    for text in texts:
        simulation.advance()
        before, count = {waiting.name for waiting in state.queue}, state.count
        simulation.take(Step("turn", "success", text))
        asked = [speaker.name for speaker in read_markers(text).next]
        added = {waiting.name for waiting in state.queue} - before
        assert len(state.queue) <= MAX_QUEUE
        if asked:
            assert len(added) <= MAX_PER_MESSAGE
            refused = [message.text for message in state.messages if message.number > count + 1]
            for name in {*asked} - added - before:
                assert any(f"{name} was not asked." in message for message in refused)
