"""What OpenCode's tools do, as typed actions."""

from collections.abc import Callable, Iterable

from ...events import AnyAction, Command, Edit, Fetch, Mcp, OtherAction, Read, Search, Task
from ...wire.json_object import JsonObject


def tool_action(tool: str, arguments: JsonObject, servers: Iterable[str] = ()) -> AnyAction:
    """The action of a call. `servers` are the MCP servers' names, the longest first: their tools are `server_tool`."""
    make = ACTIONS.get(tool)
    if make is not None:
        return make(arguments)
    for server in servers:
        if tool.startswith(server + "_"):
            return Mcp(server, tool[len(server) + 1 :])
    return OtherAction()


def _paths(arguments: JsonObject) -> tuple[str, ...]:
    """The files of a patch in OpenCode's own format."""
    marks = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
    lines = str(arguments.get("patchText", "")).splitlines()
    return tuple(line[len(mark) :].strip() for line in lines for mark in marks if line.startswith(mark))


def _edit(arguments: JsonObject) -> AnyAction:
    path = arguments.get("filePath")
    return Edit((path,) if path else ())


ACTIONS: dict[str, Callable[[JsonObject], AnyAction]] = {
    "bash": lambda a: Command(a.get("command", ""), a.get("workdir") or ""),
    "read": lambda a: Read(a.get("filePath", "")),
    "list": lambda a: Read(a.get("path", "")),
    "glob": lambda a: Search(a.get("pattern", ""), a.get("path") or ""),
    "grep": lambda a: Search(a.get("pattern", ""), a.get("path") or ""),
    "edit": _edit,
    "write": _edit,
    "multiedit": _edit,
    "patch": lambda a: Edit(_paths(a)),
    "apply_patch": lambda a: Edit(_paths(a)),
    "webfetch": lambda a: Fetch(a.get("url", "")),
    "websearch": lambda a: Fetch(query=a.get("query", "")),
    "codesearch": lambda a: Fetch(query=a.get("query", "")),
    "task": lambda a: Task(a.get("description", "")),
    "todowrite": lambda a: OtherAction(),
    "todoread": lambda a: OtherAction(),
    "question": lambda a: OtherAction(),
    "skill": lambda a: OtherAction(),
}
