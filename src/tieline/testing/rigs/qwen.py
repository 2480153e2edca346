"""The real Qwen Code over ACP, with a scripted model behind it."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...drivers.acp import driver as acp
from ...script import AnyStep, Get, Inquire, Run, Write
from ..model_apis.chat import Chat
from ..model_rig import ModelRig
from ..model_server import ScriptedModel
from ..rig import scratch_env

MODEL = "scripted"


class QwenRig(ModelRig):
    """`async with QwenRig(home, binaries)`: `binaries` is the directory that has the program `qwen`; `command` is
    started in its place."""

    limits = frozenset(
        {
            "propose",  # a plan must be begun in a mode of its own
            "plan",  # its to-do list is switched off by default
        }
    )

    def __init__(self, home: Path, binaries: Path, command: Sequence[str] = ()) -> None:
        self._home = home
        super().__init__(ScriptedModel(Chat, dialect=dialect))
        self.driver = acp.create("qwen", {"preset": "qwen", "command": command or [str(binaries / "qwen")]})
        self.options: Mapping[str, Any] = {}

    async def __aenter__(self) -> "QwenRig":
        await self.model.__aenter__()
        node = Path(shutil.which("node") or "/usr/bin/node").parent
        env = scratch_env(
            self._home,
            path=f"{node}:/usr/bin:/bin",
            OPENAI_BASE_URL=f"{self.model.url}/v1",
            OPENAI_API_KEY="dummy",
            OPENAI_MODEL=MODEL,
        )
        settings = {
            "security": {"auth": {"selectedType": "openai"}},
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            "ui": {"enableFollowupSuggestions": False},  # this and the memory would ask the model on their own
            "memory": {"enableManagedAutoMemory": False},
        }
        file = self._home / ".qwen" / "settings.json"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(msgspec.json.encode(settings))
        self.options = {"env": env, "model": MODEL}
        return self


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
