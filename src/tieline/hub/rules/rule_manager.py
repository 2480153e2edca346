"""Makes, previews, lists and revokes rules for asks, through any hub of the bus."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
from msgspec.structs import asdict, replace

from ...ask_parts import ask_parts
from ...bus.base import Bus, Entry
from ...errors import ConcurrentChange, Conflict, UsageError
from ...ids import new_id
from ...protocol.rules import NewRule, PastAsk, RuleChoice, RulePreview, RuleView
from ...protocol.views import NodeView
from ...sessions.ask_decisions import AUTOMATIC
from ...sessions.ask_rules import AskOrigin, AskRule, Files, NamedFiles, RealFiles, check_rule, matches, rule_text
from ...sessions.records import ASKS, SESSIONS, AskRecord, SessionRecord
from ...sessions.rule_book import RULES
from ...visible_text import marked
from .rule_choices import rule_choices, rule_from

MAX_RULES = 200
MAX_BYTES = 512 * 1024
"""Of all rules that hold, together: a joined machine keeps them in one record."""
TESTED = 60
"""Past asks that a rule is tested with, the newest."""
KEEP_REVOKED_S = 90 * 24 * 3600
TRIES = 10
LINE = 200
"""Characters that are shown of what was asked."""

_rule = msgspec.json.Decoder(AskRule).decode
_ask = msgspec.json.Decoder(AskRecord).decode
_session = msgspec.json.Decoder(SessionRecord).decode
_encode = msgspec.json.encode


class UnknownRule(UsageError):
    def __init__(self, id: str) -> None:
        super().__init__(f"there is no rule {id}", field="rule", hint="`tieline rules` shows them.")


class RuleManager:
    def __init__(self, bus: Bus, nodes: Callable[[], Awaitable[list[NodeView]]], local: str) -> None:
        """`local` is the node in this process; empty when there is none."""
        self._rules = bus.table(RULES)
        self._asks = bus.table(ASKS)
        self._sessions = bus.table(SESSIONS)
        self._nodes = nodes
        self._local = local

    async def views(self) -> list[RuleView]:
        """Those that hold first, the newest first; then those that are over."""
        entries, asks, nodes = await self._rules.entries(), await self._past_asks(), await self._nodes()
        now = time.time()
        views = [_view(entry, asks, nodes) for entry in entries]
        return sorted(views, key=lambda view: (not view.holds(now), -view.made_at, view.id))

    async def view(self, id: str) -> RuleView:
        return _view(await self._entry(id), await self._past_asks(), await self._nodes())

    async def add(self, new: NewRule, *, by: str, key: str = "") -> RuleView:
        """Durable, and in force on every machine of this bus, when it returns. The same id again is the same rule."""
        id = new.id or key or new_id()
        now = time.time()
        rule = replace(await self._checked(new), id=id, made_by=by, made_at=now)
        if 0 < rule.expires_at <= now:
            raise UsageError(
                "the rule would have expired already", field="expires_at", hint="Give a time in the future."
            )
        holding = [each for entry in await self._rules.entries() if (each := _rule(entry.value)).holds(now)]
        if all(each.id != id for each in holding):
            if len(holding) >= MAX_RULES or sum(len(_encode(each)) for each in (*holding, rule)) > MAX_BYTES:
                raise UsageError(f"there are {len(holding)} rules", field="rule", hint="Revoke some of them first.")
            with suppress(Conflict):  # the same request, twice at once
                await self._rules.put(id, _encode(rule), expect=0)
        return await self.view(id)

    async def revoke(self, id: str, *, by: str) -> RuleView:
        """In force no longer on any machine of this bus when it returns. It stays on the list for a while."""
        for _ in range(TRIES):
            entry = await self._entry(id)
            rule = _rule(entry.value)
            if rule.revoked_at:
                return await self.view(id)
            revoked = replace(rule, revoked_by=by, revoked_at=time.time())
            with suppress(Conflict):
                await self._rules.put(id, _encode(revoked), expect=entry.revision, ttl=KEEP_REVOKED_S)
                return await self.view(id)
        raise ConcurrentChange("rule")

    async def preview(self, new: NewRule) -> RulePreview:
        """What the rule would have decided of the last permissions that people, or other rules, decided."""
        rule = await self._checked(new)
        sessions = {entry.key: _session(entry.value) for entry in await self._sessions.entries()}
        past = [
            record
            for record in await self._past_asks()
            if record.ask.kind == "permission" and record.session in sessions
            and sessions[record.session].obeys_rules
        ]  # fmt: skip
        tested = sorted(past, key=lambda record: -record.created_at)[:TESTED]
        matched = await asyncio.to_thread(self._matching, rule, tested, sessions)
        asks = tuple(map(_past_ask, matched))
        against = sum(ask.person and ask.decision not in ("", rule.decision) for ask in asks)
        done = ("allowed", "denied") if rule.decision == "allow" else ("denied", "allowed")
        text = f"would have {done[0]} {len(asks)} of the last {len(tested)}" if tested else "nothing was asked yet"
        if against:
            text += f"; {against} of them were {done[1]} by a person"
        return RulePreview(text=text, tested=len(tested), matched=len(asks), contradicted=against, asks=asks)

    async def choices(self, record: AskRecord) -> list[RuleChoice]:
        entry = await self._sessions.get(record.session)
        if entry is None or not (session := _session(entry.value)).obeys_rules:
            return []
        return await asyncio.to_thread(rule_choices, record.ask, _origin(session), self._files(session.node))

    async def _checked(self, new: NewRule) -> AskRule:
        rule = rule_from(new)
        check_rule(rule)
        if new.node and all(node.id != new.node for node in await self._nodes()):
            raise UsageError(f"no node {new.node!r}", field="node", hint="`tieline nodes` lists them.")
        if new.node and new.node == self._local:  # by their real names: links are not followed later
            rule = await asyncio.to_thread(_with_real_paths, rule)
        return rule

    def _matching(self, rule: AskRule, tested: list[AskRecord], sessions: dict[str, SessionRecord]) -> list[AskRecord]:
        return [
            record
            for record in tested
            if matches(rule, record.ask, _origin(session := sessions[record.session]), self._files(session.node))
        ]

    def _files(self, node: str) -> Files:
        return RealFiles() if node == self._local else NamedFiles()

    async def _entry(self, id: str) -> Entry:
        try:
            entry = await self._rules.get(id)
        except UsageError:
            entry = None
        if entry is None:
            raise UnknownRule(id)
        return entry

    async def _past_asks(self) -> list[AskRecord]:
        return [_ask(entry.value) for entry in await self._asks.entries()]


def _origin(session: SessionRecord) -> AskOrigin:
    return AskOrigin(session.agent, session.node, session.cwd)


def _with_real_paths(rule: AskRule) -> AskRule:
    def real(path: str) -> str:
        return os.path.realpath(path) + ("/" if path.endswith("/") else "")

    pattern = real(rule.pattern) if rule.match in ("edit", "read") else rule.pattern
    return replace(rule, pattern=pattern, directory=os.path.realpath(rule.directory) if rule.directory else "")


def _view(entry: Entry, asks: list[AskRecord], nodes: list[NodeView]) -> RuleView:
    rule = _rule(entry.value)
    used = [record.created_at for record in asks if record.answer is not None and record.answer.rule == rule.id]
    unheard = [
        node.name or node.id
        for node in nodes
        if not node.local and rule.node in ("", node.id) and node.rules < entry.revision
        and (node.rules or not rule.revoked_at)  # what it never heard of cannot hold there
    ]  # fmt: skip
    machine = next((node.name or node.id for node in nodes if node.id == rule.node), rule.node)
    return RuleView(
        **asdict(rule),
        text=rule_text(rule) + (f", on {machine}" if machine else ", on every machine"),
        uses=len(used),
        used_at=max(used, default=0.0),
        waiting=tuple(unheard),
    )


def _past_ask(record: AskRecord) -> PastAsk:
    parts, answer = record.parts or ask_parts(record.ask), record.answer
    main = next((part.text for part in parts if part.label != "request"), record.ask.title)
    text = " ".join(marked(main).split())
    return PastAsk(
        ask=record.id,
        session=record.session,
        text=text if len(text) <= LINE else text[:LINE] + " …",
        at=record.created_at,
        decision=answer.decision if answer else "",
        by=answer.by if answer else "",
        person=answer is not None and answer.by not in AUTOMATIC,
    )
