"""The hub's parts, entered together: what people and nodes talk to is `app.build` around this.

A hub stores nothing itself: all is on the bus, so several hubs on one bus serve the same clients and nodes.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import msgspec
from starlette.routing import Route, WebSocketRoute

from .. import paths
from ..bus.base import Bus
from ..config import Config
from ..errors import UsageError
from ..events import Answer
from ..processes.process_table import process_key
from ..protocol.stream_frames import AnyHubFrame, GoneFrame
from ..protocol.views import DeviceView, NodeView
from ..sessions.ask_decisions import AUTOMATIC
from ..sessions.caller_session import caller as caller_session
from ..sessions.event_log import LogEvent
from .http.problems import RequestRefused
from .http.request_context import RequestContext
from .indexing.log_indexer import LogIndexer
from .indexing.search_index import SearchIndex
from .indexing.session_lookup import SessionLookup
from .indexing.usage_counter import UsageCounter
from .nodes.dispatcher import CommandDispatcher
from .nodes.registry import NodeRegistry
from .ops.logs import logger
from .ops.metrics import Metrics
from .ops.tracing import Traces, provider
from .push.notifier import PushNotifier
from .rules.rule_manager import RuleManager
from .security import access_rules
from .security.audit_log import AuditLog
from .security.auth import Auth, actor_name
from .security.devices import Devices
from .security.idempotency import IdempotencyStore
from .security.local_peer import LocalPeer
from .security.origins import Origins
from .security.rate_limit import RateLimiter
from .state.live_state import LiveState
from .state.session_marks import SessionMarks
from .stream.encoded_frames import EventSummary
from .stream.fanout import Fanout

if TYPE_CHECKING:
    from ..harnesses.hook_handler import HarnessHooks
    from ..mesh.mcp_endpoint import McpEndpoint
    from ..mesh.mesh import Mesh
    from ..mesh.plugin_connector import PluginConnector
    from ..node.command_executor import CommandExecutor
    from ..relay import Relay
    from ..relay.channel_plugins.reload import ChannelSet
    from ..schedules.manager import ScheduleManager
    from ..teams.teams import Teams
    from .phone.phone_access import PhoneAccess

LOGIN_ATTEMPTS = 10
RATE_WINDOW_S = 60.0
"""Wrong secrets per address in RATE_WINDOW_S."""
PAIRING_OFFERS = 30
"""New pairing secrets per device in RATE_WINDOW_S."""


class Hub:
    """`async with Hub(bus, config, env=…, local=executor) as hub`. `local` is the node in this process, if there is
    one; its owner enters and leaves it."""

    def __init__(
        self, bus: Bus, config: Config, *, env: Mapping[str, str], local: "CommandExecutor | None" = None
    ) -> None:
        self.bus = bus
        self.config = config
        self.env = env
        self.local = local
        self.url = config.hub.public_url  # where people reach it; its server fills it in when nobody said
        self.log = logger("hub")
        self.audit = AuditLog(paths.audit_file(env))
        self.devices = Devices(bus)
        self.devices.on_expired = self._on_device_expired
        self.auth = Auth(self.devices)
        self.origins = Origins(config.hub)
        self.idempotency = IdempotencyStore(bus)
        self.login_limiter = RateLimiter(tries=LOGIN_ATTEMPTS, per_s=RATE_WINDOW_S)
        self.pairing_limiter = RateLimiter(tries=PAIRING_OFFERS, per_s=RATE_WINDOW_S)
        self.state = LiveState(bus)
        self.marks = SessionMarks(bus, self.state)
        self.fanout = Fanout(bus, self.state, keep_events_days=config.hub.keep_events_days)
        self.nodes = NodeRegistry(bus, env)
        self.dispatcher = CommandDispatcher(bus, self.nodes, local)
        self.rules = RuleManager(bus, self.nodes.all, self.dispatcher.local)
        lookup = SessionLookup(bus, local.identity.id if local else "")
        self.usage = UsageCounter(bus, lookup)
        self.search = SearchIndex(bus, paths.search_file(env), lookup)
        self.event_indexer = LogIndexer(bus, "events.>", (self.usage, self.search.events))
        self.message_indexer = LogIndexer(bus, "mail.>", (self.search.messages,))
        self.search.indexers = (self.event_indexer, self.message_indexer)
        self.fanout.retention.keep_after = lambda: self.usage.cursor
        self.push = PushNotifier(bus, self.state, self.fanout, self.devices, config.hub)
        self.metrics = Metrics(bus, self.state, self.fanout, self.devices)
        traces = config.hub.traces
        self.traces = Traces(self.state, self.fanout, provider(traces)) if traces else None
        self.relay: Relay | None = None  # the daemon gives them
        self.channels: ChannelSet | None = None
        self.mesh: Mesh | None = None
        self.teams: Teams | None = None
        self.schedules: ScheduleManager | None = None
        self.mcp: McpEndpoint | None = None
        self.hooks: HarnessHooks | None = None
        self.plugin_connectors: Mapping[str, PluginConnector] = {}
        self.phone: PhoneAccess | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Hub":
        try:
            parts = (
                self.audit,
                self.devices,
                self.idempotency,
                self.nodes,
                self.dispatcher,
                self.state,
                self.fanout,
                self.push,
            )
            for part in parts:
                await self._stack.enter_async_context(part)
            self._stack.callback(self.fanout.on_event(self._on_event))
            await self.usage.load()
            self._stack.push_async_callback(self.search.close)
            await self.search.open(self.fanout.epoch)
            self._stack.callback(self.state.subscribe(self._on_state_changed))
            for indexer in (self.event_indexer, self.message_indexer):
                await self._stack.enter_async_context(indexer)
            if self.traces is not None:
                await self._stack.enter_async_context(self.traces)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def node(self) -> NodeView | None:
        """The node in this process."""
        return None if self.local is None else self.state.nodes.get(self.local.identity.id)

    def _on_event(self, whole: LogEvent, peek: EventSummary) -> None:
        if peek.type == "done":
            self.metrics.turn(peek.status)
        elif peek.type == "answer":
            self._audit_decision(whole)

    def _on_state_changed(self, frame: AnyHubFrame) -> None:
        if isinstance(frame, GoneFrame) and frame.kind == "session":
            self.search.session_removed(frame.id)

    def _on_device_expired(self, device: DeviceView) -> None:
        self.audit.record("revoke", "hub", "", device=actor_name(device), why="not used for 90 days")

    def _audit_decision(self, whole: LogEvent) -> None:
        """Read from the session's log, so that decisions on every machine are audited."""
        try:
            answer = msgspec.json.decode(whole.data, type=Answer)
        except msgspec.DecodeError:
            return
        if answer.by in AUTOMATIC:
            return
        details = {"session": whole.session, "ask": answer.ask, "tool": answer.tool, "decision": answer.decision}
        remember = "" if answer.remember == "once" else answer.remember
        self.audit.record("decision", answer.by, answer.via, **details, remember=remember)

    def session_of(self, peer: LocalPeer) -> str:
        """The session that an agent's process belongs to; empty when it cannot be determined."""
        if self.local is None or peer.mark is None:
            return ""
        try:
            return caller_session(self.local.manager, peer.mark, peer.cwd)
        except UsageError:
            return ""

    def harness_above(self, peer: LocalPeer) -> bool:
        """Whether the agent in a terminal that is read along, or that is a member of the mesh, started it."""
        if self.local is not None and not self.local.manager.harness_processes().isdisjoint(peer.lineage):
            return True
        mesh = self.mesh
        return mesh is not None and any(mesh.directory.runs_in(process_key(each)) for each in peer.lineage)

    def has_agents_in_terminals(self) -> bool:
        """Whether in a terminal of this machine there is an agent that is read along, or a member of the mesh."""
        here = (record for record in self.state.sessions.values() if record.node == self.dispatcher.local)
        if any(record.kind == "attached" and record.status != "closed" for record in here):
            return True
        return self.mesh is not None and self.mesh.directory.any_runs()

    def guess(self, context: RequestContext) -> None:
        """Counts an attempt to use a secret. The route gives back the successful ones."""
        if wait := self.login_limiter.take(context.address):
            raise RequestRefused("TooManyRequests", "too many sign-in attempts", hint="Retry later.", retry_s=wait)

    def refused(self, context: RequestContext, problem: str) -> None:
        who = actor_name(context.device) if context.device else ""
        self.audit.record("refusal", who, context.via, why=problem, request=f"{context.method} {context.path}")

    def note(self, context: RequestContext, route: Route | WebSocketRoute | None, status: int, seconds: float) -> None:
        """Logs, counts and audits a finished request."""
        self.metrics.request(context, route, status, seconds)
        if status in (401, 403) or (status == 429 and context.path in access_rules.RATE_LIMITED):
            self.refused(context, context.problem)
        say = self.log.info if status >= 400 or context.method in ("POST", "PATCH", "DELETE") else self.log.debug
        say(
            "request",
            method=context.method,
            path=context.path,
            status=status,
            ms=round(seconds * 1000, 2),
            by=context.device.id if context.device else "",
            id=context.id,
            **({"why": context.problem} if context.problem else {}),
        )
