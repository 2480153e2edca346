"""OpenCode over the scripted model: the real program, a configuration from scratch, a chat-completions voice."""

import itertools
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ...drivers.acp_recipes import OPENCODE_ACP, ToolRecipe, ToolStep, asking
from ...drivers.base import Driver
from ...drivers.opencode.driver import create
from .. import recipes
from ..model_apis.chat import Chat
from ..model_rig import ModelRig
from ..model_server import ScriptedModel
from ..rig import scratch_env

MODEL = "scripted/scripted"
PATCHING = "scripted/gpt-scripted"
"""The same one by a name that OpenCode gives its patch tool to, in place of those that edit and write."""
BORROWED, MODELS = "borrowed", 64
TOOLS: Mapping[ToolStep, ToolRecipe] = {**OPENCODE_ACP.tools, "inquire": asking("question")}


class LendingRig(ModelRig):
    """A rig of OpenCode whose agent many tests share, each with a model that is asked by no other test."""

    another_model = PATCHING
    server_tool = "{server}_{tool}"
    driver: Driver
    options: Mapping[str, Any]

    def __init__(self, model: ScriptedModel) -> None:
        super().__init__(model)
        self._borrowed = itertools.count()

    def borrow(self) -> "BorrowedRig":
        """For one test: the same driver, and its own model."""
        name = f"{BORROWED}-{next(self._borrowed) % MODELS}"
        return BorrowedRig(self, self.model.named(name), f"scripted/{name}")


class BorrowedRig(ModelRig):
    """See `LendingRig.borrow`."""

    def __init__(self, owner: LendingRig, model: ScriptedModel, name: str) -> None:
        super().__init__(model)
        self.another_model = owner.another_model
        self.server_tool = owner.server_tool
        self.limits = owner.limits
        self.driver = owner.driver
        self.options: Mapping[str, Any] = {**owner.options, "model": name}


class OpenCodeRig(LendingRig):
    """`async with OpenCodeRig(home, program) as rig`. `config` goes over the rig's own opencode.json."""

    limits = frozenset({"propose"})  # its plan approval is an experiment that is not offered to models

    def __init__(
        self,
        home: Path,
        program: str,
        *,
        options: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._home = home
        self._config = config or {}
        super().__init__(ScriptedModel(Chat, dialect=partial(recipes.tool_call, TOOLS)))
        self.driver = create("opencode", {"command": [program], **(options or {})})
        self.env = {**offline_env(home), **(env or {})}
        self.options = {"env": self.env}

    async def __aenter__(self) -> "OpenCodeRig":
        await self.model.__aenter__()
        folder = self._home / ".config" / "opencode"
        folder.mkdir(parents=True, exist_ok=True)
        config = {**configuration(self.model.url), **self._config}
        (folder / "opencode.json").write_bytes(msgspec.json.encode(config))
        return self


def lent_models() -> list[str]:
    return [f"{BORROWED}-{number}" for number in range(MODELS)]


def offline_env(home: Path) -> dict[str, str]:
    """An environment from scratch in which OpenCode fetches nothing and knows no providers but the configured ones."""
    env = scratch_env(home, path="/usr/bin:/bin", **recipes.variables(OPENCODE_ACP, url="", home=home))
    (home / "models.json").write_text("{}")
    return env


def configuration(url: str) -> dict[str, Any]:
    """An opencode.json whose only provider is the scripted model."""
    model = {
        "name": "Scripted",
        "tool_call": True,
        "reasoning": True,
        "attachment": True,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "cost": {"input": 1, "output": 2},
        "limit": {"context": 8_000_000, "output": 64_000},
        "variants": {"high": {"reasoningEffort": "high"}},
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": "dummy"},
        "models": dict.fromkeys(("scripted", "gpt-scripted", *lent_models()), model),
    }
    return {
        "provider": {"scripted": provider},
        "model": MODEL,
        "small_model": MODEL,
        "autoupdate": False,
        "share": "disabled",
    }
