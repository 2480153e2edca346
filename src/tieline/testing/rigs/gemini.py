"""The real Gemini CLI over ACP, with a scripted model behind it."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...drivers.acp import driver as acp
from ...script import AnyStep, Get, Outline, Run, Write
from ..model_apis.gemini import PUBLIC_HOST, GeminiApi
from ..model_rig import ModelRig
from ..model_server import ScriptedModel
from ..rig import scratch_env

MODEL = "gemini-2.5-flash"
"""A fixed one: the default first asks a classifier."""


class GeminiRig(ModelRig):
    """`async with GeminiRig(home, binaries)`: `binaries` is the directory that has the program `gemini`; `command` is
    started in its place."""

    limits = frozenset(
        {
            "question",  # its question tool is switched off over ACP
            "plan",  # its to-do list is not told over ACP
            "resumed_twice",  # it does not find a conversation again that was resumed and then broken off
            "propose",  # a plan must be a file in a directory of its own making
        }
    )

    def __init__(self, home: Path, binaries: Path, command: Sequence[str] = ()) -> None:
        self._home = home
        super().__init__(ScriptedModel(GeminiApi, dialect=dialect))
        self.driver = acp.create("gemini", {"preset": "gemini", "command": command or [str(binaries / "gemini")]})
        self.options: Mapping[str, Any] = {}

    async def __aenter__(self) -> "GeminiRig":
        await self.model.__aenter__()
        node = Path(shutil.which("node") or "/usr/bin/node").parent
        env = scratch_env(
            self._home,
            path=f"{node}:/usr/bin:/bin",
            GOOGLE_GEMINI_BASE_URL=self.model.url,
            GEMINI_API_KEY="dummy",
        )
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
        }
        file = self._home / ".gemini" / "settings.json"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(msgspec.json.encode(settings))
        self.options = {"env": env, "model": MODEL}
        return self


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
