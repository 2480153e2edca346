"""Subjects and patterns, against a definition that is too slow to be wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.bus import BadSubject
from tieline.bus.subjects import (
    MAX_SUBJECT,
    check_key,
    check_key_pattern,
    check_pattern,
    check_subject,
    family,
    is_literal,
    literal_prefix,
    matcher,
    matches,
)

tokens = st.sampled_from(["a", "b", "ab", "a-b", "agent", "agentless", "ä", "x/y", "[a]", "a+", "(", "\\", "$"])
families = st.sampled_from(["relay", "relays", "events", "r"])


def joined(first: str, rest: list[str]) -> str:
    return ".".join([first, *rest])


subjects = st.builds(joined, families, st.lists(tokens, max_size=5))
wild = st.lists(tokens | st.just("*"), max_size=4)
patterns = st.builds(joined, families, wild) | st.builds(joined, families, wild).map(lambda pattern: pattern + ".>")


def by_definition(pattern: str, subject: str) -> bool:
    wanted, given_ = pattern.split("."), subject.split(".")
    for number, token in enumerate(wanted):
        if token == ">":
            return len(given_) > number
        if number >= len(given_) or token not in ("*", given_[number]):
            return False
    return len(wanted) == len(given_)


@given(patterns, subjects)
def test_matching(pattern: str, subject: str) -> None:
    assert matches(check_pattern(pattern), check_subject(subject)) == by_definition(pattern, subject)


@given(patterns, subjects)
def test_the_prefix_is_of_every_match(pattern: str, subject: str) -> None:
    if matches(pattern, subject):
        assert subject.startswith(literal_prefix(pattern))
        assert family(subject) == family(pattern)


@given(subjects)
def test_a_subject_is_a_pattern_for_itself_alone(subject: str) -> None:
    assert is_literal(subject)
    assert matcher(subject)(subject)
    assert not matcher(subject)(subject + ".x")
    assert not matcher(subject)(subject + "x")


@given(st.text(max_size=30))
def test_whatever_is_accepted_has_the_shape(text: str) -> None:
    try:
        check_subject(text)
    except BadSubject as error:
        assert error.problem
        return
    assert text == text.strip()
    assert all(text.split("."))
    assert not set(text) & set("*> \t\r\n\x00")
    text.encode()


@given(st.text(alphabet="a.*> -/=_Z0", max_size=12))
def test_keys(text: str) -> None:
    try:
        check_key(text)
    except BadSubject:
        return
    assert check_key_pattern(text) == text
    assert matches(text, text)
    assert matches(">", text)


def test_nothing_by_accident() -> None:
    assert not matches("relay.agent.>", "relay.agentless.x")
    assert not matches("relay.agent.>", "relay.agent")
    assert not matches("relay.a.b", "relay.axb")
    assert not matches("relay.*", "relay.a.b")
    assert matches("relay.*.c.>", "relay.b.c.d.e")


def test_a_wildcard_family_is_refused_and_says_why() -> None:
    for pattern in (">", "*", "*.a"):
        with pytest.raises(BadSubject, match="one family at a time"):
            check_pattern(pattern)


def test_length() -> None:
    assert check_subject("a." + "x" * (MAX_SUBJECT - 2))
    with pytest.raises(BadSubject, match=f"the maximum is {MAX_SUBJECT}"):
        check_subject("a." + "x" * (MAX_SUBJECT - 1))
    with pytest.raises(BadSubject):
        check_subject("a." + "ä" * (MAX_SUBJECT // 2))
