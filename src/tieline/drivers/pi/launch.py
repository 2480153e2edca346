"""How Pi is started: its arguments, and what our extension inside it is told."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from ...config import setting
from ...errors import UsageError
from ...policy import CAPABILITIES, Capability, Enforcement, Policy, Receipt
from ..base import Spec

ARGS = ("--mode", "rpc")
EXTENSION = Path(__file__).with_name("ask_extension.mjs")
CONFIG_VAR = "TIELINE_PI_CONFIG"
MARK = "tieline-ask:"
"""What the title of a question begins with that comes from our extension."""
UNASKED = ("read", "grep", "find", "ls", "tool_search")
"""Tools that change nothing and stay on this machine."""
KNOWN = ("bash", "powershell", "edit", "write")
"""Tools that the policy speaks of."""
SESSION_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
"""Not a path, not an option: what Pi itself calls an id."""

RESERVED_ARGS = frozenset({
    "--mode", "--print", "-p", "--session", "--session-id", "--fork", "--continue", "-c", "--resume", "-r",
    "--no-session", "--model", "--thinking", "--exclude-tools", "-xt", "--extension", "-e", "--no-extensions", "-ne",
    "--approve", "-a", "--no-approve", "-na", "--append-system-prompt",
})  # fmt: skip
"""Arguments that are not for the configuration: the policy and the session's options decide them."""

COMMAND_NOTE = "a command that is permitted to run can still do it"
NETWORK_NOTE = "Pi has no tool that fetches; a command can"


class PiOptions(Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[tuple[str, ...], setting("Program and its first arguments.", ("pi",))] = ()
    args: tuple[str, ...] = ()  # more arguments
    env: Mapping[str, str] = {}  # added to its environment


class PiLaunch(Struct, frozen=True):
    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[str, str]  # to be written before the start, and removed at the end


def launch_command(command: Sequence[str], args: Sequence[str], spec: Spec, directory: str) -> PiLaunch:
    """The command, the environment and the files of the agent. The caller writes the files, which belong in
    `directory`."""
    argv = [*command, *ARGS, "--extension", str(EXTENSION)]
    free = is_free(spec.policy)
    if not free:
        # Other extensions, and what a repository brings along, could run commands unasked.
        argv += ["--no-extensions", "--no-approve"]
    if spec.resume:
        if not SESSION_ID.fullmatch(spec.resume):
            raise UsageError(f"{spec.resume!r} is not the id of a Pi conversation", field="resume")
        argv += ["--fork" if spec.fork else "--session", spec.resume]
    if spec.model:
        argv += ["--model", spec.model]
    if spec.effort:
        argv += ["--thinking", spec.effort]
    if spec.disallowed_tools:
        argv += ["--exclude-tools", ",".join(spec.disallowed_tools)]
    config = str(Path(directory, "tieline-pi.json"))
    settings: dict[str, Any] = {"mark": MARK, "unasked": UNASKED}
    if free:
        settings["known"] = KNOWN  # everything is allowed: Pi's other tools ask for no permission
    files = {config: msgspec.json.encode(settings).decode()}
    if spec.system:  # in a file: an argument that is the name of a file would be replaced by that file's text
        path = str(Path(directory, "tieline-system.md"))
        files[path] = spec.system
        argv += ["--append-system-prompt", path]
    env = {"PI_SKIP_VERSION_CHECK": "1", **spec.env, CONFIG_VAR: config}
    return PiLaunch((*argv, *args, *spec.arguments), env, files)


def is_free(policy: Policy) -> bool:
    return all(policy.level(capability) == "allow" for capability in CAPABILITIES)


def receipt(policy: Policy) -> Receipt:
    """Every line is held by what our extension asks. Pi has no sandbox, and no tool for the network alone."""
    lines: dict[Capability, Enforcement] = {}
    for capability in CAPABILITIES:
        level = policy.level(capability)
        note = ""
        if capability == "network" and level != "allow":
            note = NETWORK_NOTE if policy.shell != "deny" else "Pi has no tool that fetches"
        elif capability == "file_write" and level != "allow" and policy.shell != "deny":
            note = COMMAND_NOTE
        lines[capability] = Enforcement(level, "prompt", note)
    return Receipt.from_lines(lines)
