"""Lets a person decide an ask on a full screen: by one key if it is shown whole, else by a typed command."""

from collections.abc import Callable, Collection
from typing import Any, Literal

from textual.app import App

from ...errors import UsageError
from ...events import Answer, Remember
from ...protocol.request_bodies import Decision
from ...sessions.ask_decisions import check
from ...sessions.records import AskRecord
from ..commands.asks import REMEMBER, chosen_labels, free_answer
from ..terminal import event_text
from .ask_views import AskPanel, AskScreen

ASK_COMMANDS = {
    "/allow [session|always]": "allow what is asked, once or for longer",
    "/deny [WHY]": "deny what is asked, and say why",
    "/answer NUMBER or WORDS": "answer a question",
}


class AskDecider:
    """Of the ask that its panel shows."""

    def __init__(
        self,
        app: App[Any],
        panel: AskPanel,
        *,
        about: Callable[[AskRecord], tuple[str, str]],
        send: Callable[[str, AskRecord, Decision], None],
        fill: Callable[[str], None],
    ) -> None:
        """`about` names who asks, and in which directory. `send` gets what was typed, and what is decided by it.
        `fill` puts a text into the line, to be completed."""
        self._app = app
        self._panel = panel
        self._about = about
        self._send = send
        self._fill = fill
        self._others = 0

    @property
    def reading(self) -> AskScreen | None:
        """The long ask that is read right now."""
        return self._app.screen if isinstance(self._app.screen, AskScreen) else None

    def show(self, record: AskRecord | None, others: int) -> None:
        self._others = others
        self._panel.show_ask(record, *(self._about(record) if record else ("", "")), others)

    def only(self, pending: Collection[str]) -> None:
        """These are undecided: a long ask that was decided elsewhere is no longer read."""
        if (screen := self.reading) and screen.record.id not in pending:
            screen.action_decide("")

    def by_key(self, decision: Literal["allow", "deny"]) -> None:
        """Raises UsageError."""
        record = self._panel.record
        if record is None or not self._panel.seen or self.reading:
            return
        if decision == "allow" and record.ask.at_terminal and not self._panel.fully_visible:
            self._read_whole(record, "", None)
        elif decision == "allow" and record.ask.kind == "question" and not record.ask.at_terminal:
            if self._panel.fully_visible:
                self._fill("/answer ")
            else:
                self._read_whole(record, "answers", None)
        else:
            self._decide(Decision(decision=decision))

    def typed(self, text: str) -> bool:
        """Whether the line is about the ask. Raises UsageError."""
        verb, _, rest = text.partition(" ")
        match verb:
            case "/allow":
                self._decide(Decision(decision="allow", remember=_remember(rest)), text)
            case "/deny":
                self._decide(Decision(decision="deny", reason=rest.strip()), text)
            case "/answer":
                self._answer(rest.strip(), text)
            case _:
                return False
        return True

    def _decide(self, decision: Decision, typed: str = "") -> None:
        record = self._asked()
        check(record.ask, Answer(record.id, decision.decision, remember=decision.remember))
        if decision.decision == "allow":
            if record.ask.kind == "question":
                raise UsageError("a question needs an answer", field="ask", hint="Type /answer NUMBER or WORDS.")
            if not self._panel.fully_visible:
                lasting = event_text.scope_text(record.ask, decision.remember) if decision.remember != "once" else ""
                self._read_whole(record, f"allows {lasting}".strip(), decision)
                return
        self._send(typed, record, decision)

    def _read_whole(self, record: AskRecord, allows: str, decision: Decision | None) -> None:
        """All of it, before it is decided."""

        def decided(key: Literal["allow", "deny", ""] | None) -> None:
            if not key or self._panel.record is None or self._panel.record.id != record.id:
                return
            if key == "deny":
                self._send("", record, Decision(decision="deny"))
            elif decision is not None:
                self._send("", record, decision)
            else:
                self._fill("/answer ")

        self._app.push_screen(AskScreen(record, *self._about(record), allows), decided)

    def _answer(self, given: str, typed: str) -> None:
        """The question that is shown; the ask is answered with its last one."""
        record = self._asked()
        questions = record.ask.questions
        if record.ask.kind != "question":
            raise UsageError("this ask is not a question", field="ask", hint="Type /allow or /deny.")
        check(record.ask, Answer(record.id, "allow"))
        question = questions[len(self._panel.answers)]
        try:
            chosen = chosen_labels(question, given)
        except UsageError:
            if not question.free or given.isdigit():
                raise
            chosen = free_answer(question, given)
        answers = {**self._panel.answers, question.id: chosen}
        if len(answers) == len(questions):
            self._send(typed, record, Decision(decision="allow", answers=answers))
        else:
            self._panel.answers = answers
            self.show(record, self._others)

    def _asked(self) -> AskRecord:
        if self._panel.record is None:
            raise UsageError("no ask is waiting for a decision", field="ask")
        return self._panel.record


def _remember(given: str) -> Remember:
    for level in REMEMBER:
        if level == (given.strip() or "once"):
            return level
    raise UsageError(
        f"{given.strip()!r} is not a way to remember it",
        field="remember",
        hint="Type /allow, /allow session or /allow always.",
    )
