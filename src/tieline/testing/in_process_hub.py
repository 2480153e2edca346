"""A hub with a node in the same process, put together as the daemon does it, without a network listener."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ..bus.base import Bus
from ..config import Config
from ..hub.hub import Hub
from ..node.command_executor import CommandExecutor
from ..node.node_identity import NodeIdentity
from ..sessions.manager import SessionManager

LOCAL = NodeIdentity(id="local", name="here")
"""Of a session manager that was not told whose sessions it has."""


@asynccontextmanager
async def hub_around(manager: SessionManager, bus: Bus, config: Config) -> AsyncGenerator[Hub, None]:
    """The manager is entered by its owner; the configuration's environment names a state directory (TIELINE_HOME)."""
    async with (
        CommandExecutor(manager, bus, config, identity=LOCAL) as executor,
        Hub(bus, config, env=config.environ, local=executor) as hub,
    ):
        yield hub
