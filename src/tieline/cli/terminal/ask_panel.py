"""Panels that show an ask on a terminal. Nothing is ever cut; invisible characters are marked."""

from msgspec.structs import replace
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from ...ask_parts import Part, ask_parts, withheld_text
from ...events import Ask, Question
from ...visible_text import marked
from . import event_text
from .sanitize import one_line


def panel(ask: Ask, agent: str, cwd: str = "") -> Panel:
    """`cwd`: names in a diff are told as seen from there."""
    wish = "has a plan" if ask.kind == "plan" else event_text.request_text(ask)
    parts = [_part_view(part, cwd) for part in ask_parts(ask)]
    if ask.withheld:
        parts.append(Text(withheld_text(ask.withheld, ask.at_terminal), "bold red", overflow="fold"))
    if ask.at_terminal and ask.kind != "question":
        parts.append(Text(ask.at_terminal, "bold", overflow="fold"))
    return Panel(
        Group(*parts),
        title=Text(f"{one_line(agent)} {wish}", "bold"),
        title_align="left",
        border_style="yellow",
        padding=(0, 1),
    )


def panels(ask: Ask, agent: str, cwd: str = "") -> list[Panel]:
    """All of an ask: of a question first what it comes with, if anything, then each question."""
    if ask.kind != "question":
        return [panel(ask, agent, cwd)]
    questions = (question_panel(question, agent, ask.at_terminal) for question in ask.questions)
    return [*context_panels(ask, agent, cwd), *questions]


def context_panels(ask: Ask, agent: str, cwd: str = "") -> list[Panel]:
    """What comes with the questions: who really asks, for instance."""
    questions = sum(1 + len(question.choices) for question in ask.questions)
    return [panel(replace(ask, questions=()), agent, cwd)] if len(ask_parts(ask)) > questions else []


def question_panel(question: Question, agent: str, at_terminal: str = "") -> Panel:
    header = f" · {one_line(question.header)}" if question.header else ""
    body = Text(marked(question.text), "bold", overflow="fold")
    for number, choice in enumerate(question.choices, 1):
        body.append("\n").append(f"{number:>2}  ", "bold yellow").append(marked(choice.label), "not bold")
        if choice.description:
            body.append(f"\n    {marked(choice.description)}", "not bold dim")
    if at_terminal:
        body.append(f"\n\n{at_terminal}")
    title = Text(f"{one_line(agent)} asks{header}", "bold")
    return Panel(body, title=title, title_align="left", border_style="cyan", padding=(0, 1))


def _part_view(part: Part, cwd: str) -> RenderableType:
    label, text = marked(part.label).replace("\n", " "), marked(part.text)
    if part.form == "diff":
        from .diff_view import coloured

        return coloured(part.text, cwd=cwd, whole=True)
    if part.label == "command":
        return Text.assemble(("$ ", "bold yellow"), (text, "bold"), overflow="fold")
    if part.label == "reason":
        return Text.assemble("\n", (text, "italic"), overflow="fold")
    if part.label == "plan":
        return Text(text, overflow="fold")
    return Text.assemble((f"{label}: ", "dim"), ("\n" if "\n" in text else "", ""), text, overflow="fold")
