"""`tieline agents`: what is on this machine."""

import asyncio
import sys
from collections.abc import Sequence

from ... import config as configuration
from ...drivers import registry
from ...errors import UnknownAgent
from ..terminal.formatting import print_json
from .agent_reports import plain_lines, probe_agents


def show(names: Sequence[str], *, json: bool) -> None:
    config = configuration.load()
    known = registry.names(config)
    for name in names:
        if name not in known:
            raise UnknownAgent(name, known)
    wanted = list(names) or known
    if not json and sys.stdout.isatty() and config.environ.get("TERM", "dumb") != "dumb":
        from .agents_table import print_table, terminal

        console = terminal()
        with console.status(f"looking for {len(wanted)} agents"):
            reports = asyncio.run(probe_agents(wanted, config))
        print_table(reports, console)
        return
    reports = asyncio.run(probe_agents(wanted, config))
    if json:
        print_json(reports)
    else:
        print("\n".join(plain_lines(reports)))
