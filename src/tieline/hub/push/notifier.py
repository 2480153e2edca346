"""When to push: listens to events, checks whether anybody looks, applies `rules`, and sends.

Each fact is decided once, by whichever hub puts its name to it first; that is kept on the bus, so that neither a
restart nor another hub pushes it again. Who is looking is known across hubs too.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from ...background_tasks import background, cancel_and_wait
from ...bus.base import Bus
from ...config import HubConfig
from ...errors import BusClosed, BusError, Conflict
from ...ids import new_id
from ...protocol.stream_frames import AnyHubFrame, AskFrame, GoneFrame, NodeFrame, TeamFrame
from ...protocol.teams import TeamRecord
from ...protocol.views import NodeView
from ...sessions.event_log import LogEvent
from ..http.problems import RequestRefused
from ..security.devices import Devices
from ..state.live_state import LiveState
from ..stream.encoded_frames import EventSummary
from ..stream.fanout import Fanout
from .sender import PushResult, PushSender
from .subscriptions import Subscriptions
from .triggers import (
    TEST_TTL_S,
    AskPending,
    MessagesUnread,
    NodeWentOffline,
    Push,
    PushTrigger,
    TeamOver,
    TeamWaits,
    TurnFinished,
    decide,
    test_notice,
)

GRACE_S = 30.0
"""How long a machine may be away before anybody is told."""
MAX_TRIGGERS = 1000
"""What waits to be decided; the oldest go first."""
DECIDED_S = 86400
VISIBLE_S = 30
"""How long another hub is believed that somebody looks at it; it says so again well before."""
TIDY_S = 3600.0

DECIDED = "pushed"
VISIBLE_HUBS = "looking"

log = logging.getLogger("tieline.hub.push")


class PushNotifier:
    """`async with PushNotifier(bus, state, fanout, devices, config) as notifier`."""

    def __init__(
        self,
        bus: Bus,
        state: LiveState,
        fanout: Fanout,
        devices: Devices,
        config: HubConfig,
        *,
        grace_s: float = GRACE_S,
    ) -> None:
        self.subscriptions = Subscriptions(bus, loopback=config.push_loopback)
        self.sender = PushSender(bus, contact=contact(config), loopback=config.push_loopback)
        self._state = state
        self._fanout = fanout
        self._devices = devices
        self._decided = bus.table(DECIDED)
        self._visible_hubs = bus.table(VISIBLE_HUBS)
        self._hub = new_id()
        self.grace_s = grace_s
        self._triggers: asyncio.Queue[PushTrigger] = asyncio.Queue(MAX_TRIGGERS)
        self._offline_timers: dict[str, asyncio.TimerHandle] = {}
        self._online: set[str] = set()
        self._teams: dict[str, TeamRecord] = {}  # as they were before what is told next
        self._revoked: set[str] = set()
        self._upkeep = asyncio.Event()
        self._unsubscribers: list[Callable[[], None]] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "PushNotifier":
        await self.subscriptions.__aenter__()
        self._online = {node.id for node in self._state.nodes.values() if node.online}
        self._teams = dict(self._state.teams)
        self._unsubscribers = [
            self._state.subscribe(self._on_state_changed),
            self._fanout.on_event(self._on_event),
            self._devices.on_revoke(self._on_device_revoked),
        ]
        work = (self._process_triggers(), self._publish_visibility(), self._remove_orphaned(), self._ensure_key())
        self._tasks = [background(coroutine, f"push-{coroutine.__name__}") for coroutine in work]
        return self

    async def __aexit__(self, *_: object) -> None:
        for leave in self._unsubscribers:
            leave()
        for timer in self._offline_timers.values():
            timer.cancel()
        await cancel_and_wait(*self._tasks)
        await self.sender.__aexit__()
        await self.subscriptions.__aexit__()

    async def test(self, device: str) -> list[PushResult]:
        """A push to each of a device's subscriptions, even while somebody looks at a client. Raises Refused when it has
        none."""
        subscriptions = self.subscriptions.of(device)
        if not subscriptions:
            raise RequestRefused(
                "NotFound", "this device has no subscription", field="subscription", hint="Subscribe first."
            )
        notice = test_notice(time.time())
        pushes = [
            Push(subscription=subscription, notice=notice, ttl_s=TEST_TTL_S, urgency="high")
            for subscription in subscriptions
        ]
        return list(await asyncio.gather(*map(self._send, pushes)))

    # --- what happens; none of these waits ---

    def on_messages_unread(self, fact: MessagesUnread) -> None:
        self._enqueue(fact)

    def _on_state_changed(self, frame: AnyHubFrame) -> None:
        match frame:
            case AskFrame(ask=ask) if ask.status == "pending":
                agent, machine, title = self._session_info(ask.session)
                self._enqueue(AskPending(ask=ask, agent=agent, machine=machine, title=title))
            case NodeFrame(node=node):
                self._on_node(node)
            case TeamFrame(team=team):
                self._on_team(team)
            case GoneFrame(kind="team", id=id):
                self._teams.pop(id, None)
            case GoneFrame(kind="node", id=id):
                self._online.discard(id)
                if timer := self._offline_timers.pop(id, None):
                    timer.cancel()
            case _:
                pass

    def _on_event(self, whole: LogEvent, about: EventSummary) -> None:
        if about.type == "done" and not self._in_team(whole.session):
            agent, machine, title = self._session_info(whole.session)
            self._enqueue(
                TurnFinished(
                    session=whole.session,
                    seq=whole.seq,
                    status=about.status,
                    text=about.text,
                    agent=agent,
                    machine=machine,
                    title=title,
                )
            )

    def _in_team(self, session: str) -> bool:
        """Whether the session takes its turns in a conversation, which says itself when people are needed."""
        return any(session in team.sessions and team.status != "ended" for team in self._state.teams.values())

    def _on_team(self, team: TeamRecord) -> None:
        before = self._teams.get(team.id)
        self._teams[team.id] = team
        if team.status == "ended":
            if not team.ended_by and (before is None or before.status != "ended"):  # a person who ended it knows
                self._enqueue(TeamOver(team=team.id, name=team.name, reason=team.reason, round=team.rounds))
        elif new := tuple(name for name in team.waiting_for if before is None or name not in before.waiting_for):
            self._enqueue(TeamWaits(team=team.id, name=team.name, people=new, round=team.rounds, line=team.last_line))

    def _on_node(self, node: NodeView) -> None:
        if node.online:
            self._online.add(node.id)
            if timer := self._offline_timers.pop(node.id, None):
                timer.cancel()
        elif node.id in self._online and node.id not in self._offline_timers:
            self._online.discard(node.id)
            fact = NodeWentOffline(node=node.id, name=node.name, since=node.seen_at)
            self._offline_timers[node.id] = asyncio.get_running_loop().call_later(
                self.grace_s, self._on_stayed_away, fact
            )

    def _on_stayed_away(self, fact: NodeWentOffline) -> None:
        self._offline_timers.pop(fact.node, None)
        self._enqueue(fact)

    def _on_device_revoked(self, device: str) -> None:
        self._revoked.add(device)
        self._upkeep.set()

    def _session_info(self, session: str) -> tuple[str, str, str]:
        record = self._state.sessions.get(session)
        if record is None:
            return "", "", ""
        node = self._state.nodes.get(record.node)
        return record.agent, node.name if node else "", record.title

    def _enqueue(self, fact: PushTrigger) -> None:
        if not self.subscriptions.all():
            return  # nobody wants to know
        while self._triggers.full():
            self._triggers.get_nowait()
            log.warning("too much happens at once: an old fact is not pushed")
        self._triggers.put_nowait(fact)

    # --- the work ---

    async def _process_triggers(self) -> None:
        while True:
            fact = await self._triggers.get()
            try:
                await self.handle(fact)
            except BusClosed:
                raise
            except BusError as error:
                log.warning("not pushed: %s", error)

    async def handle(self, fact: PushTrigger) -> None:
        """Decide about one trigger, and send the pushes that follow from it."""
        known = [subscription for subscription in self.subscriptions.all() if self._devices.knows(subscription.device)]
        visible = await self.visible()  # before the claim: a reader of the claim takes the trigger as decided
        pushed = not await self._claim(fact)
        pushes = decide(fact, subscriptions=known, visible=visible, live=True, pushed=pushed, now=time.time())
        await asyncio.gather(*map(self._send, pushes))

    async def visible(self) -> bool:
        """Whether somebody looks at a client, of this hub or another one."""
        return self._fanout.visible > 0 or any(key != self._hub for key in await self._visible_hubs.keys())

    async def _claim(self, fact: PushTrigger) -> bool:
        """Whether it is ours to decide: the first hub's, once."""
        try:
            await self._decided.put(fact.id, self._hub.encode(), expect=0, ttl=DECIDED_S)
        except Conflict:
            return False
        return True

    async def _send(self, push: Push) -> PushResult:
        delivery = await self.sender.send(push)
        subscription = push.subscription
        if delivery.state == "gone":
            log.info("a subscription of %s is dead: %s", subscription.device, delivery.problem)
            await self.subscriptions.remove(subscription)
        elif delivery.state == "failed":
            log.warning("a push to %s was not taken: %s", subscription.device, delivery.problem)
        return delivery

    async def _ensure_key(self) -> None:
        """At the first start, so that every hub of the bus has it before a browser asks."""
        try:
            await self.sender.key()
        except RequestRefused:
            log.debug("Web Push is not installed")
        except BusError as error:
            log.warning("the key for pushes is not made yet: %s", error)

    async def _publish_visibility(self) -> None:
        published = False
        try:
            while True:
                looks = self._fanout.visible > 0
                try:
                    if looks:
                        await self._visible_hubs.put(self._hub, b"", ttl=VISIBLE_S)
                    elif published:
                        await self._visible_hubs.delete(self._hub)
                    published = looks
                except BusClosed:
                    raise
                except BusError:
                    pass  # the next round repeats it, and it expires by itself
                await self._fanout.wait_visibility_change(VISIBLE_S / 3)
        finally:
            if published:  # else other hubs would believe it a little longer
                with suppress(BusError, TimeoutError):
                    async with asyncio.timeout(1.0):
                        await self._visible_hubs.delete(self._hub)

    async def _remove_orphaned(self) -> None:
        """Subscriptions go with their device, also when it was revoked while no hub ran."""
        while True:
            try:
                for subscription in self.subscriptions.all():
                    if subscription.device in self._revoked or not self._devices.knows(subscription.device):
                        await self.subscriptions.remove(subscription)
                self._revoked.clear()
            except BusClosed:
                raise
            except BusError as error:
                log.warning("subscriptions stay for now: %s", error)
            try:
                async with asyncio.timeout(TIDY_S):
                    await self._upkeep.wait()
            except TimeoutError:
                continue
            self._upkeep.clear()


def contact(config: HubConfig) -> str:
    """Whom a push service may write to about us; some refuse to work without."""
    if config.push_contact:
        return config.push_contact
    return config.public_url if config.public_url.startswith("https://") else "mailto:tieline@example.com"
