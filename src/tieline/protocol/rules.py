"""Rules for asks, as people make and see them."""

from typing import Literal

from msgspec import Struct

from ..sessions.ask_rules import AskRule, RuleMatch
from .request_bodies import Body


class NewRule(Body, frozen=True, kw_only=True):
    match: RuleMatch
    pattern: str
    decision: Literal["allow", "deny"] = "allow"
    directory: str = ""  # for sessions in there; empty: in every directory
    node: str = ""  # on this machine; empty: on every one
    agent: str = ""  # empty: every agent
    expires_at: float = 0.0  # 0: never
    id: str = ""  # the client's own, so that sending twice is harmless
    ask: str = ""  # the ask that it is made from


class RuleView(AskRule, frozen=True, kw_only=True, omit_defaults=False):
    text: str = ""  # all of it, in one line
    uses: int = 0  # asks that it decided in the last day
    used_at: float = 0.0
    waiting: tuple[str, ...] = ()  # machines that have not heard of its last change


class PastAsk(Struct, frozen=True, kw_only=True):
    """What was asked once, and what became of it."""

    ask: str
    session: str
    text: str
    at: float = 0.0
    decision: Literal["allow", "deny", ""] = ""  # empty: nobody decided
    by: str = ""
    person: bool = False  # a person decided, not a rule or the time


class RulePreview(Struct, frozen=True, kw_only=True):
    """A rule, tested with what was asked before."""

    text: str  # would have allowed 14 of the last 60
    tested: int = 0
    matched: int = 0
    contradicted: int = 0  # of those: a person decided otherwise at the time
    asks: tuple[PastAsk, ...] = ()  # those that it would have decided, the newest first


class RuleChoice(Struct, frozen=True, kw_only=True):
    """A rule that an ask could become."""

    label: str  # in words
    rule: NewRule
