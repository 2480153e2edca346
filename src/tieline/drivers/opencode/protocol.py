"""Names in OpenCode's protocol: ignored events, refusals, errors."""

from collections.abc import Mapping
from typing import Any, Literal, cast

SOURCE = "opencode"

IGNORED = frozenset({
    "catalog.updated", "command.executed", "file.edited", "file.watcher.updated", "global.disposed",
    "installation.update-available", "installation.updated", "integration.connection.updated", "integration.updated",
    "lsp.client.diagnostics", "lsp.updated", "mcp.tools.changed", "message.part.removed", "message.removed",
    "models-dev.refreshed", "plugin.added", "project.directories.updated", "project.updated", "pty.created",
    "pty.deleted", "pty.exited", "pty.updated", "reference.updated", "server.connected", "server.heartbeat",
    "server.instance.disposed", "session.created", "session.deleted", "session.diff", "session.idle",
    "session.updated", "tui.command.execute", "tui.prompt.append", "tui.session.select", "tui.toast.show",
    "vcs.branch.updated", "workspace.ready", "workspace.status", "worktree.ready",
    # decided and ended by the conversation, not shown as events of their own
    "permission.asked", "permission.replied", "question.asked", "question.rejected", "question.replied",
    "session.error",
})  # fmt: skip
"""Native events that say nothing about a turn, or whose content comes in another one."""

IGNORED_PARTS = frozenset({"step-start", "snapshot", "file", "agent", "subtask"})

REFUSALS = ("The user rejected permission", "The user has specified a rule which prevents")
"""How the error of a call begins that was not allowed to run."""

STEPS: dict[str, Literal["pending", "running", "done"]] = {
    "completed": "done",
    "in_progress": "running",
    "cancelled": "done",
}

ABORTED = "MessageAbortedError"
OVERFLOW = "ContextOverflowError"


def message_model(info: Mapping[str, Any]) -> str:
    """The model that a message names; empty when it names none."""
    model = info.get("model")
    return f"{model['providerID']}/{model['modelID']}" if model else ""


def error_message(error: Any) -> str:
    """The words of an error, without the stack that it may carry."""
    if not isinstance(error, Mapping):
        return str(error)
    whole = cast(Mapping[str, Any], error)
    data = whole.get("data")
    message = cast(Mapping[str, Any], data).get("message") if isinstance(data, Mapping) else None
    return str(message or whole.get("name") or whole).split("\n    at ")[0]
