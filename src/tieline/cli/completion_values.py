"""What a shell completes: agents, sessions, asks, machines, policies, schedules, rules. It holds no shell up, and fails
silently."""

import os
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from .. import environment

if TYPE_CHECKING:
    from ..client.client import Client

LIMIT_S = 1.0
"""For all of it; then there is nothing to complete."""
MAX_SESSIONS = 200

Completions = list[tuple[str, str]]
"""Each with what it is."""


def agents(incomplete: str) -> Completions:
    """Those of the configuration and those that Tieline knows, installed or not."""

    def look() -> Completions:
        from .. import config as configuration
        from ..drivers import registry

        config = configuration.load()
        return [(name, "") for name in registry.names(config)]

    return _beginning_with(incomplete, look)


def policies(incomplete: str) -> Completions:
    from ..policy import PRESETS

    return [(name, "") for name in PRESETS if name.startswith(incomplete)]


def usage_kinds(incomplete: str) -> Completions:
    from typing import get_args

    from ..protocol.usage import UsageBy

    return [(name, "") for name in get_args(UsageBy) if name.startswith(incomplete)]


def search_kinds(incomplete: str) -> Completions:
    from typing import get_args

    from ..protocol.search import SearchKind

    return [(name, "") for name in get_args(SearchKind) if name.startswith(incomplete)]


def sessions(incomplete: str) -> Completions:
    async def ask(client: "Client") -> Completions:
        from ..ids import short_id
        from .terminal.sanitize import one_line

        records = await client.sessions(limit=MAX_SESSIONS)
        short = [
            (short_id(record.id), one_line(f"{record.agent}, {record.status}: {record.title}", 60))
            for record in records
        ]
        return short if not incomplete else short + [(record.id, one_line(record.title, 60)) for record in records]

    return _beginning_with(incomplete, lambda: _from_hub(ask))


def asks(incomplete: str) -> Completions:
    return _asks(incomplete, questions_only=False)


def questions(incomplete: str) -> Completions:
    return _asks(incomplete, questions_only=True)


def _asks(incomplete: str, *, questions_only: bool) -> Completions:
    async def ask(client: "Client") -> Completions:
        from ..ids import short_id
        from .terminal.ask_text import summary_line

        waiting = [each for each in await client.asks() if not questions_only or each.ask.kind == "question"]
        return [(short_id(each.id), summary_line(each.ask)) for each in waiting]

    return _beginning_with(incomplete, lambda: _from_hub(ask))


def nodes(incomplete: str) -> Completions:
    async def ask(client: "Client") -> Completions:
        return [(node.name or node.id, "online" if node.online else "offline") for node in await client.nodes()]

    return _beginning_with(incomplete, lambda: _from_hub(ask))


def schedules(incomplete: str) -> Completions:
    async def ask(client: "Client") -> Completions:
        from .terminal.sanitize import one_line

        return [(each.name, one_line(each.prompt, 60)) for each in await client.schedules()]

    return _beginning_with(incomplete, lambda: _from_hub(ask))


def rules(incomplete: str) -> Completions:
    async def ask(client: "Client") -> Completions:
        from ..ids import short_id
        from .terminal.sanitize import one_line

        return [(short_id(each.id), one_line(each.text, 60)) for each in await client.rules() if not each.revoked_at]

    return _beginning_with(incomplete, lambda: _from_hub(ask))


def _beginning_with(incomplete: str, look: Callable[[], Completions]) -> Completions:
    # Not a timeout of the event loop: looking up a host's name, for one, could not be cancelled.
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        return [each for each in look() if each[0].startswith(incomplete)]
    except Exception:
        return []


def _give_up(number: int, frame: object) -> None:
    os._exit(0)


def _from_hub(ask: "Callable[[Client], Awaitable[Completions]]") -> Completions:
    import asyncio

    from ..client.client import connect

    async def connected() -> Completions:
        async with connect(environment.inherited(), patience_s=LIMIT_S) as client:
            return await ask(client)

    return asyncio.run(connected())
