"""The real OpenCode over ACP, with a scripted model behind it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...drivers.acp import driver as acp
from ...script import AnyStep, Get, Outline, Run, Write
from ..model_apis.chat import Chat
from ..model_server import ScriptedModel
from .opencode import LendingRig, lent_models, offline_env

MODEL = "scripted/model"
MODEL_FEATURES: Mapping[str, Any] = {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}


class OpencodeAcpRig(LendingRig):
    """`async with OpencodeAcpRig(home, binaries)`: `binaries` is the directory that has the program `opencode`;
    `command` is started in its place."""

    limits = frozenset(
        {
            "question",  # it offers no tool for it over ACP
            "propose",  # nor for this
            "usage_whole",  # over ACP it tells the tokens of a turn's last model call alone
        }
    )

    def __init__(self, home: Path, binaries: Path, command: Sequence[str] = ()) -> None:
        self._home = home
        super().__init__(ScriptedModel(Chat, dialect=dialect))
        options = {"preset": "opencode-acp", "command": command or [str(binaries / "opencode")]}
        self.driver = acp.create("opencode-acp", options)
        self.options = {}

    async def __aenter__(self) -> "OpencodeAcpRig":
        await self.model.__aenter__()
        env = offline_env(self._home)
        scripted = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{self.model.url}/v1", "apiKey": "dummy"},
            "models": dict.fromkeys(("model", *lent_models()), MODEL_FEATURES),
        }
        config = {
            "autoupdate": False,
            "share": "disabled",
            "provider": {"scripted": scripted},
            "model": MODEL,
            "small_model": MODEL,
        }
        file = self._home / ".config" / "opencode" / "opencode.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.encode(config))
        self.options = {"env": env, "model": MODEL}
        return self


def dialect(step: AnyStep) -> tuple[str, Mapping[str, Any]]:
    match step:
        case Write(path, content):
            return "write", {"filePath": path, "content": content}
        case Run(command):
            return "bash", {"command": command, "description": "Scripted"}
        case Get(url):
            return "webfetch", {"url": url, "format": "text"}
        case Outline(steps, done):
            progress = ["completed"] * done + ["in_progress"] + ["pending"] * len(steps)
            todos = [
                {"content": text, "status": state, "priority": "medium"}
                for text, state in zip(steps, progress, strict=False)
            ]
            return "todowrite", {"todos": todos}
        case _:
            raise ValueError(f"OpenCode has no tool for {step!r} over ACP")
