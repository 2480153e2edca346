"""Claude Code over the scripted model: the real program, a temporary HOME, and Anthropic's wire format on loopback."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ...drivers.acp_recipes import CLAUDE
from ...drivers.claude_code.driver import ClaudeCode
from ...drivers.claude_code.launch import ClaudeCodeOptions
from ...script import Reply
from .. import recipes
from ..model_apis.anthropic import AnthropicVoice
from ..model_rig import ModelRig
from ..model_server import ScriptedModel
from ..rig import scratch_env

SETTINGS = CLAUDE.files[".claude/settings.json"]


class ClaudeCodeRig(ModelRig):
    """`async with ClaudeCodeRig(home) as rig`."""

    limits: frozenset[str] = frozenset()

    def __init__(self, home: Path, options: ClaudeCodeOptions | None = None, **env: str) -> None:
        self.home = home
        self.driver = ClaudeCode(options)
        super().__init__(ScriptedModel(AnthropicVoice, dialect=partial(recipes.tool_call, CLAUDE.tools)))
        self.options: Mapping[str, Any] = {}
        self._env = env

    async def __aenter__(self) -> "ClaudeCodeRig":
        await self.model.__aenter__()
        own = recipes.variables(CLAUDE, url=self.model.url, home=self.home)
        env = scratch_env(self.home, path="/usr/bin:/bin", **{**own, **self._env})
        self.options = {"env": env}
        self.settings(**SETTINGS)
        return self

    def settings(self, **settings: Any) -> None:
        """The user's own settings, as they would stand in the user's home."""
        path = self.home / ".claude" / "settings.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode({**SETTINGS, **settings}))

    def play(self, *replies: Reply) -> None:
        super().play(*recipes.with_tools_before(CLAUDE.tools, replies))
