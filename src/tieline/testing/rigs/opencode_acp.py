"""The real OpenCode over ACP, with a scripted model behind it."""

from collections.abc import Mapping
from typing import Any

from ...script import AnyStep, Inquire, Propose
from ..acp_rig import AcpRig, ToolCall
from ..model_apis.chat import Chat
from .opencode import LendingRig, dialect, lent_models, offline_env

MODEL = "scripted/model"
MODEL_FEATURES: Mapping[str, Any] = {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}


class OpencodeAcpRig(AcpRig, LendingRig):
    preset = "opencode-acp"
    api = Chat
    model_name = MODEL
    another_model = "scripted/another"
    limits = frozenset(
        {
            "question",  # it offers no tool for it over ACP
            "propose",  # nor for this
            "usage_whole",  # over ACP it tells the tokens of a turn's last model call alone
        }
    )

    def environment(self) -> dict[str, str]:
        return offline_env(self._home)

    def files(self) -> Mapping[str, Any]:
        scripted = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{self.model.url}/v1", "apiKey": "dummy"},
            "models": dict.fromkeys(("model", "another", *lent_models()), MODEL_FEATURES),
        }
        config = {
            "autoupdate": False,
            "share": "disabled",
            "provider": {"scripted": scripted},
            "model": MODEL,
            "small_model": MODEL,
        }
        return {".config/opencode/opencode.json": config}

    def dialect(self, step: AnyStep) -> ToolCall:
        if isinstance(step, Inquire | Propose):
            raise ValueError(f"OpenCode has no tool for {step!r} over ACP")
        return dialect(step)
