"""The real agents over ACP, each set up by the recipe of its preset."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..acp_rig import AcpRig
from .opencode import LendingRig, lent_models


class AuggieRig(AcpRig):
    preset = "auggie"


class ClaudeAgentAcpRig(AcpRig):
    preset = "claude-agent-acp"


class CodexAcpRig(AcpRig):
    preset = "codex-acp"


class CopilotRig(AcpRig):
    preset = "copilot"


class DroidRig(AcpRig):
    preset = "droid"


class GeminiRig(AcpRig):
    preset = "gemini"


class KimiRig(AcpRig):
    preset = "kimi"


class OpenHandsRig(AcpRig):
    preset = "openhands"


class QwenRig(AcpRig):
    preset = "qwen"


class VibeRig(AcpRig):
    preset = "vibe"


class OpencodeAcpRig(AcpRig, LendingRig):
    preset = "opencode-acp"

    def __init__(self, home: Path, binaries: Path, *rest: Any) -> None:
        super().__init__(home, binaries, *rest)
        name = ".config/opencode/opencode.json"
        config = self.recipe.files[name]
        scripted = config["provider"]["scripted"]
        lent = dict.fromkeys(lent_models(), scripted["models"]["model"])
        provider = {"scripted": {**scripted, "models": {**scripted["models"], **lent}}}
        self.recipe = replace(self.recipe, files={**self.recipe.files, name: {**config, "provider": provider}})
