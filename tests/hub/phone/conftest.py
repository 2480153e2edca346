"""A hub that phones can reach, and what it needs of this machine."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.hub.conftest import Running, running

from tieline.config import HubConfig
from tieline.hub.app import build
from tieline.hub.phone.lan_addresses import lan_addresses
from tieline.hub.phone.phone_access import PhoneAccess

needs_network = pytest.mark.skipif(not lan_addresses(), reason="this machine has no address beyond loopback")


@asynccontextmanager
async def with_phone(path: Path, *, config: HubConfig | None = None) -> AsyncGenerator[tuple[Running, PhoneAccess]]:
    """As the daemon puts it together. Entered again: the same state directory."""
    async with running(path, config=config) as hub:
        hub.hub.url = hub.url
        access = PhoneAccess(
            build(hub.hub),
            hub.serving,
            hub_url=hub.url,
            env=hub.hub.env,
            origins=hub.hub.origins,
            audit=hub.hub.audit,
        )
        async with access as phone:
            hub.hub.phone = phone
            yield hub, phone
