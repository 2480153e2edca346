"""The live way into a harness through a plugin of ours that runs inside it.

The plugin connects to the hub and keeps one stream open (a link). It reports its sessions by the whole list, so that a
lost report or a new link needs no repair, and says of each text whether its session has it.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress

from ..background_tasks import cancel_and_wait
from ..errors import TielineError
from ..protocol.harness_plugins import PluginHandedOver, PluginReport, PluginText
from ..sessions.attacher import Attacher
from .push import HarnessSession, Rung, SessionObserver, Unreachable

ENDING_S = 2.0
"""A plugin whose stream broke comes back at once; a session that stays away so long has ended."""
REFRESH_S = 60.0
"""How often an unchanged session is reported again: it is alive."""
HAND_OVER_S = 15.0
MAX_LINKS = 100
MAX_TEXTS = 20
"""Texts on their way to one plugin."""

log = logging.getLogger("tieline.mesh")


class TooManyPlugins(TielineError):
    """No further plugin may connect."""


class PluginLink:
    """One plugin that is connected."""

    def __init__(self) -> None:
        self.id = secrets.token_urlsafe(16)
        self.texts: asyncio.Queue[PluginText] = asyncio.Queue(MAX_TEXTS)
        self.sessions: dict[str, HarnessSession] = {}
        self.awaited: dict[str, asyncio.Future[str]] = {}  # a text's id → its error, or empty


class PluginReach:
    """A subclass names its harness. `push` and links work inside `open`."""

    harness: str
    rungs: frozenset[Rung] = frozenset({"mid_turn", "idle_wake"})
    attacher: Attacher | None = None
    in_memory: frozenset[Rung] = frozenset()

    def __init__(self, env: Mapping[str, str], *, ending_s: float = ENDING_S, refresh_s: float = REFRESH_S) -> None:
        self._ending_s = ending_s
        self._refresh_s = refresh_s
        self._links: dict[str, PluginLink] = {}  # the latest last
        self._told: dict[str, HarnessSession] = {}
        self._left_at: dict[str, float] = {}  # when a session that was told of went away
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def open(self, observer: SessionObserver) -> AsyncGenerator[None, None]:
        task = asyncio.create_task(self._tell(observer), name=f"{self.harness}-reach")
        try:
            yield
        finally:
            await cancel_and_wait(task)

    async def push(self, session: HarnessSession, text: str, sender: str) -> None:
        link = next((link for link in reversed(self._links.values()) if session.session in link.sessions), None)
        if link is None:
            raise Unreachable(f"no plugin in {self.harness} has the session {session.session}")
        message = PluginText(text_id=secrets.token_urlsafe(12), session=session.session, text=text, sender=sender)
        answer = link.awaited[message.text_id] = asyncio.get_running_loop().create_future()
        try:
            link.texts.put_nowait(message)
            async with asyncio.timeout(HAND_OVER_S):
                error = await answer
        except asyncio.QueueFull:
            error = "too many texts are on their way to it"
        except TimeoutError:
            error = "no answer in time"
        finally:
            del link.awaited[message.text_id]
        if error:
            raise Unreachable(f"{self.harness} did not take the message: {error}")

    # --- what the plugins say ---

    @contextmanager
    def connect(self) -> Generator[PluginLink, None, None]:
        """A plugin is connected, inside the block."""
        if len(self._links) >= MAX_LINKS:
            raise TooManyPlugins(f"{MAX_LINKS} plugins of {self.harness} are connected already")
        link = PluginLink()
        self._links[link.id] = link
        try:
            yield link
        finally:
            del self._links[link.id]
            for answer in link.awaited.values():
                if not answer.done():
                    answer.set_result("its plugin is gone")
            self._changed.set()

    def report(self, report: PluginReport) -> bool:
        """Whether its link is known."""
        link = self._links.get(report.link)
        if link is None:
            return False
        link.sessions = {
            session.id: HarnessSession(
                harness=self.harness, session=session.id, cwd=session.cwd, activity=session.activity
            )
            for session in report.sessions
        }
        self._changed.set()
        return True

    def handed_over(self, result: PluginHandedOver) -> bool:
        """Whether anybody waits for it (still)."""
        link = self._links.get(result.link)
        answer = link.awaited.get(result.text) if link is not None else None
        if answer is None or answer.done():
            return False
        answer.set_result(result.error)
        return True

    # --- what the observer is told ---

    async def _tell(self, observer: SessionObserver) -> None:
        refresh_at, failed = time.monotonic() + self._refresh_s, False
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._ending_s if self._left_at or failed else self._refresh_s):
                    await self._changed.wait()
            self._changed.clear()
            now = time.monotonic()
            refresh = now >= refresh_at
            if refresh:
                refresh_at = now + self._refresh_s
            failed = False
            present = {id: session for link in self._links.values() for id, session in link.sessions.items()}
            for id, session in present.items():
                self._left_at.pop(id, None)
                if refresh or self._told.get(id) != session:
                    if await self._report(observer.changed(session)):
                        self._told[id] = session
                    else:
                        failed = True
            for id in self._told.keys() - present.keys():
                if now - self._left_at.setdefault(id, now) >= self._ending_s:
                    del self._left_at[id]
                    await self._report(observer.ended(self._told.pop(id)))

    async def _report(self, told: Awaitable[None]) -> bool:
        try:
            await told
        except Exception:
            log.exception("a session of %s could not be reported", self.harness)
            return False
        return True
