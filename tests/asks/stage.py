"""The stage of the matrix: one agent, and each ask that it can make caused once, by the real program.

A row is one kind of ask of one agent. Its replies bring the ask about; its markers stand at the beginning, in the
middle and at the end of what decides. Every ask is denied, so that nothing happens; a row that needs
something prepares it by itself.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from msgspec import Struct
from tests.asks.words import SPOKEN

from tieline.api import open_session
from tieline.ask_parts import ask_parts
from tieline.events import Answer, Ask, Event, Init
from tieline.policy import Policy
from tieline.script import Reply, Say
from tieline.sessions.ask_decisions import deny
from tieline.sessions.records import AskRecord, SessionRecord, digest
from tieline.testing.model_rig import ModelRig
from tieline.testing.rig import Rig
from tieline.testing.stream_checks import collect

TURN_S = 100.0


class Row(Struct, frozen=True, kw_only=True):
    kind: str  # of the ask, as the list of kinds in `words` has it
    replies: tuple[Reply, ...]  # of the model, without the last one, which ends the turn
    markers: tuple[str, ...] = SPOKEN
    prepare: Callable[[Path], object] = lambda cwd: None
    options: Mapping[str, Any] = {}  # of its session; rows that share them share one agent
    allow: frozenset[str] = frozenset()  # kinds of asks on the way to this one, which are allowed: "permission", "plan"
    withheld: bool = False  # whether the agent itself does not tell all of it
    bidi: bool = True  # whether its text has a character that turns the order of what is read


def holding(path: Path, text: str) -> Callable[[Path], object]:
    """For `prepare`: the file has this text."""

    def prepare(cwd: Path) -> None:
        path.write_text(text)

    return prepare


class Cast(Struct, frozen=True, kw_only=True):
    agent: str
    rig: Callable[[Path], AbstractAsyncContextManager[Rig]]
    rows: Callable[[Path], Sequence[Row]]


class Caught(Struct, frozen=True, kw_only=True):
    """One row's ask, as the hub keeps it."""

    row: Row
    record: AskRecord
    session: SessionRecord


class Played(Struct, frozen=True, kw_only=True):
    """What came of all rows of an agent."""

    cast: Cast
    caught: list[Caught]
    tools: set[str]  # all that it offered its model when a session began; what is looked for later is not among them


async def play(cast: Cast, root: Path) -> Played:
    """Every row of an agent, in as few of its processes as possible."""
    cwd = root / "place"
    cwd.mkdir(parents=True)
    played = Played(cast=cast, caught=[], tools=set())
    async with cast.rig(root / "home") as rig:
        rows = list(cast.rows(cwd))
        for options in _each(row.options for row in rows):
            own = [row for row in rows if row.options == options]
            await _session(played, rig, cwd, options, own)
    return played


async def _session(played: Played, rig: Rig, cwd: Path, options: Mapping[str, Any], rows: Sequence[Row]) -> None:
    cast = played.cast
    asked: list[Ask] = []
    row = rows[0]

    def decide(ask: Ask) -> Answer:
        asked.append(ask)
        wanted = _wanted(row, ask)
        return deny(ask, "not here") if wanted or ask.kind not in row.allow else Answer(ask.id, "allow", by="caller")

    record = SessionRecord(id=f"session-of-{cast.agent}", agent=cast.agent, cwd=str(cwd), title="The matrix")
    given: dict[str, Any] = {"policy": Policy(), **rig.options, **options}
    async with open_session(rig.driver, cwd=cwd, on_ask=decide, **given) as session:
        for row in rows:
            asked.clear()
            row.prepare(cwd)
            if isinstance(rig, ModelRig):
                rig.model.drop_replies()  # a denial that ends its turn leaves the last one
                rig.model.requests.clear()
            rig.play(*row.replies, [Say("That was it.")])
            async with asyncio.timeout(TURN_S):
                seen = await collect(session.turn(f"Cause: {row.kind}."))
            if row is rows[0]:
                played.tools.update(_offered(rig, seen))
            ask = next((ask for ask in asked if _wanted(row, ask)), asked[-1] if asked else None)
            assert ask is not None, f"{cast.agent} asked nothing for {row.kind!r}: {seen}"
            kept = AskRecord(
                id=ask.id, session=record.id, ask=ask, digest=digest(ask), expires_at=4e9, parts=ask_parts(ask)
            )
            played.caught.append(Caught(row=row, record=kept, session=record))


def _offered(rig: Rig, seen: Sequence[Event]) -> Iterator[str]:
    """The names of the tools of a session that had its first turn, in the words of any vendor."""
    for event in seen:
        yield from event.tools if isinstance(event, Init) else ()
    for body in rig.model.requests if isinstance(rig, ModelRig) else ():
        yield from offered(body)


def offered(body: Mapping[str, Any]) -> Iterator[str]:
    """The names of the tools in a request."""
    for tool in body.get("tools") or body.get("tool_definitions") or ():
        for each in tool.get("functionDeclarations") or [tool.get("function") or tool]:
            yield str(each.get("name") or each["type"])


def _wanted(row: Row, ask: Ask) -> bool:
    """Some asks lead to the one that the row is about; its own has the first marker somewhere."""
    return not row.allow or any(row.markers[0] in part.text for part in ask_parts(ask))


def _each(options: Any) -> list[Mapping[str, Any]]:
    distinct: list[Mapping[str, Any]] = []
    for option in options:
        if option not in distinct:
            distinct.append(option)
    return distinct
