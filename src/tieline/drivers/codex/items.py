"""Codex's items as actions and results: pure functions over its JSON."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from ...events import AnyAction, Command, Edit, Fetch, Mcp, OtherAction, Outcome, Read, Task
from ...wire.json_object import JsonObject
from ..unified_diff import file_header, unified_diff

ToolStatus = Literal["ok", "error", "denied"]

TOOLS = frozenset(
    {
        "commandExecution", "fileChange", "mcpToolCall", "dynamicToolCall", "collabAgentToolCall", "webSearch",
        "imageView", "imageGeneration", "sleep",
    }
)  # fmt: skip
"""Items that are tool calls."""

STATUSES: dict[str, ToolStatus] = {"completed": "ok", "failed": "error", "declined": "denied"}

OUTCOMES: dict[str, Outcome] = {"completed": "success", "interrupted": "interrupted"}
"""Of turns; every other one failed."""

MOVED = "\n\nMoved to: "

REFUSALS = ("unsupported call:", "patch rejected", 'exec_command failed: CreateProcess { message: "Rejected')
"""How the output of a call begins that Codex itself did not let run."""


class RawCall:
    """A tool call of the model's, as it came."""

    __slots__ = ("arguments", "name")

    def __init__(self, name: str, arguments: Mapping[str, Any]) -> None:
        self.name = name
        self.arguments = arguments

    @property
    def escalated(self) -> bool:
        """Whether the call asks to run outside of the sandbox."""
        return self.arguments.get("sandbox_permissions", "use_default") != "use_default"

    def action(self, cwd: str) -> AnyAction:
        match self.name:
            case "exec_command":
                return Command(str(self.arguments.get("cmd", "")), str(self.arguments.get("workdir") or cwd))
            case "apply_patch":
                patch = str(self.arguments.get("input", ""))
                return Edit(patched_paths(patch), patch)
            case "view_image":
                return Read(str(self.arguments.get("path", "")))
            case _:
                return OtherAction()


def parse_raw_call(item: JsonObject) -> RawCall | None:
    """The call in a raw item of the model's response, if it is one."""
    match item["type"]:
        case "function_call":
            return RawCall(item["name"], msgspec.json.decode(item["arguments"] or "{}", type=dict[str, Any]))
        case "custom_tool_call":
            return RawCall(item["name"], {"input": item["input"]})
        case _:
            return None


def raw_outcome(call: RawCall, output: str) -> ToolStatus | None:
    """How a call ended, from the text that the model was given. None: it goes on in the background."""
    if output.startswith(REFUSALS):
        return "denied"
    if call.name == "exec_command":
        if "\nProcess running with session ID " in output:
            return None
        return "ok" if "\nProcess exited with code 0\n" in output else "error"
    return "error" if output.startswith((f"{call.name} verification failed", f"{call.name} failed")) else "ok"


def describe_item(item: JsonObject) -> tuple[str, AnyAction, Mapping[str, Any]]:
    """Name, action and input of an item that is a tool call."""
    match item["type"]:
        case "commandExecution":
            command, cwd = item["command"], item.get("cwd") or ""
            return "exec_command", Command(command, cwd), {"command": command, "cwd": cwd}
        case "fileChange":
            return "apply_patch", edit_from_changes(item["changes"]), {"changes": item["changes"]}
        case "mcpToolCall":
            return f"{item['server']}.{item['tool']}", Mcp(item["server"], item["tool"]), _object(item.get("arguments"))
        case "webSearch":
            action = _object(item.get("action") or {})
            query = str(item.get("query") or action.get("query") or "")
            url = str(action.get("url") or "")
            return "web_search", Fetch(url, "" if url and query == url else query), action
        case "collabAgentToolCall":
            title = item.get("prompt") or ""
            return item["tool"], Task(title), {"agents": item["receiverThreadIds"], "prompt": title}
        case "imageView":
            return "view_image", Read(item["path"]), {"path": item["path"]}
        case "dynamicToolCall":
            return item["tool"], OtherAction(), {"arguments": item.get("arguments")}
        case kind:
            return kind, OtherAction(), {}


def item_result(item: JsonObject) -> tuple[ToolStatus, str]:
    """How an item that is a tool call ended, and what it put out."""
    status = STATUSES.get(item.get("status") or "completed", "error")
    match item["type"]:
        case "commandExecution":
            output, code = item.get("aggregatedOutput") or "", item.get("exitCode")
            if status == "error" and code is not None:
                output += f"{'' if output.endswith(chr(10)) or not output else chr(10)}exit status {code}"
            return status, output
        case "mcpToolCall":
            if error := item.get("error"):
                return "error", error["message"]
            return status, content_text(_object(item.get("result") or {}).get("content") or ())
        case "dynamicToolCall":
            return ("ok" if item.get("success") else "error"), content_text(item.get("contentItems") or ())
        case "collabAgentToolCall":
            states = _object(item.get("agentsStates") or {}).values()
            return status, "\n".join(state["message"] for state in states if state.get("message"))
        case "imageGeneration":
            return ("error" if item.get("failure") else "ok"), item.get("savedPath") or ""
        case _:
            return status, ""


def edit_from_changes(changes: Sequence[JsonObject]) -> Edit:
    """File changes as one unified diff. Codex gives hunks for an update and the bare content otherwise."""
    paths: dict[str, None] = {}
    parts: list[str] = []
    for change in changes:
        path, kind, diff = change["path"], change["kind"]["type"], change["diff"]
        target = change["kind"].get("move_path") or path
        paths[path] = paths[target] = None
        if kind == "add":
            parts.append(unified_diff(path, None, diff))
        elif kind == "delete":
            parts.append(unified_diff(path, diff, None))
        else:  # hunks, and after those of a move its target once more
            hunks = diff.rpartition(MOVED)[0] if target != path and MOVED in diff else diff
            parts.append(file_header(path, target) + hunks)
    return Edit(tuple(paths), "".join(part if part.endswith("\n") else part + "\n" for part in parts))


def patched_paths(patch: str) -> tuple[str, ...]:
    """The files that a patch in Codex's own format names."""
    heads = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
    lines = (line for line in patch.splitlines() if line.startswith(heads))
    return tuple(dict.fromkeys(line.partition(": ")[2] for line in lines))


def content_text(content: Any) -> str:
    """The text in a list of content items; what is no text is named by its type."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text") or f"[{part.get('type')}]") for part in content)


def error_code(error: JsonObject) -> str:
    """Codex's kind of an error: a word, or a word with the HTTP status it came from."""
    info = error.get("codexErrorInfo")
    if info is None or isinstance(info, str):
        return info or ""
    kind, details = next(iter(_object(info).items()))
    status = _object(details).get("httpStatusCode")
    return f"{kind} {status}" if status else kind


def turn_outcome(turn: JsonObject) -> tuple[Outcome, str, str]:
    """How a turn ended; what it failed with, and the kind of that error."""
    status = OUTCOMES.get(turn["status"], "error")
    error: JsonObject = turn.get("error") or {}
    code = error_code(error) if status == "error" else ""
    return "max_budget" if code == "sessionBudgetExceeded" else status, error.get("message") or "", code


def _object(value: Any) -> Mapping[str, Any]:
    """A JSON object; what is none goes under one name."""
    if isinstance(value, dict):
        return cast(dict[str, Any], value)
    return {"arguments": value}
