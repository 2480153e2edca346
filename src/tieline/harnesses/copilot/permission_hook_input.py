"""What Copilot CLI's hook for permission prompts tells, and which call of the record it is about.

The hook names neither the call nor all of what is asked: of a command its text alone, not that it shall be detached, or
leave the sandbox. So it is compared with the call as the record has it, whose arguments are all there.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ...drivers.acp.tools import AcpToolCall
from ...events import Mcp
from ...wire.json_object import JsonDict
from ..terminals.acp_transcript import fields_in, text_in

POLICIES = "policies"
"""The folder of a session in which Copilot keeps what its sandbox lets through: it is there before the first hook runs
in the sandbox. A hook does not tell that something shall leave the sandbox, so nothing is answered there."""
HARMLESS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "bash": {
        "mode": lambda value: value in ("sync", "async"),
        "initial_wait": lambda value: isinstance(value, int | float),
        "detach": lambda value: value is False,
    },
    "web_fetch": {
        "max_length": lambda value: isinstance(value, int | float),
        "start_index": lambda value: isinstance(value, int | float),
        "raw": lambda value: isinstance(value, bool),
    },
}
"""Arguments of a tool that change nothing about what its action says, with these values. All that is not known is for
people: a `shellId`, which may have another directory, and `detach`."""


def _is_command(input: JsonDict, tool: AcpToolCall, cwd: str) -> bool:
    return input == {"command": tool.arguments.get("command")}


def _is_edit(input: JsonDict, tool: AcpToolCall, cwd: str) -> bool:
    path = text_in(tool.arguments, "path")
    return bool(path) and input.keys() == {"file_path", "diff"} and input["file_path"] == str(Path(cwd, path))


def _is_fetch(input: JsonDict, tool: AcpToolCall, cwd: str) -> bool:
    """Where the address has sent it on, the hook tells that one, and people are asked."""
    return input == {"url": tool.arguments.get("url")}


HOOKED: Mapping[str, Mapping[str, Callable[[JsonDict, AcpToolCall, str], bool]]] = {
    "bash": {"bash": _is_command},
    "edit": {"create": _is_edit, "edit": _is_edit},
    "web_fetch": {"web_fetch": _is_fetch},
}
"""What the hook calls it → the tools that it may be, each with whether a call is the one that it tells of. A tool of an
MCP server is `server/tool` in a hook."""


def may_be_ruled(input: Mapping[str, Any]) -> bool:
    """Whether the record may have the call before it is allowed. A subagent's calls come into it afterwards."""
    name = text_in(input, "toolName")
    return "agentId" not in input and (name in HOOKED or name.count("/") == 1)


def find_call(input: Mapping[str, Any], calls: Iterable[AcpToolCall]) -> AcpToolCall | None:
    """The call that the hook asks about, as far as it tells all that is asked."""
    name, given = text_in(input, "toolName"), fields_in(input, "toolInput")
    if not may_be_ruled(input):
        return None
    if name in HOOKED:
        tools, cwd = HOOKED[name], text_in(input, "cwd")
        return next((call for call in calls if call.name in tools and tools[call.name](given, call, cwd)), None)
    model_name = name.replace("/", "-")
    return next((call for call in calls if call.name == model_name and dict(call.arguments) == given), None)


def ruled_call(tool: AcpToolCall, input: Mapping[str, Any]) -> tuple[AcpToolCall, Mcp | None]:
    """The call without the arguments that change nothing, and its action if it is a tool of an MCP server."""
    harmless = HARMLESS.get(tool.name, {})
    ruled = AcpToolCall(tool.name, tool.id)
    ruled.title, ruled.kind = tool.title, tool.kind
    ruled.arguments = {
        name: value
        for name, value in tool.arguments.items()
        if value is not None and not (name in harmless and harmless[name](value))
    }
    server, slash, called = text_in(input, "toolName").partition("/")
    return ruled, Mcp(server, called) if slash else None


def hook_diff(input: Mapping[str, Any]) -> str:
    """The change, under the path itself: Copilot writes absolute paths as if they were relative."""
    given = fields_in(input, "toolInput")
    path, (_, hunk, rest) = text_in(given, "file_path"), text_in(given, "diff").partition("\n@@ ")
    return f"--- {path}\n+++ {path}{hunk}{rest}" if hunk else ""


def in_sandbox(record: Path, hook: int, terminal: int) -> bool:
    """Whether a session runs its commands, and so its hooks, in Copilot's sandbox. Blocking."""
    if (record.parent / POLICIES).exists():
        return True
    if not hook or not Path("/proc/self/ns").exists():
        return False
    try:  # also where somebody has taken that folder away
        return any(os.readlink(f"/proc/{hook}/ns/{kind}") != os.readlink(f"/proc/{terminal}/ns/{kind}")  # noqa: PTH115
                   for kind in ("mnt", "net"))  # fmt: skip
    except OSError:
        return True
