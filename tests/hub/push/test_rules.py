"""When a push is sent, and what it says: the pure function."""

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from tieline.events import Ask, Command, Edit, Question
from tieline.hub.push.triggers import (
    AskPending,
    MessagesUnread,
    NodeWentOffline,
    PushTrigger,
    Subscription,
    TeamOver,
    TeamWaits,
    TurnFinished,
    decide,
    notice,
)
from tieline.sessions.records import AskRecord

NOW = 1_000_000.0
QUIET = Subscription(id="q", device="d1", endpoint="https://push.example.com/1", p256dh="", auth="")
OPEN = replace(QUIET, id="o", device="d2", content=True)
SECRET = "rm -rf /home/somebody/secret"

ASK = AskPending(
    ask=AskRecord(
        id="a1",
        session="s1",
        ask=Ask("a1", "permission", title="Run a command", action=Command(SECRET), input={"command": SECRET}),
        digest="abc",
        created_at=NOW - 1,
        expires_at=NOW + 300,
    ),
    agent="claude-code",
    machine="laptop",
    title="Tidy the secret",
)
TURN = TurnFinished(session="s1", seq=9, status="success", text="I removed the secret.", agent="codex", title="Secret")
NODE = NodeWentOffline(node="n1", name="laptop", since=NOW - 30)
MESSAGES = MessagesUnread(
    member="mb-1", title="2 messages wait for reviewer", last="m2", sender="alice", machine="laptop"
)
WAITS = TeamWaits(team="t1", name="shop", people=("alice",), round=3, line="May I remove the secret?")
OVER = TeamOver(team="t2", name="shop", reason="the secret is removed", round=4)
FACTS: list[PushTrigger] = [ASK, TURN, NODE, MESSAGES, WAITS, OVER]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
@pytest.mark.parametrize(("visible", "live", "pushed"), list(itertools.product((False, True), repeat=3)))
def test_only_news_that_nobody_sees(fact: PushTrigger, visible: bool, live: bool, pushed: bool) -> None:
    pushes = decide(fact, subscriptions=[QUIET, OPEN], visible=visible, live=live, pushed=pushed, now=NOW)
    wanted = not visible and live and not pushed
    assert [push.subscription for push in pushes] == ([QUIET, OPEN] if wanted else [])


def test_nobody_subscribed_nothing_pushed() -> None:
    assert decide(ASK, subscriptions=[], visible=False, live=True, pushed=False, now=NOW) == ()


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
def test_no_content_unless_it_is_wanted(fact: PushTrigger) -> None:
    shut = notice(fact, content=False, now=NOW)
    assert "secret" not in f"{shut.title} {shut.body}".lower()
    if fact not in (NODE, MESSAGES):
        shown = notice(fact, content=True, now=NOW)
        assert "secret" in shown.body.lower()


def actions(fact: PushTrigger, *, content: bool = True) -> list[str]:
    made = notice(fact, content=content, now=NOW)
    offered = [action.action for action in made.actions]
    assert made.allow == ("allow" in offered)
    return offered


def test_it_can_be_allowed_only_where_all_of_it_is_read() -> None:
    """By default nothing of the action is on a notification; then it can only be denied there."""
    assert actions(ASK, content=False) == ["deny"]
    assert actions(ASK) == ["allow", "deny"]
    assert notice(ASK, content=True, now=NOW).body.endswith(f"request: Run a command\ncommand: {SECRET}")

    def asked(**changes: Any) -> AskPending:
        return replace(ASK, ask=replace(ASK.ask, ask=replace(ASK.ask.ask, **changes)))

    long = asked(action=Command("x" * 500), input={})
    assert actions(long) == ["deny"]
    whole = len("request: Run a command\ncommand: ") + 500
    assert notice(long, content=True, now=NOW).body.endswith(f"\n{whole - 80} more characters: open it to see all.")
    assert actions(asked(reason="one\ntwo\nthree")) == ["deny"], "more lines than one sees"
    assert actions(asked(input={"background": True, "unseen": "z" * 200})) == ["deny"], "what is not the command counts"
    assert actions(asked(withheld="its end")) == ["deny"]


def test_what_cannot_be_seen_is_marked() -> None:
    made = notice(replace(ASK, agent="a\u202eb", machine="\u200bc", title="d\u00a0e"), content=True, now=NOW)
    assert made.title.startswith("a⟨U+202E⟩b ")
    assert made.body.startswith("⟨U+200B⟩c · d⟨U+00A0⟩e\n")


def test_a_permission_can_be_answered_from_the_notification() -> None:
    (push,) = decide(ASK, subscriptions=[OPEN], visible=False, live=True, pushed=False, now=NOW)
    assert (push.notice.ask, push.notice.digest, push.notice.session) == ("a1", "abc", "s1")
    assert push.urgency == "high"
    assert push.ttl_s == 300
    assert push.notice.expires_at == NOW + 300


@pytest.mark.parametrize("kind", ["question", "plan"])
def test_what_needs_more_than_a_tap_has_no_actions(kind: str) -> None:
    asked = Ask("a2", kind, questions=(Question(id="1", text="Which secret?"),), plan="the plan")  # type: ignore[arg-type]
    made = notice(replace(ASK, ask=replace(ASK.ask, ask=asked)), content=False, now=NOW)
    assert made.actions == ()
    assert "secret" not in made.body


def test_an_ask_that_is_over_is_not_pushed() -> None:
    for over in (replace(ASK.ask, status="answered"), replace(ASK.ask, expires_at=NOW - 1)):
        fact = replace(ASK, ask=over)
        assert decide(fact, subscriptions=[QUIET], visible=False, live=True, pushed=False, now=NOW) == ()


def test_its_ttl_is_short_and_no_longer_than_the_ask() -> None:
    for left, ttl in ((86400, 600), (100, 100), (3, 15)):
        fact = replace(ASK, ask=replace(ASK.ask, expires_at=NOW + left))
        (push,) = decide(fact, subscriptions=[QUIET], visible=False, live=True, pushed=False, now=NOW)
        assert push.ttl_s == ttl


def test_whoever_interrupted_a_turn_knows_that_it_ended() -> None:
    fact = replace(TURN, status="interrupted")
    assert decide(fact, subscriptions=[QUIET], visible=False, live=True, pushed=False, now=NOW) == ()
    assert "stopped: max turns" in notice(replace(TURN, status="max_turns"), content=False, now=NOW).title


def test_tags_replace_what_is_older() -> None:
    later = replace(TURN, seq=10)
    assert notice(TURN, content=False, now=NOW).tag == notice(later, content=False, now=NOW).tag
    assert TURN.id != later.id
    assert len({notice(fact, content=False, now=NOW).tag for fact in FACTS}) == len(FACTS)


def test_long_content_is_one_line() -> None:
    asked = replace(ASK.ask.ask, action=Edit(tuple(f"file{number}.py" for number in range(100))))
    made = notice(replace(ASK, ask=replace(ASK.ask, ask=asked)), content=True, now=NOW)
    assert len(made.body.splitlines()[-1]) <= 160


def test_messages_that_wait_name_the_agent_and_the_sender() -> None:
    shown = notice(MESSAGES, content=False, now=NOW)
    assert (shown.kind, shown.title, shown.tag) == ("message", "2 messages wait for reviewer", "member-mb-1")
    assert shown.body == "laptop · from alice"


def test_a_team_says_whom_it_waits_for_and_later_that_it_is_over() -> None:
    shown = notice(WAITS, content=False, now=NOW)
    assert (shown.kind, shown.team, shown.title, shown.body) == ("team", "t1", "shop waits for alice", "")
    assert notice(OVER, content=False, now=NOW).title == "shop has ended"
    assert notice(replace(OVER, team="t1"), content=False, now=NOW).tag == shown.tag
