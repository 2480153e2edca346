"""Gemini CLI: MCP server and command hooks in one file, instructions in GEMINI.md, a command."""

from typing import Any

from .base import (
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
from .editors.json_entries import JsonEntries
from .editors.whole_file import WholeFile
from .instructions import TOML_COMMAND, instructions_in

HOOKS = ("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd")
HOOK_TIMEOUT_MS = 10_000


class Gemini(Harness):
    name = "gemini"
    display_name = "Gemini CLI"
    programs = ("gemini",)
    package = "@google/gemini-cli"
    folders = (".gemini",)
    tested = "0.61.0"
    capabilities = Capabilities(
        hooks="command hooks",
        mid_turn="after a tool call (hook)",
        turn_end="`AfterAgent` hook",
        session_id="hook input",
        registers_itself=True,
        instructions="`GEMINI.md`",
        compaction="`GEMINI.md` stays in its context",
        slash_command="`/tieline`",
    )

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        folder = (options.root if options.project else options.home) / ".gemini"
        memory = options.root / "GEMINI.md" if options.project else folder / "GEMINI.md"
        entries = {"mcpServers": {SERVER: _server(options)}, **_hooks(options)}
        return [
            ManagedFile(folder / "settings.json", JsonEntries(entries, is_ours), "MCP server, hooks"),
            instructions_in(memory, self.name),
            ManagedFile(folder / "commands/tieline.toml", WholeFile(self.name, TOML_COMMAND), "command /tieline"),
        ]


def _server(options: InstallOptions) -> dict[str, Any]:
    if options.transport == "http":
        return {"httpUrl": mcp_url(options), "headers": http_headers(Gemini.name, f"${{{KEY_VARIABLE}}}")}
    return stdio_entry(Gemini.name, options)


def _hooks(options: InstallOptions) -> dict[str, Any]:
    command = hook_command(Gemini.name, options)
    handler = {"name": SERVER, "type": "command", "command": command, "timeout": HOOK_TIMEOUT_MS}
    return {"hooks": {event: [{"hooks": [handler]}] for event in HOOKS}}
