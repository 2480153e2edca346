"""When to push: hears of what happens, finds out who looks, lets `decide` decide, and has it carried.

Each fact is decided once, by whichever hub puts its name to it first; that is kept on the bus, so that neither a
restart nor another hub pushes it again. Who is looking is known across hubs too.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from ...bus.base import Bus
from ...config import HubConfig
from ...errors import BusClosed, BusError, Conflict
from ...ids import new_id
from ...protocol.stream_frames import AnyHubFrame, AskFrame, GoneFrame, NodeFrame
from ...protocol.views import NodeView
from ...sessions.event_log import LogEvent
from ..http.problems import RequestRefused
from ..ops.background_tasks import background
from ..security.devices import Devices
from ..state.live_state import LiveState
from ..stream.encoded_frames import EventSummary
from ..stream.fanout import Fanout
from .rules import TEST_TTL_S, AskPending, Fact, NodeWentOffline, Push, TurnFinished, decide, test_notice
from .sender import PushResult, PushSender
from .subscriptions import Subscriptions

GRACE_S = 30.0
"""How long a machine may be away before anybody is told."""
MAX_FACTS = 1000
"""What waits to be decided; the oldest go first."""
DECIDED_S = 86400
LOOKING_S = 30
"""How long another hub is believed that somebody looks at it; it says so again well before."""
TIDY_S = 3600.0

DECIDED = "pushed"
LOOKING = "looking"

log = logging.getLogger("tieline.hub.push")


class PushNotifier:
    """`async with Pushes(bus, state, fanout, devices, config) as pushes`."""

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
        self.courier = PushSender(bus, contact=contact(config), loopback=config.push_loopback)
        self._state = state
        self._fanout = fanout
        self._devices = devices
        self._decided = bus.table(DECIDED)
        self._looking = bus.table(LOOKING)
        self._hub = new_id()
        self.grace_s = grace_s
        self._facts: asyncio.Queue[Fact] = asyncio.Queue(MAX_FACTS)
        self._away: dict[str, asyncio.TimerHandle] = {}
        self._online: set[str] = set()
        self._revoked: set[str] = set()
        self._upkeep = asyncio.Event()
        self._ways_out: list[Callable[[], None]] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "PushNotifier":
        await self.subscriptions.__aenter__()
        self._online = {node.id for node in self._state.nodes.values() if node.online}
        self._ways_out = [
            self._state.subscribe(self._changed),
            self._fanout.tap(self._happened),
            self._devices.on_revoke(self._gone),
        ]
        work = (self._decide_all(), self._say_who_looks(), self._tidy(), self._make_key())
        self._tasks = [background(one, f"push-{one.__name__}") for one in work]
        return self

    async def __aexit__(self, *_: object) -> None:
        for leave in self._ways_out:
            leave()
        for timer in self._away.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.courier.__aexit__()
        await self.subscriptions.__aexit__()

    async def test(self, device: str) -> list[PushResult]:
        """A push to each of a device's subscriptions, whoever looks. Raises Refused when it has none."""
        found = self.subscriptions.of(device)
        if not found:
            raise RequestRefused(
                "NotFound", "this device has no subscription", field="subscription", hint="Subscribe first."
            )
        notice = test_notice(time.time())
        pushes = [Push(subscription=one, notice=notice, ttl_s=TEST_TTL_S, urgency="high") for one in found]
        return list(await asyncio.gather(*map(self._carry, pushes)))

    # --- what happens; none of these waits ---

    def _changed(self, frame: AnyHubFrame) -> None:
        match frame:
            case AskFrame(ask=ask) if ask.status == "pending":
                agent, machine, title = self._about(ask.session)
                self._put(AskPending(ask=ask, agent=agent, machine=machine, title=title))
            case NodeFrame(node=node):
                self._node(node)
            case GoneFrame(kind="node", id=id):
                self._online.discard(id)
                if timer := self._away.pop(id, None):
                    timer.cancel()
            case _:
                pass

    def _happened(self, whole: LogEvent, about: EventSummary) -> None:
        if about.type == "done":
            agent, machine, title = self._about(whole.session)
            self._put(
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

    def _node(self, node: NodeView) -> None:
        if node.online:
            self._online.add(node.id)
            if timer := self._away.pop(node.id, None):
                timer.cancel()
        elif node.id in self._online and node.id not in self._away:
            self._online.discard(node.id)
            fact = NodeWentOffline(node=node.id, name=node.name, since=node.seen_at)
            self._away[node.id] = asyncio.get_running_loop().call_later(self.grace_s, self._stayed_away, fact)

    def _stayed_away(self, fact: NodeWentOffline) -> None:
        self._away.pop(fact.node, None)
        self._put(fact)

    def _gone(self, device: str) -> None:
        self._revoked.add(device)
        self._upkeep.set()

    def _about(self, session: str) -> tuple[str, str, str]:
        record = self._state.sessions.get(session)
        if record is None:
            return "", "", ""
        node = self._state.nodes.get(record.node)
        return record.agent, node.name if node else "", record.title

    def _put(self, fact: Fact) -> None:
        if not self.subscriptions.all():
            return  # nobody wants to know
        while self._facts.full():
            self._facts.get_nowait()
            log.warning("too much happens at once: an old fact is not pushed")
        self._facts.put_nowait(fact)

    # --- the work ---

    async def _decide_all(self) -> None:
        while True:
            fact = await self._facts.get()
            try:
                await self.handle(fact)
            except BusClosed:
                raise
            except BusError as error:
                log.warning("not pushed: %s", error)

    async def handle(self, fact: Fact) -> None:
        """Decide about one fact, and carry what comes of it."""
        known = [one for one in self.subscriptions.all() if self._devices.knows(one.device)]
        visible = await self.visible()  # before it is claimed: whoever reads of that knows that it is decided
        pushed = not await self._claim(fact)
        found = decide(fact, subscriptions=known, visible=visible, live=True, pushed=pushed, now=time.time())
        await asyncio.gather(*map(self._carry, found))

    async def visible(self) -> bool:
        """Whether somebody looks at a client, of this hub or another one."""
        return self._fanout.visible > 0 or any(key != self._hub for key in await self._looking.keys())

    async def _claim(self, fact: Fact) -> bool:
        """Whether it is ours to decide: the first hub's, once."""
        try:
            await self._decided.put(fact.id, self._hub.encode(), expect=0, ttl=DECIDED_S)
        except Conflict:
            return False
        return True

    async def _carry(self, push: Push) -> PushResult:
        delivery = await self.courier.send(push)
        one = push.subscription
        if delivery.state == "gone":
            log.info("a subscription of %s is dead: %s", one.device, delivery.problem)
            await self.subscriptions.remove(one)
        elif delivery.state == "failed":
            log.warning("a push to %s was not taken: %s", one.device, delivery.problem)
        return delivery

    async def _make_key(self) -> None:
        """At the first start, so that every hub of the bus has it before a browser asks."""
        try:
            await self.courier.key()
        except RequestRefused:
            log.debug("Web Push is not installed")
        except BusError as error:
            log.warning("the key for pushes is not made yet: %s", error)

    async def _say_who_looks(self) -> None:
        said = False
        try:
            while True:
                looks = self._fanout.visible > 0
                try:
                    if looks:
                        await self._looking.put(self._hub, b"", ttl=LOOKING_S)
                    elif said:
                        await self._looking.delete(self._hub)
                    said = looks
                except BusClosed:
                    raise
                except BusError:
                    pass  # it is said again, and believed no longer than it holds
                await self._fanout.glance(LOOKING_S / 3)
        finally:
            if said:  # else it would be believed a little longer
                with suppress(BusError, TimeoutError):
                    async with asyncio.timeout(1.0):
                        await self._looking.delete(self._hub)

    async def _tidy(self) -> None:
        """Subscriptions go with their device, also when it was revoked while no hub ran."""
        while True:
            try:
                for one in self.subscriptions.all():
                    if one.device in self._revoked or not self._devices.knows(one.device):
                        await self.subscriptions.remove(one)
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
