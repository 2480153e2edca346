"""Cursor, the editor and its CLI: MCP server, command hooks, instructions for a project, a skill."""

from typing import Any

from ..base import (
    KEY_VARIABLE,
    SERVER,
    Capabilities,
    Harness,
    InstallOptions,
    ManagedFile,
    hook_command,
    http_headers,
    is_ours,
    mcp_url,
    stdio_entry,
)
from ..editors.json_entries import JsonEntries
from ..instructions import instructions_in, shared_skills, skill_in

HOOKS = ("sessionStart", "beforeSubmitPrompt", "beforeMCPExecution", "postToolUse", "stop", "sessionEnd")
"""Several conversations share one process and its MCP server: the hook before a call says which of them calls."""
HOOK_TIMEOUT_S = 10
LOOP_LIMIT = 8
"""How often the end of a turn may be followed by another one of ours; Cursor's own limit is 5."""


class Cursor(Harness):
    name = "cursor"
    display_name = "Cursor"
    programs = ("cursor-agent", "cursor")
    folders = (".cursor",)
    capabilities = Capabilities(
        hooks="command hooks",
        mid_turn="after a tool call (hook)",
        turn_end="`stop` hook",
        session_id="hook input",
        registers_itself=True,
        instructions="`AGENTS.md` of the project; else the `sessionStart` hook",
        compaction="`AGENTS.md` stays in its context",
        slash_command="skill `/tieline`",
    )

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        folder = options.root / ".cursor" if options.project else options.home / ".cursor"
        files = [
            ManagedFile(
                folder / "mcp.json", JsonEntries({"mcpServers": {SERVER: _server(options)}}, is_ours), "MCP server"
            ),
            ManagedFile(folder / "hooks.json", JsonEntries(_hooks(options), is_ours, frame={"version": 1}), "hooks"),
            skill_in(shared_skills(options), self.name),
        ]
        if options.project:  # a user's own rules are not in a file
            files.append(instructions_in(options.root / "AGENTS.md", self.name))
        return files


def _server(options: InstallOptions) -> dict[str, Any]:
    if options.transport == "http":
        return {"url": mcp_url(options), "headers": http_headers(Cursor.name, f"${{env:{KEY_VARIABLE}}}")}
    return stdio_entry(Cursor.name, options)


def _hooks(options: InstallOptions) -> dict[str, Any]:
    handler = {"command": hook_command(Cursor.name, options), "timeout": HOOK_TIMEOUT_S}
    hooks = {event: [handler] for event in HOOKS}
    return {"hooks": {**hooks, "stop": [{**handler, "loop_limit": LOOP_LIMIT}]}}
