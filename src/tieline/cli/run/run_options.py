"""The options of `tieline run` as a value, and a fast parser of the arguments.

`parse` takes the plain forms (`--name value`, `--name=value`, flags, AGENT PROMPT). Anything else is left to the
Typer command in typer_apps/run.py, which understands the same options and explains what is wrong.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from msgspec.structs import fields, replace

from ...config import Config
from ...drivers.base import AgentOptions, Attachment, Prompt
from ...drivers.options import Options, build_spec
from ...drivers.prestart import send_first_message as greet
from ...environment import inherited
from ...errors import UsageError, invalid_value
from ...policy import CAPABILITIES, Capability, Level, Policy, preset
from ...processes.spawn import SpawnedProcess

ON_ASK = ("prompt", "allow", "deny")
TEXT_TYPES = ("text/markdown", "text/html", "text/csv")
"""Kinds of text worth telling apart; what systems call the others (`.ts` is a video to some) helps nobody."""
SNIFFED = 8192
"""Bytes of an attachment that are looked at to tell text from other data."""


class RunOptions(AgentOptions, frozen=True, kw_only=True):
    agent: str
    prompt: str
    cwd: str = "."
    json: bool = False
    policy: str = ""
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    on_ask: str = ""
    resume: str = ""
    fork: bool = False
    timeout: float | None = None
    attach: tuple[str, ...] = ()
    standalone: bool = False
    worktree: bool = False
    branch: str = ""

    @property
    def in_worktree(self) -> bool:
        return self.worktree or bool(self.branch)


def check_options(request: RunOptions) -> RunOptions:
    """Raises UsageError, which names the option, for invalid values."""
    for name in ("max_turns", "max_budget_usd", "timeout"):
        value = getattr(request, name)
        if value is not None and not value > 0:
            raise invalid_value(f"--{name.replace('_', '-')}", value, hint="It must be more than zero.")
    if request.on_ask and request.on_ask not in ON_ASK:
        raise invalid_value("--on-ask", request.on_ask, accepted=ON_ASK)
    return replace(request, cwd=_directory(request.cwd))


def _directory(cwd: str) -> str:
    """Its full path. Whether the agent can work there is the session's to check; here, that it is a path at all."""
    try:
        path = Path(cwd).expanduser().absolute()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"the directory {cwd!r} cannot be used: {why}", field="cwd") from None
    return str(path)


def policy_of(request: RunOptions, default: str | Policy) -> Policy:
    """The preset, changed by --allow, --ask and --deny."""
    chosen = default if isinstance(default, Policy) and not request.policy else preset(request.policy or str(default))
    levels: dict[Capability, Level] = {}
    for level in ("allow", "ask", "deny"):
        for name in _split_commas(getattr(request, level)):
            capability = _capability(name, level)
            if levels.get(capability, level) != level:
                raise UsageError(
                    f"{name} is given to both --{levels[capability]} and --{level}",
                    field=capability,
                    hint="Give each capability one level.",
                )
            levels[capability] = level
    return replace(chosen, **levels)


def options_of(request: RunOptions, default: str) -> Options:
    """What the agent is opened with; `default` is the policy's preset where none is named."""
    options = request.agent_options()
    for name in (LISTS & options.keys()) - {"arguments", "environment"}:  # a comma is a part of those
        options[name] = tuple(_split_commas(options[name]))
    options |= {"cwd": request.cwd, "policy": policy_of(request, default)}
    options |= {"resume": request.resume, "fork": request.fork}
    return cast("Options", options)


def session_options(request: RunOptions, default: str) -> dict[str, Any]:
    """The same as a request to a hub has it: what was given, and the policy."""
    options = {**options_of(request, default), "worktree": request.in_worktree, "branch": request.branch}
    return {name: value for name, value in options.items() if value not in (None, "", (), False)}


def send_first_message_early(early: SpawnedProcess, request: RunOptions) -> None:
    """Tell an agent that was started ahead what it will be told. Only where no configuration says anything."""
    if request.in_worktree:  # where it works is made first
        return
    config = Config(environ=inherited())
    with suppress(UsageError):  # it is said in its place
        greet(early, request.agent, build_spec(config, **options_of(check_options(request), config.policy)))


def prompt_of(request: RunOptions) -> Prompt:
    """The prompt, read from standard input where it is `-`, with its attachments."""
    text = request.prompt
    if text == "-":
        if sys.stdin.isatty():
            print("Type the prompt; Ctrl-D on an empty line ends it.", file=sys.stderr)
        text = sys.stdin.buffer.read().decode(errors="replace")
    return Prompt(text, tuple(attachment(path) for path in request.attach))


def with_content(prompt: Prompt) -> Prompt:
    """Files travel as bytes: a path means nothing to another machine."""

    def read(attachment: Attachment) -> Attachment:
        try:
            return replace(attachment, data=Path(attachment.path).read_bytes(), path="")
        except OSError as error:
            raise UsageError(f"cannot attach {attachment.path!r}: {error.strerror}", field="attach") from None

    return replace(prompt, attachments=tuple(map(read, prompt.attachments)))


def attachment(path: str) -> Attachment:
    """A file to attach, with its type: by what is in it where that is text, else by its name."""
    import mimetypes

    absolute_path = Path(path).expanduser().absolute()
    try:
        with absolute_path.open("rb") as file:
            start = file.read(SNIFFED)
    except OSError as error:
        raise UsageError(f"cannot attach {path!r}: {error.strerror}", field="attach") from None
    guessed = mimetypes.guess_type(absolute_path.name)[0] or ""
    if _is_text(start):
        kind = guessed if guessed in TEXT_TYPES else "text/plain"
    else:
        kind = guessed or "application/octet-stream"
    return Attachment(path=str(absolute_path), media_type=kind, name=absolute_path.name)


def _split_commas(values: Iterable[str]) -> list[str]:
    """Options that take a list may be given several times, or once with commas (not those in parentheses)."""
    names: list[str] = []
    for value in values:
        depth, start = 0, 0
        for index, sign in enumerate(value):
            depth += (sign == "(") - (sign == ")")
            if sign == "," and depth <= 0:
                names.append(value[start:index].strip())
                start = index + 1
        names.append(value[start:].strip())
    return [name for name in names if name]


def _capability(name: str, level: str) -> Capability:
    known = name.replace("-", "_")
    for capability in CAPABILITIES:
        if capability == known:
            return capability
    raise UsageError(
        f"--{level}: unknown capability {name!r}",
        field=level,
        hint=f"Capabilities: {', '.join(CAPABILITIES)}.",
    )


def _is_text(start: bytes) -> bool:
    if b"\0" in start:
        return False
    for cut in range(4):  # the last character may be cut in the middle
        try:
            start[: len(start) - cut].decode()
        except UnicodeDecodeError:
            continue
        return True
    return False


# --- the fast parser ------------------------------------------------------------------------------------------

_ReadValue = Callable[[str], Any]


def _whole(value: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise ValueError(value)
    return int(value)


def _decimal(value: str) -> float:
    if not (value.isascii() and value.replace(".", "", 1).isdigit()):
        raise ValueError(value)
    return float(value)


def _options_of_type(kind: object) -> frozenset[str]:
    """Options by the type of their values, without what it says in the reference."""
    types = {field.name: field.type for field in fields(RunOptions)}
    return frozenset(name for name, type in types.items() if getattr(type, "__origin__", type) == kind or type == kind)


_FLAGS = _options_of_type(bool)
LISTS = _options_of_type(tuple[str, ...])
_READERS: dict[str, _ReadValue] = {
    **dict.fromkeys(_options_of_type(int | None), _whole),
    **dict.fromkeys(_options_of_type(float | None), _decimal),
}


_NAMED = frozenset(RunOptions.__struct_fields__) - {"agent", "prompt"}


def parse(arguments: Sequence[str]) -> RunOptions | None:
    """The request; None when it takes the full parser to understand it or to say what is wrong."""
    values: dict[str, Any] = {}
    positional: list[str] = []
    rest = iter(arguments)
    for word in rest:
        if word == "--":
            positional += rest
        elif word == "-" or not word.startswith("-"):
            positional.append(word)
        else:
            flag, given, value = word.partition("=")
            name = flag[2:].replace("-", "_")
            if flag != f"--{name.replace('_', '-')}" or name not in _NAMED:
                return None
            if name in _FLAGS:
                if given:
                    return None
                values[name] = True
                continue
            if not given:
                value = next(rest, "-")
                if value.startswith("-"):  # missing, or so it seems
                    return None
            try:
                value = _READERS.get(name, str)(value)
            except ValueError:
                return None
            values[name] = (*values.get(name, ()), value) if name in LISTS else value
    if len(positional) != 2:
        return None
    return RunOptions(agent=positional[0], prompt=positional[1], **values)
