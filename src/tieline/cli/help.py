"""The layout of `--help`: sections of options, examples as they are typed, bold headings on a terminal."""

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import typer
import typer.core

from .. import environment

MAX_WIDTH = 100
GAP = 2


class HelpCommand(typer.core.TyperCommand):
    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]  # AGENT, not {AGENT}

    def get_help(self, ctx: Any) -> str:
        return _page(self, ctx, {})


class HelpGroup(typer.core.TyperGroup):
    """The program: alone it prints its help."""

    @property
    def default_verb(self) -> str:
        """The verb to use when the first argument is not a verb."""
        return ""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not self.default_verb:
            print(self.get_help(ctx))
            ctx.exit()
        return super().parse_args(ctx, self.with_verb(args))

    def with_verb(self, args: list[str]) -> list[str]:
        """Begins with the default verb where none is given."""
        if not self.default_verb or (args and args[0] in (*self.commands, "-h", "--help")):
            return args
        default = self.commands[self.default_verb]
        words = [param for param in default.params if param.param_type_name == "argument"]
        if len(words) == 1 and words[0].nargs == 1 and args and get_close_matches(args[0], self.commands, cutoff=0.75):
            return args  # a misspelt verb rather than the id of a session
        if words or not args or args[0].startswith("-"):  # else it is a verb that there is not
            return [self.default_verb, *args]
        return args

    def get_help(self, ctx: Any) -> str:
        families: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                panel = getattr(command, "rich_help_panel", None)
                title = panel if isinstance(panel, str) else "Commands"
                also = " Also without the verb." if name == self.default_verb else ""
                families.setdefault(title, []).append((name, _first_sentence(command.help or "") + also))
        return _page(self, ctx, families)


class FamilyGroup(HelpGroup):
    """A verb with verbs of its own: alone it shows what there is."""

    @property
    def default_verb(self) -> str:
        return next(verb for verb in ("list", "show", "status") if verb in self.commands)


def family(app: typer.Typer, name: str, about: str, *, panel: str, examples: str) -> typer.Typer:
    """A verb that has verbs of its own: alone it lists or shows, as docs/cli.md says."""
    group = typer.Typer(cls=FamilyGroup, rich_markup_mode=None)
    app.add_typer(group, name=name, help=about, epilog=examples, rich_help_panel=panel)
    return group


def add_family(
    app: typer.Typer,
    name: str,
    about: str,
    verbs: Mapping[str, tuple[Callable[..., None], str]],
    *,
    panel: str,
) -> None:
    """A verb with verbs of its own: each with its function and its examples, of which the family shows the first."""
    first = "\n".join(examples.splitlines()[0] for _, examples in verbs.values())
    group = family(app, name, about, panel=panel, examples=first)
    for verb, (function, examples) in verbs.items():
        group.command(verb, cls=HelpCommand, epilog=examples)(function)


def _page(command: HelpCommand | HelpGroup, ctx: Any, commands: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    width = min(MAX_WIDTH, shutil.get_terminal_size().columns)
    bold = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() and environment.variable("TERM") != "dumb" else ("", "")
    sections: dict[str, list[tuple[str, str]]] = {title: list(rows) for title, rows in commands.items()}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None:
            argument = param.param_type_name == "argument"
            title = "Arguments" if argument else getattr(param, "rich_help_panel", None) or "Options"
            left = record[0].split(" <")[0].strip() if argument else record[0].strip()
            sections.setdefault(title, []).append((left, _sentence(record[1])))
    if "Options" in sections:  # general options come last
        sections["Options"] = sections.pop("Options")
    parts = [command.get_usage(ctx), textwrap.fill(_words(command.help), width)]
    column = max(len(left) for rows in sections.values() for left, _ in rows) + GAP
    for title, rows in sections.items():
        parts.append("\n".join([_heading(title, bold), *_table(rows, min(column, 34), width, bold)]))
    if command.epilog:
        examples, _, notes = command.epilog.strip().partition("\n\n")
        parts.append(_heading("Examples", bold) + "\n" + textwrap.indent(examples, "  "))
        if notes:
            parts.append(notes)
    return "\n\n".join(parts)


def _heading(title: str, bold: tuple[str, str]) -> str:
    return f"{bold[0]}{title}{bold[1]}"


def _table(rows: Iterable[tuple[str, str]], column: int, width: int, bold: tuple[str, str]) -> Iterable[str]:
    for left, right in rows:
        lines = textwrap.wrap(right, max(20, width - column - GAP)) or [""]
        shown = f"{bold[0]}{left}{bold[1]}"
        if len(left) + GAP > column:
            yield f"  {shown}"
        else:
            yield f"  {shown}{' ' * (column - len(left))}{lines.pop(0)}".rstrip()
        for line in lines:
            yield f"  {' ' * column}{line}"


def _words(text: str | None) -> str:
    return " ".join((text or "").split())


def _first_sentence(text: str) -> str:
    head, stop, _ = _words(text).partition(". ")
    return head + stop.strip()


def _sentence(text: str) -> str:
    """Without the mark `[required]`, which every line would repeat."""
    return text.replace("  [required]", "").replace("[required]", "")
