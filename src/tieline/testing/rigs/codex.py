"""Codex over the scripted model, in a home of its own."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ...drivers.codex.driver import Codex
from ...drivers.codex.thread_params import CodexOptions
from ...script import AnyStep, Get, Inquire, Outline, Run, Write
from ..model_apis.responses import FREEFORM, HOSTED, Responses
from ..model_rig import ModelRig
from ..model_server import ScriptedModel
from ..rig import scratch_env
from ..tool_calls import progress, question

MODEL = "gpt-5.5"
"""One that Codex knows: it decides by the model which tools it offers."""

ANOTHER_MODEL = "gpt-6-luna"

CONFIG = """\
model = "{model}"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 2
stream_max_retries = 2
"""


class CodexRig(ModelRig):
    another_model = ANOTHER_MODEL
    limits = frozenset({"propose"})  # its plans are shown when they are made; it does not wait for a yes

    def __init__(self, model: ScriptedModel, driver: Codex, env: Mapping[str, str]) -> None:
        super().__init__(model)
        self.driver = driver
        self.env = env
        self.options: Mapping[str, Any] = {"env": env}


@asynccontextmanager
async def codex_rig(home: Path, executable: Path, **options: Any) -> AsyncGenerator[CodexRig, None]:
    """`executable` is the `codex` to test; `options` are the driver's."""
    async with ScriptedModel(Responses, dialect=dialect) as model:
        env = scratch_env(home, path=f"{executable.parent}:/usr/bin:/bin", SCRIPTED_KEY="dummy")
        settings = home / ".codex/config.toml"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(CONFIG.format(model=MODEL, url=model.url))
        yield CodexRig(model, Codex(CodexOptions(command=(str(executable),), **options)), env)


def dialect(step: AnyStep) -> tuple[str, Mapping[str, Any]]:
    """Codex's own tools. It has none that fetches a URL: what it has is web search, which its vendor runs."""
    match step:
        case Write(path, content):
            lines = "".join(f"+{line}\n" for line in content.splitlines())
            return FREEFORM, {"input": f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"}
        case Run(command):
            return "exec_command", {"cmd": command, "yield_time_ms": 30_000}
        case Get(url):
            return HOSTED, {"type": "open_page", "url": url}
        case Inquire():
            return "request_user_input", {"questions": [question(step, id="choice")]}
        case Outline():
            return "update_plan", {"plan": [{"step": text, "status": state} for text, state in progress(step)]}
        case _:
            raise ValueError(f"Codex has no tool for {step!r}")
