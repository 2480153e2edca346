"""Kiro, the editor and its CLI: MCP server, command hooks, a steering file, a skill."""

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
from ..editors.whole_file import MARK, WholeFile
from ..instructions import PROTOCOL, skill_in

HOOKS = ("SessionStart", "UserPromptSubmit", "Stop")
HOOK_TIMEOUT_S = 10
STEERING = f"---\n# {MARK}\ninclusion: always\n---\n\n{PROTOCOL}"


class Kiro(Harness):
    name = "kiro"
    display_name = "Kiro"
    programs = ("kiro-cli", "kiro")
    folders = (".kiro",)
    capabilities = Capabilities(
        hooks="command hooks",
        mid_turn="with your next prompt (hook)",
        session_id="hook input",
        registers_itself=True,
        instructions="a steering file",
        compaction="steering files stay in its context",
        slash_command="skill `/tieline`",
    )

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        folder = (options.root if options.project else options.home) / ".kiro"
        server = JsonEntries({"mcpServers": {SERVER: _server(options)}}, is_ours)
        hooks = JsonEntries(_hooks(options), is_ours, frame={"version": "v1"})
        return [
            ManagedFile(folder / "settings/mcp.json", server, "MCP server"),
            ManagedFile(folder / "hooks/tieline.json", hooks, "hooks"),
            ManagedFile(folder / "steering/tieline.md", WholeFile(self.name, STEERING), "instructions"),
            skill_in(folder / "skills", self.name),
        ]

    def notes(self, options: InstallOptions) -> list[str]:
        return ["Kiro CLI reads these hooks from version 3 on; older ones have the MCP server and the instructions."]


def _server(options: InstallOptions) -> dict[str, Any]:
    if options.transport == "http":
        return {"url": mcp_url(options), "headers": http_headers(Kiro.name, f"${{{KEY_VARIABLE}}}")}
    return stdio_entry(Kiro.name, options)


def _hooks(options: InstallOptions) -> dict[str, Any]:
    action = {"type": "command", "command": hook_command(Kiro.name, options)}
    return {
        "hooks": [
            {"name": f"tieline-{trigger}", "trigger": trigger, "action": action, "timeout": HOOK_TIMEOUT_S}
            for trigger in HOOKS
        ]
    }
