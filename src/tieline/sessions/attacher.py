"""Attaches sessions that people run in terminals, for the readers of harnesses. Nothing is read without consent."""

from collections.abc import Collection
from typing import Protocol

from ..processes.process_table import running_process
from .attached_session import AttachedSession, HarnessTerminal
from .manager import Release, SessionManager

GONE = "the terminal was closed while Tieline was away"


class PersonsConsent(Protocol):
    def allows(self, harness: str, cwd: str, began_at: float) -> bool:
        """Whether a person lets us read along in a session of that harness and directory that began then."""
        ...

    def on_since(self, cwd: str) -> float:
        """What happened in that directory before this time is not read. 0: it was never off."""
        ...


class Attacher:
    def __init__(self, manager: SessionManager, consent: PersonsConsent) -> None:
        self._manager = manager
        self._consent = consent

    def allowed(self, harness: str, cwd: str, began_at: float) -> bool:
        """Ask before anything of a session's content is read, and again for each session that begins."""
        return self._consent.allows(harness, cwd, began_at)

    def on_since(self, cwd: str) -> float:
        """The directory was off until then: turns that began before are not told. 0: it never was."""
        return self._consent.on_since(cwd)

    async def attach(
        self,
        harness: str,
        native_id: str,
        *,
        cwd: str,
        terminal: HarnessTerminal,
        working: bool = False,
        title: str = "",
    ) -> AttachedSession:
        return await self._manager.attach(harness, native_id, cwd=cwd, terminal=terminal, working=working, title=title)

    def on_adopt(self, harness: str, release: Release) -> None:
        """`release` is called before we resume a conversation, which its harness may keep open though its terminal has
        left it. It raises UsageError for one that cannot be resumed."""
        self._manager.releases[harness] = release

    async def only(self, harness: str, native_ids: Collection[str], heard: Collection[int] | None = None) -> bool:
        """These run now: all others of the harness that we know of have ended while we did not look. Where `heard`
        gives the processes that have told what they run, a session of another one that still runs is waited for.
        Whether none is."""
        whole = True
        for session in self._manager.attached(harness):
            if session.terminal is None and session.record.native_id not in native_ids:
                process = running_process(session.record.process)
                if heard is not None and process not in (0, *heard):
                    whole = False
                else:
                    await session.detach(GONE)
        return whole
