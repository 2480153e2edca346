"""The table of `tieline agents` on a terminal."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..terminal.sanitize import clean, one_line
from .agent_reports import AgentReport, feature_names, sign_in_text

ROOM_FOR_CAN = 40
"""Cells that the column `can` has at least; a narrower terminal gets it as a table of its own."""
SIGNED_STYLES = {"yes": "green", "no": "red", "unknown": "dim"}


def terminal() -> Console:
    return Console(markup=False, emoji=False, highlight=False)


def print_table(reports: Sequence[AgentReport], console: Console) -> None:
    """Those that are here in full, what is wrong with them, and how to get the others."""
    here = [report for report in reports if report.found]
    console.print()
    if here:
        table = _here(here)
        if console.width - console.measure(table).maximum >= ROOM_FOR_CAN:
            console.print(_here(here, can=True))
        else:
            console.print(table)
            console.print()
            console.print(_abilities(here))
    for report in here:
        if report.problem or report.hint:
            console.print(_problem(report))
    if here:
        console.print()
    if away := [report for report in reports if not report.found]:
        console.print(_away(away))
        console.print()


def _here(reports: Sequence[AgentReport], *, can: bool = False) -> Table:
    table = _table("agent", "version", "signed in", "proof", "oldest")
    if can:
        table.add_column("can")
    for report in reports:
        sign, style = ("!", "yellow") if report.problem else ("✓", "green")
        table.add_row(
            Text.assemble(
                (f"{sign} ", style), (report.name, "bold"), (report.run_as and f" as {report.run_as}", "dim")
            ),
            Text(one_line(report.version, 20)),
            Text(sign_in_text(report), SIGNED_STYLES[sign_in_text(report)]),
            _proof(report),
            Text(report.floor, "dim"),
            *([Text(_can(report), "dim")] if can else []),
        )
    return table


def _abilities(reports: Sequence[AgentReport]) -> Table:
    """What each can do, in a table of its own."""
    table = _table("agent")
    table.add_column("can")
    for report in reports:
        table.add_row(Text(report.name, "bold"), Text(_can(report), "dim"))
    return table


def _proof(report: AgentReport) -> Text:
    """In a word: the versions stand beside each other. Checks count for the version that they were made with."""
    proof = _proof_word(report)
    if (checked := report.checked) and checked.version == report.version:
        total = len(checked.passed) + len(checked.failed)
        proof.append(f", {len(checked.passed)}/{total} here", "yellow" if checked.failed else "green")
    return proof


def _proof_word(report: AgentReport) -> Text:
    if report.proof == "tested":
        return Text(f"tested {report.tested}", "yellow" if report.tested_version is False else "green")
    if report.proof == "seen":
        return Text("seen here", "dim")
    return Text(report.proof or "", "yellow")


def _can(report: AgentReport) -> str:
    able = ", ".join(each.split(" (")[0] for each in feature_names(report.features))
    if report.basis == "unverified":
        return f"unverified, it never ran here: {able}"
    return f"{able}; unverified: {', '.join(report.unverified)}" if report.unverified else able


def _problem(report: AgentReport) -> Text:
    text = Text.assemble(("! ", "yellow"), (report.name, "bold"))
    text.append(f": {clean(report.problem)}" if report.problem else ":")
    return text.append(f"\n    {clean(report.hint)}" if report.hint else "", "dim")


def _away(reports: Sequence[AgentReport]) -> Table:
    table = _table("not here")
    table.add_column("why")
    table.add_column("what to do")
    for report in reports:
        name = Text.assemble(("✗ ", "dim red"), (report.name, "dim"))
        table.add_row(name, Text(clean(report.problem), "dim"), Text(clean(report.hint)))
    return table


def _table(*titles: str) -> Table:
    table = Table(box=SIMPLE_HEAD, header_style="dim", pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    for title in titles:
        table.add_column(title, no_wrap=True)
    return table
