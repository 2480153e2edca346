"""What the rigs of ACP agents share: a preset's real program, a HOME from scratch, a scripted model behind it.

A rig says which preset it is of, which wire format its model speaks, how its tools are called, and what leads the
agent to the model: variables and files under HOME.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec

from ..drivers.acp import driver as acp
from ..drivers.acp_presets import PRESETS
from ..script import AnyStep
from .model_rig import ModelRig
from .model_server import ModelApi, ScriptedModel
from .rig import scratch_env

ToolCall = tuple[str, Mapping[str, Any]]
"""A tool's name, and its input."""
ToolCalls = Mapping[type[AnyStep], Callable[[Any], ToolCall]]
"""What a script's steps are in an agent's words."""


class AcpRig(ModelRig):
    """`async with GeminiRig(home, binaries) as rig`: `binaries` is the directory that has the preset's program;
    `command` is started in its place."""

    preset: ClassVar[str]
    api: ClassVar[type[ModelApi]]
    tools: ClassVar[ToolCalls] = {}

    def __init__(self, home: Path, binaries: Path, command: Sequence[str] = ()) -> None:
        self._home = home
        self._binaries = binaries
        super().__init__(ScriptedModel(self.api, dialect=self.dialect))
        program = str(binaries / PRESETS[self.preset].command[0])
        self.driver = acp.create(self.preset, {"preset": self.preset, "command": command or [program]})
        self.options: Mapping[str, Any] = {}

    async def __aenter__(self) -> Self:
        await self.model.__aenter__()
        env = self.environment()
        for name, content in self.files().items():
            file = self._home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else msgspec.json.encode(content))
        self.options = {"env": env, **({"model": self.model_name} if self.model_name else {})}
        return self

    def dialect(self, step: AnyStep) -> ToolCall:
        """How its tools are called."""
        if type(step) not in self.tools:
            raise ValueError(f"{self.preset} has no tool for {step!r}")
        return self.tools[type(step)](step)

    def variables(self) -> Mapping[str, str]:
        """What leads it to the model, of its environment."""
        return {}

    def files(self) -> Mapping[str, Any]:
        """What leads it to the model, of files under HOME: their text, or what is written as JSON."""
        return {}

    def environment(self) -> dict[str, str]:
        beside = self._binaries / "node"  # one that was installed with the agent, because it needs it
        node = beside if beside.exists() else Path(shutil.which("node") or "/usr/bin/node")
        return scratch_env(self._home, path=f"{node.parent}:/usr/bin:/bin", **self.variables())
