"""`tieline rules`, `tieline approve --always`: what people want to be decided in the same way again."""

import os
import re
import sys
import time
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from ...client.client import Client
from ...errors import UsageError, invalid_value
from ...hub.rules.rule_choices import rule_from
from ...ids import short_id
from ...protocol.request_bodies import Decision
from ...protocol.rules import NewRule, RulePreview, RuleView
from ...sessions.ask_rules import RuleMatch, rule_text
from .. import hub_connection
from ..errors import FAILED, print_error
from ..terminal.formatting import on_terminal, print_json, short_path, time_ago
from ..terminal.sanitize import clean, one_line
from ..terminal.tables import Cell, print_rows
from .asks import read_line, select_ask, send_decision, show_asks

TITLES = ("id", "rule", "about", "where", "used", "made", "state")
ABOUT: dict[RuleMatch, str] = {
    "exact": "command",
    "prefix": "command …",
    "edit": "change",
    "read": "read",
    "host": "host",
    "tool": "MCP tool",
}
HOW: dict[str, tuple[RuleMatch, ...]] = {
    "exact": ("exact",),
    "prefix": ("prefix",),
    "path": ("edit", "read"),
    "host": ("host",),
    "tool": ("tool",),
}
"""What --always takes."""
SHOWN = 10
"""Past asks that a preview lists on a terminal; --json has all."""
_SPAN = re.compile(r"(\d{1,4})([mhdw])")
_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class RuleOptions(Struct, frozen=True, kw_only=True):
    """A rule as it is typed."""

    match: RuleMatch
    pattern: str
    deny: bool = False
    directory: str = ""
    everywhere: bool = False
    machine: str = ""
    agent: str = ""
    lasts: str = ""


def list_rules(*, json: bool) -> int:
    async def work(client: Client) -> int:
        rules = await client.rules()
        if json:
            print_json(rules)
            return 0
        none = 'No rules. Make one: tieline rules add prefix "npm test"'
        print_rows(TITLES, [_row(each) for each in rules], none, optional=("made", "used"))
        for each in rules:
            if each.waiting:
                print_error(f"tieline: {_unheard(each)}")
        return 0

    return hub_connection.run_with_client(work)


def show(given: str, *, json: bool) -> int:
    async def work(client: Client) -> int:
        rule = await _find(client, given)
        if json:
            print_json(rule)
            return 0
        facts = {
            "rule": rule.text,
            "id": rule.id,
            "state": _state(rule)[0],
            "made": f"{_moment(rule.made_at)} by {rule.made_by}" + (f", from ask {rule.ask}" if rule.ask else ""),
            "ends": _moment(rule.expires_at) if rule.expires_at else "",
            "revoked": f"{_moment(rule.revoked_at)} by {rule.revoked_by}" if rule.revoked_at else "",
            "used": f"{_times(rule.uses)} in the last day{f', last {_moment(rule.used_at)}' if rule.uses else ''}",
            "waits": _unheard(rule) if rule.waiting else "",
        }
        for name, value in facts.items():
            if value:
                print(clean(f"{name:<9}{value}"))
        return 0

    return hub_connection.run_with_client(work)


def test(wanted: RuleOptions, *, json: bool) -> int:
    async def work(client: Client) -> int:
        preview = await client.preview_rule(await _new_rule(client, wanted))
        if json:
            print_json(preview)
        else:
            _print_preview(preview)
        return 0

    return hub_connection.run_with_client(work)


def add(wanted: RuleOptions, *, yes: bool, json: bool) -> int:
    async def work(client: Client) -> int:
        made = await _save(client, await _new_rule(client, wanted), yes=yes, json=json)
        if made is None:
            return FAILED
        if json:
            print_json(made)
        return 0

    return hub_connection.run_with_client(work)


def revoke(given: str, *, json: bool) -> int:
    async def work(client: Client) -> int:
        revoked = await client.revoke_rule((await _find(client, given)).id)
        if json:
            print_json(revoked)
            return 0
        print(f"revoked: {clean(revoked.text)}")
        if revoked.waiting:
            print_error(f"tieline: {_unheard(revoked)}")
        return 0

    return hub_connection.run_with_client(work)


def allow_always(given: str, how: str, *, yes: bool, json: bool) -> int:
    """Allow an ask, and whatever is like it from now on."""
    if how not in HOW:
        raise invalid_value("--always", how, accepted=tuple(HOW))

    async def work(client: Client) -> int:
        record = await select_ask(client, given, "approve")
        choices = await client.rule_choices(record.id)
        chosen = next((choice for choice in choices if choice.rule.match in HOW[how]), None)
        if chosen is None:
            offered = [name for name, kinds in HOW.items() if any(choice.rule.match in kinds for choice in choices)]
            hint = (
                f"It can become one by: {', '.join(offered)}." if offered else "Only a person can decide such an ask."
            )
            raise UsageError(f"this ask cannot become a rule by its {how}", field="always", hint=hint)
        if not json:
            await show_asks(client, record)
        made = await _save(client, chosen.rule, yes=yes, json=json)
        if made is None:
            return FAILED
        return await send_decision(client, record, Decision(decision="allow"), json=json)

    return hub_connection.run_with_client(work)


async def _save(client: Client, new: NewRule, *, yes: bool, json: bool) -> RuleView | None:
    """Tested first, then saved when the person agrees. None: they did not."""
    if not json:
        _print_preview(await client.preview_rule(new))
    if not yes:
        if json or not (on_terminal() and sys.stdin.isatty()):
            raise UsageError("cannot ask for your consent without a terminal", field="yes", hint="Add --yes.")
        print(f"the rule: {clean(rule_text(rule_from(new)))}")
        if read_line("save this rule? [y/N] ").lower() not in ("y", "yes"):
            print_error("tieline: nothing was saved")
            return None
    made = await client.add_rule(new)
    if not json:
        print(f"{short_id(made.id)}: {clean(made.text)}")
        if made.waiting:
            print_error(f"tieline: {_unheard(made)}")
    return made


async def _new_rule(client: Client, wanted: RuleOptions) -> NewRule:
    node = (await hub_connection.find_node(client, wanted.machine)).id if wanted.machine else ""
    here = not wanted.machine  # else the paths are another machine's: they are taken as they are
    pattern, directory = wanted.pattern, wanted.directory
    if wanted.match in ("edit", "read") and here:
        pattern = _real_path(pattern)
    if wanted.everywhere:
        if directory:
            raise UsageError("give --dir or --everywhere, not both", field="dir", hint="Give one or the other.")
    elif here:
        directory = os.path.realpath(Path(directory or ".").expanduser())
    elif not directory:
        hint = "Give --dir, a directory of that machine, or --everywhere."
        raise UsageError("a rule for another machine needs a directory", field="dir", hint=hint)
    return NewRule(
        match=wanted.match,
        pattern=pattern,
        decision="deny" if wanted.deny else "allow",
        directory=directory,
        node=node,
        agent=wanted.agent,
        expires_at=_expiry(wanted.lasts),
    )


def _real_path(typed: str) -> str:
    """As the node will see it; a directory ends with a slash."""
    real = os.path.realpath(Path(typed).expanduser())
    return f"{real}/" if typed.endswith("/") or Path(real).is_dir() else real


def _expiry(lasts: str) -> float:
    if not lasts:
        return 0.0
    if match := _SPAN.fullmatch(lasts):
        return time.time() + int(match[1]) * _SECONDS[match[2]]
    raise invalid_value("--for", lasts, hint="Such as 30m, 12h, 7d or 2w.")


async def _find(client: Client, given: str) -> RuleView:
    return hub_connection.pick("rule", given, await client.rules(), lambda each: each.id)


# --- what is shown ------------------------------------------------------------------------------------------


def _print_preview(preview: RulePreview) -> None:
    print(clean(preview.text))
    for ask in preview.asks[:SHOWN]:
        became = {"allow": "allowed", "deny": "denied", "": "open"}[ask.decision]
        by = f" by {one_line(ask.by, 30)}" if ask.by else ""
        print(f"  {time_ago(ask.at):>4} ago  {one_line(ask.text, 100)}  ({became}{by})")
    if len(preview.asks) > SHOWN:
        print(f"  … and {len(preview.asks) - SHOWN} more")


def _state(rule: RuleView) -> tuple[str, str]:
    if rule.revoked_at:
        return "revoked", "dim"
    return ("holds", "green") if rule.holds(time.time()) else ("over", "dim")


def _row(rule: RuleView) -> list[Cell]:
    where = short_path(rule.directory) if rule.directory else "everywhere"
    return [
        (short_id(rule.id), "bold"),
        (rule.decision, "green" if rule.decision == "allow" else "red"),
        f"{ABOUT[rule.match]}: {one_line(rule.pattern, 50)}",
        one_line(where + (f", {rule.agent}" if rule.agent else ""), 40),
        _times(rule.uses),
        f"{time_ago(rule.made_at)} ago by {one_line(rule.made_by, 20)}",
        _state(rule),
    ]


def _unheard(rule: RuleView) -> str:
    held = "still holds" if rule.revoked_at else "does not hold yet"
    return f"rule {short_id(rule.id)} {held} on {', '.join(map(one_line, rule.waiting))}: not heard there"


def _times(count: int) -> str:
    return "never" if not count else "once" if count == 1 else f"{count} times"


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}"
