"""The real Pi over its RPC mode, with a scripted model behind it."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ...drivers.pi.driver import Pi
from ...drivers.pi.launch import PiOptions
from ...script import AnyStep, Run, Write
from ..model_apis.chat import Chat
from ..model_rig import ModelRig
from ..model_server import ScriptedModel
from ..rig import scratch_env

MODEL = "scripted/scripted"


class PiRig(ModelRig):
    """`async with PiRig(home, program, node)`: `node` is the directory that has the Node.js to run it."""

    another_model = "scripted/another"
    limits = frozenset(
        {
            "question",  # it has no tool for it
            "propose",  # nor for this
            "plan",  # nor for a list of steps
            "fetch",  # nor one that fetches
        }
    )

    def __init__(self, home: Path, program: Path, node: Path | None = None) -> None:
        self._home = home
        self._node = node or Path(shutil.which("node") or "/usr/bin/node").parent
        super().__init__(ScriptedModel(Chat, dialect=dialect))
        self.driver = Pi(PiOptions(command=(str(program),)))
        self.options: Mapping[str, Any] = {}

    async def __aenter__(self) -> "PiRig":
        await self.model.__aenter__()
        env = scratch_env(self._home, path=f"{self._node}:/usr/bin:/bin", PI_OFFLINE="1", PI_TELEMETRY="0")
        model = {
            "id": "scripted",
            "reasoning": True,
            "input": ["text", "image"],
            "contextWindow": 8_000_000,
            "maxTokens": 64_000,
        }
        provider = {
            "baseUrl": f"{self.model.url}/v1",
            "api": "openai-completions",
            "apiKey": "dummy",
            "models": [model, {**model, "id": "another"}],
        }
        folder = self._home / ".pi/agent"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "models.json").write_bytes(msgspec.json.encode({"providers": {"scripted": provider}}))
        self.options = {"env": env, "model": MODEL}
        return self


def dialect(step: AnyStep) -> tuple[str, Mapping[str, Any]]:
    match step:
        case Write(path, content):
            return "write", {"path": path, "content": content}
        case Run(command):
            return "bash", {"command": command}
        case _:
            raise ValueError(f"Pi has no tool for {step!r}")
