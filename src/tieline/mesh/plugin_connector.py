"""The live way into a harness through our plugin that runs inside it.

The plugin connects to the hub and keeps one stream open (a link). It always reports the whole list of its sessions, so
a lost report or a new link needs no repair, and confirms each text that its session has received. For a session that is
followed it also reports what happens there, and makes requests to its harness for us.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Collection, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from ..background_tasks import cancel_and_wait
from ..errors import TielineError
from ..processes.process_table import process_info
from ..protocol.harness_plugins import (
    PluginCommand,
    PluginEvents,
    PluginHandedOver,
    PluginReport,
    PluginRequest,
    PluginSession,
    PluginText,
)
from ..sessions.attacher import Attacher
from .push import HarnessSession, PushUnanswered, Rung, SessionObserver, Unreachable

ENDING_S = 2.0
"""A plugin whose stream broke comes back at once; a session that stays away so long has ended."""
REFRESH_S = 60.0
"""How often an unchanged session is reported again: it is alive."""
FIRST_LOOK_S = 4.0
"""After a start of ours, and again; plugins look for us every 2 seconds at least."""
HAND_OVER_S = 15.0
MAX_LINKS = 100
MAX_COMMANDS = 100
"""On their way to one plugin."""
MAX_READING = 2
"""Parts of long histories that are in memory at once."""
MAX_ABOVE = 100
"""Processes above one that are looked at."""

log = logging.getLogger("tieline.mesh")


class TooManyPlugins(TielineError):
    """No further plugin may connect."""


class PluginLink:
    """One plugin that is connected."""

    def __init__(self, process: int) -> None:
        self.id = secrets.token_urlsafe(16)
        self.process = process  # that has connected; 0: unknown
        self.commands: asyncio.Queue[PluginCommand] = asyncio.Queue(MAX_COMMANDS)
        self.reported = False  # what it has
        self.sessions: dict[str, PluginSession] = {}
        self.awaited: dict[str, asyncio.Future[PluginHandedOver]] = {}  # by the id of a text or request


class PluginConnector:
    """A subclass names its harness. `push` and links work inside `open`."""

    harness: str
    rungs: frozenset[Rung] = frozenset({"mid_turn", "idle_wake"})
    attacher: Attacher | None = None
    in_memory: frozenset[Rung] = frozenset()

    def __init__(self, env: Mapping[str, str], *, ending_s: float = ENDING_S, refresh_s: float = REFRESH_S) -> None:
        self._ending_s = ending_s
        self._refresh_s = refresh_s
        self._links: dict[str, PluginLink] = {}  # the latest last
        self._reported: dict[str, HarnessSession] = {}
        self._left_at: dict[str, float] = {}  # when a session that was told of went away
        self._changed = asyncio.Event()
        self.reading = asyncio.Semaphore(MAX_READING)

    @asynccontextmanager
    async def open(self, observer: SessionObserver) -> AsyncGenerator[None, None]:
        task = asyncio.create_task(self._tell(observer), name=f"{self.harness}-connector")
        try:
            yield
        finally:
            await cancel_and_wait(task)

    async def taken(self, session: HarnessSession, ids: set[str]) -> set[str]:
        return set()  # its history cannot be asked

    async def push(self, session: HarnessSession, text: str, sender: str, *, model: str = "", effort: str = "") -> None:
        id = secrets.token_urlsafe(12)
        command = PluginText(text_id=id, session=session.session, text=text, sender=sender, model=model, effort=effort)
        if error := (await self._hand_over(session.session, id, command, process=session.process)).error:
            raise Unreachable(f"{self.harness} did not accept the message: {error}")

    async def request(self, session: str, method: str, path: str, body: Any = None) -> PluginHandedOver:
        """Of the harness's own interface, in the process that has the session. Raises Unreachable."""
        id = secrets.token_urlsafe(12)
        answer = await self._hand_over(session, id, PluginRequest(request_id=id, method=method, path=path, body=body))
        if answer.error and not answer.status:
            raise Unreachable(f"{self.harness} did not accept the request: {answer.error}")
        return answer

    def link_of(self, session: str) -> PluginLink | None:
        """The plugin that has it: of the process that told of it first, the latest. Whatever runs below a harness is no
        plugin of that harness's sessions."""
        links = [link for link in self._links.values() if session in link.sessions]
        if len(links) < 2:
            return links[0] if links else None
        above = {link.process for link in links}
        first = next((link for link in links if not _descends(link.process, above)), links[0])
        return next(link for link in reversed(links) if link.process == first.process)

    async def _hand_over(self, session: str, id: str, command: PluginCommand, *, process: int = 0) -> PluginHandedOver:
        """What the plugin says of it. With `process`, only the plugin in that one gets it. Raises Unreachable."""
        link = self.link_of(session)
        if link is None or process not in (0, self.process_of(link)):
            raise Unreachable(f"no plugin in {self.harness} has the session {session}")
        answer = link.awaited[id] = asyncio.get_running_loop().create_future()
        try:
            link.commands.put_nowait(command)
            async with asyncio.timeout(HAND_OVER_S):
                return await answer
        except asyncio.QueueFull:
            raise Unreachable(f"too many requests to {self.harness} are pending") from None
        except TimeoutError:
            raise PushUnanswered(f"no answer from {self.harness} in time") from None
        finally:
            del link.awaited[id]

    def process_of(self, link: PluginLink) -> int:
        """Of the harness that has loaded the plugin."""
        return link.process

    # --- for harnesses whose sessions are read along ---

    async def on_session(self, session: PluginSession, link: PluginLink) -> None:
        """It runs. Told of again at each look."""

    async def on_end(self, session: str) -> None: ...

    async def on_first_look(self, sessions: Collection[str], heard: Collection[int]) -> bool:
        """Every plugin that was there before us has had the time to come, if its machine was not too busy for it:
        these run, as the plugins in these processes have told. False: look again."""
        return True

    async def events(self, batch: PluginEvents) -> bool:
        """Take events of a session. False: nothing follows the session (any more)."""
        return False

    def look_again(self) -> None:
        self._changed.set()

    # --- what the plugins say ---

    @contextmanager
    def connect(self, process: int = 0) -> Generator[PluginLink, None, None]:
        """A plugin is connected, inside the block."""
        if len(self._links) >= MAX_LINKS:
            raise TooManyPlugins(f"{MAX_LINKS} plugins of {self.harness} are connected already")
        link = PluginLink(process)
        self._links[link.id] = link
        try:
            yield link
        finally:
            del self._links[link.id]
            for id, answer in link.awaited.items():
                if not answer.done():
                    answer.set_result(PluginHandedOver(link=link.id, text=id, error="its plugin is gone"))
            self._changed.set()

    def report(self, report: PluginReport) -> bool:
        """Whether its link is known."""
        link = self._links.get(report.link)
        if link is None:
            return False
        link.sessions, link.reported = {session.id: session for session in report.sessions}, True
        self._changed.set()
        return True

    def handed_over(self, result: PluginHandedOver) -> bool:
        """Whether anybody waits for it (still)."""
        link = self._links.get(result.link)
        answer = link.awaited.get(result.text) if link is not None else None
        if answer is None or answer.done():
            return False
        answer.set_result(result)
        return True

    # --- what the observer is told ---

    async def _tell(self, observer: SessionObserver) -> None:
        refresh_at, failed = time.monotonic() + self._refresh_s, False
        first_look_at: float | None = time.monotonic() + FIRST_LOOK_S
        while True:
            soon = self._left_at or failed
            with suppress(TimeoutError):
                until = min(
                    time.monotonic() + (self._ending_s if soon else self._refresh_s), first_look_at or float("inf")
                )
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    await self._changed.wait()
            self._changed.clear()
            now = time.monotonic()
            refresh = now >= refresh_at
            if refresh:
                refresh_at = now + self._refresh_s
            failed = False
            links = {id: link for each in self._links.values() for id in each.sessions if (link := self.link_of(id))}
            present = {id: (link, link.sessions[id]) for id, link in links.items()}
            for id, (link, reported) in present.items():
                self._left_at.pop(id, None)
                session = HarnessSession(
                    harness=self.harness,
                    session=id,
                    cwd=reported.cwd,
                    activity=reported.activity,
                    process=self.process_of(link),
                    shared=True,
                )
                if refresh or self._reported.get(id) != session:
                    if await self._report(observer.changed(session)):
                        self._reported[id] = session
                    else:
                        failed = True
                failed = not await self._report(self.on_session(reported, link)) or failed
            for id in self._reported.keys() - present.keys():
                if now - self._left_at.setdefault(id, now) >= self._ending_s:
                    del self._left_at[id]
                    await self._report(observer.ended(self._reported.pop(id)))
                    await self._report(self.on_end(id))
            if first_look_at is not None and now >= first_look_at:
                heard = {link.process for link in self._links.values() if link.reported}
                whole = await self._report(self.on_first_look(present, heard))
                first_look_at = None if whole else now + FIRST_LOOK_S

    async def _report(self, report: Awaitable[object]) -> bool:
        """Whether the report was made and not refused."""
        try:
            return await report is not False
        except Exception:
            log.exception("a session of %s could not be reported", self.harness)
            return False


def _descends(pid: int, above: Collection[int]) -> bool:
    """Whether a process runs below one of these."""
    for _ in range(MAX_ABOVE):
        info = process_info(pid) if pid > 1 else None
        if info is None:
            return False
        if info.parent in above:
            return True
        pid = info.parent
    return True
