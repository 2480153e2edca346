"""What the verbs over a hub share: the call itself, ids that people type in part, and how things are listed."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ..client.client import Client, connect
from ..environment import inherited
from ..errors import UsageError
from ..protocol.views import CommandView, NodeView
from ..sessions.records import AskRecord, SessionRecord
from .errors import say
from .terminal.formatting import short_id

T = TypeVar("T")
MOST = 5
"""Candidates that are named when an id could mean several."""


def call(work: Callable[[Client], Awaitable[int]]) -> int:
    """Do it with the hub that is meant. Raises NoHub and what the hub refuses."""

    async def inside() -> int:
        async with connect(inherited()) as client:
            return await work(client)

    return asyncio.run(inside())


def pick(what: str, given: str, found: Sequence[T], key: Callable[[T], str]) -> T:
    """The one whose id begins or ends so. Raises UsageError when there is none, or more than one."""
    whole = [one for one in found if key(one) == given]
    part = whole or [one for one in found if key(one).startswith(given) or key(one).endswith(given)]
    if len(part) == 1 and given:
        return part[0]
    if not part or not given:
        raise UsageError(f"no {what} {given!r}", field=what, hint=f"`tieline {what}s` lists them." if found else "")
    names = ", ".join(key(one) for one in part[:MOST]) + (" …" if len(part) > MOST else "")
    raise UsageError(f"{given!r} could be {len(part)} {what}s", field=what, hint=f"Say more of it: {names}")


async def session(client: Client, given: str) -> SessionRecord:
    return pick("session", given, await client.sessions(archived=True), lambda one: one.id)


async def ask(client: Client, given: str) -> AskRecord:
    """A pending one by a part of its id; else any by its whole id."""
    pending = await client.asks()
    try:
        return pick("ask", given, pending, lambda one: one.id)
    except UsageError as unknown:
        if pending and len([one for one in pending if one.id.startswith(given) or one.id.endswith(given)]) > 1:
            raise
        try:
            return await client.ask(given)
        except UsageError:
            waiting = ", ".join(short_id(one.id) for one in pending) or "none"
            raise UsageError(unknown.message, field="ask", hint=f"Waiting for an answer: {waiting}.") from None


async def node(client: Client, given: str) -> NodeView:
    """By its name, or a part of its id."""
    found = await client.nodes()
    named = [one for one in found if one.name == given]
    return named[0] if len(named) == 1 else pick("node", given, found, lambda one: one.id)


# --- what is shown ------------------------------------------------------------------------------------------


def later(view: CommandView) -> None:
    """It is durable, but its machine has not answered."""
    say(f"tieline: the machine has not answered yet; it will be done when it does (command {view.id}: {view.state})")


def words_of(text: str) -> str:
    """What was typed, or standard input for `-`."""
    if text != "-":
        return text
    if sys.stdin.isatty():
        say("Type the prompt; Ctrl-D on an empty line ends it.")
    return sys.stdin.buffer.read().decode(errors="replace")


def directory(cwd: str) -> str:
    return str(Path(cwd).expanduser().absolute())
