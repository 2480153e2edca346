"""The real OpenHands over ACP, with a scripted model behind it."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ...script import Outline, Run, Write
from ..acp_rig import AcpRig, ToolCalls
from ..model_apis.chat import Chat
from ..tool_calls import progress
from .copilot import NOWHERE

MODEL = "gpt-4o"
"""One of which OpenHands knows that it takes pictures."""
TOOLS = ("terminal", "file_editor", "task_tracker", "task_tool_set")
RISK = {"security_risk": "LOW"}
"""What its model must say of each call."""
STATES = {"completed": "done", "pending": "todo"}


class OpenHandsRig(AcpRig):
    preset = "openhands"
    api = Chat
    limits = frozenset(
        {
            "question",  # it has no tool for it
            "propose",  # nor for plans
            "fetch",  # nor one that fetches
            "usable_when_interrupted",  # it stops when its model has answered, which may take longer than we wait
            "usage_whole",  # it tells no tokens
            "usage_of_broken_call",
        }
    )

    tools: ClassVar[ToolCalls] = {
        Write: lambda step: (
            "file_editor",
            {"command": "create", "path": step.path, "file_text": step.content, **RISK},
        ),
        Run: lambda step: ("terminal", {"command": step.command, **RISK}),
        Outline: lambda step: (
            "task_tracker",
            {
                "command": "plan",
                "task_list": [
                    {"title": text, "notes": "", "status": STATES.get(state, state)} for text, state in progress(step)
                ],
                **RISK,
            },
        ),
    }

    def variables(self) -> Mapping[str, str]:
        return {"HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1"}

    def files(self) -> Mapping[str, Any]:
        llm = {"model": f"openai/{MODEL}", "api_key": "dummy", "base_url": f"{self.model.url}/v1", "usage_id": "agent"}
        agent = {
            "kind": "Agent",
            "llm": llm,
            "tools": [{"name": name} for name in TOOLS],
            "system_prompt_kwargs": {"cli_mode": True},
        }
        return {".openhands/agent_settings.json": agent}
