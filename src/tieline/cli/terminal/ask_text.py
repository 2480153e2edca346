"""An ask as plain text: a line of what the agent wants, and every character of what it asks for."""

from ...ask_parts import ask_parts, parts_text, withheld_text
from ...events import Ask
from . import event_text
from .sanitize import one_line


def full_text(ask: Ask, *, parts: bool = True) -> str:
    """Every character of it as plain text, and what can be done about it. `parts`: else only the latter."""
    lines = [parts_text(ask_parts(ask))] if parts else []
    if ask.withheld:
        lines.append(withheld_text(ask.withheld, ask.at_terminal))
    if ask.at_terminal and parts:
        lines.append(ask.at_terminal)
    lines += [f"--remember {level}: allows {event_text.scope_text(ask, level)}" for level in ask.remember]
    return "\n".join(lines)


def summary_line(ask: Ask) -> str:
    """What is asked, on one line."""
    if ask.kind == "question":
        return "; ".join(one_line(question.text) for question in ask.questions)
    if ask.kind == "plan":
        return f"has a plan: {one_line(ask.plan, 120)}"
    row = event_text.action_row(ask.action, ask.title, arguments=ask.input) if ask.action else None
    target = f"{row.verb or row.icon} {row.target}".strip() if row else one_line(ask.title)
    return f"{event_text.request_text(ask)}: {target}"


def headline(ask: Ask) -> str:
    return (
        "has a question"
        if ask.kind == "question"
        else "has a plan"
        if ask.kind == "plan"
        else event_text.request_text(ask)
    )
