"""Agents that somebody has installed, set up over the scripted model: which can be, and how.

Its recipe is data of its preset, or of the configuration: files in a temporary HOME, a dummy key, a model on loopback.
The agent is started as it is configured, but for what would lead it elsewhere: the variables of its configuration are
left out.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..config import Config
from ..drivers import registry
from ..drivers.acp.driver import AcpOptions
from ..drivers.acp_presets import PRESETS
from ..drivers.base import Driver
from ..drivers.registry import parse_options
from ..script import Reply
from .acp_rig import AcpRig
from .agent_checks import CalledModel
from .model_rig import ModelRig
from .rig import Rig
from .rigs.claude_code import ClaudeCodeRig
from .rigs.codex import codex_rig
from .rigs.opencode import OpenCodeRig
from .rigs.pi import PiRig

SetUp = Callable[[Path, Path], AbstractAsyncContextManager[Rig]]
"""(HOME, the agent's program) → its rig."""

OF_THEIR_OWN: dict[str, SetUp] = {
    "claude-code": lambda home, program: ClaudeCodeRig(home),
    "codex": lambda home, program: codex_rig(home, program),
    "opencode": lambda home, program: OpenCodeRig(home, str(program)),
    "pi": lambda home, program: PiRig(home, program),
}
"""By the agent's type: those with a driver of their own. Those over ACP have the recipe of their preset."""

LEADS_ELSEWHERE = ("env", "model", "effort", "system", "accept_unenforced")
"""Settings that are for the agent's own model, or that would loosen what is tested."""
NOT_HERE = ("url", "run_as")
"""Settings of agents that are not ours to start with another HOME."""


def set_up_of(name: str, config: Config) -> SetUp | None:
    """How that agent is set up over the scripted model; None: it cannot be."""
    options = config.agents.get(name, {})
    kind = str(options.get("preset") or options.get("type", name))
    if any(options.get(key) for key in NOT_HERE):
        return None
    kind = registry.ALIASES.get(kind, kind)
    if options.get("recipe") is not None:
        recipe = parse_options(AcpOptions, name, {"command": ["of-no-matter"], "recipe": options["recipe"]}).recipe
    else:
        recipe = PRESETS[kind].recipe if kind in PRESETS else None
    if recipe is None:
        return OF_THEIR_OWN.get(kind)
    return lambda home, program: AcpRig(home, program.parent, (str(program),), recipe=recipe)


class InstalledRig:
    """A rig whose driver is the one of the configuration."""

    def __init__(self, rig: Rig, driver: Driver, path: str) -> None:
        self._rig = rig
        self.driver = driver
        self.limits = rig.limits
        # Of this machine's environment the agent gets the PATH alone: its interpreter may stand there.
        self.options: Mapping[str, Any] = {**rig.options, "env": {**rig.options["env"], "PATH": path}}

    @property
    def model(self) -> CalledModel | None:
        return self._rig.model if isinstance(self._rig, ModelRig) else None

    @property
    def another_model(self) -> str:
        return self._rig.another_model if isinstance(self._rig, ModelRig) else ""

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
    set_up = set_up_of(name, config)
    if set_up is None:
        raise ValueError(f"{name} cannot be set up over the scripted model")
    home.mkdir(parents=True, exist_ok=True)
    options = {key: value for key, value in config.agents.get(name, {}).items() if key not in LEADS_ELSEWHERE}
    agents = {**config.agents, name: options} if options else {}
    async with set_up(home, Path(program)) as rig:
        driver = registry.create(name, replace(config, agents=agents))
        yield InstalledRig(rig, driver, config.environ.get("PATH", ""))
