"""The agent and the project of a session, as usage and search are grouped by them."""

import asyncio
from pathlib import PurePosixPath

import msgspec
from msgspec import Struct

from ...bus.base import Bus
from ...mesh.project import project_name, project_of
from ...sessions.records import SESSIONS, SessionRecord

MAX_KNOWN = 10_000
"""Sessions that are remembered."""

_decode = msgspec.json.Decoder(SessionRecord).decode


class AboutSession(Struct, frozen=True):
    exists: bool
    agent: str = ""
    project: str = ""


class SessionLookup:
    """A directory on this machine belongs to the project of its git repository; one elsewhere is known by its name."""

    def __init__(self, bus: Bus, local_node: str) -> None:
        self._table = bus.table(SESSIONS)
        self._local_node = local_node
        self._known: dict[str, AboutSession] = {}

    async def about(self, session: str) -> AboutSession:
        if (known := self._known.get(session)) is not None:
            return known
        entry = await self._table.get(session)
        if entry is None:
            return AboutSession(False)  # not remembered: it may come
        record = _decode(entry.value)
        if record.node == self._local_node:
            project = (await asyncio.to_thread(project_of, record.cwd)).name
        else:
            project = project_name(PurePosixPath(record.cwd).name)
        while len(self._known) >= MAX_KNOWN:
            del self._known[next(iter(self._known))]
        about = self._known[session] = AboutSession(True, record.agent, project)
        return about

    def forget(self, session: str) -> None:
        """It was removed."""
        self._known.pop(session, None)
