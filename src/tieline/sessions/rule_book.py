"""The rules that hold on a node: those on its own bus, and those of the hub that it is joined to.

They are read from the bus for each ask, so a rule that was saved holds and one that was revoked does not, also right
after a crash and on every hub of one bus. A joined node keeps a copy of its hub's, which the link replaces whole.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from ..bus.base import Bus
from ..errors import BusError, TielineError
from ..events import Answer, Ask
from .ask_rules import AskOrigin, AskRule, RealFiles, decide_by_rules, rule_text
from .pending_asks import PendingAsks

RULES = "ask-rules"
"""Of the hubs on this bus: a rule per key."""
JOINED_RULES = "joined-ask-rules"
"""Of the hub that the node is joined to: all in one record."""
_JOINED = "hub"
DECIDE_S = 5.0
"""How long the bus and the file system may take; then people decide."""

log = logging.getLogger("tieline.sessions")

_decode = msgspec.json.Decoder(AskRule).decode
_encode = msgspec.json.encode


class JoinedRules(Struct, frozen=True, kw_only=True):
    hub: str  # its address
    rules: tuple[AskRule, ...] = ()


_decode_joined = msgspec.json.Decoder(JoinedRules).decode


class RuleBook:
    def __init__(self, bus: Bus) -> None:
        self._rules = bus.table(RULES)
        self._joined = bus.table(JOINED_RULES)

    async def rules(self) -> list[AskRule]:
        rules = [_decode(entry.value) for entry in await self._rules.entries()]
        if entry := await self._joined.get(_JOINED):
            rules += _decode_joined(entry.value).rules
        return rules

    async def keep_joined(self, hub: str, rules: tuple[AskRule, ...]) -> None:
        """Durable when it returns."""
        await self._joined.put(_JOINED, _encode(JoinedRules(hub=hub, rules=rules)))

    async def forget_joined(self, *, but: str = "") -> None:
        """What another hub than this one said holds no longer."""
        entry = await self._joined.get(_JOINED)
        if entry is not None and not (but and _decode_joined(entry.value).hub == but):
            await self._joined.delete(_JOINED)

    async def decide(self, ask: Ask, origin: AskOrigin) -> Answer | None:
        """By the rule that answers it, if one does. When that cannot be told in time, none does."""
        return await _decide(self.rules, ask, origin)


class SavedRules:
    """The rules as they were at one moment: what is written later, by whomever, adds none."""

    def __init__(self, rules: Sequence[AskRule], origin: AskOrigin) -> None:
        self._rules = list(rules)
        self._origin = origin

    async def __call__(self, ask: Ask) -> Answer | None:
        return await _decide(self._saved, ask, self._origin)

    async def _saved(self) -> list[AskRule]:
        return self._rules


def decode_rules(tables: Mapping[str, Sequence[bytes]]) -> list[AskRule]:
    """Of RULES and JOINED_RULES. Raises msgspec.DecodeError: rules that are not understood are not half obeyed."""
    joined = (rule for value in tables[JOINED_RULES] for rule in _decode_joined(value).rules)
    return [*map(_decode, tables[RULES]), *joined]


async def _decide(read: Callable[[], Awaitable[list[AskRule]]], ask: Ask, origin: AskOrigin) -> Answer | None:
    try:
        async with asyncio.timeout(DECIDE_S):
            rules = await read()
            rule = await asyncio.to_thread(decide_by_rules, rules, ask, origin, RealFiles()) if rules else None
    except (BusError, TimeoutError, OSError, ValueError, msgspec.DecodeError) as error:
        log.warning("the rules could not be looked at, people decide: %s", error)
        return None
    if rule is None:
        return None
    by = f"; made by {rule.made_by}" if rule.made_by else ""
    reason = f"a rule says: {rule_text(rule)}{by}"
    return Answer(ask.id, rule.decision, by="rule", reason=reason, tool=ask.tool, rule=rule.id)


class SessionRules:
    """The rules as one session's asks meet them."""

    def __init__(self, book: RuleBook, asks: PendingAsks, session: str, origin: AskOrigin) -> None:
        self._book = book
        self._asks = asks
        self._session = session
        self._origin = origin

    async def __call__(self, ask: Ask) -> Answer | None:
        """What a rule decided is kept like what a person decided: it is shown, and other rules are tested with it."""
        answer = await self._book.decide(ask, self._origin)
        if answer is not None:
            try:
                await self._asks.keep_decided(self._session, ask, answer)
            except TielineError as error:  # what cannot be written down is not allowed unseen
                log.warning("the decision of a rule could not be kept, people decide: %s", error)
                return None
        return answer
