"""Rules for asks: what a person wants to be allowed, or denied, each time it is asked again.

An allow rule answers an ask only when all that the ask would do is known and is what the rule names: what it does not
understand goes to people. A deny rule spares people an ask; what must never happen is for the policy to deny.
"""

import os
import re
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from ..ask_parts import CONTENT
from ..errors import UsageError
from ..events import Action, Ask, Command, Edit, Fetch, Mcp, Read, changed_paths, needs
from .known_programs import runs_anything, steers
from .shell_words import shell_words

RuleMatch = Literal["exact", "prefix", "edit", "read", "host", "tool"]
"""What a rule's pattern is compared with. exact: a command, character by character · prefix: the first words of a plain
command · edit, read: a file, or a directory (it ends with a slash) and what is in it · host: of an address; with a
leading dot every host below it · tool: server/tool of an MCP server."""

BLANKS = " \t\n"
"""What around a command means nothing to a shell: other white space is a part of a word."""
MAX_PATTERN = 2000
"""Characters of a pattern or a directory."""

_PATH_FIELDS = frozenset(("file_path", "filePath", "filepath", "path", "notebook_path", "absolute_path"))
_DIRECTORY_FIELDS = frozenset(("cwd", "workdir"))
_COMMAND_FIELDS = ("command", "cmd")
KNOWN_FIELDS: dict[type[Action], frozenset[str]] = {
    Command: frozenset(_COMMAND_FIELDS)
    | _DIRECTORY_FIELDS
    | {"description", "timeout", "timeout_ms", "run_in_background", "is_background", "persistent", "tty", "login"}
    | {"yield_time_ms", "max_output_tokens"},
    Edit: CONTENT | _PATH_FIELDS | {"replace_all", "replaceAll", "cell_id", "cell_type", "edit_mode"},
    Read: _PATH_FIELDS | {"offset", "limit", "pages"},
    Fetch: frozenset(("url", "prompt", "format", "timeout")),
}
"""Fields of a tool's input that change nothing about what its action says. Any other may: a person looks at it."""

_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_PORTS = {"http": 80, "https": 443}


class AskRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    match: RuleMatch
    pattern: str
    decision: Literal["allow", "deny"] = "allow"
    directory: str = ""  # for sessions in there; empty: in every directory
    node: str = ""  # on this machine; empty: on every one
    agent: str = ""  # empty: every agent
    made_by: str = ""
    made_at: float = 0.0
    ask: str = ""  # the ask that it was made from
    expires_at: float = 0.0  # 0: never
    revoked_by: str = ""
    revoked_at: float = 0.0

    def holds(self, now: float) -> bool:
        return not self.revoked_at and not 0 < self.expires_at <= now


class AskOrigin(Struct, frozen=True):
    """Whose ask it is."""

    agent: str
    node: str
    cwd: str


class Files(Protocol):
    """What is known of the machine's files."""

    def resolve(self, path: str) -> str: ...
    def has_other_names(self, path: str) -> bool: ...


class RealFiles:
    """This machine's, as they are now: a link that was made since the rule was leads nowhere else."""

    def resolve(self, path: str) -> str:
        return os.path.realpath(path)

    def has_other_names(self, path: str) -> bool:
        try:
            status = Path(path).lstat()
        except OSError:
            return False
        return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


class NamedFiles:
    """Of another machine: by their names alone. For a preview, never for a decision."""

    def resolve(self, path: str) -> str:
        return os.path.normpath(path)

    def has_other_names(self, path: str) -> bool:
        return False


def decide_by_rules(rules: Iterable[AskRule], ask: Ask, origin: AskOrigin, files: Files) -> AskRule | None:
    """The rule that answers: a deny rule first, then the one that was made first."""
    now = time.time()
    holding = sorted(
        (rule for rule in rules if rule.holds(now)), key=lambda rule: (rule.decision == "allow", rule.made_at, rule.id)
    )
    return next((rule for rule in holding if matches(rule, ask, origin, files)), None)


def matches(rule: AskRule, ask: Ask, origin: AskOrigin, files: Files) -> bool:
    """Whether the rule applies to this ask. No rule applies to questions, plans and unknown actions: people answer
    them."""
    action = ask.action
    if ask.kind != "permission" or action is None:
        return False
    if rule.agent not in ("", origin.agent) or rule.node not in ("", origin.node):
        return False
    allow = rule.decision == "allow"
    if allow and not _is_whole(ask, action):
        return False
    directories = [origin.cwd]
    if isinstance(action, Command):
        given = (value for name in _DIRECTORY_FIELDS if isinstance(value := ask.input.get(name), str))
        directories += [_joined(origin.cwd, directory) for directory in (action.cwd, *given) if directory]
    if rule.directory and not _all_or_any(
        allow, (_is_in(directory, rule.directory, files, strict=allow) for directory in directories)
    ):
        return False
    match rule.match, action:
        case "exact", Command(command):
            return command.strip(BLANKS) == rule.pattern.strip(BLANKS)
        case "prefix", Command(command):
            words, wanted = shell_words(command), shell_words(rule.pattern)
            if not wanted or words[: len(wanted)] != wanted:
                return False
            return not (allow and steers(words, len(wanted)))
        case "edit", Edit(paths, diff):
            named = {*paths, *_path_fields(ask.input), *(changed_paths(diff) if allow else ())}
            results = [_matches_path(rule.pattern, _joined(origin.cwd, path), files, strict=allow) for path in named]
            return bool(paths) and _all_or_any(allow, results)
        case "read", Read(path):
            named = {path, *_path_fields(ask.input)}
            results = [_matches_path(rule.pattern, _joined(origin.cwd, path), files, strict=allow) for path in named]
            return bool(path) and _all_or_any(allow, results)
        case "host", Fetch(url):
            host = host_of(url)
            return bool(host) and (host.endswith(rule.pattern) if rule.pattern[0] == "." else host == rule.pattern)
        case "tool", Mcp(server, tool):
            return bool(server and tool) and f"{server}/{tool}" == rule.pattern
        case _:
            return False


def _is_whole(ask: Ask, action: Action) -> bool:
    """Whether the action describes everything that would happen: nothing is withheld, nothing more is granted, and no
    field of the input could change it."""
    if ask.withheld or ask.wider or ask.capability not in (None, needs(action)):
        return False
    known = KNOWN_FIELDS.get(type(action))
    if known is not None:
        values = (ask.input.get(name) for name in _PATH_FIELDS | _DIRECTORY_FIELDS)
        if not known.issuperset(ask.input) or not all(value is None or isinstance(value, str) for value in values):
            return False
    if isinstance(action, Command):  # some agents give the command in a title only
        return any(ask.input.get(name) == action.command for name in _COMMAND_FIELDS)
    if isinstance(action, Fetch):
        return ask.input.get("url") == action.url
    return True


def _all_or_any(all_of_them: bool, results: Iterable[bool]) -> bool:
    return all(results) if all_of_them else any(results)


def _path_fields(given: Any) -> list[str]:
    return [value for name in _PATH_FIELDS if isinstance(value := given.get(name), str) and value]


def _joined(cwd: str, path: str) -> str:
    return str(Path(cwd, path))  # `..` stays: only the file system knows where it leads


def _is_in(path: str, directory: str, files: Files, *, strict: bool) -> bool:
    """Whether the path is in the directory. `strict`: no part of the directory may be a link, which could be changed to
    lead elsewhere."""
    base = os.path.normpath(directory)
    if strict and files.resolve(base) != base:
        return False
    return _below(files.resolve(path), base) or (not strict and _below(os.path.normpath(path), base))


def _below(path: str, base: str) -> bool:
    return path == base or path.startswith(base.rstrip("/") + "/")


def _matches_path(pattern: str, path: str, files: Files, *, strict: bool) -> bool:
    if "\0" in path:
        return False
    base = os.path.normpath(pattern)
    real = files.resolve(path)
    if strict and (files.resolve(base) != base or files.has_other_names(real)):
        return False
    for target in (real,) if strict else (real, os.path.normpath(path)):
        if not pattern.endswith("/"):
            if target == base:
                return True
        elif _below(target, base) and target != base:
            hidden = any(name.startswith(".") for name in os.path.relpath(target, base).split("/"))
            if not (strict and hidden):  # such files configure tools: a change of .git/hooks is a command
                return True
    return False


def host_of(url: str) -> str:
    """Of a plain address at its usual port; empty for every other."""
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return ""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    host = parts.hostname or ""
    usual = _PORTS.get(parts.scheme)
    if usual is None or port not in (None, usual) or "@" in parts.netloc or not _HOST.fullmatch(host):
        return ""
    return host


def check_rule(rule: AskRule) -> None:
    """Raises UsageError for what cannot be a rule."""
    pattern = rule.pattern
    if not pattern.strip() or len(pattern) > MAX_PATTERN or "\0" in pattern:
        raise UsageError(f"a pattern has 1 to {MAX_PATTERN} characters", field="pattern")
    if rule.directory:
        _check_path("directory", rule.directory)
    match rule.match:
        case "prefix":
            words = shell_words(pattern)
            if not words:
                raise UsageError(
                    f"{pattern!r} is not one plain command",
                    field="pattern",
                    hint="A prefix is words without ; & | < > $ and the like. Any command can be allowed exactly.",
                )
            if rule.decision == "allow" and runs_anything(words):
                raise UsageError(
                    f"`{pattern}` runs whatever comes after it",
                    field="pattern",
                    hint="Name what it runs, too: `python -m pytest`, `git status`. Or allow the command exactly.",
                )
        case "edit" | "read":
            _check_path("pattern", pattern)
        case "host":
            labels = pattern.removeprefix(".")
            if not _HOST.fullmatch(labels) or (pattern.startswith(".") and "." not in labels):
                raise UsageError(
                    f"{pattern!r} is not a host",
                    field="pattern",
                    hint="Such as api.example.com, or .example.com for every host below it.",
                )
        case "tool":
            server, _, tool = pattern.partition("/")
            if not server or not tool:
                raise UsageError(f"{pattern!r} is not a tool", field="pattern", hint="Write server/tool.")
        case "exact":
            pass


def _check_path(field: str, path: str) -> None:
    if path[0] != "/" or path[:2] == "//" or ".." in path.split("/") or "\0" in path or len(path) > MAX_PATTERN:
        hint = "Such as /home/me/shop/src/ (everything in it) or /home/me/shop/README.md."
        raise UsageError(f"{path[:80]!r} is not an absolute path without ..", field=field, hint=hint)
    if os.path.normpath(path) == "/":
        raise UsageError("a rule cannot cover the whole file system", field=field, hint="Name a directory.")


def subject_text(rule: AskRule) -> str:
    """What it is about, in words."""
    pattern = rule.pattern
    match rule.match:
        case "exact":
            return f"the command `{pattern}`, exactly"
        case "prefix":
            return f"commands that begin with `{pattern}`"
        case "edit" | "read":
            kind = "changes of" if rule.match == "edit" else "reading"
            return f"{kind} files in {pattern}" if pattern.endswith("/") else f"{kind} {pattern}"
        case "host":
            return f"addresses at hosts below {pattern[1:]}" if pattern.startswith(".") else f"addresses at {pattern}"
        case "tool":
            server, _, tool = pattern.partition("/")
            return f"the tool {tool} of the MCP server {server}"


def rule_text(rule: AskRule) -> str:
    """All of it in one line, but for the machine: its name is not known here."""
    where = f"in {rule.directory}" if rule.directory else "in every directory"
    who = f", for {rule.agent}" if rule.agent else ""
    return f"{rule.decision} {subject_text(rule)}, {where}{who}"
