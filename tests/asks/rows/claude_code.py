"""What Claude Code can ask."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.asks.stage import Row, holding
from tests.asks.words import SPOKEN, lines, long, spoken

from tieline.drivers.base import McpServer
from tieline.script import AnyStep, Call, Inquire, Propose, Run, Write
from tieline.testing import mcp_server

SERVERS = {"words": McpServer(command=mcp_server.command_line("speak", sys.executable, "-c", "print('said')"))}
OPTIONS: Mapping[str, Any] = {"mcp_servers": SERVERS}
OLD = "vanishing-line\n"
META = "{name: 'greet', description: 'greets'}"


def rows(cwd: Path) -> Sequence[Row]:
    file, old, book = cwd / "greeting.py", cwd / "old.txt", cwd / "book.ipynb"
    cells: list[Any] = [
        {"id": "one", "cell_type": "code", "source": OLD, "metadata": {}, "outputs": [], "execution_count": None}
    ]
    notebook: dict[str, Any] = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    outside = cwd.parent / "-".join(SPOKEN)

    def row(kind: str, *steps: AnyStep, **more: Any) -> Row:
        return Row(kind=kind, replies=tuple([step] for step in steps), options=OPTIONS, **more)

    def read(path: Path) -> Call:
        return Call("Read", {"file_path": str(path)})

    return (
        row(
            "edit",
            read(file),
            Call("Edit", {"file_path": str(file), "old_string": "old words", "new_string": spoken("\n")}),
            prepare=holding(file, "one\nold words\nthree\n"),
        ),
        row(
            "edit everywhere",
            read(file),
            Call(
                "Edit",
                {"file_path": str(file), "old_string": "old", "new_string": spoken("\n"), "replace_all": True},
            ),
            prepare=holding(file, "old\n" + "more\n" * 20 + "vanishing old\n"),
            markers=("vanishing old", *SPOKEN),
        ),
        row("write", Write(str(cwd / "new.txt"), spoken("\n"))),
        row(
            "overwrite",
            read(old),
            Write(str(old), lines(60)),
            prepare=holding(old, OLD),
            markers=(OLD.strip(), *SPOKEN),
            bidi=False,
        ),
        row(
            "notebook",
            read(book),
            Call("NotebookEdit", {"notebook_path": str(book), "cell_id": "one", "new_source": spoken("\n")}),
            prepare=holding(book, msgspec.json.encode(notebook).decode()),
            markers=(OLD.strip(), *SPOKEN),
        ),
        row("command", Run(f"echo {spoken()}")),
        row("command of many lines", Run(f"cat <<EOF\n{lines(60)}EOF"), bidi=False),
        row("long command", Run(f"echo {long()}"), bidi=False),
        row("watched command", Call("Monitor", {"command": f"echo {spoken()}", "description": "x"})),
        row("workflow", Call("Workflow", {"script": f"export const meta = {META}\n// {spoken()}\nreturn 1"})),
        row("fetch", Call("WebFetch", {"url": "https://example.org/first-marker", "prompt": spoken()})),
        row("search", Call("WebSearch", {"query": spoken()})),
        row("tool of a server", Call("mcp__words__speak", {"text": spoken(), "more": {"deep": ["last-marker"]}})),
        row("reading outside", read(outside), prepare=holding(outside, "secret"), bidi=False),
        row("question", Inquire(f"first-marker {spoken()}?", ("middle-marker", "last-marker"))),
        row("plan", Propose(spoken("\n")), allow=frozenset({"permission"})),
    )
