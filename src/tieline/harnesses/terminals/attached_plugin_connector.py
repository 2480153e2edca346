"""The base of connectors by a plugin which, where its person agreed, also tells what happens in a session."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from ...background_tasks import cancel_and_wait
from ...mesh.plugin_connector import PluginConnector, PluginLink
from ...mesh.push import SessionObserver
from ...protocol.harness_plugins import PluginEvents, PluginFollow, PluginSession, PluginUnfollow
from ...sessions.attached_session import AttachedSession, HarnessTerminal

CONSENT_S = 0.5
"""How often it is looked whether the terminals that are read along may be."""
WITHDRAWN = "this terminal is not read along any more"

log = logging.getLogger("tieline.mesh")


class TerminalBehind(Exception):
    """Too much is unwritten: the plugin has to tell it again."""


class PluginTerminal(HarnessTerminal, Protocol):
    link: str
    """The id of the link on which the plugin was asked to report the session's events."""

    def begin(self, session: AttachedSession, since: float) -> str:
        """Write events to this session from now on, without turns that began before `since`. Gives the cursor after
        which the plugin is to send events."""
        ...

    async def take(self, events: Sequence[dict[str, Any]]) -> None:
        """They are written when it returns. Raises TerminalBehind, TimeoutError."""
        ...

    async def close(self) -> None:
        """Read no further."""
        ...


class AttachedPluginConnector(PluginConnector):
    def new_terminal(self, session: PluginSession) -> PluginTerminal:
        raise NotImplementedError

    @asynccontextmanager
    async def open(self, observer: SessionObserver) -> AsyncGenerator[None, None]:
        self._terminals: dict[str, tuple[PluginTerminal, AttachedSession]] = {}
        minding = asyncio.create_task(self._mind_consent(), name=f"{self.harness}-consent")
        try:
            async with super().open(observer):
                yield
        finally:
            await cancel_and_wait(minding)
            for terminal, _ in self._terminals.values():
                await terminal.close()
            self._terminals.clear()

    async def on_session(self, session: PluginSession, link: PluginLink) -> None:
        attacher, entry = self.attacher, self._terminals.get(session.id)
        if attacher is None:
            return
        if not attacher.allowed(self.harness, session.cwd, session.began_at):
            if entry is not None:
                link.commands.put_nowait(PluginUnfollow(unfollow=session.id))
                await self._detach(session.id, WITHDRAWN)
            return
        if entry is None:
            terminal = self.new_terminal(session)
            working = session.activity == "working"
            attached = await attacher.attach(
                self.harness, session.id, cwd=session.cwd, terminal=terminal, working=working
            )
            entry = self._terminals[session.id] = (terminal, attached)
        terminal, attached = entry
        if terminal.link != link.id:
            last = terminal.begin(attached, attacher.on_since(session.cwd))
            link.commands.put_nowait(PluginFollow(follow=session.id, since=last))
            terminal.link = link.id

    async def _mind_consent(self) -> None:
        """What its person has switched off is not read any more, and what was switched on is: `on_session` does it."""
        while True:
            await asyncio.sleep(CONSENT_S)
            if (attacher := self.attacher) is None:
                continue
            for id in {id for link in self._links.values() for id in link.sessions}:
                if (link := self.link_of(id)) is not None:
                    session = link.sessions[id]
                    if attacher.allowed(self.harness, session.cwd, session.began_at) != (id in self._terminals):
                        self.look_again()

    async def on_end(self, session: str) -> None:
        await self._detach(session)

    async def on_first_look(self, sessions: Collection[str], heard: Collection[int]) -> bool:
        return self.attacher is None or await self.attacher.only(self.harness, sessions, heard)

    async def events(self, batch: PluginEvents) -> bool:
        terminal, _ = self._terminals.get(batch.session, (None, None))
        if terminal is None or terminal.link != batch.link:
            return False
        try:
            await terminal.take(batch.events)
        except (TerminalBehind, TimeoutError) as error:
            log.warning("the terminal of %s tells faster than it can be written: %r", batch.session, error)
            terminal.link = ""
            self.look_again()
            return False
        return True

    async def _detach(self, session: str, *reason: str) -> None:
        terminal, attached = self._terminals.pop(session, (None, None))
        if terminal is not None and attached is not None:
            await terminal.close()
            await attached.detach(*reason)
