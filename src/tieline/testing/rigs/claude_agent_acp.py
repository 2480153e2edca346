"""Claude Code over ACP by claude-agent-acp, with a scripted model behind it."""

from collections.abc import Mapping
from typing import Any

from ...script import AnyStep, Reply
from ..acp_rig import AcpRig, ToolCall
from ..model_apis.anthropic import AnthropicVoice
from .claude_code import AGENT_ENV, SETTINGS, dialect, in_plan_mode


class ClaudeAgentAcpRig(AcpRig):
    preset = "claude-agent-acp"
    api = AnthropicVoice
    another_model = "haiku"
    limits = frozenset({"usage_of_broken_call"})

    def dialect(self, step: AnyStep) -> ToolCall:
        return dialect(step)

    def variables(self) -> Mapping[str, str]:
        # With its search for tools, the model is offered a part of them only.
        return {**AGENT_ENV, "ANTHROPIC_BASE_URL": self.model.url, "ENABLE_TOOL_SEARCH": "false"}

    def files(self) -> Mapping[str, Any]:
        return {".claude/settings.json": SETTINGS}

    def play(self, *replies: Reply) -> None:
        super().play(*in_plan_mode(replies))
