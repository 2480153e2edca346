"""Priorities, one place per member, limits; and nobody waits for ever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.teams.speaking_queue import MAX_QUEUE, PATIENCE, SpeakingQueue


def order(queue: SpeakingQueue) -> list[str]:
    return [waiting.name for waiting in queue]


def test_by_priority_then_in_order() -> None:
    queue = SpeakingQueue()
    for name, priority in (("a", 3), ("b", 2), ("c", 1), ("d", 2)):
        assert queue.add(name, priority)
    assert order(queue) == ["c", "b", "d", "a"]


def test_a_member_stands_in_it_once_with_its_best_priority_and_all_messages() -> None:
    queue = SpeakingQueue()
    queue.add("a", 3, 1)
    queue.add("b", 2, 2)
    queue.add("a", 1, 3)
    queue.add("a", 2, 4)
    assert order(queue) == ["a", "b"]
    waiting = queue.take("a")
    assert waiting is not None
    assert waiting.messages == [1, 3, 4]
    assert queue.take("a") is None


def test_it_is_limited() -> None:
    queue = SpeakingQueue()
    assert all(queue.add(f"m{number}") for number in range(MAX_QUEUE))
    assert not queue.add("one more")
    assert queue.add("m3", 1), "who waits already is no more"
    assert len(queue) == MAX_QUEUE


def test_a_person_puts_some_first() -> None:
    queue = SpeakingQueue()
    for name in "abc":
        queue.add(name, 1)
    queue.put_first(["c", "new"])
    assert order(queue) == ["c", "new", "a", "b"]
    assert queue.drop("a")
    assert not queue.drop("a")
    assert order(queue) == ["c", "new", "b"]


ADDRESSED = st.tuples(st.sampled_from("abcdef"), st.integers(1, 3))


@pytest.mark.slow
@given(st.lists(st.lists(ADDRESSED, max_size=4), min_size=40, max_size=60))
def test_nobody_is_passed_over_for_ever(messages: list[list[tuple[str, int]]]) -> None:
    queue = SpeakingQueue()
    queue.add("last", 3)
    for spoken, message in enumerate(messages):
        for name, priority in message:
            queue.add(name, priority)
        speaker = order(queue)[0]
        queue.take(speaker)
        if speaker == "last":
            return
        assert spoken <= 6 * (1 + 3 * PATIENCE)
    raise AssertionError("it never spoke")
