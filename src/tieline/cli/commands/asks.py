"""`tieline approve|deny|answer`: an ask at the hub, decided from here. What is decided is what was shown: its digest
goes along."""

import sys
from collections.abc import Mapping, Sequence
from typing import Literal

from ...client.client import Client
from ...errors import UsageError, invalid_value
from ...events import Answer, Question, Remember
from ...ids import short_id
from ...protocol.request_bodies import Decision
from ...protocol.views import CommandView
from ...sessions.ask_decisions import check
from ...sessions.records import AskRecord, SessionRecord
from .. import hub_connection
from ..errors import FAILED, print_error
from ..terminal import event_text
from ..terminal.ask_text import full_text, headline, summary_line
from ..terminal.formatting import on_terminal, print_json, print_words, short_path
from ..terminal.line_prompt import ask_line
from ..terminal.sanitize import clean, one_line

REMEMBER: tuple[Remember, ...] = ("once", "session", "always")


def decide(
    decision: Literal["allow", "deny"], given: str, *, reason: str = "", remember: str = "", json: bool = False
) -> int:
    how = _remember(remember)

    async def work(client: Client) -> int:
        at_terminal = not json and on_terminal() and sys.stdin.isatty()
        record = await select_ask(client, given, "approve" if decision == "allow" else "deny")
        if decision == "allow" and not given and how == "once" and at_terminal:
            return await _decide_by_key(client, record)
        if decision == "allow" and record.ask.kind == "question":
            raise UsageError(
                "a question needs an answer, not an approval",
                field="ask",
                hint=f"tieline answer {short_id(record.id)} …",
            )
        proposed = Answer(record.id, decision, remember=how)
        check(record.ask, proposed)  # before anything is shown as if it could be decided
        if decision == "allow" and not json:  # a person sees an ask before allowing it
            await show_asks(client, record)
        if how != "once":
            print_error(f"tieline: {decision} {event_text.scope_text(record.ask, how)}")
        unsure = not given and decision == "allow" and at_terminal
        if unsure and read_line("allow? [y/N] ").lower() not in ("y", "yes"):
            print_error("tieline: nothing was decided")
            return FAILED
        return await send_decision(client, record, Decision(decision=decision, reason=reason, remember=how), json=json)

    return hub_connection.run_with_client(work)


async def _decide_by_key(client: Client, record: AskRecord) -> int:
    """On a terminal, one key decides what is shown: allow, deny, allow more than this once, deny and say why."""
    from rich.console import Console

    from ..run.permission_prompt import PermissionPrompter, TerminalGone
    from ..terminal.keyboard import keyboard

    session = await client.session(record.session)
    print_words(f"{short_id(record.id)}  {origin(session, await _node_names(client))}")
    keys = keyboard()
    if keys is None:
        raise UsageError("cannot ask you without a terminal", field="ask", hint="Name the ask: see `tieline asks`.")
    with keys:
        console = Console(markup=False, emoji=False, highlight=False)
        try:
            chosen = await PermissionPrompter(session.agent, console, keys, cwd=session.cwd).ask(record.ask)
        except TerminalGone:
            print_error("tieline: nothing was decided")
            return FAILED
    decision = Decision(
        decision=chosen.decision, reason=chosen.reason, answers=chosen.answers, remember=chosen.remember
    )
    return await send_decision(client, record, decision, json=False)


def answer(given: str, answers: Sequence[str], *, text: Sequence[str] = (), json: bool = False) -> int:
    """`text`: the person's own words, for each question, instead of choices."""

    async def work(client: Client) -> int:
        record = await select_ask(client, given, "answer")
        if answers and text:
            raise UsageError("give choices or --text, not both", field="text", hint="Give one or the other.")
        given_answers = answers or text
        if not given_answers:
            await show_asks(client, record)
            return 0
        check(record.ask, Answer(record.id, "allow"))
        if record.ask.kind != "question":
            hint = f"tieline approve {short_id(record.id)}, or tieline deny"
            raise UsageError(f"this ask is a {record.ask.kind}, not a question", field="ask", hint=hint)
        asked = record.ask.questions
        if len(given_answers) != len(asked):
            listed = "\n  ".join(f"{number}. {one_line(each.text)}" for number, each in enumerate(asked, 1))
            raise UsageError(
                f"{len(given_answers)} answers to {len(asked)} questions",
                field="answers",
                hint=f"One for each:\n  {listed}",
            )
        of = free_answer if text else chosen_labels
        chosen = {each.id: of(each, words) for each, words in zip(asked, given_answers, strict=True)}
        return await send_decision(client, record, Decision(decision="allow", answers=chosen), json=json)

    return hub_connection.run_with_client(work)


def show(given: str = "", *, json: bool = False) -> int:
    """What waits for a decision, each whole, with where it comes from."""

    async def work(client: Client) -> int:
        asks = [await hub_connection.find_ask(client, given)] if given else await client.asks()
        if json:
            print_json(asks[0] if given else asks)
            return 0
        if not asks:
            print_error("tieline: no ask is waiting for a decision")
        await show_asks(client, *asks)
        return 0

    return hub_connection.run_with_client(work)


def free_answer(question: Question, given: str) -> tuple[str, ...]:
    whole = given.strip()
    if whole and (question.free or not question.choices):
        return (whole,)
    raise UsageError("this question takes one of its choices only", field="text", hint=_choices_hint(question))


def chosen_labels(question: Question, given: str) -> tuple[str, ...]:
    """What was chosen, by number or by words. Other words are an answer only where there is nothing to choose from: a
    wrong number must not become one."""
    labels = [choice.label for choice in question.choices]

    def known(part: str) -> str:
        if part.isascii() and part.isdigit() and 1 <= int(part) <= len(labels):
            return labels[int(part) - 1]
        return next((label for label in labels if label.casefold() == part.casefold()), "")

    whole = given.strip()
    if label := known(whole):
        return (label,)
    parts = [part.strip() for part in whole.split(",") if part.strip()]
    if question.many and parts and all(map(known, parts)):
        return tuple(dict.fromkeys(map(known, parts)))
    if whole and not labels:
        return (whole,)
    raise UsageError(f"{given!r} is not one of the choices", field="answers", hint=_choices_hint(question))


def _choices_hint(question: Question) -> str:
    labels = (f"{number} {one_line(choice.label)}" for number, choice in enumerate(question.choices, 1))
    own = " Your own words go with --text." if question.free else ""
    return f"Choose from: {', '.join(labels)}.{own}"


async def select_ask(client: Client, given: str, verb: str) -> AskRecord:
    """The one that is named; without a name, the only one that waits and can be decided from here, or the one that is
    picked from a list."""
    if given:
        return await hub_connection.find_ask(client, given)
    waiting = await client.asks()
    if verb == "answer":
        waiting = [record for record in waiting if record.ask.kind == "question"]
    elsewhere = [record for record in waiting if record.ask.at_terminal]
    waiting = [record for record in waiting if not record.ask.at_terminal]
    if elsewhere and not waiting:
        raise UsageError(elsewhere[0].ask.at_terminal, field="ask", hint="`tieline asks` shows what is asked.")
    if not waiting:
        raise UsageError("no ask is waiting for a decision", field="ask")
    if len(waiting) == 1:
        return waiting[0]
    sessions = {session.id: session for session in await client.sessions(archived=True)}
    machines = await _node_names(client)
    listed = [
        f"{number:>3}  {short_id(ask.id)}  {origin(sessions.get(ask.session), machines)}: {summary_line(ask.ask)}"
        for number, ask in enumerate(waiting, 1)
    ]
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        hint = "\n  ".join([f"Name one: tieline {verb} ASK. `tieline asks` shows them whole.", *listed])
        raise UsageError(f"{len(waiting)} asks are waiting for a decision", field="ask", hint=hint)
    print("\n".join(map(clean, listed)))
    picked = await _pick_number(len(waiting))
    if picked in ("", "q"):
        raise UsageError("no ask was picked", field="ask", hint="Nothing was decided.")
    if not (picked.isascii() and picked.isdigit() and 1 <= int(picked) <= len(waiting)):
        raise UsageError(f"{picked!r} is not one of them", field="ask", hint="Nothing was decided.")
    return waiting[int(picked) - 1]


async def _pick_number(last: int) -> str:
    """A number from 1 on: one key where one is enough."""
    from ..terminal.keyboard import MAX_DIGITS, keyboard

    keys = keyboard() if last <= MAX_DIGITS else None
    if keys is None:
        return read_line(f"which? 1 to {last}, then Enter: ")
    with keys:
        keys.set("key")
        print(f"which? Press 1 to {last}, or q for none: ", end="", flush=True)
        picked = await keys.key("123456789"[:last] + "q", lambda: print("\a", end="", flush=True))
    print(picked)
    return picked


def origin(session: SessionRecord | None, machines: Mapping[str, str]) -> str:
    """Who asks: agent, machine, directory, session."""
    if session is None:
        return "a deleted session"
    machine = machines.get(session.node, session.node)
    named = f" {one_line(session.title, 40)!r}" if session.title else ""
    where = short_path(session.cwd)
    return one_line(f"{session.agent} on {machine} in {where}, session {short_id(session.id)}{named}", 1000)


async def show_asks(client: Client, *records: AskRecord) -> None:
    """What is asked, whole, and where it comes from."""
    machines = await _node_names(client) if records else {}
    for record in records:
        session = await client.session(record.session)
        show_ask(record, session, origin(session, machines))


async def _node_names(client: Client) -> dict[str, str]:
    """The name of each machine by its id."""
    return {node.id: node.name for node in await client.nodes()}


def show_ask(record: AskRecord, session: SessionRecord, whence: str) -> None:
    terminal = on_terminal()
    print_words(f"{short_id(record.id)}  {whence}")
    if terminal:
        from rich.console import Console

        from ..terminal.ask_panel import panels

        console = Console(markup=False, emoji=False, highlight=False)
        for each in panels(record.ask, session.agent, session.cwd):
            console.print(each)
    else:
        print(f"{headline(record.ask)}:")
    if rest := full_text(record.ask, parts=not terminal):
        print(rest, flush=True)


def read_line(prompt: str) -> str:
    """A line from the person; nothing else goes on meanwhile."""
    try:
        return ask_line(prompt).strip()
    except EOFError:
        return ""


async def answer_as_shown(client: Client, record: AskRecord, decision: Decision) -> CommandView:
    """Decide exactly what was shown. Raises UsageError for what nobody may decide so."""
    from msgspec.structs import replace

    check(record.ask, Answer(record.id, decision.decision, remember=decision.remember))
    return await client.answer(record.id, replace(decision, digest=record.digest))


def check_taken(view: CommandView) -> None:
    """Raises UsageError for a decision that was refused, or came too late."""
    if view.state in ("refused", "expired"):
        raise UsageError(view.problem or f"the decision is {view.state}", field="ask")


async def send_decision(client: Client, record: AskRecord, decision: Decision, *, json: bool) -> int:
    view = await answer_as_shown(client, record, decision)
    if json:
        print_json(view)
        return 0
    check_taken(view)
    verdict = "answered" if decision.answers else "allowed" if decision.decision == "allow" else "denied"
    print(f"{verdict}: {summary_line(record.ask)}")
    if view.state != "applied":
        hub_connection.print_pending(view)
    return 0


def _remember(given: str) -> Remember:
    for known in REMEMBER:
        if known == (given or "once"):
            return known
    raise invalid_value("--remember", given, accepted=("session", "always"))
