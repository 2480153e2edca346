"""Claude Code's tools: what a call of each does, and which of them each line of the policy is about."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from ...events import AnyAction, Command, Edit, Fetch, Mcp, OtherAction, PlanStep, Read, Search, Task
from ...policy import Capability
from ..claude_edits import edit_without_file
from ..unified_diff import file_header, unified_diff

GOVERNED: dict[Capability, tuple[str, ...]] = {
    "file_write": ("Write", "Edit", "NotebookEdit"),
    "shell": ("Bash", "PowerShell", "Monitor"),
    "network": ("WebFetch", "WebSearch"),
}
QUESTION = "AskUserQuestion"
EXIT_PLAN = "ExitPlanMode"
INTERACTIVE_TOOLS = frozenset({QUESTION, EXIT_PLAN})
"""Tools that are an ask by themselves: no rule and no policy answers for a person."""
PROGRESS: dict[str, Literal["pending", "running", "done"]] = {"in_progress": "running", "completed": "done"}


def patch_diff(result: Mapping[str, Any]) -> str:
    """What a Write, Edit or NotebookEdit did, as a diff."""
    path = str(result["filePath"])
    hunks = result["structuredPatch"]
    if not hunks and result.get("type") == "create":
        return unified_diff(path, None, str(result["content"]))
    parts = [file_header(path, path)]
    for hunk in hunks:
        span = f"-{hunk['oldStart']},{hunk['oldLines']} +{hunk['newStart']},{hunk['newLines']}"
        parts.append(f"@@ {span} @@\n" + "\n".join(hunk["lines"]) + "\n")
    return "".join(parts)


class TodoList:
    """The agent's to-do list: told whole by TodoWrite and TaskList, one task at a time by TaskCreate and TaskUpdate."""

    def __init__(self) -> None:
        self._tasks: dict[str, PlanStep] = {}

    def apply(self, name: str, given: Mapping[str, Any], result: Mapping[str, Any]) -> tuple[PlanStep, ...] | None:
        """The list after a call; None when the call was not about it."""
        if name == "TodoWrite":
            return tuple(_step(todo["content"], todo["status"]) for todo in given["todos"])
        if name == "TaskList":
            self._tasks = {task["id"]: _step(task["subject"], task["status"]) for task in result["tasks"]}
        elif name == "TaskCreate":
            self._tasks[result["task"]["id"]] = _step(result["task"]["subject"], "pending")
        elif name == "TaskUpdate" and given.get("status") == "deleted":
            self._tasks.pop(given["taskId"], None)
        elif name == "TaskUpdate":
            known = self._tasks.get(given["taskId"], PlanStep(given["taskId"]))
            status = _step("", given["status"]).status if given.get("status") else known.status
            self._tasks[given["taskId"]] = PlanStep(given.get("subject") or known.text, status)
        else:
            return None
        return tuple(self._tasks.values())


def _step(text: str, native: str) -> PlanStep:
    return PlanStep(text, PROGRESS.get(native, "pending"))


ACTIONS: dict[str, Callable[[Mapping[str, Any]], AnyAction]] = {
    "Read": lambda given: Read(str(given["file_path"])),
    "Write": lambda given: edit_without_file("Write", given),
    "Edit": lambda given: edit_without_file("Edit", given),
    "NotebookEdit": lambda given: edit_without_file("NotebookEdit", given),
    "Bash": lambda given: Command(str(given["command"])),
    "PowerShell": lambda given: Command(str(given["command"])),
    "Monitor": lambda given: Command(str(given.get("command") or given.get("script") or "")),
    "Grep": lambda given: Search(str(given["pattern"]), str(given.get("path") or "")),
    "Glob": lambda given: Search(str(given["pattern"]), str(given.get("path") or "")),
    "WebFetch": lambda given: Fetch(str(given["url"])),
    "WebSearch": lambda given: Fetch(query=str(given["query"])),
    "Agent": lambda given: Task(str(given.get("description") or "")),
    "Task": lambda given: Task(str(given.get("description") or "")),
}
FALLBACK_ACTIONS: dict[str, AnyAction] = {
    "Write": Edit(()), "Edit": Edit(()), "NotebookEdit": Edit(()), "Bash": Command(""), "PowerShell": Command(""),
    "Monitor": Command(""), "WebFetch": Fetch(), "WebSearch": Fetch(),
}  # fmt: skip
"""What a governed tool is when its input is not what we know: still governed."""


def tool_action(name: str, given: Mapping[str, Any]) -> AnyAction:
    make = ACTIONS.get(name)
    if make is not None:
        try:
            return make(given)
        except (KeyError, TypeError):
            return FALLBACK_ACTIONS.get(name, OtherAction())
    if name.startswith("mcp__"):
        _, server, tool = (*name.split("__", 2), "")[:3]
        return Mcp(server, tool)
    return OtherAction()


def content_text(content: Any) -> str:
    """A tool result's content: text, or blocks of which the text is kept."""
    if isinstance(content, str):
        return content
    parts: list[str] = []
    for block in cast(list[dict[str, Any]], content or ()):
        parts.append(block["text"] if block.get("type") == "text" else f"[{block.get('type')}]")
    return "\n".join(parts)
