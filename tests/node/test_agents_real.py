"""The health of a real agent, as a node shows it."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tieline.config import Config
from tieline.drivers import registry
from tieline.drivers.opencode.launch import launch_command
from tieline.node.agent_inventory import AgentInventory
from tieline.processes.async_process import Process
from tieline.protocol.views import AgentView
from tieline.testing.rigs.opencode import OpenCodeRig

pytestmark = pytest.mark.real

PROGRAM = str(Path(__file__).parent.parent / "agents/node_modules/.bin/opencode")


@asynccontextmanager
async def served(rig: OpenCodeRig) -> AsyncGenerator[tuple[str, str]]:
    """A server that is not ours: its address and password."""
    argv, env = launch_command(rig.env, [PROGRAM])
    async with Process.start(argv, cwd="/", env=env) as process:
        url = ""
        async with asyncio.timeout(60):
            async for batch in process.lines():
                url = next((line.split()[-1].decode() for line in batch if b"listening" in line), "")
                if url:
                    break
        yield url, env["OPENCODE_SERVER_PASSWORD"]
        process.signal(signal.SIGTERM)


def agents(config: Config) -> AgentInventory:
    return AgentInventory(config, lambda name: registry.create(name, config))


async def look(agents: AgentInventory) -> dict[str, AgentView]:
    return {view.name: view for view in await agents.refresh()}


async def test_opencode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with OpenCodeRig(tmp_path / "home", PROGRAM) as rig:
        async with served(rig) as (url, password):
            mine = {"type": "opencode", "command": [PROGRAM]}
            theirs = {"type": "opencode", "url": url, "password": password}
            config = Config(agents={"mine": mine, "theirs": theirs}, environ=rig.env)
            async with agents(config) as inventory:
                views = await look(inventory)
                for name in ("mine", "theirs"):
                    view = views[name]
                    assert (view.found, view.ready, view.health) == (True, True, "healthy"), view
                    assert view.version and "resume" in view.features
        monkeypatch.setattr("tieline.node.agent_inventory.PROBE_S", 3.0)  # nobody is there: that need not take long
        async with agents(config) as inventory:
            views = await look(inventory)
            assert (views["theirs"].ready, views["theirs"].health) == (False, "failing") and views["theirs"].problem
            assert views["codex"].health == "unknown"  # nobody asked for it, and it is not there


async def test_claude_code_is_ready_with_credentials(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    for more, ready in (({}, False), ({"ANTHROPIC_API_KEY": "x"}, True)):
        async with agents(
            Config(agents={"claude-code": {}}, default_agent="claude-code", environ=env | more)
        ) as inventory:
            view = (await look(inventory))["claude-code"]
            assert view.found and view.ready is ready
            assert ("Not signed in" in view.hint) is not ready
