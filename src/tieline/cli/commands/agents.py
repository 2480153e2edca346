"""`tieline agents`: what is on this machine."""

import asyncio
import sys
from collections.abc import Sequence

from ... import config as configuration
from ...drivers import registry
from ...errors import UnknownAgent
from ..terminal.formatting import print_json
from .agent_reports import left_out_text, plain_lines, probe_agents, shown_first


def show(names: Sequence[str], *, all: bool, json: bool) -> None:
    """Those that are here or configured; the others by name or with `all`, and where there is none to show."""
    config = configuration.load()
    known = registry.names(config)
    for name in names:
        if name not in known:
            raise UnknownAgent(name, known)
    wanted = list(names) or known
    always = known if all or names else [*config.agents]
    if not json and sys.stdout.isatty() and config.environ.get("TERM", "dumb") != "dumb":
        from .agents_table import print_table, terminal

        console = terminal()
        with console.status(f"looking for {len(wanted)} agents"):
            reports = asyncio.run(probe_agents(wanted, config))
        reports, left_out = shown_first(reports, always)
        print_table(reports, console)
        if left_out:
            console.print(left_out_text(left_out))
        return
    reports = asyncio.run(probe_agents(wanted, config))
    if json:
        print_json(reports)
    else:
        reports, left_out = shown_first(reports, always)
        print("\n".join([*plain_lines(reports), *([left_out_text(left_out)] if left_out else [])]))
