"""Policy first, then memory, then people; always an answer."""

import asyncio

from msgspec.structs import replace

from tieline.events import Answer, Ask, Command, Edit, Event, Fetch, Read
from tieline.policy import Policy
from tieline.sessions.asks import Asks, OnAsk

RUN = Ask("q1", "permission", "run", tool="t1", action=Command("make"), capability="shell")


async def decide(asks: Asks, ask: Ask) -> tuple[Answer, list[Event]]:
    emitted: list[Event] = []
    async with asyncio.timeout(5):
        return await asks(ask, emitted.append), emitted


def nobody(ask: Ask) -> bool:
    raise AssertionError("nobody should have been asked")


async def test_allowed_by_policy_is_silent() -> None:
    answer, emitted = await decide(Asks(Policy(shell="allow"), nobody), RUN)
    assert (answer.decision, answer.by, emitted) == ("allow", "policy", [])


async def test_denied_by_policy_is_told() -> None:
    answer, emitted = await decide(Asks(Policy(shell="deny"), nobody), RUN)
    assert answer.decision == "deny"
    assert "shell" in answer.reason
    assert emitted == [answer]


async def test_people_are_asked_and_both_are_told() -> None:
    answer, emitted = await decide(Asks(Policy(), lambda ask: True), RUN)
    told, decided = emitted
    assert isinstance(told, Ask)
    assert told.id != RUN.id, "agents number their asks from one; ours are told apart everywhere"
    assert replace(told, id=RUN.id) == RUN
    assert decided == answer == Answer(told.id, "allow", by="caller", tool="t1")


async def test_the_capability_is_read_off_the_action() -> None:
    policy = Policy(file_write="deny", shell="allow", network="deny")
    for action, decision in ((Edit(("a",)), "deny"), (Command("x"), "allow"), (Fetch("u"), "deny")):
        answer, _ = await decide(Asks(policy, nobody), Ask("q", "permission", action=action))
        assert answer.decision == decision


async def test_what_no_line_covers_goes_to_people() -> None:
    answer, emitted = await decide(
        Asks(Policy("deny", "deny", "deny"), lambda ask: True), Ask("q", "permission", action=Read("x"))
    )
    assert answer.decision == "allow"
    assert len(emitted) == 2


async def test_questions_are_never_for_the_policy() -> None:
    answer, _ = await decide(Asks(Policy("allow", "allow", "allow"), None), Ask("q", "question"))
    assert (answer.decision, answer.by) == ("deny", "nobody")


async def test_a_question_is_not_answered_by_yes() -> None:
    answer, _ = await decide(Asks(Policy(), lambda ask: True), Ask("q", "question"))
    assert answer.decision == "deny"
    assert "what was chosen" in answer.reason


async def test_expiry() -> None:
    async def never(ask: Ask) -> bool:
        await asyncio.Event().wait()
        return True

    answer, _ = await decide(Asks(Policy(), never, expiry_s=0.01), RUN)
    assert (answer.decision, answer.by) == ("deny", "expiry")


async def test_a_broken_callback_denies() -> None:
    def broken(ask: Ask) -> bool:
        raise RuntimeError("oops")

    answer, _ = await decide(Asks(Policy(), broken), RUN)
    assert (answer.decision, answer.by) == ("deny", "error")
    assert "oops" in answer.reason


async def test_memory_is_for_the_very_same_action() -> None:
    count = 0

    def once(ask: Ask) -> Answer:
        nonlocal count
        count += 1
        return Answer(ask.id, "allow", by="caller", remember="session")

    on_ask: OnAsk = once
    asks = Asks(Policy(), on_ask)
    await decide(asks, RUN)
    again, emitted = await decide(asks, Ask("q2", "permission", tool="t2", action=Command("make")))
    assert (again.ask, again.tool, again.by, emitted, count) == ("q2", "t2", "memory", [], 1)
    await decide(asks, Ask("q3", "permission", action=Command("make install")))
    assert count == 2
