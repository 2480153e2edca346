"""Pushes unread messages to agents in harnesses, so that nobody has to look: into a running turn, at its end, or as a
new turn that wakes an idle session.

What a harness allows is told by its `Connector`, which finds its sessions on this machine. Hooks take messages on
their own (`hook_events`); a push is for what no hook is about to take. Before it wakes an agent it looks whether the
messages are still unread; one wake brings all that wait; a limit per session ends a loop of agents that wake each
other.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Literal, Protocol

from msgspec import Struct

from ..background_tasks import cancel_and_wait
from ..backoff import Backoff
from ..envelopes import MessageReceipt, under
from ..errors import BusClosed, TielineError
from ..processes.process_table import process_key, running_process
from ..protocol.mesh import Activity
from ..sessions.attacher import Attacher
from .framing import frame_all
from .harness_processes import HarnessProcesses
from .mesh import Mesh
from .records import MEMBER_PREFIX, Caller, Member

Rung = Literal["mid_turn", "idle_wake"]
"""What a push can do: get into a running turn, or begin a new one in an idle session. A turn's end is for hooks."""

MAX_BATCH = 20
"""Messages of one push; the rest follow with the next."""
PUSH_S = 20.0
"""How long a harness may take to accept a push."""
SETTLE_S = 2.0
"""After a wake, a session shows that it works within this time; what comes meanwhile does not wake it a second time."""
MAX_WAKES, WAKES_S = 20, 600.0
"""A session is woken so often within this time. What comes beyond that waits for the next turn that a person begins."""
RETRY = Backoff(0.5, 15.0)
"""A session that cannot be reached is tried again for as long as it runs; people are notified meanwhile
(`unread_notices`)."""
MAX_UNANSWERED = 3
"""A harness that does not answer may have the message all the same: it is given it so often, then at its next sign."""

REMINDER = "Your turn was cut off after you were given these messages above: {}. Go on with them."
"""Instead of a message that the session's history has already."""

log = logging.getLogger("tieline.mesh")


class Unreachable(TielineError):
    """A harness session does not take a push just now."""


class PushUnanswered(Unreachable):
    """It did not answer in time: whether it took the push is not known."""


class HarnessSession(Struct, frozen=True, kw_only=True):
    """A session that a person runs in a harness on this machine."""

    harness: str
    session: str  # the harness's own id
    cwd: str = ""
    activity: Activity = "unknown"
    process: int = 0  # that it runs in
    shared: bool = False  # that process may have other sessions as well


class Connector(Protocol):
    """Finds the sessions of one harness on this machine, and hands texts over to those that take them."""

    attacher: Attacher | None
    """Where it brings sessions whose person lets us read along; set before `open`."""

    @property
    def harness(self) -> str: ...

    @property
    def rungs(self) -> frozenset[Rung]: ...

    @property
    def in_memory(self) -> frozenset[Rung]:
        """By which a text is only in the harness's memory until its model is asked next."""
        ...

    def open(self, observer: "SessionObserver") -> AbstractAsyncContextManager[None]:
        """Inside the block, the observer is told of the sessions that run, and of each change. A harness that is not
        there, or ends, is no error: the way opens when it comes."""
        ...

    async def taken(self, session: HarnessSession, ids: set[str]) -> set[str]:
        """Of messages that may have been handed over before, those that the session's own history has. Raises
        Unreachable."""
        ...

    async def push(self, session: HarnessSession, text: str, sender: str) -> None:
        """Hand a text over: when it returns the harness has it. Raises Unreachable, or PushUnanswered."""
        ...


class SessionObserver(Protocol):
    """Who is told of the sessions of a harness."""

    async def changed(self, session: HarnessSession) -> None:
        """It runs, and this is how it is now."""
        ...

    async def ended(self, session: HarnessSession) -> None: ...


class Pusher:
    """`async with Pusher(mesh, connectors, subscribe)`: an observer of the harnesses' sessions, and the one who pushes.

    `installed` says whether the integration of a harness is installed for sessions in a directory: no other session is
    registered or touched. `processes` learns which session a terminal's process is at.
    """

    def __init__(
        self,
        mesh: Mesh,
        connectors: Iterable[Connector],
        subscribe: Callable[[Callable[[MessageReceipt], None]], Callable[[], None]],
        *,
        installed: Callable[[str, str], bool] = lambda harness, cwd: True,
        processes: HarnessProcesses | None = None,
        backoff: Backoff = RETRY,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._mesh = mesh
        self._connectors = {connector.harness: connector for connector in connectors}
        self._subscribe = subscribe
        self._installed = installed
        self._processes = processes or HarnessProcesses()
        self._backoff = backoff
        self._settle_s = settle_s
        self._sessions: dict[str, HarnessSession] = {}  # member id → its session, as its connector tells it
        self._wakes: dict[str, deque[float]] = {}
        self._woken: dict[str, asyncio.Event] = {}  # member id → set when it shows that it works
        self._stirred: set[str] = set()  # member ids whose turn began or ended since their push began
        self._pushes: dict[str, asyncio.Event] = {}  # member id → set when there is something new for its push
        self._tasks: set[asyncio.Task[None]] = set()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Pusher":
        self._stack.callback(self._subscribe(self._on_receipt))
        self._stack.callback(self._mesh.mailbox.on_returned(self._on_returned))
        self._stack.push_async_callback(self._cancel_pushes)
        for connector in self._connectors.values():
            await self._stack.enter_async_context(connector.open(self))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    # --- sessions, as their connector tells them ---

    async def changed(self, session: HarnessSession) -> None:
        if not self._installed(session.harness, session.cwd):
            return
        caller = self._caller(session)
        member = self._mesh.directory.by_session(caller.machine, session.harness, session.session)
        if member is not None and _is_elsewhere(member, caller):
            log.info("%s is at work in another process than the one that tells of it", member.name)
            return
        if member is None or member.ended:
            registration = await self._mesh.register_agent(caller)
            member = self._mesh.directory.member(registration.member.id)
        if member is None:
            return
        await self._mesh.settle(caller, member.id)
        if session.process and not session.shared:
            self._processes.on_session(session.process, session.harness, session.session)
        before = self._sessions.get(member.id)
        self._sessions[member.id] = session
        if before is not None and before.activity != session.activity:
            self._stirred.add(member.id)
        if session.activity == "working" and (woken := self._woken.get(member.id)):
            woken.set()
        if session.activity == "working" and (before is None or before.activity == "working"):
            await self._mesh.directory.heartbeat(member.id, "working")  # no sign that it took what it was handed
        else:
            await self._mesh.heartbeat(caller, session.activity)
        if session.activity == "idle" or "mid_turn" in self._connectors[session.harness].rungs:
            self._push_soon(member.id)

    async def ended(self, session: HarnessSession) -> None:
        caller = self._caller(session)
        member = self._mesh.directory.by_session(caller.machine, session.harness, session.session)
        if member is None or _is_elsewhere(member, caller):
            return
        self._sessions.pop(member.id, None)
        self._wakes.pop(member.id, None)
        if not member.ended:
            await self._mesh.end_session(caller)

    def _caller(self, session: HarnessSession) -> Caller:
        return Caller(
            machine=self._mesh.machine,
            harness=session.harness,
            session=session.session,
            cwd=session.cwd,
            process=process_key(session.process),
        )

    # --- pushing ---

    def _on_receipt(self, receipt: MessageReceipt) -> None:
        if not receipt.over and under(MEMBER_PREFIX, receipt.subject):
            self._push_soon(receipt.subject.removeprefix(MEMBER_PREFIX + "."))

    def _on_returned(self, address: str) -> None:
        """Another way could not hand them over."""
        if under(MEMBER_PREFIX, address):
            self._push_soon(address.removeprefix(MEMBER_PREFIX + "."))

    def _push_soon(self, member: str) -> None:
        """One push at a time per member; what arrives meanwhile is looked at once more at its end."""
        if member not in self._sessions:
            return
        if news := self._pushes.get(member):
            news.set()
            return
        news = self._pushes[member] = asyncio.Event()
        task = asyncio.create_task(self._push(member, news), name=f"push-{member}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _push(self, id: str, news: asyncio.Event) -> None:
        failures = unanswered = 0
        try:
            while (member := self._mesh.directory.member(id)) is not None and (session := self._sessions.get(id)):
                news.clear()
                try:
                    await self._attempt(member, session)
                    failures = unanswered = 0
                    if not news.is_set():
                        return
                    continue
                except BusClosed:
                    return
                except Exception as error:  # also a fault of the way must not leave messages lying
                    if not failures:
                        known = isinstance(error, Unreachable | OSError)
                        log.info("%s could not be reached: %s", member.name, error, exc_info=not known)
                    unanswered += isinstance(error, PushUnanswered)
                if unanswered == MAX_UNANSWERED:
                    return
                failures += 1
                news.clear()  # what it failed with was unread again
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._backoff.delay(failures)):
                        await news.wait()
        finally:
            del self._pushes[id]
            self._woken.pop(id, None)
            self._stirred.discard(id)

    async def _attempt(self, member: Member, session: HarnessSession) -> None:
        """Hand over what is unread, if the session can take it now. Raises what `Connector.push` does."""
        connector, mailbox = self._connectors[session.harness], self._mesh.mailbox
        rung: Rung = "idle_wake" if session.activity == "idle" else "mid_turn"
        if rung not in connector.rungs or not mailbox.available(member.address):
            return
        if rung == "mid_turn" and mailbox.is_awaited(member.address):
            return
        if rung == "idle_wake" and not self._may_wake(member.id):
            log.warning("%s is woken too often; its messages wait for its next turn", member.name)
            return
        offered = await self._mesh.offer(member.address, MAX_BATCH)
        if not offered.messages:  # another way was faster
            return
        ids = [message.id for message in offered.messages]
        woken = self._woken[member.id] = asyncio.Event()
        self._stirred.discard(member.id)
        try:
            async with asyncio.timeout(PUSH_S):
                doubtful = mailbox.doubtful(member.address, ids)
                taken = await connector.taken(session, doubtful) if doubtful else set[str]()
                text = frame_all(message for message in offered.messages if message.id not in taken)
                if taken and rung == "idle_wake":  # it has them, but its turn was cut off
                    text = f"{text}\n\n{REMINDER.format(', '.join(sorted(taken)))}".strip()
                if text:
                    await connector.push(session, text, next(iter(offered.messages)).sender)
        except (TimeoutError, PushUnanswered):
            mailbox.release(member.address, ids, doubtful=True)
            raise PushUnanswered("no answer in time") from None
        except BaseException:
            mailbox.release(member.address, ids)
            raise
        # Idle when it was looked at, and in a turn before it had the text: there it waits as in any running turn.
        met: set[Rung] = {rung, "mid_turn"} if woken.is_set() else {rung}
        in_memory = not met.isdisjoint(connector.in_memory)
        seen = set[str]()
        if (
            in_memory and member.id in self._stirred
        ):  # a sign that it took them up may have come before we could count it
            with suppress(Unreachable):
                seen = await connector.taken(session, set(ids))
        await mailbox.confirm(member.address, [id for id in ids if id in seen], seen=True)
        await mailbox.confirm(member.address, [id for id in ids if id not in seen], in_memory=in_memory)
        if rung == "idle_wake":
            self._wakes.setdefault(member.id, deque(maxlen=MAX_WAKES)).append(time.monotonic())
            with suppress(TimeoutError):  # its turn was over before it was seen, or its harness does not tell
                await asyncio.wait_for(woken.wait(), self._settle_s)

    def _may_wake(self, member: str) -> bool:
        wakes = self._wakes.get(member, deque[float]())
        return len(wakes) < MAX_WAKES or wakes[0] < time.monotonic() - WAKES_S

    async def _cancel_pushes(self) -> None:
        await cancel_and_wait(*self._tasks)


def _is_elsewhere(member: Member, caller: Caller) -> bool:
    """Whether its session runs in another process than the one that tells of it: anybody can write a harness's file, or
    connect as its plugin."""
    return caller.process not in ("", member.process) and running_process(member.process) != 0
