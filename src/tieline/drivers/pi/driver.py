"""Pi, over `pi --mode rpc`: records of JSON on its standard streams, one process for one conversation.

Pi asks nothing by itself. Our extension (`ask_extension.mjs`) asks before each tool that does something, by a dialog
that Pi passes on to us. Its parts: `launch` (how it is started, and the receipt), `rpc` (the wire), `conversation` (the
turns and the asks), `events` (what it tells), `tools` (what its tools do).
"""

import re
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from ...errors import AgentMissing, AgentStartFailed
from ...policy import Policy, Receipt
from ...processes.async_process import Process
from ..base import AskFn, Features, Probe, Program, Spec, check_args, deny_all
from ..model_list import ModelList
from ..registry import parse_options
from ..run_as import chown_to_run_as
from ..version_command import ask_version
from .conversation import PiConversation
from .launch import ARGS, RESERVED_ARGS, PiOptions, launch_command, receipt

INSTALL = "npm install -g @earendil-works/pi-coding-agent (it needs Node.js 22.19 or newer)"

OPTIONS = PiOptions
"""What `[agents.NAME]` may say."""


def create(name: str, options: Mapping[str, Any]) -> "Pi":
    chosen = parse_options(PiOptions, name, options)
    check_args(name, chosen.args, RESERVED_ARGS)
    return Pi(chosen, name=name)


class Pi:
    tested = "0.87.1"
    floor = "0.87.1"
    features = Features(
        model=True,
        effort=("off", "minimal", "low", "medium", "high", "xhigh", "max"),
        resume=True,
        fork=True,
        steer=True,
        system="native",
        disallowed_tools=True,
        arguments=True,
        attachments=("image/*",),
        warm=True,
        deltas=True,
        thinking=True,
        diffs=True,
        usage=True,
    )

    def __init__(self, options: PiOptions | None = None, *, name: str = "pi") -> None:
        self.name = name
        self.options = options or PiOptions()
        self._version = ""

    def enforce(self, policy: Policy) -> Receipt:
        return receipt(policy)

    @property
    def command(self) -> tuple[str, ...]:
        return self.options.command or ("pi",)

    @property
    def program(self) -> Program:
        return Program(type="pi", command=self.command, args=(*ARGS, *self.options.args))

    @property
    def env(self) -> Mapping[str, str]:
        return self.options.env

    async def probe(self, env: Mapping[str, str]) -> Probe:
        env = {**env, **self.env}
        first, *rest = self.command
        path = shutil.which(first, path=env.get("PATH", ""))
        if path is None:
            return Probe(found=False, problem=f"{first} is not on the PATH", hint=INSTALL)
        try:
            answer = await ask_version([path, *rest, "--version"], env)
        except (OSError, ValueError) as error:
            return Probe(found=True, path=path, problem=f"its version cannot be read: {error}")
        printed = "\n".join(answer.lines)
        number = re.search(r"\d+(?:\.\d+)+\S*", printed)
        if not number:
            words = (printed + answer.stderr).strip()
            return Probe(found=True, path=path, problem=f"its version cannot be read: {words[:200]}", hint=INSTALL)
        self._version = number[0]
        signed = (Path(env.get("HOME") or "/") / ".pi/agent/auth.json").is_file()
        return Probe(found=True, path=path, version=number[0], signed_in=True if signed else None)

    @asynccontextmanager
    async def open(self, spec: Spec, ask: AskFn) -> AsyncGenerator[PiConversation, None]:
        check_args(self.name, spec.arguments, RESERVED_ARGS, field="arguments")
        with TemporaryDirectory(prefix="tieline-", ignore_cleanup_errors=True) as scratch:
            async with self._start(spec, scratch) as process:
                conversation = PiConversation(self.name, spec, ask, process, self.enforce(spec.policy))
                try:
                    await conversation.open(self._version)
                    yield conversation
                finally:
                    await conversation.close()

    async def list_models(self, cwd: str, env: Mapping[str, str]) -> ModelList:
        """Those that it has credentials for. `--model` also takes a part of a name, so others may be meant by it."""
        with TemporaryDirectory(prefix="tieline-", ignore_cleanup_errors=True) as scratch:
            spec = Spec(cwd=cwd, env=env, arguments=("--no-session",))
            async with self._start(spec, scratch) as process:
                conversation = PiConversation(self.name, spec, deny_all, process, self.enforce(spec.policy))
                try:
                    await conversation.open(self._version)
                    return await conversation.offered_models()
                finally:
                    await conversation.close()

    def _start(self, spec: Spec, scratch: str) -> Process:
        spec = replace(spec, env={**spec.env, **self.env})
        launch = launch_command(self.command, self.options.args, spec, scratch)
        for path, content in launch.files.items():
            Path(path).write_text(content)
        chown_to_run_as(spec.env, *launch.files, scratch)
        try:
            return Process.start(launch.argv, cwd=spec.cwd, env=launch.env)
        except FileNotFoundError:
            missing = f"{launch.argv[0]!r} is not installed, or not on the PATH"
            raise AgentMissing(self.name, missing, hint=INSTALL) from None
        except (OSError, ValueError) as error:
            raise AgentStartFailed(self.name, f"{launch.argv[0]!r} cannot be started: {error}") from None
