"""Any command line: one process per turn, as its configuration says. See docs/drivers/shell.md.

The prompt goes in as an argument or on standard input, the answer comes out as text or as JSON lines, and the turn is
over when the process exits or when it prints its own completion event. No wrapper script, no end marker, no shell.
"""

import os
import re
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from ...errors import AgentDied, AgentMissing
from ...policy import CAPABILITIES, Capability, Enforcement, Policy, Receipt
from ..base import AskFn, Features, Probe, Program, Spec
from ..registry import parse_options
from ..version_command import ask_version
from .command_line import ShellOptions, check_options, policy_controls
from .conversation import ShellConversation

NO_CONTROLS = "a command line has no controls of its own: give it the agent's native arguments in policy_args"
CLAIMED = "by the arguments in policy_args, as the configuration claims"
NOBODY_ASKED = "a command line cannot ask: the arguments must make the agent refuse"


OPTIONS = ShellOptions
"""What `[agents.NAME]` may say."""


def create(name: str, options: Mapping[str, Any]) -> "Shell":
    chosen = parse_options(ShellOptions, name, options)
    check_options(name, chosen)
    return Shell(name, chosen)


class Shell:
    tested = ""
    floor = ""

    def __init__(self, name: str, options: ShellOptions) -> None:
        self.name = name
        self.options = options
        self.features = Features(
            model=options.has_placeholder("model"),
            resume=options.has_placeholder("session"),
            system="native" if options.has_placeholder("system") else "prompt",
            arguments=True,
            deltas=options.output == "text" or bool(options.delta_field),
            thinking=bool(options.thinking_field),
            usage=bool(options.usage),
        )

    @property
    def program(self) -> Program:
        return Program(type="shell", command=self.options.command, args=self.options.args)

    @property
    def env(self) -> Mapping[str, str]:
        return self.options.env

    async def probe(self, env: Mapping[str, str]) -> Probe:
        environment = {**env, **self.options.env}
        path = find(self.options.command[0], environment, os.curdir)
        if path is None:
            return Probe(found=False, problem=f"no command {self.options.command[0]!r}", hint=self.options.install)
        if not self.options.version_args:
            return Probe(found=True, path=path)
        try:
            answer = await ask_version([path, *self.options.version_args], environment, cwd=os.curdir)
        except (OSError, ValueError) as error:
            problem = f"{' '.join(self.options.version_args)}: {error}"
            return Probe(found=True, path=path, problem=problem, hint=self.options.install)
        if answer.status:
            problem = str(AgentDied(self.name, answer.status, answer.stderr))
            return Probe(found=True, path=path, problem=problem, hint=self.options.install)
        printed = answer.lines[0] if answer.lines else ""
        number = re.search(r"\d+(\.\d+)+\S*", printed)
        return Probe(found=True, path=path, version=number[0] if number else printed)

    def enforce(self, policy: Policy) -> Receipt:
        controls = policy_controls(self.options).get(policy)
        lines: dict[Capability, Enforcement] = {}
        for capability in CAPABILITIES:
            level = policy.level(capability)
            if controls is None:
                lines[capability] = Enforcement(level, "none", "" if level == "allow" else NO_CONTROLS)
            else:
                asked = NOBODY_ASKED if level == "ask" else ""
                notes = "; ".join(note for note in (CLAIMED, controls.note, asked) if note)
                lines[capability] = Enforcement(level, getattr(controls, capability), notes)
        return Receipt.from_lines(lines)

    @asynccontextmanager
    async def open(self, spec: Spec, ask: AskFn) -> AsyncGenerator["ShellConversation", None]:
        program = self.options.command[0]
        if find(program, {**spec.env, **self.options.env}, spec.cwd) is None:
            hint = self.options.install or f"Install it, or correct agents.{self.name}.command."
            raise AgentMissing(self.name, f"there is no command {program!r}", hint=hint)
        conversation = ShellConversation(self.name, self.options, self.enforce(spec.policy), spec, ask)
        try:
            yield conversation
        finally:
            await conversation.close()


def find(program: str, env: Mapping[str, str], cwd: str) -> str | None:
    """Where the program is: on the agent's own PATH, or from its directory when it is a path."""
    if os.sep in program:
        path = os.path.join(cwd, program)  # noqa: PTH118 (an absolute program wins, as exec sees it)
        return path if os.access(path, os.X_OK) and not os.path.isdir(path) else None  # noqa: PTH112
    return shutil.which(program, path=env.get("PATH", os.defpath))
