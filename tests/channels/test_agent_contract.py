"""The agent channel passes the suite that every channel passes."""

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tieline.bootstrap.relay import HubSessions
from tieline.bus import open_bus
from tieline.channels import agent
from tieline.channels.base import ChannelContext
from tieline.config import Config
from tieline.drivers.base import Prompt
from tieline.drivers.scripted import Scripted
from tieline.errors import BusUnavailable
from tieline.script import Say
from tieline.sessions.manager import SessionManager
from tieline.sessions.records import PromptRecord
from tieline.testing.channel_contract import ChannelContract
from tieline.testing.in_process_hub import hub_around


class Flaky(SessionManager):
    """A node whose bus is away for a while."""

    failing = 0

    async def prompt(self, session: str, prompt: str | Prompt, **more: Any) -> PromptRecord:
        if self.failing > 0:
            self.failing -= 1
            raise BusUnavailable("not now")
        return await super().prompt(session, prompt, **more)


class FarAgent:
    address = "relay.agent.shop.bob"

    def __init__(self, node: Flaky, sessions: HubSessions, inputs: list[str], folder: Path) -> None:
        self.config: Mapping[str, Any] = {"projects": {"shop": {"cwd": str(folder), "policy": "full"}}}
        self.context = ChannelContext(sessions=sessions)
        self._node = node
        self._inputs = inputs

    def texts(self) -> list[str]:
        return self._inputs

    def fail(self, times: int) -> None:
        self._node.failing = times

    async def say(self, text: str) -> bool:
        return False  # sessions send through the relay as themselves, not through the channel


class TestAgentChannel(ChannelContract):
    module = agent

    @pytest.fixture
    async def far(self, tmp_path: Path) -> AsyncGenerator[FarAgent, None]:
        inputs: list[str] = []
        driver = Scripted([[Say("x")]] * 20, on_model_input=inputs.append)
        env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TIELINE_HOME": str(tmp_path / "state")}
        config = Config(default_agent="scripted", environ=env)
        async with open_bus(f"sqlite://{tmp_path}/sessions.db") as bus:
            node = Flaky(bus, config, drivers={"scripted": driver})
            async with node, hub_around(node, bus, config) as hub:
                yield FarAgent(node, HubSessions(hub), inputs, tmp_path)
