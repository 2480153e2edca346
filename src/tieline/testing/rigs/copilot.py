"""The real GitHub Copilot CLI over ACP, with a scripted model behind it. It needs no account for that."""

from collections.abc import Mapping
from typing import ClassVar

from ...script import Get, Run, Write
from ..acp_rig import AcpRig, ToolCalls
from ..model_apis.chat import Chat

NOWHERE = "http://127.0.0.1:9"
"""A proxy that is none: what it would do in the network by itself fails at once."""


class CopilotRig(AcpRig):
    """Not in its offline mode, in which it has no tool that fetches; but it reaches loopback alone."""

    preset = "copilot"
    api = Chat
    model_name = "scripted"
    limits = frozenset(
        {
            "question",  # it offers no tool for it over ACP
            "propose",  # nor for this
            "plan",  # nor for a list of steps
            "goes_on_when_denied",  # a denied call ends its turn
        }
    )

    tools: ClassVar[ToolCalls] = {
        Write: lambda step: ("create", {"path": step.path, "file_text": step.content}),
        Run: lambda step: ("bash", {"command": step.command, "description": "Scripted", "mode": "sync"}),
        Get: lambda step: ("web_fetch", {"url": step.url}),
    }

    def variables(self) -> Mapping[str, str]:
        # It unpacks itself, 200 MB, into each new HOME, unless that was done beside its package.
        unpacked = self._binaries.parent / ".cache/copilot"
        return {
            **({"COPILOT_PKG_CACHE_HOME": str(unpacked)} if unpacked.is_dir() else {}),
            "COPILOT_PROVIDER_BASE_URL": f"{self.model.url}/v1",
            "COPILOT_PROVIDER_API_KEY": "a-dummy-of-this-length",  # it takes a short one out of all that it says
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_WEB_FETCH_ALLOW_LOCALHOST": "1",
            "HTTP_PROXY": NOWHERE,
            "HTTPS_PROXY": NOWHERE,
            "NO_PROXY": "127.0.0.1",
        }
