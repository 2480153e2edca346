"""Puts together the mesh of a hub: its members are harness sessions that register, the hub's sessions and people; what
is unread is pushed to them."""

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module

from ..envelopes import under
from ..errors import TielineError
from ..harnesses import registry
from ..harnesses.attach_consent import CurrentConsent
from ..harnesses.base import InstallOptions
from ..harnesses.hook_handler import HarnessHooks
from ..harnesses.installer import installed_for
from ..harnesses.instructions import PROTOCOL
from ..hub.hub import Hub
from ..hub.push.triggers import MessagesUnread
from ..mesh.desktop_notification import notify_desktop
from ..mesh.hook_events import HookEvents
from ..mesh.mcp_endpoint import McpEndpoint
from ..mesh.mesh import Mesh
from ..mesh.plugin_connector import PluginConnector
from ..mesh.push import Connector, Pusher
from ..mesh.unread_notices import UnreadNotice, UnreadNotices
from ..node.node_identity import identify
from ..protocol.stream_frames import AnyHubFrame, GoneFrame, SessionFrame
from ..relay import Relay
from ..sessions.attacher import Attacher
from ..sessions.manager import SessionManager
from ..sessions.records import SessionRecord

CONNECTORS: Mapping[str, str] = {
    "claude-code": "claude_code.connector:ClaudeCodeConnector",
    "codex": "codex.daemon_connector:CodexDaemonConnector",
    "opencode": "opencode.connector:OpenCodeConnector",
    "gemini": "gemini.connector:GeminiConnector",
    "copilot": "copilot.connector:CopilotConnector",
    "qwen": "qwen.connector:QwenConnector",
    "vibe": "vibe.connector:VibeConnector",
    "kimi": "kimi.connector:KimiConnector",
    "droid": "droid.connector:DroidConnector",
    "pi": "pi.connector:PiConnector",
}
"""Harness → the module and class of its connector, which is made with the environment."""
SENDER, NOTIFY_PREFIX = "relay.system.mesh", "relay.notify"
REASONS = {
    "idle": "It is idle, and its harness cannot be woken from here: give it a prompt.",
    "ended": "Its session is over: resume it, and it gets them.",
}
"""Why an agent did not take its messages, and what a person can do."""
LOOK_AGAIN_S = 10.0
"""An integration that was installed or removed meanwhile is noticed after so long."""


def create_connectors(env: Mapping[str, str]) -> list[Connector]:
    def create(path: str) -> Connector:
        module, _, kind = path.partition(":")
        return getattr(import_module(f"tieline.harnesses.{module}"), kind)(env)

    return [create(path) for path in CONNECTORS.values()]


class InstalledIntegrations:
    """Whether the integration of a harness is installed for sessions in a directory."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._options = InstallOptions(env=env, program="tieline", python="python3")
        self._known: dict[tuple[str, str], tuple[float, bool]] = {}

    def __call__(self, harness: str, cwd: str) -> bool:
        now = time.monotonic()
        at, installed = self._known.get((harness, cwd), (-LOOK_AGAIN_S, False))
        if now - at >= LOOK_AGAIN_S:
            if len(self._known) > 1000:
                self._known.clear()
            installed = installed_for(registry.create(harness), self._options, cwd)
            self._known[harness, cwd] = (now, installed)
        return installed


class PeopleNotifier:
    """Tells people of messages that an agent does not take, by all ways that they have set up."""

    def __init__(self, hub: Hub, relay: Relay) -> None:
        self._hub = hub
        self._relay = relay

    async def __call__(self, notice: UnreadNotice) -> None:
        member, config = notice.member, self._hub.config
        body = f"From {notice.sender}. " + REASONS["ended" if member.ended else "idle"]
        if config.mesh.notify:
            self._hub.push.on_messages_unread(
                MessagesUnread(
                    member=member.id,
                    title=notice.title,
                    last=notice.last,
                    sender=notice.sender,
                    machine=member.machine,
                )
            )
            for channel in self._hub.channels.reports() if self._hub.channels else ():
                if under(NOTIFY_PREFIX, channel.prefix) and channel.state in ("running", "starting", "failing"):
                    await self._send(channel.prefix, f"{notice.title}. {body}", notice.last)
        if config.mesh.desktop:
            await notify_desktop(self._hub.env, notice.title, body)

    async def _send(self, address: str, text: str, last: str) -> None:
        try:
            await self._relay.send(address, text, sender=SENDER, key=f"unread-{last}")
        except TielineError as error:
            self._hub.log.warning("people are not notified of a message", address=address, problem=str(error))


@asynccontextmanager
async def open_mesh(hub: Hub, relay: Relay, manager: SessionManager | None = None) -> AsyncGenerator[Mesh, None]:
    """The hub's mesh, inside the block. With the sessions of this machine, the terminals here are read along too, where
    their person agreed."""

    def on_refused(who: str, why: str) -> None:
        hub.audit.record("refusal", who, "mesh", why=why)

    def put_session(record: SessionRecord) -> None:
        if record.kind == "attached":  # its harness registers it, with an inbox of its own
            mesh.directory.remove_session(record.id)
            return
        node = hub.state.nodes.get(record.node)
        mesh.directory.put_session(record, machine=node.name if node else record.node)

    def on_frame(frame: AnyHubFrame) -> None:
        if isinstance(frame, SessionFrame):
            put_session(frame.session)
        elif isinstance(frame, GoneFrame) and frame.kind == "session":
            mesh.directory.remove_session(frame.id)

    def attached(harness: str, session: str) -> str:
        attached_records = (
            each for each in hub.state.sessions.values() if each.kind == "attached" and each.node == here.id
        )
        return next((each.id for each in attached_records if (each.agent, each.native_id) == (harness, session)), "")

    here = identify(hub.env)
    async with Mesh(hub.bus, relay, machine=here.name, on_refused=on_refused, attached=attached) as mesh:
        unsubscribe = hub.state.subscribe(on_frame)
        for record in hub.state.sessions.values():
            put_session(record)
        connectors = create_connectors(hub.env)
        if manager is not None:
            for connector in connectors:
                connector.attacher = Attacher(manager, CurrentConsent(hub.env))
        plugins = {connector.harness: connector for connector in connectors if isinstance(connector, PluginConnector)}
        integrations = InstalledIntegrations(hub.env)

        def installed(harness: str, cwd: str) -> bool:  # a plugin that reports a session is
            return harness in plugins or integrations(harness, cwd)

        hub.mesh, hub.plugin_connectors = mesh, plugins
        hub.hooks = HarnessHooks(HookEvents(mesh, PROTOCOL), mesh.machine, connectors=connectors)
        try:
            async with (
                McpEndpoint(mesh, hub.hooks) as hub.mcp,
                Pusher(mesh, connectors, relay.subscribe, installed=installed, processes=hub.mcp.processes),
                UnreadNotices(
                    mesh, relay.subscribe, PeopleNotifier(hub, relay), after_s=hub.config.mesh.notify_after_s
                ),
            ):
                yield mesh
        finally:
            hub.mesh = hub.mcp = hub.hooks = None
            hub.plugin_connectors = {}
            unsubscribe()
