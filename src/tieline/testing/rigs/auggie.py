"""The real Auggie over ACP, with a scripted model behind it, in its vendor's own format."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ...script import AnyStep, Get, Outline, Run, Write
from ..acp_rig import AcpRig
from ..model_apis.augment import Augment
from .copilot import NOWHERE

WAIT_S = 600


class AuggieRig(AcpRig):
    """Somebody has told it never to send any code to its vendor: it would ask for that in each new directory."""

    preset = "auggie"
    api = Augment
    limits = frozenset(
        {
            "question",  # it offers no tool for it over ACP
            "propose",  # nor for this
            "usage_whole",  # it tells no tokens over ACP
            "usage_of_broken_call",
        }
    )

    def variables(self) -> Mapping[str, str]:
        session = {"accessToken": "dummy", "tenantURL": self.model.url, "scopes": ["read", "write"]}
        return {
            "AUGMENT_SESSION_AUTH": msgspec.json.encode(session).decode(),
            "HTTP_PROXY": NOWHERE,
            "HTTPS_PROXY": NOWHERE,
            "NO_PROXY": "127.0.0.1",
        }

    def files(self) -> Mapping[str, Any]:
        return {".augment/settings.json": {"indexingDenyDirs": ["/"]}}

    def dialect(self, step: AnyStep) -> tuple[str, Mapping[str, Any]]:
        match step:
            case Write(path, content):
                return "save-file", {"path": path, "file_content": content, "add_last_line_newline": False}
            case Run(command):
                return "launch-process", {"command": command, "wait": True, "max_wait_seconds": WAIT_S, "cwd": "."}
            case Get(url):
                return "web-fetch", {"url": url}
            case Outline(steps, done):
                states = ["COMPLETE"] * done + ["NOT_STARTED"] * len(steps)
                tasks = [
                    {"name": text, "description": text, "state": state}
                    for text, state in zip(steps, states, strict=False)
                ]
                return "add_tasks", {"tasks": tasks}
            case _:
                raise ValueError(f"Auggie has no tool for {step!r}")
