"""Claude Code over the scripted model: the real program, a temporary HOME, and Anthropic's wire format on loopback."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ...drivers.claude_code.driver import ClaudeCode
from ...drivers.claude_code.launch import ClaudeCodeOptions
from ...script import AnyStep, Call, Get, Inquire, Outline, Propose, Reply, Run, Write
from ..model_apis.anthropic import AnthropicVoice
from ..model_rig import ModelRig
from ..model_server import ScriptedModel
from ..rig import scratch_env
from ..tool_calls import progress, question

SETTINGS = {"skipWebFetchPreflight": True}
"""Without it WebFetch first asks the vendor whether it may visit a host."""
AGENT_ENV = {
    "ANTHROPIC_API_KEY": "dummy",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    # The newest models are given no to-do tools by default, and the older single one can be scripted in one call.
    "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1",
    "CLAUDE_CODE_ENABLE_TASKS": "0",
    # A server that never answers holds the first turn back for this long.
    "MCP_TIMEOUT": "2000",
}


class ClaudeCodeRig(ModelRig):
    """`async with ClaudeCodeRig(home) as rig`."""

    limits: frozenset[str] = frozenset()

    def __init__(self, home: Path, options: ClaudeCodeOptions | None = None, **env: str) -> None:
        self.home = home
        self.driver = ClaudeCode(options)
        super().__init__(ScriptedModel(AnthropicVoice, dialect=dialect))
        self.options: Mapping[str, Any] = {}
        self._env = {**AGENT_ENV, **env}

    async def __aenter__(self) -> "ClaudeCodeRig":
        await self.model.__aenter__()
        env = scratch_env(self.home, path="/usr/bin:/bin", ANTHROPIC_BASE_URL=self.model.url, **self._env)
        self.options = {"env": env}
        self.settings(**SETTINGS)
        return self

    def settings(self, **settings: Any) -> None:
        """The user's own settings, as they would stand in the user's home."""
        path = self.home / ".claude" / "settings.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode({**SETTINGS, **settings}))

    def play(self, *replies: Reply) -> None:
        super().play(*in_plan_mode(replies))


def in_plan_mode(replies: Iterable[Reply]) -> Iterator[Reply]:
    """Outside plan mode there is no plan to approve."""
    for reply in replies:
        if any(isinstance(step, Propose) for step in reply):
            yield [Call("EnterPlanMode")]
        yield reply


def dialect(step: AnyStep) -> tuple[str, Mapping[str, Any]]:
    """How Claude Code's tools are called."""
    match step:
        case Write(path, content):
            return "Write", {"file_path": path, "content": content}
        case Run(command):
            return "Bash", {"command": command, "description": "Run a command"}
        case Get(url):
            return "WebFetch", {"url": url, "prompt": "What does it say?"}
        case Inquire():
            return "AskUserQuestion", {"questions": [question(step, multiSelect=False)]}
        case Outline():
            todos = [{"content": text, "status": state, "activeForm": text} for text, state in progress(step)]
            return "TodoWrite", {"todos": todos}
        case Propose(plan):
            return "ExitPlanMode", {"plan": plan}
        case _:
            raise ValueError(f"Claude Code has no tool for {step!r}")
