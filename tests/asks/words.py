"""What the rows of the matrix say: markers at the beginning, in the middle and at the end, and what is easily lost."""

SPOKEN = ("first-marker", "middle-marker", "last-marker")
BIDI = "\u202e"
BIDI_MARK = "⟨U+202E⟩"

KINDS: dict[str, tuple[str, ...]] = {
    "claude-code": (
        "edit", "edit everywhere", "write", "overwrite", "notebook", "command", "command of many lines", "long command",
        "watched command", "workflow", "fetch", "search", "tool of a server", "reading outside", "question", "plan",
    ),
    "codex": (
        "command", "long command", "command outside the sandbox", "patch", "patch by a command", "new file",
        "deleted file", "moved file", "more permissions", "command with more permissions", "tool of a server",
        "question",
    ),
    "opencode": (
        "edit", "write", "overwrite", "command", "long command", "fetch", "outside the directory", "question", "patch",
    ),
    "gemini": (
        "replace", "write", "overwrite", "command", "command of many lines", "long command", "fetch", "long fetch",
        "search", "plan mode", "skill", "tool of a server", "tool of a server, long",
    ),
    "qwen": (
        "write", "edit", "overwrite", "command", "command of many lines", "long command", "watched command", "fetch",
        "question", "deferred tool", "tool of a server", "plan",
    ),
    "copilot": (
        "write", "long write", "edit", "command", "command of many lines", "long command", "command in the background",
        "fetch", "reading outside", "tool of a server",
    ),
    "pi": ("edit", "write", "overwrite", "command", "command of many lines", "long command"),
    "vibe": (
        "write", "edit", "edit everywhere", "overwrite", "command", "command of many lines", "long command",
        "command in the background", "tool of a server", "reading outside", "question",
    ),
    "kimi": (
        "write", "edit", "command", "command of many lines", "long command", "command in the background",
        "command of a subagent", "tool of a server", "scheduled prompt", "end of a schedule", "end of a task",
        "question", "plan",
    ),
    "auggie": (
        "write", "long write", "edit", "insertion", "patch", "deleted files", "command", "command of many lines",
        "long command", "input of a command", "fetch",
    ),
    "openhands": (
        "write", "long write", "edit", "insertion", "command", "command of many lines", "long command",
        "input of a command", "reading outside", "subagent", "tool of a server",
    ),
    "scripted": ("edit", "command", "fetch", "question", "plan"),
    "shell": (),  # a command line is told what to do and asks nothing
}  # fmt: skip
"""Every kind of ask that an agent can make."""
KINDS["claude-agent-acp"] = KINDS["claude-code"]
KINDS["codex-acp"] = (*(kind for kind in KINDS["codex"] if "permissions" not in kind), "command that reads")

TOOLS: dict[str, dict[str, str]] = {
    "claude-code": {
        "Bash": "command", "Monitor": "watched command", "Workflow": "workflow",
        "Edit": "edit", "Write": "write", "NotebookEdit": "notebook", "Read": "reading outside",
        "WebFetch": "fetch", "WebSearch": "search", "mcp__words__speak": "tool of a server",
        "AskUserQuestion": "question", "ExitPlanMode": "plan",
        "Agent": "", "Task": "", "TaskStop": "", "TodoWrite": "", "ListAgents": "", "SendMessage": "", "Skill": "",
        "CronCreate": "", "CronDelete": "", "CronList": "", "ScheduleWakeup": "", "ReportFindings": "",
        "EnterPlanMode": "", "EnterWorktree": "", "ExitWorktree": "", "ToolSearch": "", "DeferredToolPlaceholder": "",
    },
    "codex": {
        "exec_command": "command", "apply_patch": "patch", "request_permissions": "more permissions",
        "request_user_input": "question",
        "write_stdin": "", "view_image": "", "update_plan": "", "create_goal": "", "get_goal": "", "update_goal": "",
        "list_mcp_resources": "", "list_mcp_resource_templates": "", "read_mcp_resource": "", "tool_search": "",
    },
    "opencode": {
        "edit": "edit", "write": "write", "apply_patch": "patch", "bash": "command", "webfetch": "fetch",
        "read": "outside the directory", "question": "question",
        "glob": "", "grep": "", "task": "", "skill": "", "todowrite": "",
    },
    "gemini": {
        "replace": "replace", "write_file": "write", "run_shell_command": "command", "web_fetch": "fetch",
        "google_web_search": "search", "mcp_words_speak": "tool of a server", "enter_plan_mode": "plan mode",
        "activate_skill": "skill",
        "glob": "", "grep_search": "", "list_directory": "", "read_file": "", "invoke_agent": "", "write_todos": "",
        "update_topic": "", "list_background_processes": "", "read_background_output": "",
    },
    "qwen": {
        "edit": "edit", "write_file": "write", "notebook_edit": "edit", "run_shell_command": "command",
        "ask_user_question": "question", "tool_call": "deferred tool", "exit_plan_mode": "plan",
        "agent": "", "enter_plan_mode": "", "get_goal": "", "glob": "", "grep_search": "", "list_agents": "",
        "read_file": "", "skill": "", "tool_search": "", "update_goal": "",
    },
    "copilot": {
        "bash": "command", "create": "write", "edit": "edit", "web_fetch": "fetch", "view": "reading outside",
        "words-speak": "tool of a server",
        "read_bash": "", "stop_bash": "", "list_bash": "", "semantic_code_search": "", "sql": "", "read_agent": "",
        "list_agents": "", "write_agent": "", "grep": "", "glob": "", "task": "",
    },
    "pi": {"edit": "edit", "write": "write", "bash": "command", "read": ""},
    "vibe": {
        "write_file": "write", "edit": "edit", "bash": "command", "run_typescript": "command in the background",
        "read_file": "reading outside", "ask_user_question": "question",
        "search_tool_functions": "", "wait": "", "skill": "", "todo": "", "unified_harness_scratchpad": "", "cron": "",
    },
    "kimi": {
        "Write": "write", "Edit": "edit", "Bash": "command", "Agent": "command of a subagent", "AgentSwarm": "",
        "CronCreate": "scheduled prompt", "CronDelete": "end of a schedule", "TaskStop": "end of a task",
        "mcp__words__speak": "tool of a server", "AskUserQuestion": "question", "ExitPlanMode": "plan",
        "CreateGoal": "", "CronList": "", "EnterPlanMode": "", "FetchURL": "", "GetGoal": "", "Glob": "", "Grep": "",
        "Read": "", "ReadMediaFile": "", "SetGoalBudget": "", "Skill": "", "TaskList": "", "TaskOutput": "",
        "TodoList": "", "UpdateGoal": "", "WaitFor": "",
    },
    "auggie": {
        "launch-process": "command", "write-process": "input of a command", "save-file": "write",
        "str-replace-editor": "edit", "apply_patch": "patch", "remove-files": "deleted files", "web-fetch": "fetch",
        "kill-process": "", "read-process": "", "list-processes": "", "view": "", "view-session": "",
        "view-range-untruncated": "", "search-untruncated": "", "view_tasklist": "", "reorganize_tasklist": "",
        "update_tasks": "", "add_tasks": "",
    },
    "openhands": {
        "terminal": "command", "file_editor": "edit", "task": "subagent", "speak": "tool of a server",
        "task_tracker": "", "finish": "", "think": "",
    },
}  # fmt: skip
"""Every tool that each agent offers its model, with the row that shows its ask; empty: it was seen to ask nothing."""
_SEARCH_FOR_TOOLS = ("Task", "ToolSearch", "DeferredToolPlaceholder")
TOOLS["claude-agent-acp"] = {name: kind for name, kind in TOOLS["claude-code"].items() if name not in _SEARCH_FOR_TOOLS}
TOOLS["codex-acp"] = {name: kind for name, kind in TOOLS["codex"].items() if name != "request_permissions"}


def spoken(between: str = " ", *, bidi: bool = True) -> str:
    """One text with all markers, and a character in it that would turn the rest around."""
    first, middle, last = SPOKEN
    return f"{first}{between}{middle}{BIDI if bidi else ''}{between}{last}"


def lines(count: int) -> str:
    """Many lines, with the markers in the first, the middle and the last one."""
    first, middle, last = SPOKEN
    text = [f"line {number} of what is written" for number in range(count)]
    text[0], text[count // 2], text[-1] = first, middle, last
    return "\n".join(text) + "\n"


def long(size: int = 20_000) -> str:
    """One line of so many characters, with the markers in it."""
    first, middle, last = SPOKEN
    half = "x" * ((size - len(first + middle + last)) // 2)
    return f"{first}{half}{middle}{half}{last}"
