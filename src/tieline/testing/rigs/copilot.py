"""The real GitHub Copilot CLI over ACP, with a scripted model behind it. It needs no account for that."""

from collections.abc import Mapping
from typing import Any

from ...script import AnyStep, Run, Write
from ..acp_rig import AcpRig
from ..model_apis.chat import Chat


class CopilotRig(AcpRig):
    preset = "copilot"
    api = Chat
    limits = frozenset(
        {
            "question",  # it offers no tool for it over ACP
            "propose",  # nor for this
            "plan",  # nor for a list of steps
            "goes_on_when_denied",  # a denied call ends its turn
        }
    )

    def variables(self) -> Mapping[str, str]:
        return {
            "COPILOT_PROVIDER_BASE_URL": f"{self.model.url}/v1",
            "COPILOT_PROVIDER_API_KEY": "a-dummy-of-this-length",  # it takes a short one out of all that it says
            "COPILOT_MODEL": "scripted",
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
        }

    @staticmethod
    def dialect(step: AnyStep) -> tuple[str, Mapping[str, Any]]:
        match step:
            case Write(path, content):
                return "create", {"path": path, "file_text": content}
            case Run(command):
                return "bash", {"command": command, "description": "Scripted", "mode": "sync"}
            case _:
                raise ValueError(f"Copilot has no tool for {step!r}")
