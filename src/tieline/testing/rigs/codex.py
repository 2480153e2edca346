"""Codex over the scripted model, in a home of its own."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ...drivers.acp_recipes import CODEX
from ...drivers.codex.driver import Codex
from ...drivers.codex.thread_params import CodexOptions
from .. import recipes
from ..model_apis.responses import Responses
from ..model_rig import ModelRig
from ..model_server import ScriptedModel
from ..rig import scratch_env

MODEL = "gpt-5.5"
"""The one that its recipe chooses."""


class CodexRig(ModelRig):
    another_model = CODEX.another_model
    limits = recipes.limits(CODEX)

    def __init__(self, model: ScriptedModel, driver: Codex, env: Mapping[str, str]) -> None:
        super().__init__(model)
        self.driver = driver
        self.env = env
        self.options: Mapping[str, Any] = {"env": env}


@asynccontextmanager
async def codex_rig(home: Path, executable: Path, **options: Any) -> AsyncGenerator[CodexRig, None]:
    """`executable` is the `codex` to test; `options` are the driver's."""
    async with ScriptedModel(Responses, dialect=partial(recipes.tool_call, CODEX.tools)) as model:
        own = recipes.variables(CODEX, url=model.url, home=home)
        env = scratch_env(home, path=f"{executable.parent}:/usr/bin:/bin", **own)
        recipes.write_files(CODEX, url=model.url, home=home)
        yield CodexRig(model, Codex(CodexOptions(command=(str(executable),), **options)), env)
