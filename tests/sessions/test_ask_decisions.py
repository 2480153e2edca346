"""Policy first, then rules, then memory, then people; always an answer."""

import asyncio
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from tieline.events import Answer, Ask, Command, Edit, Event, Fetch, Mcp, OtherAction, Question, Read, Remember
from tieline.policy import Level, Policy
from tieline.sessions.ask_decisions import EXACTLY, AskDecisions, OnAsk, same
from tieline.testing.wait_for import eventually

Decision = Literal["allow", "deny"]
RUN = Ask("q1", "permission", "run", tool="t1", action=Command("make"), capability="shell")


async def decide(asks: AskDecisions, ask: Ask) -> tuple[Answer, list[Event]]:
    emitted: list[Event] = []
    async with asyncio.timeout(30):
        return await asks(ask, emitted.append), emitted


def nobody(ask: Ask) -> bool:
    raise AssertionError("nobody should have been asked")


async def test_allowed_by_policy_is_silent() -> None:
    answer, emitted = await decide(AskDecisions(Policy(shell="allow"), nobody), RUN)
    assert (answer.decision, answer.by, emitted) == ("allow", "policy", [])


async def test_denied_by_policy_is_told() -> None:
    answer, emitted = await decide(AskDecisions(Policy(shell="deny"), nobody), RUN)
    assert answer.decision == "deny"
    assert "shell" in answer.reason
    assert emitted == [answer]


async def test_people_are_asked_and_both_are_told() -> None:
    answer, emitted = await decide(AskDecisions(Policy(), lambda ask: True), RUN)
    ask, decided = emitted
    assert isinstance(ask, Ask)
    assert ask.id != RUN.id, "agents number their asks from one; ours are told apart everywhere"
    assert replace(ask, id=RUN.id, remember=(), scopes={}) == RUN
    assert (ask.remember, ask.scopes) == (("session",), {"session": EXACTLY}), "the very same can be remembered"
    assert decided == answer == Answer(ask.id, "allow", by="caller", tool="t1")


async def test_an_ask_that_the_agent_takes_back_is_told_as_denied() -> None:
    emitted: list[Event] = []

    async def wait_for_ever(ask: Ask) -> bool:
        await asyncio.Event().wait()
        return True

    task = asyncio.create_task(AskDecisions(Policy(), wait_for_ever)(RUN, emitted.append))
    await eventually(lambda: bool(emitted), "nobody is asked")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    ask, answer = emitted
    assert isinstance(ask, Ask) and isinstance(answer, Answer)
    assert (answer.ask, answer.decision, answer.by) == (ask.id, "deny", "agent")


async def test_the_capability_is_read_off_the_action() -> None:
    policy = Policy(file_write="deny", shell="allow", network="deny")
    for action, decision in ((Edit(("a",)), "deny"), (Command("x"), "allow"), (Fetch("u"), "deny")):
        answer, _ = await decide(AskDecisions(policy, nobody), Ask("q", "permission", action=action))
        assert answer.decision == decision


async def test_what_no_line_covers_goes_to_people() -> None:
    answer, emitted = await decide(
        AskDecisions(Policy("deny", "deny", "deny"), lambda ask: True), Ask("q", "permission", action=Read("x"))
    )
    assert answer.decision == "allow"
    assert len(emitted) == 2


async def test_questions_are_never_for_the_policy() -> None:
    answer, _ = await decide(AskDecisions(Policy("allow", "allow", "allow"), None), Ask("q", "question"))
    assert (answer.decision, answer.by) == ("deny", "nobody")


async def test_a_question_is_not_answered_by_yes() -> None:
    answer, _ = await decide(AskDecisions(Policy(), lambda ask: True), Ask("q", "question"))
    assert answer.decision == "deny"
    assert "with a choice" in answer.reason


async def test_expiry() -> None:
    async def never(ask: Ask) -> bool:
        await asyncio.Event().wait()
        return True

    answer, _ = await decide(AskDecisions(Policy(), never, expiry_s=0.01), RUN)
    assert (answer.decision, answer.by) == ("deny", "expiry")


async def test_a_broken_callback_denies() -> None:
    def broken(ask: Ask) -> bool:
        raise RuntimeError("oops")

    answer, _ = await decide(AskDecisions(Policy(), broken), RUN)
    assert (answer.decision, answer.by) == ("deny", "error")
    assert "oops" in answer.reason


NO_DECISION: dict[str, Any] = {
    "nothing": None,
    "a word": "allow",
    "a number": 1,
    "no decision": Answer("q", "yes"),  # type: ignore[arg-type]
    "remembered for what is not offered": Answer("q", "allow", remember="forever"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("reply", NO_DECISION.values(), ids=NO_DECISION)
@pytest.mark.parametrize("awaited", [False, True])
async def test_what_is_no_decision_denies_and_says_why(reply: Any, awaited: bool) -> None:
    async def later(ask: Ask) -> Any:
        return reply

    answer, emitted = await decide(AskDecisions(Policy(), later if awaited else lambda ask: reply), RUN)
    assert answer == emitted[-1]
    assert answer.decision == "deny"
    assert repr(getattr(reply, "decision", reply)) in answer.reason or "forever" in answer.reason


async def test_a_callback_whose_own_work_is_cancelled_or_too_slow_denies(caplog: pytest.LogCaptureFixture) -> None:
    async def cancelled(ask: Ask) -> bool:
        raise asyncio.CancelledError

    async def too_slow(ask: Ask) -> bool:
        raise TimeoutError("the approval server")

    for broken, reason in ((cancelled, "it was cancelled"), (too_slow, "TimeoutError: the approval server")):
        answer, emitted = await decide(AskDecisions(Policy(), broken), RUN)
        assert (answer.decision, answer.by, emitted[-1]) == ("deny", "error", answer)
        assert reason in answer.reason
    assert "too_slow" in caplog.text, "where it failed is logged"


async def test_an_answer_is_to_the_ask_that_it_decides() -> None:
    """Whatever a callback writes there: else the ask would stay open beside its answer."""
    question = Ask("q", "question", tool="t1", questions=(Question(id="colour", text="Which?"),))
    reply: Any = Answer("another", "allow", tool="another", answers={"colour": "red"})  # type: ignore[dict-item]
    answer, (ask, _) = await decide(AskDecisions(Policy(), lambda ask: reply), question)
    assert isinstance(ask, Ask)
    assert answer == Answer(ask.id, "allow", by="caller", tool="t1", answers={"colour": ("red",)})


async def test_memory_is_for_the_very_same_action() -> None:
    count = 0

    def once(ask: Ask) -> Answer:
        nonlocal count
        count += 1
        return Answer(ask.id, "allow", by="caller", remember="session")

    on_ask: OnAsk = once
    asks = AskDecisions(Policy(), on_ask)
    await decide(asks, RUN)
    again, emitted = await decide(asks, Ask("q2", "permission", tool="t2", action=Command("make")))
    assert (again.ask, again.tool, again.by, emitted, count) == ("q2", "t2", "memory", [], 1)
    await decide(asks, Ask("q3", "permission", action=Command("make install")))
    assert count == 2


async def test_memory_is_for_the_very_same_input() -> None:
    """An action may say little: one tool of a server, or nothing at all. Another input is another matter."""
    asked: list[Ask] = []

    def once(ask: Ask) -> Answer:
        asked.append(ask)
        return Answer(ask.id, "allow", by="caller", remember="session")

    asks = AskDecisions(Policy(), once)
    for action in (OtherAction(), Mcp("files", "remove")):
        for path, number in (("a", 1), ("b", 2), ("a", 2)):
            await decide(asks, Ask("q", "permission", action=action, input={"path": path}))
            assert len(asked) == number, path
        asked.clear()


async def test_an_agent_makes_no_rule_of_what_it_did_not_offer() -> None:
    """It offers "always"; the person has the very same remembered for the session: that is ours, and no rule of its."""

    def remember(level: Remember) -> AskDecisions:
        return AskDecisions(Policy(), lambda ask: Answer(ask.id, "allow", by="caller", remember=level))

    ask = Ask("q", "permission", action=Command("make"), remember=("always",), scopes={"always": "make, for ever"})
    answer, (emitted_ask, decided) = await decide(remember("session"), ask)
    assert isinstance(emitted_ask, Ask)
    assert isinstance(decided, Answer)
    assert emitted_ask.remember == ("session", "always")
    assert emitted_ask.scopes == {"session": EXACTLY, "always": "make, for ever"}
    assert (decided.remember, answer.remember) == ("session", "once")
    answer, _ = await decide(remember("always"), ask)
    assert answer.remember == "always"


async def test_what_was_not_offered_is_not_allowed_with_it() -> None:
    def always(ask: Ask) -> Answer:
        return Answer(ask.id, "allow", by="caller", remember="always")

    answer, _ = await decide(AskDecisions(Policy(), always), RUN)
    assert answer.decision == "deny"
    assert "always" in answer.reason


async def test_what_the_agent_withholds_can_only_be_denied() -> None:
    ask = replace(RUN, withheld="the middle of the command", remember=("session",), scopes={"session": "x"})
    answer, emitted = await decide(AskDecisions(Policy(), lambda ask: True), ask)
    assert (answer.decision, answer.by) == ("deny", "caller")
    assert "the middle of the command" in answer.reason
    assert isinstance(emitted[0], Ask)
    assert emitted[0].remember == ()
    asks = AskDecisions(Policy(), None)
    asks.remembered[same(ask)] = Answer("q", "allow", remember="session")
    answer, _ = await decide(asks, ask)
    assert answer.decision == "deny", "what was remembered may have been another one"
    answer, _ = await decide(AskDecisions(Policy(shell="allow"), nobody), ask)
    assert answer.decision == "allow", "the policy allows it whatever it is"


LEVELS = [
    # shell, what a rule says, what is remembered → who decides, how
    ("deny", "allow", "allow", "policy", "deny"),
    ("deny", "deny", "allow", "policy", "deny"),
    ("deny", None, None, "policy", "deny"),
    ("allow", "deny", "deny", "policy", "allow"),
    ("allow", "allow", None, "policy", "allow"),
    ("ask", "deny", "allow", "rule", "deny"),
    ("ask", "allow", "deny", "rule", "allow"),
    ("ask", "allow", None, "rule", "allow"),
    ("ask", None, "deny", "memory", "deny"),
    ("ask", None, "allow", "memory", "allow"),
    ("ask", None, None, "caller", "allow"),
]


@pytest.mark.parametrize(("level", "rule", "remembered", "by", "decision"), LEVELS)
async def test_the_order_policy_rules_memory_people(
    level: Level, rule: Decision | None, remembered: Decision | None, by: str, decision: Decision
) -> None:
    async def by_rules(ask: Ask) -> Answer | None:
        return None if rule is None else Answer(ask.id, rule, by="rule", rule="r1", tool=ask.tool)

    asks = AskDecisions(Policy(shell=level), lambda ask: True)
    asks.by_rules = by_rules
    if remembered is not None:
        asks.remembered[same(RUN)] = Answer("before", remembered, by="a person", remember="session")
    answer, emitted = await decide(asks, RUN)
    assert (answer.by, answer.decision) == (by, decision)
    if by == "rule":
        assert emitted == [answer], "shown, and nobody is told that they are waited for"
        assert answer.ask != RUN.id, "it is kept under an id of ours"


async def test_rules_are_not_asked_about_questions_and_plans() -> None:
    async def by_rules(ask: Ask) -> Answer | None:
        raise AssertionError("a rule answers permissions only")

    for kind in ("question", "plan"):
        asks = AskDecisions(Policy(), lambda ask: Answer(ask.id, "allow", by="a person"))
        asks.by_rules = by_rules
        assert (await decide(asks, replace(RUN, kind=kind)))[0].by == "a person"
