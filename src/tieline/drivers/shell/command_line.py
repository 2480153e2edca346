"""From a configuration to a command line. Pure: nothing here starts anything.

Arguments are filled in one by one and never pass through a shell. What a prompt says can therefore not become another
argument; and because it could still be taken for an option, one that starts with a dash is sent with a space before it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Struct

from ...config import setting
from ...errors import UsageError
from ...events import Tokens
from ...policy import LEVELS, PRESETS, Policy
from ..base import Spec
from .json_output import BadPath, Match, OutputFields, compile_path

PolicyClaim = Literal["sandbox", "rule", "none"]
VALUES = ("prompt", "system", "model", "session", "cwd")
LISTS = ("model_args", "system_args", "policy_args", "resume_args", "args")
"""Where in the command each of these goes; those that it does not place go to its end, in this order."""

_PLACEHOLDER = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")


class ShellControls(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The agent's own arguments for one policy, and by what means they hold each capability."""

    args: Annotated[tuple[str, ...], setting("Arguments for this policy.", ("--sandbox", "workspace"))] = ()
    file_write: Annotated[PolicyClaim, setting("By what means they hold file writes.", "sandbox")] = "rule"
    shell: Annotated[PolicyClaim, setting("By what means they hold commands.", "sandbox")] = "rule"
    network: Annotated[PolicyClaim, setting("By what means they hold network access.", "sandbox")] = "rule"
    note: Annotated[str, setting("Words for the receipt.", "by its own sandbox")] = ""


class ShellOptions(OutputFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of one agent; docs/drivers/shell.md explains how they work together."""

    command: Annotated[
        tuple[str, ...],
        setting(
            "Program and its arguments, with placeholders such as `{prompt}`.", ("my-agent", "--quiet", "{prompt}")
        ),
    ]
    prompt_by: Annotated[Literal["argument", "stdin"], setting("How the program gets the prompt.", "stdin")] = (
        "argument"
    )
    output: Annotated[
        Literal["text", "jsonl"],
        setting("`text`: what it prints is the answer. `jsonl`: JSON lines, read by the `…_field` keys.", "jsonl"),
    ] = "text"
    model_args: Annotated[
        tuple[str, ...], setting("Arguments added when a model is asked for.", ("--model", "{model}"))
    ] = ()
    system_args: Annotated[
        tuple[str, ...], setting("Arguments for a system instruction.", ("--system", "{system}"))
    ] = ()
    resume_args: Annotated[
        tuple[str, ...], setting("Arguments of every turn but a session's first.", ("--resume", "{session}"))
    ] = ()
    policy_args: Annotated[
        Mapping[str, tuple[str, ...] | ShellControls],
        setting(
            "The agent's own arguments per policy: a preset, or three levels `file_write/shell/network`. A list claims "
            "a rule for each capability; a table says the means.",
            {"read-only": ["--read-only"]},
        ),
    ] = {}
    args: tuple[str, ...] = ()
    timeout_s: Annotated[float, setting("Seconds that a turn may take.", 600.0)] = 3600.0
    idle_timeout_s: Annotated[
        float | None, setting("Seconds without output after which a turn ends as `timeout`.", 120.0)
    ] = None
    env: Mapping[str, str] = {}
    version_args: Annotated[
        tuple[str, ...], setting("Arguments with which the program prints its version.", ("--version",))
    ] = ()
    install: Annotated[str, setting("What to do when the program is missing.", "pipx install my-agent")] = ""

    def has_placeholder(self, value: str) -> bool:
        """Whether this value has a place in the command."""
        own = {"model": self.model_args, "system": self.system_args, "session": self.resume_args}
        return value in _placeholders([*self.command, *own.get(value, ())])


def launch_command(options: ShellOptions, spec: Spec, prompt: str, session: str) -> tuple[list[str], dict[str, str]]:
    """The arguments and the environment of one turn's process."""
    for field, value in (("model", spec.model), ("resume", session)):
        if value.startswith("-"):
            raise UsageError(
                f"{field} {value!r} starts with a dash", field=field, hint="It would be read as an option."
            )
    values = {
        "prompt": compose_prompt(options, spec, prompt),
        "system": spec.system,
        "model": spec.model,
        "session": session,
        "cwd": spec.cwd,
    }
    controls = policy_controls(options).get(spec.policy)
    lists: dict[str, tuple[str, ...]] = {
        "model_args": options.model_args if spec.model else (),
        "system_args": options.system_args if spec.system else (),
        "policy_args": controls.args if controls else (),
        "resume_args": options.resume_args if session else (),
        "args": (*options.args, *(_PLACEHOLDER.sub(r"{\g<0>}", each) for each in spec.arguments)),  # taken as they are
    }
    argv: list[str] = []
    for template in options.command:
        named = template[1:-1]
        _fill(argv, lists.pop(named, ()) if template == f"{{{named}}}" and named in LISTS else (template,), values)
    for rest in lists.values():
        _fill(argv, rest, values)
    if options.prompt_by == "argument" and "prompt" not in _placeholders(options.command):
        _fill(argv, ("{prompt}",), values)
    return argv, {**spec.env, **options.env}


def compose_prompt(options: ShellOptions, spec: Spec, prompt: str) -> str:
    """The prompt as the agent gets it: behind the system instruction, when that has no argument of its own."""
    if not spec.system or options.has_placeholder("system"):
        return prompt
    if prompt.startswith("[CONTEXT]\n") and "\n[MESSAGE]\n" in prompt:
        return f"[SYSTEM]\n{spec.system}\n\n{prompt}"
    return f"[SYSTEM]\n{spec.system}\n\n[MESSAGE]\n{prompt}"


def policy_controls(options: ShellOptions) -> dict[Policy, ShellControls]:
    """The policies that the agent has arguments for. Raises ValueError for a key that names none."""
    return {
        _parse_policy(key): value if isinstance(value, ShellControls) else ShellControls(args=value)
        for key, value in options.policy_args.items()
    }


def check_options(name: str, options: ShellOptions) -> None:
    """Raises UsageError that names the agent and the field."""
    problem = _problem(options)
    if problem is not None:
        field, text, hint = problem
        raise UsageError(f"agents.{name}.{field}: {text}", field=f"agents.{name}.{field}", hint=hint)


def _problem(options: ShellOptions) -> tuple[str, str, str] | None:
    if not options.command or not options.command[0] or _placeholders(options.command[:1]):
        return "command", "it must start with the program to run", 'For example command = ["my-agent", "{prompt}"].'
    try:
        controls = policy_controls(options).values()
    except ValueError as error:
        return "policy_args", str(error), f"Presets: {', '.join(PRESETS)}; or three levels, as in allow/deny/deny."
    arguments: dict[str, Iterable[str]] = {field: getattr(options, field) for field in ("command", *LISTS)}
    arguments["policy_args"] = [argument for each in controls for argument in each.args]
    for field, templates in arguments.items():
        known = {*VALUES, *(LISTS if field == "command" else ())}
        for unknown in sorted(_placeholders(templates) - known):
            hint = f"Known here: {', '.join(sorted(known))}. For the literal text double the braces: {{{{{unknown}}}}}."
            return field, f"unknown placeholder {{{unknown}}}", hint
    if options.prompt_by == "stdin" and "prompt" in _placeholders(options.command):
        return "command", '{prompt} is in it, but prompt_by is "stdin"', "Use one of the two."
    for field, value in (("timeout_s", options.timeout_s), ("idle_timeout_s", options.idle_timeout_s)):
        if value is not None and value <= 0:
            return field, f"{value:g} s is no time at all", "Leave it out for the default."
    for list_name, value in (("model_args", "model"), ("system_args", "system"), ("resume_args", "session")):
        if arguments[list_name] and value not in _placeholders(arguments[list_name]):
            return list_name, f"{{{value}}} is not in it", "Say where the value goes."
    return _fields_problem(options)


def _fields_problem(options: ShellOptions) -> tuple[str, str, str] | None:
    """What is wrong with the fields of JSON lines."""
    given = [field for field in OutputFields.__struct_fields__ if getattr(options, field)]
    if options.output == "text":
        if given:
            return given[0], 'it needs output = "jsonl"', "Plain text has no fields."
    elif not options.text_field and not options.delta_field:
        return "text_field", "it is missing", "Say where in the JSON lines the answer is, for example item.text."
    for field in given:
        value: Any = getattr(options, field)
        paths: Iterable[str] = [value]
        if field == "usage":
            paths = value.values()
            for unknown in sorted(set(value) - set(Tokens.__struct_fields__)):
                return field, f"{unknown!r} is not one of {', '.join(Tokens.__struct_fields__)}", ""
        elif field.endswith("_when"):
            paths = [path for table in _tables(value) for path in table]
            what = field.removesuffix("_when") + "_field"
            if field not in ("done_when", "error_when") and not getattr(options, what):
                return what, f"it is missing, and {field} is there", ""
        for path in paths:
            try:
                compile_path(path)
            except BadPath as error:
                return field, str(error), ""
    if options.has_placeholder("session") and not options.session_field:
        return "session_field", "it is missing", "To resume a session, its id must be found in the output."
    return None


def _tables(match: Match) -> Iterable[Mapping[str, Any]]:
    return [match] if isinstance(match, Mapping) else match


def _placeholders(templates: Iterable[str]) -> set[str]:
    """The placeholders in these arguments."""
    return {match[2] for template in templates for match in _PLACEHOLDER.finditer(template) if match[2]}


def _fill(argv: list[str], templates: Iterable[str], values: Mapping[str, str]) -> None:
    """Add the arguments. An argument whose placeholder has an empty value is left out."""
    for template in templates:
        if any(not values[name] for name in _placeholders([template])):
            continue
        # In one pass: a prompt that contains what looks like a placeholder is not changed.
        argument = _PLACEHOLDER.sub(lambda match: values[match[2]] if match[2] else f"{{{match[1]}}}", template)
        free = template.startswith(("{prompt}", "{system}"))
        if free and argument.startswith("-") and argv[-1:] != ["--"]:
            argument = f" {argument}"
        argv.append(argument)


def _parse_policy(key: str) -> Policy:
    if key in PRESETS:
        return PRESETS[key]
    levels = key.split("/")
    if len(levels) != 3 or not set(levels) <= set(LEVELS):
        raise ValueError(f"{key!r} is not a policy")
    return Policy(*levels)  # type: ignore[arg-type]
