"""`tieline doctor`: whether agents in harnesses can be reached, and what to do where they cannot."""

import asyncio
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

from ...client.client import Client
from ...client.errors import NoHub
from ...environment import inherited
from ...harnesses import registry
from ...harnesses.base import hook_program
from ...protocol.mesh import HookActivity, MemberView
from ...protocol.messages import MessageView, NewMessage
from .. import hub_connection
from ..errors import FAILED
from ..terminal.formatting import print_json, time_ago
from ..terminal.sanitize import clean, one_line
from ..terminal.tables import Cell, print_rows
from . import harnesses
from .harnesses import HarnessReport

CANARY_S = 30.0
"""How long the test message is followed. A session that only its hooks reach takes it at its next turn."""
LOOK_S = 0.2
CANARY = "A test of Tieline: nothing to do, and no answer is wanted."

FindingState = Literal["ok", "note", "problem"]
STYLES: dict[FindingState, str] = {"ok": "green", "note": "yellow", "problem": "red"}


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that was looked at, as `tieline doctor --json` tells it."""

    about: str  # a harness, a member, or the hub
    check: str
    state: FindingState
    text: str
    hint: str = ""


def run(names: Sequence[str], *, fix: bool, canary: str, json: bool) -> int:
    findings: list[Finding] = []
    reports = harnesses.inspect_here(names)
    if fix:
        findings += [_mended(report) for report in reports if report.installed == "partly"]
        reports = harnesses.inspect_here(names)
    for report in reports:
        findings += check_harness(report)
    if not reports:
        findings.append(Finding(about="harnesses", check="found", state="note", text="none is here"))

    async def work(client: Client) -> int:
        members = [each for each in await client.members(kind="agent") if not names or each.harness in names]
        hooks = {each.session: each for each in await client.harness_hooks()}
        findings.extend(finding for each in members for finding in check_member(each, hooks.get(each.session)))
        if canary:
            findings.extend(await _canary(client, canary))
        return 0

    try:
        hub_connection.run_with_client(work)
    except NoHub as error:
        state: FindingState = "problem" if canary else "note"
        findings.append(Finding(about="hub", check="runs", state=state, text="no hub runs", hint=error.hint))
    if json:
        print_json(findings)
    else:
        rows: list[tuple[Cell, ...]] = [
            (each.about, each.check, (each.state, STYLES[each.state]), one_line(each.text, 100)) for each in findings
        ]
        print_rows(("about", "check", "", ""), rows)
        for each in findings:
            if each.state != "ok":  # whole, which a row might not be
                print(clean(_words(each)))
    return FAILED if any(each.state == "problem" for each in findings) else 0


def _words(finding: Finding) -> str:
    words = f"{finding.about}: {finding.text}"
    return f"{words}\n  {finding.hint}" if finding.hint else words


# --- a harness -------------------------------------------------------------------------------------------------------


def check_harness(report: HarnessReport) -> list[Finding]:
    name = report.harness
    broken = [f"{each.path}: {each.problem}" for each in report.files if each.problem]
    install = f"`tieline install {name}`"
    match report.installed:
        case "yes":
            installed = Finding(
                about=name, check="installed", state="ok", text="this version's integration is installed"
            )
        case "partly":
            text = "not all of this version's integration is there"
            if any(each.state == "outdated" for each in report.files):
                text = "the integration is of another version of Tieline, or of one at another place"
            installed = Finding(
                about=name, check="installed", state="problem", text=text, hint=f"{install}, or `tieline doctor --fix`."
            )
        case _:
            installed = Finding(about=name, check="installed", state="note", text="not installed", hint=f"{install}.")
    findings = [installed]
    findings += [Finding(about=name, check="files", state="problem", text=each) for each in broken]
    if report.version and report.tested:
        same = report.version == report.tested
        text = f"{report.version}" if same else f"{report.version}; the integration was tried with {report.tested}"
        findings.append(Finding(about=name, check="version", state="ok" if same else "note", text=text))
    if name == "codex" and (hooks := codex_hooks(inherited())):
        findings.append(_trust(hooks))
    if report.installed != "no" and not registry.create(name).trusts(here := Path.cwd(), inherited()):
        text = f"it does not trust {here}, and starts no MCP server there"
        hint = f"{report.display_name} asks when you start it there."
        findings.append(Finding(about=name, check="folder", state="note", text=text, hint=hint))
    return findings


def codex_hooks(env: Mapping[str, str]) -> Path | None:
    """Its file of hooks, when ours are in it."""
    file = Path(env.get("CODEX_HOME") or Path(env.get("HOME", "/")) / ".codex") / "hooks.json"
    try:
        return file if f"harnesses/{hook_program().name}" in file.read_text() else None
    except (OSError, ValueError):
        return None


def _trust(hooks: Path) -> Finding:
    """Codex runs a hook only when its configuration has the hash that a person approved."""
    try:
        config = tomllib.loads((hooks.parent / "config.toml").read_text())
    except (OSError, ValueError):
        config = {}
    states: Any = cast("dict[str, Any]", config.get("hooks", {})).get("state", {})
    approved = [key for key, value in states.items() if str(hooks) in key and "trusted_hash" in value]
    if approved:
        return Finding(about="codex", check="trusted", state="ok", text=f"{len(approved)} hooks are approved")
    return Finding(
        about="codex", check="trusted", state="problem", text="its hooks do not run", hint="Type /hooks in Codex."
    )


def _mended(report: HarnessReport) -> Finding:
    hooks = report.harness == "codex" and codex_hooks(inherited()) is not None
    done = harnesses.reinstall(report.harness, hooks=hooks)
    if done.problem:
        return Finding(about=report.harness, check="fix", state="problem", text=done.problem)
    return Finding(about=report.harness, check="fix", state="ok", text=f"{len(done.changes)} files brought up to date")


# --- a session -------------------------------------------------------------------------------------------------------


def check_member(member: MemberView, hooks: HookActivity | None) -> list[Finding]:
    presence = "stale" if member.stale else member.activity
    text = f"{member.harness}, {presence}, {member.unread} unread, seen {time_ago(member.seen_at)} ago"
    findings = [Finding(about=member.name, check="session", state="note" if member.stale else "ok", text=text)]
    if hooks is not None:
        text = f"{hooks.fired} hooks fired, the last one {hooks.event} {time_ago(hooks.fired_at)} ago"
        findings.append(Finding(about=member.name, check="hooks", state="ok", text=text))
        if hooks.doubled_at:
            other = f" as {hooks.doubled_by}" if hooks.doubled_by != hooks.harness else ""
            findings.append(
                Finding(
                    about=member.name,
                    check="hooks",
                    state="note",
                    text=f"an event fired two hooks{other} {time_ago(hooks.doubled_at)} ago; it was handled once",
                    hint="Tieline is installed twice, globally and in the project: uninstall one.",
                )
            )
    return findings


async def _canary(client: Client, member: str) -> list[Finding]:
    """Each step of a test message's receipt."""
    to = (await client.member(member.removeprefix("@"))).address
    view: MessageView = await client.send_message(NewMessage(to=to, text=CANARY, no_reply=True))
    began = time.monotonic()
    while view.state not in ("seen", "answered", "expired", "dead"):
        if time.monotonic() - began > CANARY_S:
            break
        await asyncio.sleep(LOOK_S)
        view = await client.message(view.receipt.id)
    first = view.receipt.steps[0].at if view.receipt.steps else 0.0
    findings = [
        Finding(about=member, check="canary", state="ok", text=f"{step.state} after {step.at - first:.2f} s")
        for step in view.receipt.steps
    ]
    if view.state not in ("injected", "seen", "answered"):
        findings.append(
            Finding(
                about=member,
                check="canary",
                state="problem",
                text=f"it was not handed over within {CANARY_S:g} s",
                hint=f"It stays in the inbox: `tieline message status {view.receipt.id}`.",
            )
        )
    return findings
