"""The real Mistral Vibe over ACP, with a scripted model behind it."""

from collections.abc import Mapping
from typing import Any

from ...script import AnyStep, Get, Inquire, Outline, Run, Write
from ..acp_rig import AcpRig
from ..model_apis.chat import Chat

CONFIG = """
active_model = "scripted"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false
enable_connectors = false

[[providers]]
name = "scripted"
api_base = "{url}/v1"
api_key_env_var = "SCRIPTED_API_KEY"

[[models]]
name = "scripted"
provider = "scripted"
alias = "scripted"
supports_images = true
"""


class VibeRig(AcpRig):
    preset = "vibe"
    api = Chat
    limits = frozenset(
        {
            "fetch",  # it has no such tool without Mistral's own services
            "propose",  # nor one for plans
            "usage_whole",  # it does not count the model calls that are answered with a program
            "usage_of_broken_call",
        }
    )

    def variables(self) -> Mapping[str, str]:
        return {"SCRIPTED_API_KEY": "dummy"}

    def files(self) -> Mapping[str, Any]:
        return {".vibe/config.toml": CONFIG.format(url=self.model.url)}

    @staticmethod
    def dialect(step: AnyStep) -> tuple[str, Mapping[str, Any]]:
        match step:
            case Write(path, content):
                return "write_file", {"path": path, "content": content}
            case Run(command):
                return "bash", {"command": command}
            case Get(url):
                return "web_fetch", {"url": url}
            case Inquire(text, choices, header):
                options = [{"label": label, "description": label} for label in choices]
                return "ask_user_question", {"questions": [{"question": text, "header": header, "options": options}]}
            case Outline(steps, done):
                todos = [
                    {"id": str(number), "content": text, "status": "completed" if number < done else "pending"}
                    for number, text in enumerate(steps)
                ]
                return "todo", {"action": "write", "todos": todos}
            case _:
                raise ValueError(f"Vibe has no tool for {step!r}")
