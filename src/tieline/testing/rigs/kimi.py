"""The real Kimi Code over ACP, with a scripted model behind it."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ...script import Get, Inquire, Outline, Run, Write
from ..acp_rig import AcpRig, ToolCalls
from ..model_apis.chat import Chat
from ..tool_calls import progress, question

CONFIG = """
default_model = "scripted"
auto_session_title = false
telemetry = false

[providers.scripted]
type = "openai"
base_url = "{url}/v1"
api_key = "dummy"

[models.scripted]
provider = "scripted"
model = "scripted"
max_context_size = 200000
capabilities = ["image_in", "tool_use"]

[models.another]
provider = "scripted"
model = "another"
max_context_size = 200000
capabilities = ["image_in", "tool_use"]
"""


class KimiRig(AcpRig):
    preset = "kimi"
    api = Chat
    limits = frozenset(
        {
            "fetch",  # it fetches nothing from the machine that it runs on
            "propose",  # a plan must be a file that it names itself
            "usage_whole",  # it tells no tokens
            "usage_of_broken_call",
        }
    )
    tools: ClassVar[ToolCalls] = {
        Write: lambda step: ("Write", {"path": step.path, "content": step.content}),
        Run: lambda step: ("Bash", {"command": step.command}),
        Get: lambda step: ("FetchURL", {"url": step.url}),
        Inquire: lambda step: ("AskUserQuestion", {"questions": [question(step)]}),
        Outline: lambda step: (
            "TodoList",
            {
                "todos": [
                    {"title": text, "status": state.replace("completed", "done")} for text, state in progress(step)
                ]
            },
        ),
    }

    def variables(self) -> Mapping[str, str]:
        return {"KIMI_CODE_NO_AUTO_UPDATE": "1", "KIMI_DISABLE_TELEMETRY": "1"}

    def files(self) -> Mapping[str, Any]:
        return {".kimi-code/config.toml": CONFIG.format(url=self.model.url)}
