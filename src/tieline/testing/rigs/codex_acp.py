"""Codex over ACP by codex-acp, with a scripted model behind it."""

from collections.abc import Mapping
from typing import Any

from ...script import AnyStep
from ..acp_rig import AcpRig, ToolCall
from ..model_apis.responses import Responses
from .codex import ANOTHER_MODEL, CONFIG, MODEL, dialect


class CodexAcpRig(AcpRig):
    preset = "codex-acp"
    api = Responses
    another_model = ANOTHER_MODEL
    limits = frozenset({"propose"})  # as with Codex itself

    def dialect(self, step: AnyStep) -> ToolCall:
        return dialect(step)

    def variables(self) -> Mapping[str, str]:
        return {"SCRIPTED_KEY": "dummy"}

    def files(self) -> Mapping[str, Any]:
        return {".codex/config.toml": CONFIG.format(model=MODEL, url=self.model.url)}
