"""The nodes that a hub knows, and whether they are there. One table for what is shown, one for who is present.

`nodes` keeps a NodeView per node. `presence` says which hub has a node's link, with a time to live: should that hub
die, the entry goes, and every other hub on the same bus sees to it that the node is shown as offline. The newest link
of a node wins; the one before it is told by `Lost`.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import aclosing, suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ... import paths
from ...background_tasks import background, cancel_and_wait
from ...bus.base import Bus, Table
from ...errors import BusClosed, BusError, Conflict, TielineError, UsageError
from ...ids import new_id
from ...node.node_identity import kept_id
from ...protocol.views import NodeView
from ...sessions.records import ASKS, PROMPTS, SESSIONS, SessionRecord

NODES = "nodes"
PRESENCE = "presence"
PRESENCE_TTL_S = 15
"""How long a node counts as present after its hub last said so."""
RENEW_S = PRESENCE_TTL_S / 3
RETRY_S = 1.0
"""Until the watch is taken up again after the bus failed."""

_decode = msgspec.json.Decoder(NodeView).decode
_encode = msgspec.json.encode


class UnknownNode(UsageError):
    def __init__(self, node: str) -> None:
        super().__init__(f"no node {node!r}", field="node", hint="`tieline nodes` lists them.")


class NodeOffline(TielineError):
    """The node is not there, and a late answer would be of no use."""

    def __init__(self, node: NodeView, problem: str = "is offline") -> None:
        super().__init__(f"{node.name or node.id} {problem}", hint="Start it, or check its connection.")
        self.node = node.id


class Lost(TielineError):
    """Another link of the same node took over."""


class PresenceRecord(Struct, frozen=True, kw_only=True):
    """Who has a node's link. `link` is made anew for each."""

    hub: str
    link: str
    pid: int = 0


class Presence:
    """A node's presence, held by one link. `say` it every SAY_S."""

    def __init__(self, nodes: "NodeRegistry", node: str, value: PresenceRecord, revision: int) -> None:
        self._nodes = nodes
        self.node = node
        self.value = value
        self.revision = revision

    async def renew(self) -> None:
        """Still there. Raises Lost when another link of the node took over."""
        data = _encode(self.value)
        try:
            self.revision = await self._nodes.presence.put(self.node, data, expect=self.revision, ttl=PRESENCE_TTL_S)
            return
        except Conflict:
            pass
        entry = await self._nodes.presence.get(self.node)
        if entry is not None and entry.value != data:
            raise Lost(f"another link of node {self.node} took over")
        # It ran out while we could not reach the bus, or an answer of ours was lost on the way.
        try:
            expect = entry.revision if entry else 0
            self.revision = await self._nodes.presence.put(self.node, data, expect=expect, ttl=PRESENCE_TTL_S)
        except Conflict:
            raise Lost(f"another link of node {self.node} took over") from None
        await self._nodes.change(self.node, online=True, seen_at=time.time())

    async def leave(self) -> None:
        """No longer there; nothing happens when another link took over."""
        with suppress(Conflict):
            await self._nodes.presence.delete(self.node, expect=self.revision)
            await self._nodes.mark_offline(self.node)


class NodeRegistry:
    """`async with NodeRegistry(bus, env) as nodes`."""

    def __init__(self, bus: Bus, env: Mapping[str, str]) -> None:
        self.presence: Table = bus.table(PRESENCE)
        self.hub = kept_id(paths.state(env) / "hub-id")
        self._bus = bus
        self._table: Table = bus.table(NODES)
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "NodeRegistry":
        for entry in await self.presence.entries():
            held = msgspec.json.decode(entry.value, type=PresenceRecord)
            if held.hub == self.hub and not _alive(held.pid):  # ours, from before a crash
                await self.presence.delete(entry.key)
        await self._mark_lost_offline()
        self._watch = background(self._watch_presence(), "nodes-presence")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watch is not None:
            await cancel_and_wait(self._watch)

    async def get(self, node: str) -> NodeView:
        """Raises UnknownNode."""
        try:
            entry = await self._table.get(node)
        except UsageError:
            entry = None
        if entry is None:
            raise UnknownNode(node)
        return _decode(entry.value)

    async def all(self) -> list[NodeView]:
        """By name."""
        views = [_decode(entry.value) for entry in await self._table.entries()]
        return sorted(views, key=lambda view: (not view.local, view.name, view.id))

    async def register(self, view: NodeView) -> Presence:
        """A node is there now, by this hub; whoever had its link before loses it."""
        value = PresenceRecord(hub=self.hub, link=new_id(), pid=os.getpid())
        revision = await self.presence.put(view.id, _encode(value), ttl=PRESENCE_TTL_S)
        await self._table.put(view.id, _encode(replace(view, online=True, seen_at=time.time())))
        return Presence(self, view.id, value, revision)

    async def add_paired(self, node: str, name: str) -> None:
        """It was paired and may come: until then it is shown as offline."""
        with suppress(Conflict):
            await self._table.put(node, _encode(NodeView(id=node, name=name)), expect=0)

    async def change(self, node: str, **changes: object) -> None:
        """What is shown of it; nothing happens when it was removed."""
        while entry := await self._table.get(node):
            before = _decode(entry.value)
            after = replace(before, **changes)
            if after == before:
                return
            with suppress(Conflict):
                await self._table.put(node, _encode(after), expect=entry.revision)
                return

    async def remove(self, node: str) -> None:
        """Forget it and what is shown of its sessions; their events stay until they are trimmed. Raises UnknownNode.

        Its key is revoked by whoever calls this: that closes its link."""
        await self.get(node)
        await self.presence.delete(node)
        await self._table.delete(node)
        sessions = self._bus.table(SESSIONS)
        for entry in await sessions.entries():
            if msgspec.json.decode(entry.value, type=SessionRecord).node == node:
                await self._remove_session_state(entry.key)
                await sessions.delete(entry.key)
        await self._bus.table(REPLICAS).delete(node)
        await self._bus.trim(f"commands.{node}", keep=0)

    async def _remove_session_state(self, session: str) -> None:
        prompts, asks = self._bus.table(PROMPTS), self._bus.table(ASKS)
        for key in await prompts.keys(f"{session}.>"):
            await prompts.delete(key)
        for entry in await asks.entries():
            if msgspec.json.decode(entry.value, type=_SessionNode).session == session:
                await asks.delete(entry.key)

    async def _watch_presence(self) -> None:
        while True:
            try:
                async with aclosing(self.presence.watch()) as changes:
                    async for change in changes:
                        if change.value is None:
                            await self.mark_offline(change.key)
            except BusClosed:
                return
            except BusError:
                await asyncio.sleep(RETRY_S)
                with suppress(BusError):
                    await self._mark_lost_offline()

    async def _mark_lost_offline(self) -> None:
        """Those shown as present whom nobody vouches for any longer."""
        present = set(await self.presence.keys())
        for view in await self.all():
            if view.online and view.id not in present:
                await self.mark_offline(view.id)

    async def mark_offline(self, node: str) -> None:
        """Show it as offline, unless somebody vouches for it. Whoever enters it says so in `presence` first and shows
        it then: so what was read before presence was looked at is what may be replaced."""
        while entry := await self._table.get(node):
            view = _decode(entry.value)
            if not view.online or await self.presence.get(node) is not None:
                return
            with suppress(Conflict):
                shown = replace(view, online=False, seen_at=time.time())
                await self._table.put(node, _encode(shown), expect=entry.revision)
                return


class _SessionNode(Struct):
    session: str = ""


REPLICAS = "replicas"
"""How far a hub has the log of each node; see `replica`."""


def _alive(pid: int) -> bool:
    if pid == os.getpid():
        return False  # it was another process of this number: we have only just started
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return pid > 0
