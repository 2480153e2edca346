"""A hub whose agents are the real Claude Code, Codex, Gemini and OpenCode, each over a scripted model of its own."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from tests.teams.conftest import TeamsHere

from tieline.bootstrap.daemon import hub_on
from tieline.bootstrap.process_lock import running_file
from tieline.client.hub_address import RunningHub
from tieline.config import Config, HubConfig
from tieline.drivers.acp_recipes import GEMINI
from tieline.processes import spawn
from tieline.protocol import teams as p
from tieline.testing.model_rig import ModelRig
from tieline.testing.rigs.acp import GeminiRig
from tieline.testing.rigs.claude_code import ClaudeCodeRig
from tieline.testing.rigs.codex import codex_rig
from tieline.testing.rigs.opencode import OpenCodeRig

BINARIES = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"

PATIENT_MS = "60000"
"""How long Claude Code waits for the hub's MCP server, which may take its time on a busy machine."""


class RealTeam(NamedTuple):
    here: TeamsHere
    rigs: dict[str, ModelRig]  # by agent
    folder: Path

    def member(self, name: str, agent: str, **options: object) -> p.TeamMember:
        model = GEMINI.model if agent == "gemini" else ""
        whole: dict[str, object] = {"agent": agent, "model": model, "accept_unenforced": True}
        return self.here.member(name, **(whole | options))

    def heard(self, agent: str, call: int = -1) -> str:
        """What reached its model with one call: the whole conversation so far."""
        return msgspec.json.encode(self.rigs[agent].model.requests[call]).decode()


@asynccontextmanager
async def real_team(path: Path) -> AsyncGenerator[RealTeam, None]:
    home, folder = path / "home", path / "place"
    folder.mkdir()
    async with AsyncExitStack() as stack:
        rigs = {
            "claude-code": await stack.enter_async_context(ClaudeCodeRig(home, MCP_TIMEOUT=PATIENT_MS)),
            "codex": await stack.enter_async_context(codex_rig(home, BINARIES / "codex")),
            "gemini": await stack.enter_async_context(GeminiRig(home, BINARIES)),
            "opencode": await stack.enter_async_context(OpenCodeRig(home, str(BINARIES / "opencode"))),
        }
        env = {name: value for rig in rigs.values() for name, value in rig.options["env"].items()}
        env["PATH"] = f"{BINARIES}:{Path(sys.executable).parent}:/usr/bin:/bin"
        env["TIELINE_HOME"] = str(path / "state")
        hub, serving = await stack.enter_async_context(hub_on(Config(environ=env, hub=HubConfig(port=0))))
        stack.enter_context(running_file(env, RunningHub(serving.url, os.getpid(), socket=serving.socket)))
        assert hub.teams is not None and hub.local is not None
        yield RealTeam(TeamsHere(hub.teams, hub.bus, hub.local.manager, folder, {}), dict(rigs), folder)


def processes_of(program: str) -> list[int]:
    """Those that Tieline started here."""
    words = {pid: Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:2] for pid in spawn.live().values()}
    return [pid for pid, first in words.items() if any(Path(word).name == program for word in first)]
