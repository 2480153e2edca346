"""Where asks are decided: the policy first, then rules, then what was remembered, then people. Nowhere else.

An ask is answered once. One that nobody answers is denied when it expires, with the reason, because an agent whose
question stays open hangs for ever.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from ..drivers.base import Emit
from ..errors import UsageError
from ..events import Answer, Ask, needs
from ..ids import new_id
from ..policy import Policy

logger = logging.getLogger(__name__)

DEFAULT_EXPIRY_S = 3600.0
"""How long people get. An hour: long enough for a lunch, short enough that nothing hangs over night."""

MAX_REMEMBERED = 1000
"""Decisions kept per session."""

AUTOMATIC = frozenset({"policy", "rule", "team", "memory", "expiry", "turn-end", "restart", "agent", "nobody", "error"})
"""Values of `Answer.by` when no person answered."""

EXACTLY = "exactly this again, in this session"
"""What our own memory permits; a driver that offers more says so itself."""

OnAsk = Callable[[Ask], Answer | bool | Awaitable[Answer | bool]]
"""The caller's decision: an Answer, or simply True (allow) or False (deny)."""
ByRules = Callable[[Ask], Awaitable[Answer | None]]
"""What people's rules say about an ask; None: nothing."""


def allow(ask: Ask, *, by: str = "caller", **details: object) -> Answer:
    return Answer(ask.id, "allow", by=by, tool=ask.tool, **details)  # type: ignore[arg-type]


def deny(ask: Ask, reason: str = "", *, by: str = "caller") -> Answer:
    return Answer(ask.id, "deny", by=by, reason=reason, tool=ask.tool)


def yes_or_no(ask: Ask, yes: bool) -> Answer:
    """What True and False mean; a question is not answered by either."""
    if yes and ask.kind == "question":
        return deny(ask, "a question needs an Answer with a choice, not just yes")
    return allow(ask) if yes else deny(ask, "denied by the caller")


def expired(ask: Ask, expiry_s: float) -> Answer:
    return deny(ask, f"nobody answered within {expiry_s:g} s", by="expiry")


def lost(ask: Ask) -> Answer:
    """Whoever waited for the answer is gone."""
    return deny(ask, "Tieline was restarted before anyone answered", by="restart")


async def decide(on_ask: OnAsk, ask: Ask) -> Answer:
    """The decision of the caller. A broken callback must not leave the agent waiting, nor allow anything: if it raises,
    or gives no decision about this ask, the ask is denied with the reason."""
    try:
        decision: Any = on_ask(ask)
        if inspect.isawaitable(decision):
            decision = await decision
    except asyncio.CancelledError:
        if (us := asyncio.current_task()) is not None and us.cancelling():
            raise
        # Something that the callback waited for was cancelled, not this task.
        return deny(ask, "the decision failed: it was cancelled", by="error")
    except Exception as error:
        logger.exception("on_ask failed; the ask is denied")
        return deny(ask, f"the decision failed: {type(error).__name__}: {error}", by="error")
    if isinstance(decision, bool):
        answer = yes_or_no(ask, decision)
    elif isinstance(decision, Answer):
        chosen = {
            id: (choice,) if isinstance(choice, str) else tuple(choice) for id, choice in decision.answers.items()
        }
        answer = replace(decision, ask=ask.id, tool=ask.tool, by=decision.by or "caller", answers=chosen)
    else:
        return deny(ask, f"on_ask gave {decision!r}; it must give True, False or an Answer", by="error")
    try:
        check(ask, answer)
    except UsageError as error:
        return deny(ask, error.message, by=answer.by)
    return answer


def check(ask: Ask, answer: Answer) -> None:
    """Raises UsageError for what nobody may decide about this ask."""
    if answer.decision not in ("allow", "deny"):
        raise UsageError(
            f"invalid decision {answer.decision!r}", field="decision", hint="It must be 'allow' or 'deny'."
        )
    if ask.at_terminal:
        raise UsageError(ask.at_terminal, field="ask", hint="Nothing was decided.")
    if ask.withheld and answer.decision == "allow":
        raise UsageError(
            f"this ask can only be denied: {ask.withheld}",
            field="decision",
            hint="Deny it, and say what you would allow: shorter, or in steps.",
        )
    if answer.remember != "once" and answer.remember not in ask.remember:
        raise UsageError(
            f"this ask cannot be remembered for {answer.remember}",
            field="remember",
            hint=f"It can be for: {', '.join(ask.remember)}." if ask.remember else "Decide it once.",
        )


def same(ask: Ask) -> bytes:
    """What a remembered decision holds for: the very same action with the very same input, nothing like it."""
    return msgspec.json.encode((ask.action, ask.input), order="sorted", enc_hook=repr)


class AskDecisions:
    """Decides for one session."""

    def __init__(self, policy: Policy, on_ask: OnAsk | None, *, expiry_s: float | None = DEFAULT_EXPIRY_S) -> None:
        """`expiry_s` is None where `on_ask` itself sees to it that every ask ends."""
        self._policy = policy
        self.on_ask = on_ask
        self._expiry_s = expiry_s
        self.by_rules: ByRules | None = None
        self.remembered: dict[bytes, Answer] = {}

    async def __call__(self, ask: Ask, emit: Emit) -> Answer:
        if answer := self._by_policy(ask) or await self._by_rules(ask) or self._by_memory(ask):
            if answer.decision == "deny" or answer.rule:  # a person's own rule is shown each time that it decides
                emit(answer)
            return answer
        native = ask.remember
        ask = self._offered(replace(ask, id=new_id()))  # agents number theirs from one, each; ours are told apart
        emit(ask)
        try:
            answer = await self._by_people(ask)
        except asyncio.CancelledError:
            emit(deny(ask, "the agent withdrew it", by="agent"))
            raise
        emit(answer)
        if ask.action and answer.remember != "once" and len(self.remembered) < MAX_REMEMBERED:
            self.remembered[same(ask)] = answer
        # What the agent itself does not offer is ours to remember: it must not make a wider rule of its own of it.
        return answer if answer.remember in native else replace(answer, remember="once")

    @staticmethod
    def _offered(ask: Ask) -> Ask:
        """With what can be remembered about it: the agent's own rules, and the very same action by us."""
        if ask.withheld:
            return replace(ask, remember=(), scopes={})
        if ask.kind != "permission" or ask.action is None or "session" in ask.remember:
            return ask
        return replace(ask, remember=("session", *ask.remember), scopes={"session": EXACTLY, **ask.scopes})

    def _by_policy(self, ask: Ask) -> Answer | None:
        """Only permissions fall under the policy; questions and plans are always for people."""
        if ask.kind != "permission":
            return None
        capability = ask.capability or (needs(ask.action) if ask.action else None)
        if capability is None:
            return None
        level = self._policy.level(capability)
        if level == "allow":
            return allow(ask, by="policy")
        if level == "deny":
            return deny(ask, f"the policy denies {capability}", by="policy")
        return None

    async def _by_rules(self, ask: Ask) -> Answer | None:
        if self.by_rules is None or ask.kind != "permission":
            return None
        return await self.by_rules(replace(ask, id=new_id(), remember=(), scopes={}))

    def _by_memory(self, ask: Ask) -> Answer | None:
        """What was remembered counts for the very same action only; wider rules are the agent's own to keep."""
        kept = self.remembered.get(same(ask)) if ask.action and not ask.withheld else None
        return replace(kept, ask=ask.id, tool=ask.tool, by="memory") if kept else None

    async def _by_people(self, ask: Ask) -> Answer:
        if self.on_ask is None:
            return deny(ask, "there is nobody to answer", by="nobody")
        try:
            async with asyncio.timeout(self._expiry_s):
                return await decide(self.on_ask, ask)
        except TimeoutError:
            return expired(ask, self._expiry_s or 0)
