"""The real GitHub Copilot CLI over ACP, with a scripted model behind it. It needs no account for that."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...drivers.acp import driver as acp
from ...script import AnyStep, Run, Write
from ..model_apis.chat import Chat
from ..model_rig import ModelRig
from ..model_server import ScriptedModel
from ..rig import scratch_env


class CopilotRig(ModelRig):
    """`async with CopilotRig(home, binaries)`: `binaries` is the directory that has the program `copilot`; `command` is
    started in its place."""

    limits = frozenset(
        {
            "question",  # it offers no tool for it over ACP
            "propose",  # nor for this
            "plan",  # nor for a list of steps
        }
    )

    def __init__(self, home: Path, binaries: Path, command: Sequence[str] = ()) -> None:
        self._home = home
        super().__init__(ScriptedModel(Chat, dialect=dialect))
        self.driver = acp.create("copilot", {"preset": "copilot", "command": command or [str(binaries / "copilot")]})
        self.options: Mapping[str, Any] = {}

    async def __aenter__(self) -> "CopilotRig":
        await self.model.__aenter__()
        node = Path(shutil.which("node") or "/usr/bin/node").parent
        env = scratch_env(
            self._home,
            path=f"{node}:/usr/bin:/bin",
            COPILOT_PROVIDER_BASE_URL=f"{self.model.url}/v1",
            COPILOT_PROVIDER_API_KEY="a-dummy-of-this-length",  # it takes a short one out of all that it says
            COPILOT_MODEL="scripted",
            COPILOT_OFFLINE="true",
            COPILOT_AUTO_UPDATE="false",
        )
        self.options = {"env": env}
        return self


def dialect(step: AnyStep) -> tuple[str, Mapping[str, Any]]:
    match step:
        case Write(path, content):
            return "create", {"path": path, "file_text": content}
        case Run(command):
            return "bash", {"command": command, "description": "Scripted", "mode": "sync"}
        case _:
            raise ValueError(f"Copilot has no tool for {step!r}")
