"""The real Mistral Vibe over ACP, with a scripted model behind it."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ...script import Get, Inquire, Outline, Run, Write
from ..acp_rig import AcpRig, ToolCalls
from ..model_apis.chat import Chat
from ..tool_calls import progress, question

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

[[models]]
name = "another"
provider = "scripted"
alias = "another"
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

    tools: ClassVar[ToolCalls] = {
        Write: lambda step: ("write_file", {"path": step.path, "content": step.content}),
        Run: lambda step: ("bash", {"command": step.command}),
        Get: lambda step: ("web_fetch", {"url": step.url}),
        Inquire: lambda step: ("ask_user_question", {"questions": [question(step)]}),
        Outline: lambda step: (
            "todo",
            {
                "action": "write",
                "todos": [
                    {"id": str(number), "content": text, "status": state}
                    for number, (text, state) in enumerate(progress(step))
                ],
            },
        ),
    }

    def variables(self) -> Mapping[str, str]:
        return {"SCRIPTED_API_KEY": "dummy"}

    def files(self) -> Mapping[str, Any]:
        return {".vibe/config.toml": CONFIG.format(url=self.model.url)}
