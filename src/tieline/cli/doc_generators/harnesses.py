"""The tables of `docs/harnesses.md`: `python -m tieline.cli.doc_generators.harnesses docs/harnesses.md`."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ...harnesses import registry
from ...harnesses.base import Harness, TerminalEvents

BEGIN = "<!-- Made by `make docs` from the integrations in the code. Change the texts there. -->"
END = "<!-- Here ends what `make docs` made. -->"

Column = tuple[str, Callable[[Harness], str]]

DELIVERY: Sequence[Column] = (
    ("harness", lambda each: each.display_name),
    ("how we hear of its sessions", lambda each: each.capabilities.hooks),
    ("into a running turn", lambda each: each.capabilities.mid_turn),
    ("at the end of a turn", lambda each: each.capabilities.turn_end),
    ("wakes an idle one", lambda each: each.capabilities.idle_wake),
)
INSTALLED: Sequence[Column] = (
    ("harness", lambda each: each.display_name),
    ("command", lambda each: f"`tieline install {each.name}`"),
    ("tried with", lambda each: each.tested or "(after its documentation)"),
    ("MCP", lambda each: each.capabilities.tools or ", ".join(each.capabilities.transports)),
    ("session id from", lambda each: each.capabilities.session_id or "the agent's own call"),
    ("registers itself", lambda each: "yes" if each.capabilities.registers_itself else "no: the agent does"),
    ("instructions in", lambda each: each.capabilities.instructions),
    ("after compaction", lambda each: each.capabilities.compaction),
    ("you type", lambda each: each.capabilities.slash_command),
)


ATTACHED: Sequence[Column] = (
    ("harness", lambda each: each.display_name),
    ("with `--attach` we read", lambda each: each.attach_terms.reads if each.attach_terms else ""),
    ("from elsewhere you can", lambda each: each.attach_terms.can if each.attach_terms else ""),
    ("only at the terminal", lambda each: each.attach_terms.cannot if each.attach_terms else ""),
)


def tables() -> str:
    harnesses = [registry.create(name) for name in registry.names()]
    attached = [each for each in harnesses if each.attach_terms is not None]
    shown = ((INSTALLED, harnesses), (DELIVERY, harnesses), (ATTACHED, attached))
    return "\n\n".join([*(_table(columns, rows) for columns, rows in shown), _events_table(attached)])


def _table(columns: Sequence[Column], harnesses: Sequence[Harness]) -> str:
    return _lines([head for head, _ in columns], ([text(each) for _, text in columns] for each in harnesses))


def _events_table(harnesses: Sequence[Harness]) -> str:
    """A row for each event: there are more of them than harnesses."""
    tells = [each.attach_terms.tells for each in harnesses if each.attach_terms is not None]
    heads = ["told with `--attach`, and by what", *(each.display_name for each in harnesses)]
    fields = TerminalEvents.__struct_fields__
    return _lines(heads, ([field.replace("_", " "), *(getattr(each, field) for each in tells)] for field in fields))


def _lines(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [heads, ["---"] * len(heads), *([cell or "–" for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def page(text: str) -> str:
    """The page with its tables as they must be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(page(file.read_text()))
