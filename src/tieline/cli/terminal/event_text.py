"""Events as plain text, without colours; the terminal view and the plain view use it."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ...ask_parts import scope_of
from ...events import (
    Answer,
    AnyAction,
    Ask,
    Command,
    Done,
    Edit,
    Fetch,
    Mcp,
    OtherAction,
    Outcome,
    Read,
    Remember,
    Search,
    Task,
    Tokens,
    changed_paths,
)
from ...policy import CAPABILITIES, Capability, Policy, Receipt
from .sanitize import clean, one_line

CAPABILITY_WORDS: dict[Capability, str] = {"file_write": "files", "shell": "shell", "network": "network"}

OUTCOMES: dict[Outcome, tuple[str, str]] = {
    "success": ("✓", "done"),
    "error": ("✗", "failed"),
    "interrupted": ("■", "interrupted"),
    "max_turns": ("■", "stopped: the limit of turns is reached"),
    "max_budget": ("■", "stopped: the budget is spent"),
    "timeout": ("■", "timed out"),
}


class EventRow(Struct, frozen=True):
    """A tool call on one line."""

    icon: str
    verb: str
    target: str


def decision_text(answer: Answer) -> str:
    """What was decided; where it was not decided here, by whom and from where."""
    what = "answered" if answer.answers else {"allow": "allowed", "deny": "denied"}[answer.decision]
    if answer.rule:
        return f"{what}: {one_line(answer.reason)}"
    if answer.via:
        what += f" by {one_line(answer.by)} ({one_line(answer.via)})"
    chosen = one_line("; ".join(", ".join(each) for each in answer.answers.values()))
    return f"{what}: {chosen}" if chosen else what


def action_row(action: AnyAction, name: str, cwd: str = "", arguments: Mapping[str, Any] = {}) -> EventRow:
    match action:
        case Read(path):
            return EventRow("○", "read", _short(path, cwd))
        case Edit(paths, diff):
            count = diff_counts(diff)
            return EventRow(
                "✎", "edit", ", ".join(_short(path, cwd) for path in paths) + (f"  {count}" if count else "")
            )
        case Command(command):
            first, *more = clean(command).strip().split("\n") or [""]
            return EventRow("$", "", f"{first} …(+{len(more)} lines)" if more else first)
        case Search(query, path):
            return EventRow("⌕", "search", f"{one_line(query)}" + (f" in {_short(path, cwd)}" if path else ""))
        case Fetch(url, query):
            return EventRow("↓", "fetch", one_line(url or query))
        case Mcp(server, tool):
            return EventRow("◆", "use", f"{one_line(server)}: {one_line(tool)}")
        case Task(title):
            return EventRow("»", "task", one_line(title))
        case OtherAction():
            return EventRow("•", one_line(name), one_line(", ".join(f"{k}={v}" for k, v in arguments.items())))


def diff_counts(diff: str) -> str:
    """+3 −1"""
    added = removed = 0
    for line in diff.splitlines():
        if line.startswith("+") and not line.startswith("+++"):
            added += 1
        elif line.startswith("-") and not line.startswith("---"):
            removed += 1
    return " ".join(part for part in (f"+{added}" if added else "", f"−{removed}" if removed else "") if part)


def paths_outside(paths: Iterable[str], diff: str) -> list[str]:
    """The paths that the diff does not name, in whatever way each of them is written."""
    named = changed_paths(diff)
    return [path for path in paths if not any(_same(path, name) for name in named)]


def _same(path: str, other: str) -> bool:
    return path == other or path.endswith(f"/{other}") or other.endswith(f"/{path}")


def request_text(ask: Ask) -> str:
    """What the agent wants, as it follows its name: `codex wants to …`."""
    match ask.action:
        case Edit(paths, diff):
            many = len(changed_paths(diff)) + len(paths_outside(paths, diff)) > 1
            return "wants to change files" if many else "wants to change a file"
        case Command():
            return "wants to run a command"
        case Fetch():
            return "wants to use the network"
        case Mcp(server, tool):
            return f"wants to use {one_line(tool)} of {one_line(server)}"
        case Task():
            return "wants to start a subagent"
        case Read() | Search():
            return "wants to read"
        case _:
            return f"wants to use {one_line(ask.title)}" if ask.title else "asks for permission"


def scope_text(ask: Ask, level: Remember) -> str:
    """What is permitted by remembering it, as it follows `allow`: on one line, and all of it."""
    words = scope_of(ask, level)
    return one_line(words, 10 * len(words))  # a mark takes the room of ten characters at the most


def levels(rules: Policy | Receipt) -> list[tuple[str, str]]:
    """(capability in words, level) for each line of the policy."""
    if isinstance(rules, Policy):
        return [(CAPABILITY_WORDS[name], rules.level(name)) for name in CAPABILITIES]
    return [(CAPABILITY_WORDS[name], rules.of(name).level) for name in CAPABILITIES]


def seconds(value: float) -> str:
    if value < 10:
        return f"{value:.1f}s"
    if value < 60:
        return f"{value:.0f}s"
    minutes, rest = divmod(int(value), 60)
    return f"{minutes}m {rest:02d}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02d}m"


def number(value: int) -> str:
    if value < 1000:
        return str(value)
    return f"{value / 1000:.1f}k" if value < 1_000_000 else f"{value / 1_000_000:.1f}M"


def token_parts(used: Tokens) -> list[str]:
    parts: list[str] = []
    if used.input is not None:
        cached = f" ({number(used.cache_read)} cached)" if used.cache_read else ""
        parts.append(f"{number(used.input)} tokens in{cached}")
    if used.output is not None:
        parts.append(f"{number(used.output)} out")
    if used.cost_usd is not None:
        parts.append(f"${used.cost_usd:.4f}" if used.cost_usd < 0.1 else f"${used.cost_usd:.2f}")
    return parts


def summary_parts(done: Done) -> list[str]:
    """Duration, tokens and cost; what is missing is not made up."""
    parts = [seconds(done.duration_s)]
    if done.tokens is not None:
        parts += token_parts(done.tokens)
        if done.usage == "partial":
            parts.append("so far counted")
    return parts


def resume_command(agent: str, native_id: str, cwd: str = "") -> str:
    where = f" --cwd {shlex.quote(cwd)}" if cwd else ""
    return f'tieline run {shlex.quote(agent)} --resume {shlex.quote(native_id)}{where} "…"'


def with_tilde(path: str, home: str) -> str:
    return f"~{path[len(home) :]}" if home and (path == home or path.startswith(f"{home}/")) else path


def _short(path: str, cwd: str) -> str:
    return one_line(path.removeprefix(f"{cwd}/") if cwd else path)
