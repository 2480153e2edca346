"""Agents that somebody has installed, set up over the scripted model: which can be, and how.

A recipe is the rig of its type: a configuration in a temporary HOME, a dummy key, a model on loopback. The agent is
started as it is configured, but for what would lead it elsewhere: the variables of its configuration are left out.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..config import Config
from ..drivers import registry
from ..drivers.base import Driver
from ..script import Reply
from .agent_checks import CountsTokens
from .model_rig import ModelRig
from .rig import Rig
from .rigs.auggie import AuggieRig
from .rigs.claude_agent_acp import ClaudeAgentAcpRig
from .rigs.claude_code import ClaudeCodeRig
from .rigs.codex import codex_rig
from .rigs.codex_acp import CodexAcpRig
from .rigs.copilot import CopilotRig
from .rigs.gemini import GeminiRig
from .rigs.kimi import KimiRig
from .rigs.opencode import OpenCodeRig
from .rigs.opencode_acp import OpencodeAcpRig
from .rigs.openhands import OpenHandsRig
from .rigs.pi import PiRig
from .rigs.qwen import QwenRig
from .rigs.vibe import VibeRig

Recipe = Callable[[Path, Path], AbstractAsyncContextManager[Rig]]
"""(HOME, the agent's program) → its rig."""

RECIPES: dict[str, Recipe] = {
    "claude-code": lambda home, program: ClaudeCodeRig(home),
    "codex": lambda home, program: codex_rig(home, program),
    "opencode": lambda home, program: OpenCodeRig(home, str(program)),
    "gemini": lambda home, program: GeminiRig(home, program.parent),
    "opencode-acp": lambda home, program: OpencodeAcpRig(home, program.parent),
    "qwen": lambda home, program: QwenRig(home, program.parent),
    "copilot": lambda home, program: CopilotRig(home, program.parent),
    "pi": lambda home, program: PiRig(home, program),
    "claude-agent-acp": lambda home, program: ClaudeAgentAcpRig(home, program.parent),
    "codex-acp": lambda home, program: CodexAcpRig(home, program.parent),
    "kimi": lambda home, program: KimiRig(home, program.parent),
    "vibe": lambda home, program: VibeRig(home, program.parent),
    "openhands": lambda home, program: OpenHandsRig(home, program.parent),
    "auggie": lambda home, program: AuggieRig(home, program.parent),
}
"""By the agent's type."""

LEADS_ELSEWHERE = ("env", "model", "effort", "system", "accept_unenforced")
"""Settings that are for the agent's own model, or that would loosen what is tested."""
NOT_HERE = ("url", "run_as")
"""Settings of agents that are not ours to start with another HOME."""


def recipe_for(name: str, config: Config) -> Recipe | None:
    """How that agent is set up over the scripted model; None: it cannot be."""
    options = config.agents.get(name, {})
    kind = str(options.get("preset") or options.get("type", name))
    if any(options.get(key) for key in NOT_HERE):
        return None
    return RECIPES.get(registry.ALIASES.get(kind, kind))


class InstalledRig:
    """A rig whose driver is the one of the configuration."""

    def __init__(self, rig: Rig, driver: Driver, path: str) -> None:
        self._rig = rig
        self.driver = driver
        self.limits = rig.limits
        # Of this machine's environment the agent gets the PATH alone: its interpreter may stand there.
        self.options: Mapping[str, Any] = {**rig.options, "env": {**rig.options["env"], "PATH": path}}

    @property
    def model(self) -> CountsTokens | None:
        return self._rig.model if isinstance(self._rig, ModelRig) else None

    def play(self, *replies: Reply) -> None:
        """In place of what is still unplayed: a turn that ends with a denial leaves its last reply behind."""
        if isinstance(self._rig, ModelRig):
            self._rig.model.drop_replies()
        self._rig.play(*replies)

    def heard(self) -> str:
        return self._rig.heard()

    async def stalled(self) -> None:
        await self._rig.stalled()


@asynccontextmanager
async def installed_rig(name: str, program: str, home: Path, config: Config) -> AsyncGenerator[InstalledRig, None]:
    """The agent of that name over the scripted model. Raises ValueError where there is no recipe for it."""
    recipe = recipe_for(name, config)
    if recipe is None:
        raise ValueError(f"{name} cannot be set up over the scripted model")
    home.mkdir(parents=True, exist_ok=True)
    options = {key: value for key, value in config.agents.get(name, {}).items() if key not in LEADS_ELSEWHERE}
    agents = {**config.agents, name: options} if options else {}
    async with recipe(home, Path(program)) as rig:
        driver = registry.create(name, replace(config, agents=agents))
        yield InstalledRig(rig, driver, config.environ.get("PATH", ""))
