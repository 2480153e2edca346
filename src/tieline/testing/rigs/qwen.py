"""The real Qwen Code over ACP, with a scripted model behind it."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ...script import Get, Inquire, Run, Write
from ..acp_rig import AcpRig, ToolCalls
from ..model_apis.chat import Chat
from ..tool_calls import question

MODEL = "gpt-scripted"
"""By a name that Qwen gives pictures to."""


class QwenRig(AcpRig):
    preset = "qwen"
    api = Chat
    model_name = MODEL
    limits = frozenset(
        {
            "propose",  # a plan must be begun in a mode of its own
            "plan",  # its to-do list is switched off by default
            "goes_on_when_denied",  # a denied call ends its turn
        }
    )

    tools: ClassVar[ToolCalls] = {
        Write: lambda step: ("write_file", {"file_path": step.path, "content": step.content}),
        Run: lambda step: (
            "run_shell_command",
            {"command": step.command, "description": "Scripted", "is_background": False},
        ),
        Get: lambda step: ("web_fetch", {"url": step.url, "prompt": "Say what is there"}),
        Inquire: lambda step: ("ask_user_question", {"questions": [question(step, multiSelect=False)]}),
    }

    def variables(self) -> Mapping[str, str]:
        return {"OPENAI_BASE_URL": f"{self.model.url}/v1", "OPENAI_API_KEY": "dummy", "OPENAI_MODEL": MODEL}

    def files(self) -> Mapping[str, Any]:
        settings = {
            "security": {"auth": {"selectedType": "openai"}},
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            "ui": {"enableFollowupSuggestions": False},  # this and the memory would ask the model on their own
            "memory": {"enableManagedAutoMemory": False},
        }
        return {".qwen/settings.json": settings}
