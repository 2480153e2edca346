"""What the rigs of ACP agents share: a preset's real program, a HOME from scratch, a scripted model behind it."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from ..drivers.acp import driver as acp
from ..drivers.acp_presets import PRESETS
from ..drivers.acp_recipes import Recipe
from ..script import AnyStep, Reply
from . import recipes
from .model_rig import ModelRig
from .model_server import ModelApi, ScriptedModel
from .rig import scratch_env


class AcpRig(ModelRig):
    """`async with GeminiRig(home, binaries) as rig`: `binaries` is the directory that has the preset's program;
    `command` is started in its place. How it is set up says the recipe of the preset, or `recipe`."""

    preset: ClassVar[str] = ""
    api: ClassVar[type[ModelApi] | None] = None
    """In place of the recipe's."""

    def __init__(
        self, home: Path, binaries: Path, command: Sequence[str] = (), *, recipe: Recipe | None = None
    ) -> None:
        recipe = recipe or PRESETS[self.preset].recipe
        if recipe is None:
            raise ValueError(f"{self.preset} has no recipe")
        self.recipe = recipe
        self.model_name = recipe.model
        self.another_model = recipe.another_model
        self.limits = recipes.limits(recipe)
        self._home = home
        self._binaries = binaries
        super().__init__(ScriptedModel(self.api or recipes.APIS[recipe.api], dialect=self.dialect))
        command = command or [str(binaries / PRESETS[self.preset].command[0])]
        self.driver = acp.create(self.preset, {"preset": self.preset, "command": command})
        self.options: Mapping[str, Any] = {}

    async def __aenter__(self) -> Self:
        await self.model.__aenter__()
        beside = self._binaries / "node"  # one that was installed with the agent, because it needs it
        node = beside if beside.exists() else Path(shutil.which("node") or "/usr/bin/node")
        more = recipes.variables(self.recipe, url=self.model.url, home=self._home, beside=self._binaries)
        env = scratch_env(self._home, path=f"{node.parent}:/usr/bin:/bin", **more)
        recipes.write_files(self.recipe, url=self.model.url, home=self._home)
        self.options = {"env": env, **({"model": self.model_name} if self.model_name else {})}
        return self

    def dialect(self, step: AnyStep) -> tuple[str, Mapping[str, Any]]:
        """How its tools are called."""
        return recipes.tool_call(self.recipe.tools, step)

    def play(self, *replies: Reply) -> None:
        super().play(*recipes.with_tools_before(self.recipe.tools, replies))
