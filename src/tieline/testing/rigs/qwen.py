"""The real Qwen Code over ACP, with a scripted model behind it."""

from collections.abc import Mapping
from typing import Any

from ...script import AnyStep, Get, Inquire, Run, Write
from ..acp_rig import AcpRig
from ..model_apis.chat import Chat

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

    @staticmethod
    def dialect(step: AnyStep) -> tuple[str, Mapping[str, Any]]:
        match step:
            case Write(path, content):
                return "write_file", {"file_path": path, "content": content}
            case Run(command):
                return "run_shell_command", {"command": command, "description": "Scripted", "is_background": False}
            case Get(url):
                return "web_fetch", {"url": url, "prompt": "Say what is there"}
            case Inquire(text, choices, header):
                options = [{"label": label, "description": label} for label in choices]
                question = {"question": text, "header": header, "options": options, "multiSelect": False}
                return "ask_user_question", {"questions": [question]}
            case _:
                raise ValueError(f"Qwen has no tool for {step!r}")
