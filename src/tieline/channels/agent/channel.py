"""One message, one prompt, one turn. `<prefix>.<session>` goes on with that session, `<prefix>.<project>.<name>` with
the one of that name, made when it is first written to.

The prompt's id is the message's: however often a message is delivered, its prompt runs once.
"""

import asyncio
import hashlib
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from difflib import get_close_matches

from msgspec.structs import replace

from ...background_tasks import cancel_and_wait
from ...envelopes import DeliveryResult, Envelope
from ...errors import BusError, TielineError, UsageError
from ...ids import SHORT, fits_id
from ...sessions.event_log import subject as log_subject
from ...sessions.records import SESSIONS
from ...sessions.turn_follower import TurnEnd, TurnFollower
from ..base import (
    ChannelStatus,
    DeliveryContext,
    RelayAccess,
    SessionNodeOffline,
    SessionRequest,
    SessionService,
    UnknownAddress,
    dead,
    delivered,
    failed,
    time_left,
)
from .prompt_context import relay_context

WITHDRAW_S = 3.0
"""How long a turn that is out of time or of calls may take to end."""

REASONS: Mapping[str, str] = {
    "error": "died_without_answer",
    "interrupted": "interrupted",
    "cancelled": "interrupted",
    "timeout": "timeout",
    "indeterminate": "indeterminate",
    "max_turns": "calls_exceeded",
    "max_budget": "calls_exceeded",
}


def session_of(project: str, name: str) -> str:
    """The id of the session of a name: always the same."""
    return "n" + hashlib.sha256(f"{project}.{name}".encode()).hexdigest()[:23]


class AgentChannel:
    serial = True  # a session has one turn at a time: its messages must not take the others' places

    def __init__(
        self,
        id: str,
        prefix: str,
        sessions: SessionService,
        projects: Mapping[str, SessionRequest],
        *,
        default: SessionRequest | None = None,
        max_concurrent: int = 3,
        timeout_s: float = 0.0,
    ) -> None:
        self.id = id
        self.subject_prefix = prefix
        self.display_name = "Agents"
        self.max_concurrent = max_concurrent
        self._sessions = sessions
        self._projects = projects
        self._default = default
        self._timeout_s = timeout_s or float("inf")
        self._turns = TurnFollower(sessions.bus)
        self._stack = AsyncExitStack()
        self._table = sessions.bus.table(SESSIONS)
        self._running = False
        self._working = 0

    async def start(self, relay: RelayAccess) -> None:
        await self._stack.enter_async_context(self._turns)
        self._running = True

    async def stop(self) -> None:
        self._running = False
        await self._stack.aclose()

    def status(self) -> ChannelStatus:
        return ChannelStatus(state="running" if self._running else "stopped", detail={"working": self._working})

    async def unknown_address(self, subject: str) -> UnknownAddress | None:
        if subject == self.subject_prefix:
            return None  # a test of the channel, whose delivery says what is missing
        first, *rest = self._names(subject)
        if len(rest) > 1:
            nearest = (self._address(first, rest[0]),)
            return UnknownAddress(problem="an address of a project is the project and one name", nearest=nearest)
        if rest:
            if first in self._projects or self._default is not None:
                return None
            near = get_close_matches(first, self._projects, cutoff=0.5) or sorted(self._projects)
            nearest = tuple(self._address(project, rest[0]) for project in near)
            return UnknownAddress(problem=f"no project {first!r} is configured", nearest=nearest)
        if await self._known(first) is not None:
            return None
        if first in self._projects:
            nearest = (self._address(first, "NAME"),)
            return UnknownAddress(problem=f"{first} is a project; a name of your choice follows it", nearest=nearest)
        ids = [key for key in await self._table.keys() if len(first) >= SHORT and fits_id(key.casefold(), first)]
        return UnknownAddress(problem=f"no session {first!r}", nearest=tuple(map(self._address, ids)))

    def _names(self, subject: str) -> list[str]:
        return subject.removeprefix(self.subject_prefix + ".").split(".")

    def _address(self, *names: str) -> str:
        return ".".join((self.subject_prefix, *names))

    async def deliver(self, subject: str, envelope: Envelope, context: DeliveryContext) -> DeliveryResult:
        text = envelope.payload.as_text()
        if not text.strip():
            return dead("empty", "the message is empty")
        try:
            session = await self._session(subject)
            if session is None:
                return dead("no_session", f"nothing answers for {subject}")
            return await self._turn(session, text, subject, envelope, context)
        except SessionNodeOffline as error:
            return failed("node_offline", error.message, counts=False)
        except UsageError as error:
            return dead("refused_by_session", f"{subject}: {error.message}")
        except BusError:
            raise
        except TielineError as error:
            return failed("delivery_failed", f"{subject}: {error.message}")

    async def _session(self, subject: str) -> str | None:
        names = self._names(subject)
        if len(names) == 1:
            return await self._known(names[0])
        wanted = self._projects.get(names[0], self._default)
        if len(names) != 2 or wanted is None:
            return None
        session = session_of(*names)
        await self._sessions.create(session, replace(wanted, title=wanted.title or ".".join(names)))
        return session

    async def _known(self, name: str) -> str | None:
        """Addresses are case-folded, ids need not be."""
        try:
            if await self._table.get(name) is not None:
                return name
        except UsageError:
            return None
        return next((key for key in await self._table.keys() if key.casefold() == name), None)

    async def _turn(
        self, session: str, text: str, subject: str, envelope: Envelope, context: DeliveryContext
    ) -> DeliveryResult:
        known = await self._turns.known(session, envelope.id)
        after = 0 if known else await self._sessions.bus.last(log_subject(session))
        await self._sessions.prompt(
            session,
            envelope.id,
            text,
            system=relay_context(envelope, time.time()),
            timeout_s=max(0.1, min(time_left(context), self._timeout_s)),
            by=envelope.sender,
        )
        await context.progress("injected", session=session)
        enough = asyncio.Event()
        began = False

        async def begin() -> None:
            nonlocal began
            began = True
            context.working(f"{self.subject_prefix}.{session}")
            context.working(subject)
            await context.progress("seen")

        def called(number: int) -> None:
            if number > envelope.budget.calls_left:
                enough.set()

        self._working += 1
        ending = asyncio.create_task(self._turns.end(session, envelope.id, after=after, began=begin, called=called))
        limit = asyncio.create_task(enough.wait())
        try:
            await asyncio.wait({ending, limit}, timeout=time_left(context), return_when=asyncio.FIRST_COMPLETED)
            late = not ending.done()
            if late:
                await self._sessions.withdraw(session, envelope.id)
                await asyncio.wait({ending}, timeout=WITHDRAW_S)
            if not began and late:
                return failed("ttl_expired", "the session did not start on it in time")
            if enough.is_set():
                detail = f"it took more than the {envelope.budget.calls_left} calls that were left"
                return dead("calls_exceeded", detail)
            end = ending.result() if ending.done() else None
            if end is None or (late and end.status != "success"):
                end = TurnEnd("timeout", error="the message expired")
            return _result(session, subject, end)
        finally:
            self._working -= 1
            await cancel_and_wait(ending, limit)


def _result(session: str, subject: str, end: TurnEnd) -> DeliveryResult:
    """An answer, silence, or a turn that failed: that is a dead letter, which a person may send again."""
    if end.status == "success":
        text = end.text.strip()
        return delivered(text=text, session=session, reason="" if text else "idle_without_answer")
    if end.status == "interrupted":  # by a person, who knows
        return delivered(session=session, reason="interrupted", detail=end.error)
    return dead(REASONS[end.status], f"{subject}: {end.error}" if end.error else subject)
