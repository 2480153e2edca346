"""The real Gemini CLI over ACP, with a scripted model behind it."""

from collections.abc import Mapping
from typing import Any

from ...script import AnyStep, Get, Outline, Run, Write
from ..acp_rig import AcpRig
from ..model_apis.gemini import PUBLIC_HOST, GeminiApi

MODEL = "gemini-2.5-flash"
"""A fixed one: the default first asks a classifier."""


class GeminiRig(AcpRig):
    preset = "gemini"
    api = GeminiApi
    model_name = MODEL
    limits = frozenset(
        {
            "question",  # its question tool is switched off over ACP
            "plan",  # its to-do list is not told over ACP
            "resumed_twice",  # it does not find a conversation again that was resumed and then broken off
            "propose",  # a plan must be a file in a directory of its own making
        }
    )

    def variables(self) -> Mapping[str, str]:
        return {"GOOGLE_GEMINI_BASE_URL": self.model.url, "GEMINI_API_KEY": "dummy"}

    def files(self) -> Mapping[str, Any]:
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
        }
        return {".gemini/settings.json": settings}

    @staticmethod
    def dialect(step: AnyStep) -> tuple[str, Mapping[str, Any]]:
        match step:
            case Write(path, content):
                return "write_file", {"file_path": path, "content": content}
            case Run(command):
                return "run_shell_command", {"command": command, "description": "Scripted"}
            case Get(url):
                return "web_fetch", {"prompt": f"Read {url.replace('127.0.0.1', PUBLIC_HOST)} and say what is there"}
            case Outline(steps, done):
                progress = ["completed"] * done + ["in_progress"] + ["pending"] * len(steps)
                todos = [{"description": text, "status": state} for text, state in zip(steps, progress, strict=False)]
                return "write_todos", {"todos": todos}
            case _:
                raise ValueError(f"Gemini has no tool for {step!r}")
