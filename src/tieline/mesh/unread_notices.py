"""Tells people of messages that an agent has not taken for a while: the last rung, when nothing could hand them over.

One notice for all that waits for a member; the next one only after it has taken them. An agent in the middle of a turn
takes them at its end, so its time does not run.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec import Struct

from ..background_tasks import background, cancel_and_wait
from ..envelopes import MessageReceipt, under
from .mesh import Mesh
from .records import MEMBER_PREFIX, Member

AFTER_S = 30.0
RECENT_S = 600.0
"""After a restart, only what came within this time is looked at: people know of the rest."""
NOTIFY_S = 30.0
"""How long telling people may take."""

log = logging.getLogger("tieline.mesh")


class UnreadNotice(Struct, frozen=True, kw_only=True):
    member: Member
    unread: int
    last: str  # id of the newest message
    sender: str  # its sender's name

    @property
    def title(self) -> str:
        many = "A message waits" if self.unread == 1 else f"{self.unread} messages wait"
        return f"{many} for {self.member.name}"


SendNotice = Callable[[UnreadNotice], Awaitable[None]]


class UnreadNotices:
    """`async with UnreadNotices(mesh, subscribe, notify)`."""

    def __init__(
        self,
        mesh: Mesh,
        subscribe: Callable[[Callable[[MessageReceipt], None]], Callable[[], None]],
        notify: SendNotice,
        *,
        after_s: float = AFTER_S,
    ) -> None:
        self._mesh = mesh
        self._subscribe = subscribe
        self._notify = notify
        self._after_s = after_s
        self._timers: dict[str, asyncio.TimerHandle] = {}  # by member id
        self._notified: set[str] = set()  # members whose messages people know of
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsubscribe: Callable[[], None] = lambda: None

    async def __aenter__(self) -> "UnreadNotices":
        self._unsubscribe = self._subscribe(self._on_receipt)
        for view in self._mesh.directory.members(ended=True):
            if view.unread and self._newest_at(view.address) > time.time() - RECENT_S:
                self._wait(view.id)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._unsubscribe()
        for timer in self._timers.values():
            timer.cancel()
        await cancel_and_wait(*self._tasks)

    def _on_receipt(self, receipt: MessageReceipt) -> None:
        if not under(MEMBER_PREFIX, receipt.subject):
            return
        id = receipt.subject.removeprefix(MEMBER_PREFIX + ".")
        if receipt.state == "stored":
            self._wait(id)
        elif not self._mesh.mailbox.unread(receipt.subject):
            self._notified.discard(id)

    def _wait(self, id: str) -> None:
        if id not in self._timers and id not in self._notified:
            self._timers[id] = asyncio.get_running_loop().call_later(self._after_s, self._look, id)

    def _look(self, id: str) -> None:
        del self._timers[id]
        member = self._mesh.directory.member(id)
        if member is None or not self._mesh.mailbox.unread(member.address):
            return
        receipts = self._mesh.mailbox.available(member.address)  # without what is being handed over
        if not receipts or member.activity == "working" or self._mesh.mailbox.is_awaited(member.address):
            self._wait(id)
            return
        self._notified.add(id)
        last = receipts[-1]
        sender, _ = self._mesh.directory.name_of(last.sender)
        notice = UnreadNotice(member=member, unread=len(receipts), last=last.id, sender=sender)
        task = background(self._tell(notice), f"unread-{id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self, notice: UnreadNotice) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(NOTIFY_S):
                await self._notify(notice)

    def _newest_at(self, address: str) -> float:
        return max(
            (step.at for receipt in self._mesh.mailbox.available(address) for step in receipt.steps), default=0.0
        )
