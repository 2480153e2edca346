"""The real Gemini CLI over ACP, with a scripted model behind it."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ...script import Get, Outline, Run, Write
from ..acp_rig import AcpRig, ToolCalls
from ..model_apis.gemini import PUBLIC_HOST, GeminiApi
from ..tool_calls import progress

MODEL = "gemini-2.5-flash"
"""A fixed one: the default first asks a classifier."""


class GeminiRig(AcpRig):
    preset = "gemini"
    api = GeminiApi
    model_name = MODEL
    another_model = "gemini-2.5-pro"
    limits = frozenset(
        {
            "question",  # its question tool is switched off over ACP
            "plan",  # its to-do list is not told over ACP
            "resumed_twice",  # it does not find a conversation again that was resumed and then broken off
            "propose",  # a plan must be a file in a directory of its own making
        }
    )

    tools: ClassVar[ToolCalls] = {
        Write: lambda step: ("write_file", {"file_path": step.path, "content": step.content}),
        Run: lambda step: ("run_shell_command", {"command": step.command, "description": "Scripted"}),
        Get: lambda step: (
            "web_fetch",
            {"prompt": f"Read {step.url.replace('127.0.0.1', PUBLIC_HOST)} and say what is there"},
        ),
        Outline: lambda step: (
            "write_todos",
            {"todos": [{"description": text, "status": state} for text, state in progress(step)]},
        ),
    }

    def variables(self) -> Mapping[str, str]:
        return {"GOOGLE_GEMINI_BASE_URL": self.model.url, "GEMINI_API_KEY": "dummy"}

    def files(self) -> Mapping[str, Any]:
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
        }
        return {".gemini/settings.json": settings}
