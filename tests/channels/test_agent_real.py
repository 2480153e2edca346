"""A message to each real agent over the scripted model: the prompt is the content, the answer its last words."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.relay.conftest import QUICK, over

from tieline.bootstrap.relay import HubSessions
from tieline.bus import open_bus
from tieline.channels.agent import AgentConfig, AgentProject, create
from tieline.channels.base import ChannelContext
from tieline.config import Config
from tieline.relay import Relay
from tieline.script import Say
from tieline.sessions.manager import SessionManager
from tieline.testing.in_process_hub import hub_around
from tieline.testing.rigs.acp import GeminiRig
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.rigs.codex import codex_rig
from tieline.testing.rigs.opencode import OpenCodeRig
from tieline.testing.rigs.shell import ShellRig

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"
ME = "relay.user.me"


@asynccontextmanager
async def shell(home: Path) -> AsyncGenerator[ShellRig, None]:
    yield ShellRig(home)


RIGS: dict[str, Callable[[Path], Any]] = {
    "shell": shell,
    "claude-code": ClaudeCodeRig,
    "codex": lambda home: codex_rig(home, BINARIES / "codex"),
    "opencode": lambda home: OpenCodeRig(home, str(BINARIES / "opencode")),
    "gemini": lambda home: GeminiRig(home, BINARIES),
}
PRESETS = {
    "claude-code": "You are a Claude agent",
    "codex": "You are Codex",
    "opencode": "You are opencode",
    "gemini": "You are an interactive CLI agent",
}
"""How the instruction begins that each brings along."""


@pytest.mark.real
@pytest.mark.parametrize("agent", RIGS)
async def test_a_message_to_a_real_agent(agent: str, tmp_path: Path) -> None:
    folder = tmp_path / "place"
    folder.mkdir()
    for name in ("AGENTS.md", "CLAUDE.md", "GEMINI.md"):
        (folder / name).write_text("Here they sell teapots.\n")
    async with RIGS[agent](tmp_path / "home") as rig:
        env = {**rig.options["env"], "TIELINE_HOME": str(tmp_path / "state")}
        config = Config(default_agent=agent, environ=env)
        rig.play([Say("It is forty-two.")], [Say("Still forty-two.")])
        async with (
            open_bus(f"sqlite://{tmp_path}/bus.db") as bus,
            SessionManager(bus, config, drivers={agent: rig.driver}) as manager,
            hub_around(manager, bus, config) as hub,
            Relay(bus, config, settings=QUICK) as relay,
        ):
            own = AgentProject(
                cwd=str(folder), policy="full", model=str(rig.options.get("model", "")), accept_unenforced=True
            )
            channel = create(
                "agents",
                AgentConfig(projects={"shop": own}),
                ChannelContext(sessions=HubSessions(hub)),
            )
            await relay.register(channel)
            for expected in ("It is forty-two.", "Still forty-two."):
                answer = await relay.ask("relay.agent.shop.bob", "What is the answer?", sender=ME, timeout=90)
                assert answer.payload.text.strip() == expected
            receipt = await over(relay, answer.in_reply_to)
            assert receipt.state == "answered"
            session = manager.get(receipt.session)
            assert session.turns == 2, "the same session both times"
        heard = rig.heard()
    assert "What is the answer?" in heard
    if rig.driver.features.turn_system:
        assert '"What is the answer?"' in heard, "the prompt is not the content alone"
    assert "<relay_context>" in heard
    assert f"From: {ME}" in heard
    assert ("Here they sell teapots." in heard) is (agent != "shell"), "the project's own instructions"
    brought = {name for name, beginning in PRESETS.items() if beginning in heard}
    assert brought == {agent} & PRESETS.keys(), "the agent's own instruction, and none of another's"
    assert receipt.id in heard
