"""`tieline approve|deny|answer`: an ask at the hub, decided from here. What is decided is what was shown: its digest
goes along."""

import sys
from collections.abc import Sequence
from typing import Literal

from ..client.client import Client
from ..errors import UsageError
from ..events import Ask, Question, Remember
from ..protocol.bodies import Decision
from ..sessions.records import AskRecord
from . import switchboard, words
from .clean import clean, one_line
from .errors import FAILED, say

REMEMBER: tuple[Remember, ...] = ("once", "session", "always")


def decide(
    decision: Literal["allow", "deny"], given: str, *, reason: str = "", remember: str = "", json: bool = False
) -> int:
    how = _remember(remember)

    async def work(client: Client) -> int:
        record = await _which(client, given, "approve" if decision == "allow" else "deny")
        if decision == "allow" and record.ask.kind == "question":
            raise UsageError(
                "a question needs an answer, not a yes",
                field="ask",
                hint=f"tieline answer {switchboard.short(record.id)} …",
            )
        if how != "once" and how not in record.ask.remember:
            offered = ", ".join(record.ask.remember) or "nothing"
            raise UsageError(
                f"this ask cannot be remembered for {how}", field="remember", hint=f"The agent offers: {offered}."
            )
        if not given and sys.stdin.isatty() and sys.stdout.isatty():
            # Nobody allows unseen what came up a moment ago.
            await _tell(client, record)
            if decision == "allow" and _asked("allow? [y/N] ").lower() not in ("y", "yes"):
                say("tieline: nothing was decided")
                return FAILED
        return await _send(client, record, Decision(decision=decision, reason=reason, remember=how), json=json)

    return switchboard.call(work)


def answer(given: str, answers: Sequence[str], *, json: bool = False) -> int:
    async def work(client: Client) -> int:
        record = await _which(client, given, "answer")
        if not answers:
            await _tell(client, record)
            return 0
        if record.ask.kind != "question":
            hint = f"tieline approve {switchboard.short(record.id)}, or tieline deny"
            raise UsageError(f"it asks for a {record.ask.kind}, not for an answer", field="ask", hint=hint)
        asked = record.ask.questions
        if len(answers) != len(asked):
            listed = "\n  ".join(f"{number}. {one_line(each.text)}" for number, each in enumerate(asked, 1))
            raise UsageError(
                f"{len(answers)} answers to {len(asked)} questions", field="answers", hint=f"One for each:\n  {listed}"
            )
        chosen = {each.id: choices(each, words) for each, words in zip(asked, answers, strict=True)}
        return await _send(client, record, Decision(decision="allow", answers=chosen), json=json)

    return switchboard.call(work)


def choices(question: Question, given: str) -> tuple[str, ...]:
    """What was chosen: by number or by words; one's own words where the question permits them."""
    labels = [choice.label for choice in question.choices]

    def known(part: str) -> str:
        if part.isascii() and part.isdigit() and 1 <= int(part) <= len(labels):
            return labels[int(part) - 1]
        return next((label for label in labels if label.casefold() == part.casefold()), "")

    whole = given.strip()
    if found := known(whole):
        return (found,)
    parts = [part.strip() for part in whole.split(",") if part.strip()]
    if question.many and parts and all(map(known, parts)):
        return tuple(dict.fromkeys(map(known, parts)))
    if whole and (question.free or not labels):
        return (whole,)
    hint = "Choose from: " + ", ".join(f"{number} {one_line(label)}" for number, label in enumerate(labels, 1))
    raise UsageError(f"{given!r} is not one of the choices", field="answers", hint=hint)


async def _which(client: Client, given: str, verb: str) -> AskRecord:
    """The one that is named; without a name, the only one that waits, or the one that is picked from a list."""
    if given:
        return await switchboard.ask(client, given)
    waiting = await client.asks()
    if verb == "answer":
        waiting = [one for one in waiting if one.ask.kind == "question"]
    if not waiting:
        raise UsageError("nothing waits for a decision", field="ask")
    if len(waiting) == 1:
        return waiting[0]
    listed = [f"{number:>3}  {switchboard.short(one.id)}  {line(one.ask)}" for number, one in enumerate(waiting, 1)]
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        hint = "\n  ".join([f"Name one: tieline {verb} ASK", *listed])
        raise UsageError(f"{len(waiting)} asks wait for a decision", field="ask", hint=hint)
    print("\n".join(map(clean, listed)))
    picked = _asked("which? ")
    if not (picked.isascii() and picked.isdigit() and 1 <= int(picked) <= len(waiting)):
        raise UsageError(f"{picked!r} is not one of them", field="ask", hint="Nothing was decided.")
    return waiting[int(picked) - 1]


async def _tell(client: Client, record: AskRecord) -> None:
    """What is asked, whole."""
    session = await client.session(record.session)
    if switchboard.on_terminal():
        from rich.console import Console

        from .asking import panel, question_panel

        console = Console(markup=False, emoji=False, highlight=False)
        if record.ask.kind != "question":
            console.print(panel(record.ask, session.agent, session.cwd))
        for question in record.ask.questions:
            console.print(question_panel(question, session.agent))
        return
    print(f"{switchboard.short(record.id)}  {session.agent} in {switchboard.place(session.cwd)}: {line(record.ask)}")
    for number, question in enumerate(record.ask.questions, 1):
        print(f"{number}. {clean(question.text)}")
        for place, choice in enumerate(question.choices, 1):
            more = f": {clean(choice.description)}" if choice.description else ""
            print(f"   {place}  {clean(choice.label)}{more}")


def line(ask: Ask) -> str:
    """What is asked, on one line."""
    if ask.kind == "question":
        return "; ".join(one_line(question.text) for question in ask.questions)
    if ask.kind == "plan":
        return f"has a plan: {one_line(ask.plan, 120)}"
    row = words.row(ask.action, ask.title, arguments=ask.input) if ask.action else None
    target = f"{row.verb or row.icon} {row.target}".strip() if row else one_line(ask.title)
    return f"{words.wish(ask)}: {target}"


def _asked(prompt: str) -> str:
    """A line from the person; nothing else goes on meanwhile."""
    try:
        return input(prompt).strip()
    except EOFError:
        return ""


async def _send(client: Client, record: AskRecord, decision: Decision, *, json: bool) -> int:
    from msgspec.structs import replace

    view = await client.answer(record.id, replace(decision, digest=record.digest))
    if json:
        switchboard.as_json(view)
        return 0
    if view.state in ("refused", "expired"):
        raise UsageError(view.problem or f"the decision is {view.state}", field="ask")
    verdict = "answered" if decision.answers else "allowed" if decision.decision == "allow" else "denied"
    print(f"{verdict}: {line(record.ask)}")
    if view.state != "applied":
        switchboard.later(view)
    return 0


def _remember(given: str) -> Remember:
    for known in REMEMBER:
        if known == (given or "once"):
            return known
    raise UsageError(f"--remember is {given!r}", field="remember", hint="It is session or always.")
