"""The agent channel passes the suite that every channel passes."""

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tieline.bus import open_bus
from tieline.channels import agent
from tieline.channels.base import Surroundings
from tieline.config import Config
from tieline.drivers.base import Attachment
from tieline.drivers.scripted import Scripted
from tieline.errors import BusUnavailable
from tieline.script import Say
from tieline.sessions.local import LocalSessions
from tieline.sessions.router import Router
from tieline.testing.channel_contract import ChannelContract


class Flaky(LocalSessions):
    """Sessions that cannot be reached for a while."""

    failing = 0

    async def prompt(
        self,
        session: str,
        prompt: str,
        text: str,
        *,
        attachments: tuple[Attachment, ...] = (),
        system: str = "",
        timeout_s: float | None = None,
        by: str = "",
    ) -> None:
        if self.failing > 0:
            self.failing -= 1
            raise BusUnavailable("not now")
        await super().prompt(session, prompt, text, attachments=attachments, system=system, timeout_s=timeout_s, by=by)


class FarAgent:
    address = "relay.agent.shop.bob"

    def __init__(self, sessions: Flaky, told: list[str], place: Path) -> None:
        self.config: Mapping[str, Any] = {"projects": {"shop": {"cwd": str(place), "policy": "full"}}}
        self.surroundings = Surroundings(sessions=sessions)
        self._sessions = sessions
        self._told = told

    def texts(self) -> list[str]:
        return self._told

    def fail(self, times: int) -> None:
        self._sessions.failing = times

    async def say(self, text: str) -> bool:
        return False  # sessions send through the relay as themselves, not through the channel


class TestAgentChannel(ChannelContract):
    module = agent

    @pytest.fixture
    async def far(self, tmp_path: Path) -> AsyncGenerator[FarAgent, None]:
        told: list[str] = []
        driver = Scripted([[Say("x")]] * 20, on_told=told.append)
        config = Config(default_agent="scripted", environ={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"})
        async with (
            open_bus(f"sqlite://{tmp_path}/sessions.db") as bus,
            Router(bus, config, drivers={"scripted": driver}) as router,
        ):
            yield FarAgent(Flaky(router, bus), told, tmp_path)
