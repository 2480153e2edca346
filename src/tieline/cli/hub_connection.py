"""What the hub commands share: a connected client, and lookups by part of an id."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ..client.client import Client, connect
from ..environment import inherited
from ..errors import UsageError
from ..ids import ID_LENGTH, fits_id, short_id
from ..protocol.views import CommandView, NodeView, PromptView
from ..sessions.records import AskRecord, SessionRecord
from .errors import print_error
from .terminal.formatting import print_json

T = TypeVar("T")
MAX_CANDIDATES = 5
"""Candidates that are named when an id could mean several."""
MAX_SESSIONS = 5000
"""Sessions that mention what was given, among which an id is looked for."""


def run_with_client(work: Callable[[Client], Awaitable[int]]) -> int:
    """Run `work` with a client of the hub. Raises NoHub, and what the hub refuses."""

    async def connected() -> int:
        async with connect(inherited()) as client:
            return await work(client)

    return asyncio.run(connected())


def pick(what: str, given: str, candidates: Sequence[T], key: Callable[[T], str], *, listed_by: str = "") -> T:
    """The candidate whose id is meant by `given` (`fits_id`). Raises UsageError for none or several; `listed_by` is the
    command that shows all, where `tieline WHATs` is not."""
    exact = [item for item in candidates if key(item) == given]
    matches = exact or [item for item in candidates if fits_id(key(item), given)]
    if len(matches) == 1 and given:
        return matches[0]
    if not matches or not given:
        raise UsageError(f"no {what} {given!r}", field=what, hint=f"`{listed_by or f'tieline {what}s'}` lists them.")
    names = ", ".join(key(item) for item in matches[:MAX_CANDIDATES]) + (" …" if len(matches) > MAX_CANDIDATES else "")
    raise UsageError(f"{given!r} could be {len(matches)} {what}s", field=what, hint=f"Type more of it: {names}")


async def find_session(client: Client, given: str) -> SessionRecord:
    """A session by a part of its id, archived or not, however many there are: the hub looks for it."""
    candidates = await client.sessions(archived=True, q=given, limit=MAX_SESSIONS) if given else []
    return pick("session", given, candidates, lambda item: item.id)


def find_prompt(given: str, prompts: Sequence[PromptView]) -> PromptView:
    return pick("prompt", given, prompts, lambda item: item.id, listed_by="tieline queue SESSION")


async def find_ask(client: Client, given: str) -> AskRecord:
    """A pending ask by a part of its id, or any ask by its whole id."""
    pending = await client.asks()
    try:
        return pick("ask", given, pending, lambda item: item.id)
    except UsageError as unknown:
        if pending and len([ask for ask in pending if fits_id(ask.id, given)]) > 1:
            raise
        try:
            return await client.ask(given)
        except UsageError:
            waiting = ", ".join(short_id(ask.id) for ask in pending) or "none"
            raise UsageError(unknown.message, field="ask", hint=f"Waiting for an answer: {waiting}.") from None


async def find_message(client: Client, given: str) -> str:
    """A message's whole id by a part of it; what fits none is left as it is, since threads may have any name."""
    if not given or len(given) >= ID_LENGTH:
        return given
    ids = await client.message_ids(given)
    return pick("message", given, ids, str) if ids else given


async def find_node(client: Client, given: str) -> NodeView:
    """A node by its name or a part of its id."""
    nodes = await client.nodes()
    named = [node for node in nodes if node.name == given]
    return named[0] if len(named) == 1 else pick("node", given, nodes, lambda item: item.id)


# --- what is shown ------------------------------------------------------------------------------------------


def print_pending(view: CommandView) -> None:
    """Say that a command is stored, but its node has not answered."""
    print_error(f"tieline: its machine is offline; command {view.id} ({view.state}) runs when it is back")


def print_outcome(result: T | CommandView, say: Callable[[T], str], *, json: bool) -> int:
    """Print what a command made of something, or that its node has not answered."""
    if json:
        print_json(result)
    elif isinstance(result, CommandView):
        print_pending(result)
    else:
        print(say(result))
    return 0


def read_text(text: str) -> str:
    """The argument itself, or standard input for `-`."""
    if text != "-":
        return text
    if sys.stdin.isatty():
        print_error("Type the prompt; Ctrl-D on an empty line ends it.")
    return sys.stdin.buffer.read().decode(errors="replace")


def absolute_path(cwd: str) -> str:
    return str(Path(cwd).expanduser().absolute())
