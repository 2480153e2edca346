"""A hub with a node in the same process, put together as the daemon does it, but for its doors."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ..bus.base import Bus
from ..config import Config
from ..hub.hub import Hub
from ..node.command_executor import Executor
from ..node.node_identity import Identity
from ..sessions.manager import Router

LOCAL = Identity(id="local", name="here")
"""Of a router that was not told whose sessions it has."""


@asynccontextmanager
async def hub_around(router: Router, bus: Bus, config: Config) -> AsyncGenerator[Hub, None]:
    """The router is entered by its owner; the configuration's environment names a state directory (TIELINE_HOME)."""
    async with (
        Executor(router, bus, config, identity=LOCAL) as executor,
        Hub(bus, config, env=config.environ, local=executor) as hub,
    ):
        yield hub
